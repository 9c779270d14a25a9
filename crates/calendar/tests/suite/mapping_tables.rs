//! Every period against every mapping, over month ends, leap days, and days on which clocks change or a date is left
//! out (DEP-3, JOB-3): `mapping_tables.txt` is what a walk along the local clock says, which knows nothing of this crate.

use std::fmt::Write;

use expect_test::expect_file;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan};
use tidemill_calendar::{Mapping, Period, check_mapping, parent_times};
use tidemill_model::Timestamp;

use crate::{every, zone};

const PERIODS: [Period; 4] = [Period::Hour, Period::Day, Period::Week, Period::Month];
/// `offset 1` of a period on itself is what `depends_on_past` waits for.
const MAPPINGS: [Mapping; 6] =
    [Mapping::Same, Mapping::Offset(1), Mapping::Offset(2), Mapping::All, Mapping::Latest, Mapping::Any];
/// More than three months: as far as the second month before the present one reaches back.
const LOOK_BACK: SignedDuration = SignedDuration::from_hours(24 * 130);

/// Zone, local time at which is looked, and why then.
const MOMENTS: [(&str, &str, &str); 19] = [
    ("UTC", "2024-03-01T12:30", "after a leap day"),
    ("UTC", "2025-03-01T12:30", "after the end of a short February"),
    ("UTC", "2026-01-01T00:00", "at the first instant of a year"),
    ("Asia/Shanghai", "2024-02-29T12:30", "on a leap day"),
    ("Asia/Shanghai", "2025-02-01T00:00", "at the first instant of a month"),
    ("Europe/Berlin", "2025-03-30T12:30", "on the day without 02:00 to 03:00"),
    ("Europe/Berlin", "2025-03-31T12:30", "the day after"),
    ("Europe/Berlin", "2025-10-26T12:30", "on the day that has 02:00 to 03:00 twice"),
    ("Europe/Berlin", "2025-10-27T12:30", "the day after, a Monday"),
    ("Europe/Berlin", "2024-04-01T12:30", "the month after a leap day and a change of the clocks"),
    ("America/New_York", "2025-03-10T12:30", "after the day without 02:00 to 03:00"),
    ("America/New_York", "2025-11-02T01:30", "in the first of two 01:00 to 02:00"),
    ("America/New_York", "2025-11-03T12:30", "after the day that has 01:00 to 02:00 twice"),
    ("America/New_York", "2025-12-01T12:30", "the month after"),
    ("Australia/Lord_Howe", "2025-04-06T12:30", "on the day that has 01:30 to 02:00 twice"),
    ("Australia/Lord_Howe", "2025-10-05T12:30", "on the day without 02:00 to 02:30"),
    ("Australia/Lord_Howe", "2025-10-06T12:30", "the day after, a Monday"),
    ("Pacific/Apia", "2011-12-31T12:30", "after the date that was left out, 30 December"),
    ("Pacific/Apia", "2012-01-02T12:30", "the Monday after"),
];

fn monday(date: Date) -> Date {
    date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).unwrap()
}

/// Finer than anything that the clocks of these zones do: they change at full and half hours.
const STEP: SignedDuration = SignedDuration::from_mins(10);

/// The first instants of a period up to `until`, found step by step on the local clock: an hour begins where the clock
/// shows xx:00 or another hour than a step before, a day, week or month where a date of it is first seen.
fn begins(period: Period, zone: &TimeZone, until: Timestamp) -> Vec<Timestamp> {
    let mut found = Vec::new();
    let mut at = until - LOOK_BACK;
    let mut before: DateTime = zone.to_datetime((at - STEP).jiff());
    let unit = |date: Date| match period {
        Period::Hour | Period::Day => date,
        Period::Week => monday(date),
        Period::Month => date.first_of_month(),
    };
    let mut newest = unit(before.date());
    while at <= until {
        let local = zone.to_datetime(at.jiff());
        let is_begun = match period {
            Period::Hour => {
                local.minute() == 0 || (local.date(), local.hour()) != (before.date(), before.hour())
            }
            Period::Day | Period::Week | Period::Month => unit(local.date()) > newest,
        };
        if is_begun {
            found.push(at);
        }
        newest = newest.max(unit(local.date()));
        (before, at) = (local, at + STEP);
    }
    found
}

/// What a child's batch waits for, by the words of DEP-3 alone.
fn counted(mapping: Mapping, child: &[Timestamp], parent: &[Timestamp]) -> Vec<Timestamp> {
    let [.., previous, time] = child else { panic!("the child has begun less than twice") };
    let upto: Vec<Timestamp> = parent.iter().copied().filter(|begun| begun <= time).collect();
    match mapping {
        Mapping::Same => vec![*time],
        Mapping::Latest => upto[upto.len() - 1..].to_vec(),
        Mapping::Offset(back) => vec![upto[upto.len() - 1 - usize::from(back)]],
        Mapping::All | Mapping::Any => upto.into_iter().filter(|begun| begun > previous).collect(),
    }
}

fn shown(zone: &TimeZone, time: Timestamp) -> String {
    time.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M%:z").to_string()
}

fn line(zone: &TimeZone, times: &[Timestamp]) -> String {
    match times {
        [] => "nothing".to_owned(),
        [one] => shown(zone, *one),
        [first, .., last] => {
            format!("{} times, {} to {}", times.len(), shown(zone, *first), shown(zone, *last))
        }
    }
}

/// DEP-3, JOB-3: every period × mapping, in six zones, over month ends, leap days and changes of the clock: the crate
/// gives what a walk along the clock gives, and both are what the table says.
#[test]
fn every_period_and_mapping_is_what_the_table_says() {
    let mut table = String::new();
    for (name, local, why) in MOMENTS {
        let time_zone = zone(name).time_zone().clone();
        let local: DateTime = local.parse().unwrap();
        let moment = Timestamp::from(time_zone.to_ambiguous_timestamp(local).earlier().unwrap());
        writeln!(table, "## {name}, {local}: {why}\n").unwrap();
        let begun = PERIODS.map(|period| begins(period, &time_zone, moment));
        for (child, of_child) in PERIODS.into_iter().zip(&begun) {
            let time = *of_child.last().unwrap();
            writeln!(table, "{child} of {}", shown(&time_zone, time)).unwrap();
            let own = every(child, name);
            assert_eq!(own.logical_at_or_before(moment), Some(time), "{child} in {name} at {local}");
            for (parent, of_parent) in PERIODS.into_iter().zip(&begun) {
                let parents = every(parent, name);
                for mapping in MAPPINGS {
                    if mapping == Mapping::Same && child != parent {
                        assert!(check_mapping(&own, &parents, mapping).is_err());
                        continue;
                    }
                    let expected = counted(mapping, of_child, of_parent);
                    let given = parent_times(&own, &parents, mapping, time).unwrap();
                    assert_eq!(given.times, expected, "{child} of {time} on {parent}, {mapping}, in {name}");
                    let (parent, mapping) = (parent.to_string(), mapping.to_string());
                    writeln!(table, "    {parent:<5} {mapping:<8} {}", line(&time_zone, &expected)).unwrap();
                }
            }
        }
        table.push('\n');
    }
    expect_file!["mapping_tables.txt"].assert_eq(&table);
}
