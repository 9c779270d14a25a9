//! Laws that hold for any zone, year and expression.

use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use jiff::civil::Date;
use jiff::{SignedDuration, ToSpan};
use tidemill_calendar::{Cron, Period, Rule, Schedule};
use tidemill_model::Timestamp;

use crate::zone;

/// Zones with every kind of change: hour, half hour, two hours, at midnight, across the date line, none.
pub(crate) const ZONES: [&str; 32] = [
    "UTC",
    "Etc/GMT+12",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Moscow",
    "Europe/Istanbul",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Havana",
    "America/Caracas",
    "America/Santiago",
    "America/Scoresbysund",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Tehran",
    "Asia/Pyongyang",
    "Asia/Shanghai",
    "Australia/Lord_Howe",
    "Australia/Adelaide",
    "Antarctica/Troll",
    "Atlantic/Azores",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
    "Pacific/Chatham",
];

/// A list of one to three numbers of a field, in order and without repeats.
pub(crate) fn list_of(min: u32, max: u32) -> impl Strategy<Value = String> {
    prop::collection::btree_set(min..=max, 1..=3)
        .prop_map(|set| set.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

fn field(min: u32, max: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        list_of(min, max),
        (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        (1..=max / 2).prop_map(|step| format!("*/{step}")),
        (min..=max / 2, 1..=max / 2).prop_map(|(from, step)| format!("{from}/{step}")),
    ]
}

/// Expressions that both this crate and the `cron` crate understand.
pub(crate) fn cron_expressions() -> impl Strategy<Value = String> {
    let days = prop_oneof![
        field(1, 28).prop_map(|day| (day, "?".to_owned())),
        field(1, 7).prop_map(|day| ("?".to_owned(), day)),
        (list_of(1, 28), list_of(1, 7)),
        Just(("*".to_owned(), "MON-FRI".to_owned())),
    ];
    let seconds = prop_oneof![4 => Just("0".to_owned()), 1 => field(0, 59)];
    let months = prop_oneof![3 => Just("*".to_owned()), 1 => field(1, 12)];
    (seconds, field(0, 59), field(0, 23), days, months).prop_map(
        |(second, minute, hour, (day, weekday), month)| {
            format!("{second} {minute} {hour} {day} {month} {weekday}")
        },
    )
}

/// Instants from 1971 to 2060, sub-second ones too.
pub(crate) fn instants() -> impl Strategy<Value = Timestamp> {
    let millis = prop_oneof![Just(0i64), 0..1_000i64];
    (31_536_000i64..2_840_140_800, millis)
        .prop_map(|(second, ms)| Timestamp::from_millisecond(second * 1_000 + ms).expect("in range"))
}

/// Instants within two days of a change of the zone's offset, where it has any nearby.
fn near_changes(zone_name: &'static str) -> impl Strategy<Value = Timestamp> {
    (instants(), -48 * 3_600i64..48 * 3_600).prop_map(move |(start, distance)| {
        let zone = zone(zone_name);
        let change =
            zone.time_zone().following(start.jiff()).next().map_or(start, |change| change.timestamp().into());
        let change = if change.as_second() > 3_000_000_000 { start } else { change };
        change.checked_add(SignedDuration::from_secs(distance)).expect("in range")
    })
}

fn schedules_and_instants() -> impl Strategy<Value = (Schedule, Timestamp)> {
    let rule = prop_oneof![
        1 => Just(Rule::Period(Period::Hour)),
        1 => Just(Rule::Period(Period::Day)),
        1 => prop_oneof![Just(Rule::Period(Period::Week)), Just(Rule::Period(Period::Month))],
        3 => cron_expressions().prop_map(|text| Rule::Cron(Cron::try_from(text.as_str()).expect("valid"))),
    ];
    (prop::sample::select(ZONES.to_vec()), rule).prop_flat_map(|(zone_name, rule)| {
        let schedule = Schedule { rule, zone: zone(zone_name) };
        let start = prop_oneof![instants(), near_changes(zone_name)];
        (Just(schedule), start)
    })
}

fn monday(date: Date) -> Date {
    let days_after = date.weekday().to_monday_zero_offset();
    date.checked_sub(i32::from(days_after).days()).expect("in range")
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 600, ..Default::default() })]

    /// JOB-3: due and logical times strictly increase.
    #[test]
    fn fires_strictly_increase((schedule, start) in schedules_and_instants()) {
        let fires = schedule.preview(start, 40);
        prop_assert!(!fires.is_empty());
        prop_assert!(fires[0].at > start);
        for pair in fires.windows(2) {
            prop_assert!(pair[0].at < pair[1].at, "{schedule}: {pair:?}");
            prop_assert!(pair[0].logical_time < pair[1].logical_time, "{schedule}: {pair:?}");
            prop_assert!(pair[1].logical_time <= pair[1].at, "{schedule}: {pair:?}");
        }
    }

    /// JOB-3: looking forward and looking back see the same logical times, so none is lost on a restart.
    #[test]
    fn looking_back_inverts_looking_forward((schedule, start) in schedules_and_instants()) {
        let fires = schedule.preview(start, 20);
        for pair in fires.windows(2) {
            let (this, next) = (pair[0].logical_time, pair[1].logical_time);
            prop_assert_eq!(schedule.logical_at_or_before(this), Some(this), "{}", schedule);
            prop_assert_eq!(schedule.logical_before(next), Some(this), "{}", schedule);
            prop_assert_eq!(schedule.logical_after(this), Some(next), "{}", schedule);
            let middle = this.checked_add(next.duration_since(this) / 2).expect("in range");
            prop_assert_eq!(schedule.logical_at_or_before(middle), Some(this), "{}", schedule);
            prop_assert_eq!(schedule.logical_after(middle), Some(next), "{}", schedule);
        }
    }

    /// JOB-3: where one starts to ask does not change what fires.
    #[test]
    fn any_start_joins_the_same_grid((schedule, start) in schedules_and_instants(), share in 0.0..1.0f64) {
        let fires = schedule.preview(start, 12);
        let (first, last) = (fires[0].at, fires[fires.len() - 1].at);
        let between = SignedDuration::from_secs_f64(last.duration_since(first).as_secs_f64() * share);
        let later = first.checked_add(between).expect("in range");
        let expected: Vec<_> = fires.iter().copied().filter(|fire| fire.at > later && fire.at <= last).collect();
        prop_assert_eq!(schedule.fires_between(later, last).collect::<Vec<_>>(), expected, "{}", schedule);
    }

    /// JOB-3: a day, week and month begins where the local clock first shows a date of it.
    #[test]
    fn calendar_periods_begin_on_their_dates(
        zone_name in prop::sample::select(ZONES.to_vec()),
        start in instants(),
    ) {
        let zone = zone(zone_name);
        let date = |at: Timestamp| at.to_zoned(zone.time_zone().clone()).date();
        for period in [Period::Day, Period::Week, Period::Month] {
            let schedule = Schedule { rule: Rule::Period(period), zone: zone.clone() };
            for fire in schedule.preview(start, 30) {
                let begins = date(fire.logical_time);
                let before = date(fire.logical_time.checked_sub(SignedDuration::from_nanos(1)).expect("in range"));
                let entered = match period {
                    Period::Hour | Period::Day => begins > before,
                    Period::Week => monday(begins) > monday(before),
                    Period::Month => begins.first_of_month() > before.first_of_month(),
                };
                prop_assert!(entered, "{schedule}: {before} then {begins}");
            }
        }
    }

    /// JOB-3: the local hour does not change inside an hour's period, so none is lost in a longer one.
    #[test]
    fn an_hour_holds_one_local_hour(
        (zone_name, start) in prop::sample::select(ZONES.to_vec())
            .prop_flat_map(|zone_name| (Just(zone_name), near_changes(zone_name))),
        share in 0.0..1.0f64,
    ) {
        let schedule = Schedule { rule: Rule::Period(Period::Hour), zone: zone(zone_name) };
        let local_hour = |at: Timestamp| {
            let local = at.to_zoned(schedule.zone.time_zone().clone());
            (local.date(), local.hour())
        };
        for pair in schedule.preview(start, 100).windows(2) {
            let (this, next) = (pair[0].logical_time, pair[1].logical_time);
            let length = next.duration_since(this);
            prop_assert!(length <= SignedDuration::from_mins(119), "{schedule}: {pair:?}");
            let inside = SignedDuration::from_secs_f64(length.as_secs_f64() * share * 0.999);
            let inside = this.checked_add(inside).expect("in range");
            prop_assert_eq!(local_hour(inside), local_hour(this), "{}", &schedule);
        }
    }

    /// JOB-3: a fire of an interval expression shows a matching clock, and no matching minute is passed over.
    #[test]
    fn hourly_steps_miss_no_elapsed_hour(
        zone_name in prop::sample::select(ZONES.to_vec()),
        start in instants(),
    ) {
        let schedule = Schedule {
            rule: Rule::Cron(Cron::try_from("0 */10 * * * ?").expect("valid")),
            zone: zone(zone_name),
        };
        for pair in schedule.preview(start, 60).windows(2) {
            let apart = pair[1].at.duration_since(pair[0].at);
            prop_assert!(apart <= SignedDuration::from_mins(10), "{zone_name}: {pair:?}");
        }
    }
}

/// JOB-3: in St. John's the clock once went back from one past midnight to the evening before, so that a day began twice. What
/// fired in its first minute is found from the evening that came after it.
#[test]
fn a_day_that_begins_twice_hides_nothing_from_who_looks_back() {
    let rule = Rule::Cron(Cron::try_from("0 * */1 ? * 1-3").unwrap());
    let schedule = Schedule { rule, zone: zone("America/St_Johns") };
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let (first_minute, second_midnight) = (at("1988-10-30T01:30:00Z"), at("1988-10-30T03:30:00Z"));
    let fires = schedule.preview(at("1988-10-30T01:29:59Z"), 2);
    assert_eq!(fires.iter().map(|fire| fire.at).collect::<Vec<_>>(), [first_minute, second_midnight]);
    assert_eq!(schedule.logical_at_or_before(at("1988-10-30T02:30:00Z")), Some(first_minute));
    assert_eq!(schedule.logical_before(second_midnight), Some(first_minute));
}
