//! Rotas at work, against what another program says by a walk along the clock.

use expect_test::expect;
use jiff::SignedDuration;
use jiff::civil::DateTime;
use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};
use tidemill_calendar::{Duty, OnCall, Rotation, check_rota};
use tidemill_model::{PersonName, Rota, Timestamp};

use crate::properties::{ZONES, instants};
use crate::{at, zone};

fn rota(written: Value) -> Rota {
    serde_json::from_value(written).unwrap()
}

fn on_call(rota: &Rota) -> OnCall {
    OnCall::try_from(rota).unwrap()
}

fn names(people: &[PersonName]) -> Vec<&str> {
    people.iter().map(PersonName::as_str).collect()
}

/// A line of the table: from, until, and the people.
type Line = (Timestamp, Timestamp, Vec<&'static str>);

/// Weekly from Monday 5 January 2026 at 09:00 in Berlin: ada with bob, then bob.
fn weekly() -> Value {
    json!({"zone": "Europe/Berlin", "starts": "2026-01-05T09:00:00", "days": 7, "turns": [["ada", "bob"], ["bob"]]})
}

/// Who is on call at each hour of a year with both changes of the clock, in two zones, in one of which a gap leaves a
/// hand-over out and an overlap has one twice; with primaries, secondaries and overrides.
#[test]
fn whoever_is_on_call_is_whom_the_table_says() {
    let mut tables: Vec<(Rota, Vec<Line>)> = Vec::new();
    for line in include_str!("rota_table.txt").lines() {
        if line.starts_with('{') {
            tables.push((serde_json::from_str(line).unwrap(), Vec::new()));
        } else {
            let words: Vec<&str> = line.split(' ').collect();
            let people = words[2..].iter().copied().filter(|word| *word != "-").collect();
            tables.last_mut().unwrap().1.push((at(words[0]), at(words[1]), people));
        }
    }
    assert_eq!(tables.iter().map(|(_, duties)| duties.len()).collect::<Vec<_>>(), [34, 55, 8, 8]);
    for (rota, table) in &tables {
        let on_call = on_call(rota);
        for (from, until, people) in table {
            let mut time = *from;
            while time < *until {
                let duty = on_call.at(time);
                assert_eq!(duty.map_or(vec![], |duty| names(duty.people)), *people, "{} {time}", rota.zone);
                time += SignedDuration::from_mins(15);
            }
            let last = until.previous();
            assert_eq!(
                on_call.at(last).map_or(vec![], |duty| names(duty.people)),
                *people,
                "{} {last}",
                rota.zone
            );
        }
        // Where the table begins and ends in the middle of a duty, the duty is the whole one.
        let (begin, end) = (table[0].0, table[table.len() - 1].1);
        let told: Vec<_> = on_call
            .between(begin, end)
            .map(|it| (it.from.max(begin), it.until.min(end), names(it.people)))
            .collect();
        let listed: Vec<_> = table.iter().filter(|(_, _, people)| !people.is_empty()).cloned().collect();
        assert_eq!(told, listed, "{}", rota.zone);
    }
}

/// A duty is bounded by the next hand-over, and by where an override begins and ends.
#[test]
fn a_duty_ends_with_the_turn_or_where_an_override_does() {
    let mut written = weekly();
    written["overrides"] =
        json!([{"from": "2026-01-07T12:00:00", "to": "2026-01-14T12:00:00", "people": ["cleo"]}]);
    let (rota, mut told) = (rota(written), String::new());
    for Duty { people, from, until } in on_call(&rota).between(Timestamp::MIN, at("2026-01-20T00:00:00Z")) {
        told += &format!("{from} {until} {}\n", names(people).join(" "));
    }
    expect![[r#"
        2026-01-05T08:00:00.000Z 2026-01-07T11:00:00.000Z ada bob
        2026-01-07T11:00:00.000Z 2026-01-14T11:00:00.000Z cleo
        2026-01-14T11:00:00.000Z 2026-01-19T08:00:00.000Z bob
        2026-01-19T08:00:00.000Z 2026-01-26T08:00:00.000Z ada bob
    "#]]
    .assert_eq(&told);
    let on_call = on_call(&rota);
    assert_eq!(on_call.at(at("2026-01-05T07:59:59.999Z")), None);
    // Nothing lies between the same two times, and a duty is told whole where a span begins in its middle.
    assert_eq!(on_call.between(at("2026-01-10T00:00:00Z"), at("2026-01-10T00:00:00Z")).count(), 0);
    let whole = on_call.between(at("2026-01-10T00:00:00Z"), at("2026-01-10T00:00:01Z")).next().unwrap();
    assert_eq!(Some(whole), on_call.at(at("2026-01-07T11:00:00Z")));
}

/// Where instants end the last duty goes on to the end of time, and nothing fails.
#[test]
fn duties_end_with_the_last_instant() {
    for (starts, days) in [("1970-01-01T00:00:00", 1), ("2199-12-31T23:59:59", 366)] {
        let mut written = weekly();
        (written["starts"], written["days"]) = (json!(starts), json!(days));
        let (rota, day) = (rota(written), SignedDuration::from_hours(24));
        let on_call = on_call(&rota);
        assert_eq!(on_call.at(Timestamp::MIN), None);
        let last = on_call.at(Timestamp::MAX).unwrap();
        assert_eq!(last.until, Timestamp::MAX);
        let tail = on_call.between(Timestamp::MAX - day, Timestamp::MAX).collect::<Vec<_>>();
        assert!(tail.len() <= 3 && tail.last() == Some(&last), "{tail:?}");
    }
}

/// Each rule of the form of a rota, by field, value and what to do.
#[test]
fn rotas_of_another_form_are_refused() {
    let other = |from: &str, to: &str| json!({"from": from, "to": to, "people": ["cleo"]});
    let day = |day: u32| format!("2026-02-{day:02}T00:00:00");
    let many: Vec<Value> = (0..201).map(|_| json!(["ada"])).collect();
    let crowd: Vec<String> = (0..9).map(|n| format!("p{n}")).collect();
    let table = [
        ("zone", json!("Europe/Nowhere")),
        ("zone", json!("")),
        ("starts", json!("1969-12-31T23:59:59")),
        ("starts", json!("2200-01-01T00:00:00")),
        ("days", json!(0)),
        ("days", json!(367)),
        ("turns", json!([])),
        ("turns", json!(many)),
        ("turns", json!([["ada"], []])),
        ("turns", json!([crowd])),
        ("turns", json!([["bob"], ["ada", "bob", "ada"]])),
        ("overrides", json!([other(&day(2), &day(2))])),
        ("overrides", json!([other(&day(2), &day(1))])),
        ("overrides", json!([other("1960-01-01T00:00:00", &day(1))])),
        ("overrides", json!([other(&day(1), "2200-01-01T00:00:00")])),
        ("overrides", json!([other(&day(4), &day(6)), other(&day(1), &day(3)), other(&day(2), &day(4))])),
        ("overrides", json!([{"from": day(1), "to": day(2), "people": []}])),
        ("overrides", json!([{"from": day(1), "to": day(2), "people": ["ada", "ada"]}])),
        ("overrides", json!((0..201).map(|_| other(&day(1), &day(2))).collect::<Vec<_>>())),
    ];
    let mut said = String::new();
    for (field, value) in table {
        let mut written = weekly();
        written[field] = value;
        said += &format!("{}\n", check_rota(&rota(written)).unwrap_err());
    }
    expect![[r#"
        zone: "Europe/Nowhere": is not an IANA time zone; write a name such as Europe/Berlin or UTC
        zone: "": is not an IANA time zone; write a name such as Europe/Berlin or UTC
        starts: "1969-12-31T23:59:59": must be in 1970 to 2199
        starts: "2200-01-01T00:00:00": must be in 1970 to 2199
        days: "0": must be 1 to 366
        days: "367": must be 1 to 366
        turns: "0": must be 1 to 200 turns
        turns: "201": must be 1 to 200 turns
        turns[1]: "0": must be 1 to 8 people
        turns[0]: "9": must be 1 to 8 people
        turns[1][2]: "ada": stands twice among those on call at once; leave one out
        overrides[0].to: "2026-02-02T00:00:00": must be after from, 2026-02-02T00:00:00
        overrides[0].to: "2026-02-01T00:00:00": must be after from, 2026-02-02T00:00:00
        overrides[0].from: "1960-01-01T00:00:00": must be in 1970 to 2199
        overrides[0].to: "2200-01-01T00:00:00": must be in 1970 to 2199
        overrides[2].from: "2026-02-02T00:00:00": is before the end of overrides[1], 2026-02-03T00:00:00; let one end where the other begins
        overrides[0].people: "0": must be 1 to 8 people
        overrides[0].people[1]: "ada": stands twice among those on call at once; leave one out
        overrides: "201": must be at most 200; take out those that are over
    "#]].assert_eq(&said);
    for (field, value) in
        [("days", json!(366)), ("overrides", json!([other(&day(3), &day(4)), other(&day(2), &day(3))]))]
    {
        let mut written = weekly();
        written[field] = value;
        assert_eq!(check_rota(&rota(written)), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Hand-overs are the occurrences of a task that comes at that time of day on every so many days, in every zone; and
    /// duties follow each other without a gap.
    #[test]
    fn hand_overs_are_a_rotation(
        name in prop::sample::select(ZONES.to_vec()), start in instants(), days in 1..=30u16, minute in 0..24 * 60i64,
        weeks in 0..600i64, turns in 1..5usize,
    ) {
        let time = format!("{:02}:{:02}", minute / 60, minute % 60);
        let date = zone(name).time_zone().to_datetime(start.jiff()).date();
        let starts: DateTime = format!("{date}T{time}:00").parse().unwrap();
        proptest::prop_assume!((1970..=2199).contains(&starts.year()));
        let people: Vec<Vec<String>> = (0..turns).map(|n| vec![format!("p{n}")]).collect();
        let rota = rota(json!({"zone": name, "starts": starts, "days": days, "turns": people}));
        let on_call = on_call(&rota);
        let begin = on_call.between(Timestamp::MIN, Timestamp::MAX).next().unwrap().from;
        let rotation = Rotation::every_days(days.into(), &time, zone(name), begin).unwrap();
        let from = begin + SignedDuration::from_hours(7 * 24 * weeks);
        let mut duties = on_call.between(from, Timestamp::MAX).take(8).peekable();
        prop_assert!(duties.peek().is_some_and(|first| first.from <= from && from < first.until));
        while let Some(duty) = duties.next() {
            prop_assert!(rotation.is_on_grid(duty.from));
            prop_assert_eq!(rotation.next_after(duty.from), Some(duty.until));
            prop_assert_eq!(on_call.at(duty.until.previous()), Some(duty));
            if let Some(next) = duties.peek() {
                prop_assert_eq!(duty.until, next.from);
            }
        }
    }
}
