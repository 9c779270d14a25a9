//! Rotating tasks (PUL-3) against what other programs and slower walks say.

use expect_test::expect;
use jiff::civil::{DateTime, Time};
use jiff::{SignedDuration, ToSpan};
use proptest::prelude::{ProptestConfig, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use tidemill_calendar::{ROTATION_DAYS_MAX, ROTATION_MINUTES_MAX, Rotation};
use tidemill_model::Timestamp;

use crate::properties::{ZONES, instants};
use crate::{at, cron, zone};

fn rotation(words: &[&str]) -> Rotation {
    match words {
        ["minutes", n, start] => Rotation::every_minutes(n.parse().unwrap(), at(start)).unwrap(),
        ["days", n, time, name, start] => {
            Rotation::every_days(n.parse().unwrap(), time, zone(name), at(start)).unwrap()
        }
        other => panic!("no rotation: {other:?}"),
    }
}

/// The occurrences in a window, both ends included.
fn within(rotation: &Rotation, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    std::iter::successors(rotation.next_at_or_after(from), |time| rotation.next_after(*time))
        .take_while(|time| *time <= until)
        .collect()
}

/// PUL-3: over zones, changes of the clock, month ends, leap days and windows, the occurrences are those that
/// `rotation_table.py` found by a walk along the clock of another program.
#[test]
fn rotations_are_what_the_table_says() {
    let mut cases = 0;
    for line in include_str!("rotation_table.txt").lines() {
        let (case, expected) = line.split_once(" = ").unwrap();
        let [rule, window, _why] = case.split(" ; ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let rotation = rotation(&rule.split(' ').collect::<Vec<_>>());
        let (from, until) = window.split_once(' ').unwrap();
        let expected: Vec<_> = expected.split(' ').filter(|word| *word != "-").map(at).collect();
        assert_eq!(within(&rotation, at(from), at(until)), expected, "{line}");
        assert!(expected.iter().all(|time| rotation.is_on_grid(*time)), "{line}");
        cases += 1;
    }
    assert_eq!(cases, 37);
}

/// PUL-3: a number or a time out of range is refused by field, value and rule; in JSON too.
#[test]
fn rotations_out_of_range_are_refused() {
    let start = at("2025-01-01T00:00:00.000Z");
    let minutes = |n| Rotation::every_minutes(n, start).unwrap_err().to_string();
    let days = |n| Rotation::every_days(n, "08:00", zone("UTC"), start).unwrap_err().to_string();
    let said =
        [minutes(0), minutes(ROTATION_MINUTES_MAX + 1), days(0), days(ROTATION_DAYS_MAX + 1)].join("\n");
    expect![[r#"
        rotation: minutes 0 must be 1 to 527040, from one occurrence to the next
        rotation: minutes 527041 must be 1 to 527040, from one occurrence to the next
        rotation: days 0 must be 1 to 366, from one occurrence to the next
        rotation: days 367 must be 1 to 366, from one occurrence to the next"#]]
    .assert_eq(&said);
    for time in ["", "8:00", "24:00", "08:60", "08:00:00", "-8:00", "+8:00", "08.00", "０８:00", "08: 0"] {
        let refused = Rotation::every_days(1, time, zone("UTC"), start).unwrap_err().to_string();
        assert_eq!(refused, format!("rotation: at '{time}' must be HH:MM, 00:00 to 23:59"));
    }
    let json = |text: &str| serde_json::from_str::<Rotation>(text).unwrap_err().to_string();
    let refused = json(r#"{"every_minutes":{"minutes":0,"start":"2025-01-01T00:00:00.000Z"}}"#);
    assert!(refused.starts_with("rotation: minutes 0 must be 1 to 527040"), "{refused}");
    let refused = json(r#"{"every_minutes":{"minutes":-1,"start":"2025-01-01T00:00:00.000Z"}}"#);
    assert!(refused.contains("-1"), "{refused}");
}

/// PUL-3: the written forms are read back as they were.
#[test]
fn rotations_are_written_and_read() {
    let forms = [
        (
            Rotation::every_minutes(45, at("2025-01-01T00:00:00.000Z")),
            r#"{"every_minutes":{"minutes":45,"start":"2025-01-01T00:00:00.000Z"}}"#,
        ),
        (
            Rotation::every_days(3, "08:05", zone("Asia/Shanghai"), at("2025-01-01T00:00:00.000Z")),
            r#"{"every_days":{"days":3,"at":"08:05","zone":"Asia/Shanghai","start":"2025-01-01T00:00:00.000Z"}}"#,
        ),
    ];
    for (rotation, text) in forms {
        let rotation = rotation.unwrap();
        assert_eq!(serde_json::to_string(&rotation).unwrap(), text);
        assert_eq!(serde_json::from_str::<Rotation>(text).unwrap(), rotation);
    }
}

/// PUL-3: where instants end, there is no next occurrence, and nothing fails.
#[test]
fn rotations_end_with_the_last_instant() {
    for start in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
        let minutes = Rotation::every_minutes(7, start).unwrap();
        let days = Rotation::every_days(5, "23:59", zone("Pacific/Kiritimati"), start).unwrap();
        for rotation in [minutes, days] {
            assert_eq!(rotation.next_after(Timestamp::MAX), None);
            assert!(rotation.next_at_or_after(Timestamp::MIN).is_none_or(|first| first >= start));
        }
    }
}

fn minutes() -> impl Strategy<Value = Rotation> {
    let n = prop_oneof![1..=90u32, 1..=ROTATION_MINUTES_MAX];
    (n, instants()).prop_map(|(n, start)| Rotation::every_minutes(n, start).unwrap())
}

/// A zone, a time of day, a number of days, and a start that often is near a change of the zone's clock.
fn days() -> impl Strategy<Value = (&'static str, Time, u32, Timestamp)> {
    let zones = prop::sample::select(ZONES.to_vec());
    let time = (0..24i8, prop_oneof![0..60i8, prop::sample::select(vec![0, 30, 59])]);
    let n = prop_oneof![3 => 1..=4u32, 1 => 1..=40u32];
    (zones, time, n, instants(), -4 * 24 * 60..2 * 24 * 60i64).prop_map(|(name, time, n, start, away)| {
        let change = zone(name)
            .time_zone()
            .following(start.jiff())
            .next()
            .map(|change| Timestamp::from(change.timestamp()));
        let near = change.filter(|change| change.as_second() < 3_000_000_000).unwrap_or(start);
        (name, Time::new(time.0, time.1, 0, 0).unwrap(), n, near + SignedDuration::from_mins(away))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// PUL-3: first occurrence after T = start + (floor((T − start) / space) + 1) · space, or the start; and by
    /// stepping from the start.
    #[test]
    fn minutes_follow_the_formula(rotation in minutes(), time in instants(), steps in 0..50usize) {
        let Rotation::EveryMinutes { minutes, start } = rotation.clone() else { unreachable!() };
        let space = i64::from(minutes.get()) * 60_000;
        let turns = (time.as_millisecond() - start.as_millisecond()).div_euclid(space) + 1;
        let formula = start.as_millisecond() + turns * space;
        let expected = if time < start { start.as_millisecond() } else { formula };
        prop_assert_eq!(rotation.next_after(time).map(Timestamp::as_millisecond), Some(expected));
        let walked = (0..steps).fold(start, |at, _| at + SignedDuration::from_mins(minutes.get().into()));
        prop_assert!(rotation.is_on_grid(walked));
        prop_assert!(!rotation.is_on_grid(walked + Timestamp::STEP));
        prop_assert!(!rotation.is_on_grid(walked - SignedDuration::from_secs(1)));
    }

    /// PUL-3: a walk minute by minute on the local clock finds the same occurrences: each where the clock has first
    /// reached the time of day on one of the dates.
    #[test]
    fn days_are_what_a_walk_finds((name, time, n, start) in days(), window in 0..6i64) {
        // The walk sees whole minutes, so neither starts nor offsets have seconds.
        let start = Timestamp::from_second(start.as_second().div_euclid(60) * 60).unwrap();
        let zone = zone(name);
        let local = |at: Timestamp| -> DateTime { zone.time_zone().to_datetime(at.jiff()) };
        let until = start + SignedDuration::from_hours(24 * 9);
        let mut walked = Vec::new();
        let mut date = local(start).date();
        let mut now = start - SignedDuration::from_hours(30);
        while now <= until {
            while local(now) >= date.to_datetime(time) {
                if now >= start && walked.last() != Some(&now) {
                    walked.push(now);
                }
                date = date.checked_add(i64::from(n).days()).unwrap();
            }
            now += SignedDuration::from_mins(1);
        }
        let whole_minutes = |at: &Timestamp| zone.offset_at(*at).seconds() % 60 == 0;
        proptest::prop_assume!(whole_minutes(&(start - SignedDuration::from_hours(48))) && whole_minutes(&until));
        let rotation = Rotation::every_days(n, &time.strftime("%H:%M").to_string(), zone.clone(), start).unwrap();
        prop_assert_eq!(&within(&rotation, Timestamp::MIN, until), &walked);
        let from = start + SignedDuration::from_hours(24 * window);
        let later: Vec<_> = walked.into_iter().filter(|at| *at >= from).collect();
        prop_assert_eq!(within(&rotation, from, until), later);
    }

    /// PUL-3: every day at a time of day is the cron with that time of day, gaps and overlaps included.
    #[test]
    fn every_day_is_a_daily_cron((name, time, _, start) in days()) {
        let rotation = Rotation::every_days(1, &time.strftime("%H:%M").to_string(), zone(name), start).unwrap();
        let daily = cron(&format!("0 {} {} * * ?", time.minute(), time.hour()), name);
        let until = start + SignedDuration::from_hours(24 * 12);
        let fires: Vec<_> = daily.fires_between(start, until).map(|fire| fire.at).collect();
        let ours: Vec<_> =
            within(&rotation, start, until).into_iter().filter(|at| *at > start).collect();
        prop_assert_eq!(ours, fires);
    }
}
