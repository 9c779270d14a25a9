//! Schedules with their validity and the days of a calendar (BYD-1, BYD-2).

use std::sync::Arc;

use expect_test::{Expect, expect};
use jiff::civil::Date;
use jiff::{SignedDuration, ToSpan};
use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use tidemill_calendar::{
    Cron, DayRule, Days, Fire, Mapping, Period, Rule, Schedule, Timetable, check_mapping, parent_times,
    same_grid,
};
use tidemill_model::{Calendar, CalendarDays, CalendarSpec, CalendarUse, Firing, Shift, Timestamp};

use crate::properties::{ZONES, cron_expressions, instants, list_of};
use crate::{at, cron, every, local, zone};

/// The days of the national holidays of October 2026 in China, with the days worked instead.
fn golden_week() -> CalendarSpec {
    CalendarSpec::from_value(serde_json::json!({
        "name": "cn",
        "holidays": ["2026-10-01", "2026-10-02", "2026-10-05", "2026-10-06", "2026-10-07"],
        "working_days": ["2026-09-27", "2026-10-10"],
    }))
    .unwrap()
}

fn days_of(spec: CalendarSpec) -> Arc<Days> {
    Arc::new(Days::try_from(&Calendar { version: 1, spec }).unwrap())
}

fn on(schedule: Schedule, spec: CalendarSpec, on: CalendarDays, shift: Shift) -> Timetable {
    let used = CalendarUse { name: spec.name.clone(), on, shift };
    Timetable::new(schedule, &Firing::default(), Some(DayRule::new(days_of(spec), &used)))
}

/// One line for each fire: its logical time, and when it is due if that is another day.
fn check(timetable: &Timetable, after: &str, n: usize, expected: Expect) {
    let zone = timetable.zone();
    let line = |fire: &Fire| {
        let (due, logical) = (local(zone, fire.at), local(zone, fire.logical_time));
        let same_day = due.get(..14) == logical.get(..14);
        if same_day { format!("{logical}\n") } else { format!("{logical} due {due}\n") }
    };
    let fires = timetable.preview(at(after), n);
    expected.assert_eq(&fires.iter().map(line).collect::<String>());
}

/// BYD-2: on working days only, over a weekend that is worked and holidays.
#[test]
fn days_that_are_no_working_days_are_left_out() {
    let daily = cron("0 0 6 * * ?", "Asia/Shanghai");
    check(
        &on(daily.clone(), golden_week(), CalendarDays::WorkingDays, Shift::None),
        "2026-09-24T00:00:00Z",
        8,
        expect![[r#"
            Fri 2026-09-25T06:00:00+08:00
            Sun 2026-09-27T06:00:00+08:00
            Mon 2026-09-28T06:00:00+08:00
            Tue 2026-09-29T06:00:00+08:00
            Wed 2026-09-30T06:00:00+08:00
            Thu 2026-10-08T06:00:00+08:00
            Fri 2026-10-09T06:00:00+08:00
            Sat 2026-10-10T06:00:00+08:00
        "#]],
    );
    check(
        &on(daily, golden_week(), CalendarDays::Holidays, Shift::None),
        "2026-09-30T00:00:00Z",
        4,
        expect![[r#"
            Thu 2026-10-01T06:00:00+08:00
            Fri 2026-10-02T06:00:00+08:00
            Sat 2026-10-03T06:00:00+08:00
            Sun 2026-10-04T06:00:00+08:00
        "#]],
    );
}

/// BYD-2: a shift moves when a batch is due, and leaves its logical time, so several can be due at once.
#[test]
fn a_shift_moves_only_when_a_batch_is_due() {
    let monthly = every(Period::Month, "Asia/Shanghai");
    check(
        &on(monthly.clone(), golden_week(), CalendarDays::WorkingDays, Shift::Next),
        "2026-07-15T00:00:00Z",
        4,
        expect![[r#"
            Sat 2026-08-01T00:00:00+08:00 due Mon 2026-08-03T00:05:00+08:00
            Tue 2026-09-01T00:00:00+08:00
            Thu 2026-10-01T00:00:00+08:00 due Thu 2026-10-08T00:05:00+08:00
            Sun 2026-11-01T00:00:00+08:00 due Mon 2026-11-02T00:05:00+08:00
        "#]],
    );
    check(
        &on(monthly, golden_week(), CalendarDays::WorkingDays, Shift::Previous),
        "2026-07-15T00:00:00Z",
        3,
        expect![[r#"
            Sat 2026-08-01T00:00:00+08:00 due Fri 2026-07-31T00:05:00+08:00
            Tue 2026-09-01T00:00:00+08:00
            Thu 2026-10-01T00:00:00+08:00 due Wed 2026-09-30T00:05:00+08:00
        "#]],
    );
    let daily = cron("0 30 2 * * ?", "Europe/Berlin");
    let weekends = CalendarSpec::from_value(serde_json::json!({"name": "week"})).unwrap();
    check(
        &on(daily, weekends, CalendarDays::WorkingDays, Shift::Next),
        "2026-03-26T12:00:00Z",
        5,
        expect![[r#"
            Fri 2026-03-27T02:30:00+01:00
            Sat 2026-03-28T02:30:00+01:00 due Mon 2026-03-30T02:30:00+02:00
            Sun 2026-03-29T03:00:00+02:00 due Mon 2026-03-30T02:30:00+02:00
            Mon 2026-03-30T02:30:00+02:00
            Tue 2026-03-31T02:30:00+02:00
        "#]],
    );
}

/// BYD-2: what nothing fits is left out, and asking does not go on for ever.
#[test]
fn a_calendar_without_days_leaves_out_everything() {
    let never = serde_json::json!({"name": "never", "week": []});
    for shift in [Shift::None, Shift::Next, Shift::Previous] {
        let never = CalendarSpec::from_value(never.clone()).unwrap();
        let timetable = on(cron("* * * * * ?", "UTC"), never, CalendarDays::WorkingDays, shift);
        assert_eq!(timetable.first_after(at("2026-01-01T00:00:00Z")), None);
        assert_eq!(timetable.logical_at_or_before(at("2026-01-01T00:00:00Z")), None);
    }
}

/// BYD-2: the days of a calendar with a zone of its own begin and end there.
#[test]
fn a_calendar_can_have_a_zone_of_its_own() {
    let spec = serde_json::json!({"name": "tokyo", "zone": "Asia/Tokyo", "holidays": ["2026-07-20"]});
    let spec = CalendarSpec::from_value(spec).unwrap();
    check(
        &on(cron("0 0 0/6 * * ?", "UTC"), spec, CalendarDays::WorkingDays, Shift::None),
        "2026-07-17T00:00:00Z",
        5,
        expect![[r#"
            Fri 2026-07-17T06:00:00+00:00
            Fri 2026-07-17T12:00:00+00:00
            Mon 2026-07-20T18:00:00+00:00
            Tue 2026-07-21T00:00:00+00:00
            Tue 2026-07-21T06:00:00+00:00
        "#]],
    );
}

/// BYD-1: nothing is due before the validity begins, or at its end.
#[test]
fn validity_bounds_what_is_due() {
    let firing = Firing {
        valid_from: Some(at("2026-06-01T00:01:00Z")),
        valid_until: Some(at("2026-06-04T00:01:00Z")),
        ..Firing::default()
    };
    let timetable = Timetable::new(every(Period::Day, "UTC"), &firing, None);
    check(
        &timetable,
        "2025-01-01T00:00:00Z",
        9,
        expect![[r#"
            Mon 2026-06-01T00:00:00+00:00
            Tue 2026-06-02T00:00:00+00:00
            Wed 2026-06-03T00:00:00+00:00
        "#]],
    );
    assert_eq!(timetable.logical_at_or_before(at("2027-01-01T00:00:00Z")), Some(at("2026-06-03T00:00:00Z")));
    assert_eq!(timetable.logical_at_or_before(at("2026-05-31T23:00:00Z")), None);
    assert_eq!(timetable.logical_after(at("2020-01-01T00:00:00Z")), Some(at("2026-06-01T00:00:00Z")));
}

/// BYD-2, DEP-3: a parent's logical times are those that it gets batches for.
#[test]
fn mappings_count_only_what_is_not_left_out() {
    let workdays = |schedule| on(schedule, golden_week(), CalendarDays::WorkingDays, Shift::None);
    let (day, week) = (workdays(every(Period::Day, "UTC")), every(Period::Week, "UTC"));
    let times = |mapping, time| parent_times(&week, &day, mapping, at(time)).unwrap().times;
    assert_eq!(
        times(Mapping::All, "2026-10-12T00:00:00Z"),
        [
            at("2026-10-08T00:00:00Z"),
            at("2026-10-09T00:00:00Z"),
            at("2026-10-10T00:00:00Z"),
            at("2026-10-12T00:00:00Z")
        ]
    );
    assert_eq!(times(Mapping::Latest, "2026-10-05T00:00:00Z"), [at("2026-09-30T00:00:00Z")]);
    assert_eq!(times(Mapping::Offset(1), "2026-10-08T00:00:00Z"), [at("2026-09-30T00:00:00Z")]);
    let all_days = every(Period::Day, "UTC");
    check_mapping(&day, &all_days, Mapping::Same).unwrap();
    check_mapping(&day, &day, Mapping::Same).unwrap();
    let error = check_mapping(&all_days, &day, Mapping::Same).unwrap_err().to_string();
    assert!(error.contains("every day in UTC, on working days of cn"), "{error}");
    let shifted = on(all_days.clone(), golden_week(), CalendarDays::WorkingDays, Shift::Next);
    check_mapping(&all_days, &shifted, Mapping::Same).unwrap();
    assert!(same_grid(&all_days, &shifted) && !same_grid(&all_days, &day));
}

/// A plain second opinion: every fire of the schedule by itself, day by day.
#[derive(Debug)]
struct Plain {
    schedule: Schedule,
    spec: Option<CalendarSpec>,
    used: CalendarUse,
    firing: Firing,
}

impl Plain {
    fn fits(&self, spec: &CalendarSpec, date: Date) -> bool {
        let weekday = spec.week.iter().any(|day| *day as i8 == date.weekday().to_monday_zero_offset());
        let working = spec.working_days.contains(&date) || (weekday && !spec.holidays.contains(&date));
        working == (self.used.on == CalendarDays::WorkingDays)
    }

    fn placed(&self, fire: Fire) -> Option<Fire> {
        let Some(spec) = &self.spec else { return Some(fire) };
        let own = self.schedule.zone.clone();
        let days = spec.zone.as_deref().map_or(own.clone(), zone);
        let date = |instant: Timestamp| instant.to_zoned(days.time_zone().clone()).date();
        if self.fits(spec, date(fire.logical_time)) {
            return Some(fire);
        }
        let step = match self.used.shift {
            Shift::None => return None,
            Shift::Next => 1,
            Shift::Previous => -1,
        };
        // On the local clock, in a zone without changes: the same time, so many days away.
        (1..=31).map(|days| days * step).find_map(|days| {
            let at = fire.at.checked_add(SignedDuration::from_hours(24 * days)).unwrap();
            let logical = fire.logical_time.checked_add(SignedDuration::from_hours(24 * days)).unwrap();
            self.fits(spec, date(logical)).then_some(Fire { at, ..fire })
        })
    }

    fn fires(&self, from: Timestamp, until: Timestamp) -> Vec<Fire> {
        let margin = SignedDuration::from_hours(40 * 24);
        let all = self.schedule.fires_between(from - margin, until + margin);
        let valid = |fire: &Fire| {
            self.firing.valid_from.is_none_or(|from| fire.at >= from)
                && self.firing.valid_until.is_none_or(|until| fire.at < until)
        };
        all.filter_map(|fire| self.placed(fire))
            .filter(valid)
            .filter(|fire| fire.at > from && fire.at <= until)
            .collect()
    }
}

fn calendars() -> impl Strategy<Value = CalendarSpec> {
    let week = list_of(0, 6);
    let dates = || {
        prop::collection::btree_set(0..120i64, 0..40).prop_map(|days| {
            let first = Date::new(2026, 1, 1).expect("a date");
            days.iter()
                .map(|day| first.checked_add(day.days()).expect("in range").to_string())
                .collect::<Vec<_>>()
        })
    };
    let zones = prop_oneof![3 => Just(None), 1 => prop::sample::select(vec!["UTC", "Asia/Tokyo", "Etc/GMT+9"]).prop_map(Some)];
    (week, dates(), dates(), zones).prop_map(|(week, holidays, working, zone)| {
        const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
        let week: Vec<_> = week.split(',').map(|day| NAMES[day.parse::<usize>().expect("a number")]).collect();
        let working: Vec<_> = working.into_iter().filter(|day| !holidays.contains(day)).collect();
        let mut spec = serde_json::json!({"name": "random", "week": week, "holidays": holidays, "working_days": working});
        if let Some(zone) = zone {
            spec["zone"] = zone.into();
        }
        CalendarSpec::from_value(spec).expect("a calendar")
    })
}

fn windows() -> impl Strategy<Value = (Option<Timestamp>, Option<Timestamp>)> {
    let bound = || {
        prop_oneof![1 => Just(None), 1 => (0..120 * 1_440i64).prop_map(|minute| {
            Some(at("2026-01-01T00:00:00Z") + SignedDuration::from_mins(minute))
        })]
    };
    (bound(), bound())
}

/// Schedules in zones whose clocks do not change, so that the second opinion can count in hours.
fn plain_cases() -> impl Strategy<Value = Plain> {
    let steady = prop::sample::select(vec![
        "UTC",
        "Asia/Shanghai",
        "Asia/Kolkata",
        "Etc/GMT+12",
        "Pacific/Kiritimati",
    ]);
    let times = (0..24u32, 0..60u32);
    let rule = prop_oneof![
        1 => prop::sample::select(vec![Period::Day, Period::Week, Period::Month]).prop_map(Rule::Period),
        2 => times.prop_map(|(hour, minute)| Rule::Cron(Cron::try_from(&*format!("0 {minute} {hour} * * ?")).expect("valid"))),
        1 => Just(Rule::Period(Period::Hour)),
        1 => Just(Rule::Cron(Cron::try_from("0 0/20 * * * ?").expect("valid"))),
    ];
    let shift = prop::sample::select(vec![Shift::None, Shift::Next, Shift::Previous]);
    let days = prop::sample::select(vec![CalendarDays::WorkingDays, CalendarDays::Holidays]);
    let calendar = prop_oneof![1 => Just(None), 4 => calendars().prop_map(Some)];
    (steady, rule, calendar, days, shift, windows()).prop_map(
        |(zone_name, rule, spec, on, shift, (from, until))| {
            let schedule = Schedule { rule, zone: zone(zone_name) };
            let shift = if schedule.is_sub_daily() { Shift::None } else { shift };
            let used = CalendarUse { name: "random".try_into().expect("a name"), on, shift };
            let firing = Firing { valid_from: from, valid_until: until, ..Firing::default() };
            Plain { schedule, spec, used, firing }
        },
    )
}

impl Plain {
    fn timetable(&self) -> Timetable {
        let rule = self.spec.clone().map(|spec| DayRule::new(days_of(spec), &self.used));
        Timetable::new(self.schedule.clone(), &self.firing, rule)
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 300, ..Default::default() })]

    /// BYD-1, BYD-2: a timetable's fires are those that a plain second opinion finds, none lost, none twice.
    #[test]
    fn fires_are_those_of_a_plain_second_opinion(plain in plain_cases(), day in 0..100i64) {
        let timetable = plain.timetable();
        let from = at("2026-01-01T00:00:00Z") + SignedDuration::from_hours(24 * day) + SignedDuration::from_mins(7);
        let until = from + SignedDuration::from_hours(24 * 20);
        let expected = plain.fires(from, until);
        let mut fires = timetable.preview(from, expected.len() + 1);
        fires.retain(|fire| fire.at <= until);
        prop_assert_eq!(&fires, &expected, "{}", timetable);
        let mut times: Vec<_> = fires.iter().map(|fire| fire.logical_time).collect();
        times.dedup();
        prop_assert_eq!(times.len(), fires.len(), "logical times stay distinct");
        prop_assert!(fires.windows(2).all(|pair| pair[0].at <= pair[1].at && pair[0].logical_time < pair[1].logical_time));
    }

    /// BYD-2: fires and what is left out by day are together all that the schedule has.
    #[test]
    fn what_is_left_out_and_what_fires_is_everything(plain in plain_cases(), day in 0..100i64) {
        let plain = Plain { firing: Firing::default(), ..plain };
        let timetable = plain.timetable();
        let from = at("2026-01-01T00:00:00Z") + SignedDuration::from_hours(24 * day);
        let Some(first) = timetable.first_after(from) else { return Ok(()) };
        let Some(second) = timetable.next(first) else { return Ok(()) };
        let between: Vec<_> = timetable.left_out(first.logical_time, second.logical_time).collect();
        let all = std::iter::successors(plain.schedule.logical_after(first.logical_time), |time| plain.schedule.logical_after(*time));
        let all: Vec<_> = all.take_while(|time| *time < second.logical_time).collect();
        prop_assert_eq!(between, all, "{}", timetable);
    }

    /// BYD-1, BYD-2: in any zone, with clocks that change: where one starts to ask does not matter, and looking back
    /// sees what looking forward saw.
    #[test]
    fn any_start_joins_the_same_timetable(
        zone_name in prop::sample::select(ZONES.to_vec()),
        expression in cron_expressions(),
        spec in calendars(),
        shift in prop::sample::select(vec![Shift::None, Shift::Next, Shift::Previous]),
        start in instants(),
        share in 0.0..1.0f64,
    ) {
        let schedule = Schedule { rule: Rule::Cron(Cron::try_from(expression.as_str()).expect("valid")), zone: zone(zone_name) };
        let shift = if schedule.is_sub_daily() { Shift::None } else { shift };
        let timetable = on(schedule, spec, CalendarDays::WorkingDays, shift);
        let fires = timetable.preview(start, 12);
        if fires.len() < 2 {
            return Ok(());
        }
        prop_assert!(fires[0].at > start);
        prop_assert!(fires.windows(2).all(|pair| pair[0].at <= pair[1].at), "{} {:?}", timetable, fires);
        let (first, last) = (fires[0].at, fires[fires.len() - 1].at);
        let later = first + SignedDuration::from_secs_f64(last.duration_since(first).as_secs_f64() * share);
        let expected: Vec<_> = fires.iter().copied().filter(|fire| fire.at > later).collect();
        let mut joined = timetable.preview(later, expected.len());
        joined.retain(|fire| fire.at <= last);
        prop_assert_eq!(joined, expected, "{} after {}", timetable, later);
        for pair in fires.windows(2) {
            prop_assert_eq!(timetable.logical_before(pair[1].logical_time), Some(pair[0].logical_time), "{}", timetable);
            prop_assert_eq!(timetable.logical_after(pair[0].logical_time), Some(pair[1].logical_time), "{}", timetable);
        }
    }
}
