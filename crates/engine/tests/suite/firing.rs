//! BYD-1, BYD-2, GEN-4: how schedules are followed: overlap, validity, lateness, calendars, and fires that fail.

use crate::kit::{Script, World, at, every, job, rejection};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tidemill_engine::FaultInjection;
use tidemill_model::{
    AlarmEvent, AlarmKind, Answer, BatchEvent, CalendarSpec, CatalogueCommand, Command, Event, Fire,
    JobCommand, JobEvent, Outcome, ReplicationEvent, ScheduleEvent, Severity, ShardId,
};

fn daily(hour: u32) -> Value {
    json!({"cron": format!("0 0 {hour} * * ?"), "zone": "UTC"})
}

fn define_calendar(world: &mut World, spec: Value) -> Outcome {
    let calendar = Box::new(CalendarSpec::from_value(spec).unwrap());
    world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DefineCalendar { calendar }))
}

fn delete_calendar(world: &mut World, name: &str) -> Outcome {
    let name = name.try_into().unwrap();
    world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DeleteCalendar { name }))
}

/// Everything until then, hour by hour, so that nothing is missed.
fn hours(world: &mut World, until: &str) {
    let until = at(until);
    while world.wall < until {
        world.pass_minutes(60);
    }
}

fn told(world: &mut World, expected: Expect) {
    expected.assert_eq(&world.told());
    assert_eq!(world.folded(), world.partition, "replay leaves the same behind");
}

fn refused(world: &mut World, more: Value, expected: &str) {
    let outcome = world.apply(vec![job("bad", more)]);
    let text = rejection(&outcome);
    assert!(text.contains(expected), "{text}");
}

/// BYD-1: by default a batch that finds an earlier one unfinished waits for the job's maximum.
#[test]
fn overlap_queue_waits() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": every("hour"), "type": "shell", "command": "x"}))]);
    world.worker("w", 9, Script::Run);
    hours(&mut world, "2026-07-01T12:10:00.000Z");
    assert_eq!(world.unfinished(), 2);
}

/// BYD-1: skip makes no batch while a scheduled one is unfinished, on record, and goes on after; a manual run is
/// no scheduled one.
#[test]
fn overlap_skip_makes_no_batch() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"schedule": every("hour"), "overlap": "skip"}))]);
    world.batch(ids[0], Some("2026-06-01T00:00:00.000Z"));
    world.until("2026-07-01T11:01:00.000Z");
    world.until("2026-07-01T12:01:00.000Z");
    world.worker("w", 9, Script::Succeed);
    world.until("2026-07-01T13:01:00.000Z");
    let told = world.told();
    let lines: Vec<&str> =
        told.lines().filter(|line| line.contains("generated") || line.contains("skipped")).collect();
    assert_eq!(
        lines,
        [
            "b1 generated a 2026-06-01 00:00 run 1",
            "b2 generated a 2026-07-01 11:00 run 0",
            "skipped a 2026-07-01 12:00 to 2026-07-01 12:00, 1: Overlap",
            "b3 generated a 2026-07-01 13:00 run 0",
        ]
    );
}

/// BYD-1: what is missed while an earlier one is unfinished is one skip, however often it was due.
#[test]
fn overlap_skips_are_recorded_together() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": every("hour"), "overlap": "skip"}))]);
    world.until("2026-07-01T11:01:00.000Z");
    world.until("2026-07-01T14:30:00.000Z");
    told(
        &mut world,
        expect![[r#"
            b1 generated a 2026-07-01 11:00 run 0
            skipped a 2026-07-01 12:00 to 2026-07-01 14:00, 3: Overlap
        "#]],
    );
}

/// BYD-1: cancel_old ends what is unfinished, with its reason on record, before the new batch is made.
#[test]
fn overlap_cancel_old_ends_the_old_one_first() {
    let mut world = World::new();
    let running =
        json!({"schedule": every("hour"), "overlap": "cancel_old", "type": "shell", "command": "x"});
    world.define(vec![
        job("a", running),
        job("b", json!({"schedule": every("hour"), "overlap": "cancel_old", "host": "nowhere"})),
    ]);
    world.worker("w", 9, Script::Run);
    world.until("2026-07-01T11:01:00.000Z");
    world.events();
    world.until("2026-07-01T12:01:00.000Z");
    told(
        &mut world,
        expect![[r#"
            b1 kill t1
            b3 generated a 2026-07-01 12:00 run 0
            b2 finished killed
            b4 generated b 2026-07-01 12:00 run 0
            b1 attempt 1 Killed
            b1 finished killed
            b3 assigned t2 attempt 1 to w
            b3 granted t2
            b3 started t2
        "#]],
    );
}

/// BYD-1: what an overlap policy cannot do is refused, by its field.
#[test]
fn overlap_needs_a_fitting_maximum() {
    let mut world = World::new();
    let hourly = every("hour");
    refused(
        &mut world,
        json!({"schedule": hourly, "overlap": "allow"}),
        "overlap: \"allow\": needs max_concurrent above 1",
    );
    refused(
        &mut world,
        json!({"schedule": hourly, "overlap": "cancel_old", "max_concurrent": 2}),
        "needs max_concurrent 1",
    );
    refused(
        &mut world,
        json!({"schedule": hourly, "overlap": "cancel_old", "depends_on_past": true}),
        "depends_on_past",
    );
    refused(
        &mut world,
        json!({"overlap": "skip"}),
        "overlap: \"\": says how the job's own schedule is followed",
    );
    refused(&mut world, json!({"valid_from": "2026-01-01T00:00:00.000Z"}), "valid_from");
    refused(
        &mut world,
        json!({"schedule": hourly, "valid_from": "2026-01-02T00:00:00.000Z", "valid_until": "2026-01-01T00:00:00.000Z"}),
        "valid_until: \"2026-01-01T00:00:00.000Z\": must be after valid_from",
    );
    refused(
        &mut world,
        json!({"schedule": hourly, "missed_runs": {"policy": "none", "max_lateness_s": 5}}),
        "policy none",
    );
    refused(
        &mut world,
        json!({"schedule": hourly, "missed_runs": {"max_lateness_s": 0}}),
        "must be 1 to 604800",
    );
    refused(
        &mut world,
        json!({"schedule": hourly, "calendar": {"name": "cn"}}),
        "there is no calendar of that name",
    );
    define_calendar(&mut world, json!({"name": "cn"}));
    refused(
        &mut world,
        json!({"schedule": hourly, "calendar": {"name": "cn", "shift": "next"}}),
        "several times a day",
    );
    world.define(vec![job("fine", json!({"schedule": hourly, "overlap": "allow", "max_concurrent": 2}))]);
}

/// BYD-1: nothing is due before the validity begins or once it ended, also what an outage hides.
#[test]
fn validity_bounds_what_fires() {
    let mut world = World::new();
    let window = json!({
        "schedule": every("hour"), "valid_from": "2026-07-01T14:01:00+02:00", "valid_until": "2026-07-01T14:01:00.000Z",
    });
    world.define(vec![job("a", window)]);
    world.until("2026-07-02T10:00:00.000Z");
    told(
        &mut world,
        expect![[r#"
            b1 generated a 2026-07-01 12:00 run 0
            b2 generated a 2026-07-01 13:00 run 0
        "#]],
    );
}

/// BYD-1: a fire that is later than its job allows is skipped, on record; the others are made up for.
#[test]
fn late_fires_are_skipped_beyond_the_maximum() {
    for (policy, expected) in [
        (
            "all",
            expect![[r#"
            skipped a 2026-07-01 11:00 to 2026-07-01 12:00, 2: TooLate
            b1 generated a 2026-07-01 13:00 run 0
            b2 generated a 2026-07-01 14:00 run 0
        "#]],
        ),
        (
            "latest",
            expect![[r#"
            skipped a 2026-07-01 11:00 to 2026-07-01 12:00, 2: TooLate
            skipped a 2026-07-01 13:00 to 2026-07-01 13:00, 1: Policy
            b1 generated a 2026-07-01 14:00 run 0
        "#]],
        ),
    ] {
        let mut world = World::new();
        let missed_runs = json!({"policy": policy, "max_lateness_s": 7_200});
        world.define(vec![job("a", json!({"schedule": every("hour"), "missed_runs": missed_runs}))]);
        world.until("2026-07-01T14:30:00.000Z");
        told(&mut world, expected);
    }
}

/// BYD-2: days that are left out make no batch; what was left out is recorded once, and batches name the version.
#[test]
fn calendar_days_are_left_out_on_record() {
    let mut world = World::at("2026-07-02T12:00:00.000Z");
    assert!(matches!(
        define_calendar(&mut world, json!({"name": "cn", "holidays": ["2026-07-06"]})),
        Outcome::Answered(Answer::Calendar { version: 1 })
    ));
    let hourly = json!({"cron": "0 0 0/6 * * ?", "zone": "UTC"});
    world.define(vec![job("a", json!({"schedule": hourly, "calendar": {"name": "cn"}}))]);
    hours(&mut world, "2026-07-07T06:00:00.000Z");
    let versions: Vec<_> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Batch(BatchEvent::Generated { calendar, logical_time, .. }) => {
                Some((logical_time.to_string(), calendar))
            }
            Event::Schedule(ScheduleEvent::Skipped { from, to, count, reason, .. }) => {
                Some((format!("{from} to {to}: {count} {reason:?}"), None))
            }
            _ => None,
        })
        .collect();
    let expected = [
        ("2026-07-02T18:00:00.000Z", Some(1)),
        ("2026-07-03T00:00:00.000Z", Some(1)),
        ("2026-07-03T06:00:00.000Z", Some(1)),
        ("2026-07-03T12:00:00.000Z", Some(1)),
        ("2026-07-03T18:00:00.000Z", Some(1)),
        ("2026-07-04T00:00:00.000Z to 2026-07-06T18:00:00.000Z: 12 Calendar", None),
        ("2026-07-07T00:00:00.000Z", Some(1)),
        ("2026-07-07T06:00:00.000Z", Some(1)),
    ];
    let expected: Vec<_> = expected.map(|(text, version)| (text.to_owned(), version)).to_vec();
    assert_eq!(versions, expected);
    assert_eq!(world.folded(), world.partition);
}

/// BYD-2: a shift moves when batches are due; their logical times stay, so several can come at once.
#[test]
fn shifted_fires_keep_their_logical_times() {
    for (shift, expected) in [
        (
            "next",
            expect![[r#"
            2026-07-03 12:00: b1 generated a 2026-07-03 12:00 run 0
            2026-07-06 12:00: b2 generated a 2026-07-04 12:00 run 0
            2026-07-06 12:00: b3 generated a 2026-07-05 12:00 run 0
            2026-07-06 12:00: b4 generated a 2026-07-06 12:00 run 0
        "#]],
        ),
        (
            "previous",
            expect![[r#"
            2026-07-03 12:00: b1 generated a 2026-07-03 12:00 run 0
            2026-07-03 12:00: b2 generated a 2026-07-04 12:00 run 0
            2026-07-03 12:00: b3 generated a 2026-07-05 12:00 run 0
            2026-07-06 12:00: b4 generated a 2026-07-06 12:00 run 0
        "#]],
        ),
    ] {
        let mut world = World::at("2026-07-02T13:00:00.000Z");
        define_calendar(&mut world, json!({"name": "week"}));
        world.define(vec![job(
            "a",
            json!({"schedule": daily(12), "calendar": {"name": "week", "shift": shift}}),
        )]);
        let mut lines = String::new();
        while world.wall < at("2026-07-06T13:00:00.000Z") {
            world.pass_minutes(60);
            let now = world.wall.to_string();
            for line in world.told().lines() {
                lines += &format!(
                    "{}: {line}\n",
                    now.replace(".000Z", "Z").trim_end_matches(":00Z").replace('T', " ")
                );
            }
        }
        expected.assert_eq(&lines);
    }
}

/// BYD-2: a changed calendar moves the next fires of its jobs, on record; the same again changes nothing, and what
/// a job used when its batch was made stays on record.
#[test]
fn changed_calendars_move_next_fires() {
    let mut world = World::at("2026-07-02T13:00:00.000Z");
    define_calendar(&mut world, json!({"name": "cn"}));
    world.define(vec![
        job("a", json!({"schedule": daily(12), "calendar": {"name": "cn"}})),
        job("b", json!({"schedule": daily(12)})),
    ]);
    define_calendar(&mut world, json!({"name": "cn", "holidays": ["2026-07-03"]}));
    define_calendar(
        &mut world,
        json!({"name": "cn", "week": ["friday", "thursday", "wednesday", "tuesday", "monday"], "holidays": ["2026-07-03", "2026-07-03"]}),
    );
    world.until("2026-07-04T12:00:00.000Z");
    define_calendar(&mut world, json!({"name": "cn", "working_days": ["2026-07-05"]}));
    world.until("2026-07-05T12:00:00.000Z");
    told(
        &mut world,
        expect![[r#"
            calendar defined cn version 2
            calendar received cn version 2
            fire moved a, next 2026-07-06 12:00
            b1 generated b 2026-07-03 12:00 run 0
            b2 generated b 2026-07-04 12:00 run 0
            calendar defined cn version 3
            calendar received cn version 3
            fire moved a, next 2026-07-05 12:00
            skipped a 2026-07-03 12:00 to 2026-07-04 12:00, 2: Calendar
            b3 generated a 2026-07-05 12:00 run 0
            b4 generated b 2026-07-05 12:00 run 0
        "#]],
    );
}

/// BYD-2: a calendar that jobs use is not removed, and the refusal names them; one that nobody uses is forgotten.
#[test]
fn used_calendars_are_not_removed() {
    let mut world = World::new();
    define_calendar(&mut world, json!({"name": "cn"}));
    world.define(vec![job("a", json!({"schedule": daily(12), "calendar": {"name": "cn"}}))]);
    let refused = rejection(&delete_calendar(&mut world, "cn"));
    assert_eq!(
        refused,
        "calendar_in_use: calendar cn cannot be removed: g/a use it; let them keep to another one first"
    );
    world.define(vec![job("a", json!({"schedule": daily(12)}))]);
    assert!(matches!(delete_calendar(&mut world, "cn"), Outcome::Answered(Answer::Done)));
    let refused = rejection(&delete_calendar(&mut world, "cn"));
    assert_eq!(refused, "unknown: there is no calendar cn");
    let text = world.told();
    assert!(text.contains("calendar removed cn") && text.contains("calendar forgotten cn"), "{text}");
    assert!(matches!(
        define_calendar(&mut world, json!({"name": "cn"})),
        Outcome::Answered(Answer::Calendar { version: 2 })
    ));
}

/// BYD-2: what cannot be a calendar is refused, by its field.
#[test]
fn calendars_have_bounds() {
    let mut world = World::new();
    let mut refused = |spec: Value, expected: &str| {
        let text = rejection(&define_calendar(&mut world, spec));
        assert!(text.contains(expected), "{text}");
    };
    refused(json!({"name": "a", "zone": "Mars"}), "zone: \"Mars\"");
    refused(
        json!({"name": "a", "holidays": ["2026-01-01"], "working_days": ["2026-01-01"]}),
        "holidays[0]: \"2026-01-01\": stands among the working days too",
    );
    refused(json!({"name": "a", "working_days": ["1969-12-31"]}), "working_days[0]");
    let first = jiff::civil::Date::new(2000, 1, 1).unwrap();
    let dates: Vec<_> =
        first.series(jiff::Span::new().days(1)).take(4_001).map(|date| date.to_string()).collect();
    refused(json!({"name": "a", "holidays": dates}), "at most 4000 dates");
    let fits = define_calendar(&mut world, json!({"name": "a", "holidays": dates[1..]}));
    assert!(matches!(fits, Outcome::Answered(Answer::Calendar { .. })), "{}", rejection(&fits));
}

/// DEP-3, BYD-2: a batch does not wait for days on which its parent, or its own job, has none.
#[test]
fn dependencies_keep_to_the_calendar() {
    let mut world = World::at("2026-07-02T13:00:00.000Z");
    define_calendar(&mut world, json!({"name": "week"}));
    let used = json!({"name": "week"});
    world.define(vec![
        job("a", json!({"schedule": every("day"), "calendar": used})),
        job("b", json!({"schedule": every("day"), "calendar": used, "depends_on_past": true})),
        job("c", json!({"schedule": every("week"), "parents": [{"job": "a", "mapping": "all"}]})),
    ]);
    world.worker("w", 9, Script::Succeed);
    hours(&mut world, "2026-07-14T00:10:00.000Z");
    // The first week began before the jobs were there; what was then is left out.
    let told = world.told();
    assert_eq!(world.unfinished(), 0, "{told}");
    assert!(told.contains("generated c 2026-07-13 00:00 run 0, of a 4/5"), "{told}");
    let refused = world.apply(vec![job("d", json!({"schedule": every("day"), "parents": ["a"]}))]);
    assert!(rejection(&refused).contains("on working days of week"), "{}", rejection(&refused));
}

fn fires_of(world: &World, name: &str) -> Vec<Fire> {
    let mut fires = Vec::new();
    for body in &world.journal {
        for recorded in serde_json::from_slice::<tidemill_model::Envelope>(body).unwrap().events {
            let next = match recorded.event {
                Event::Replication(ReplicationEvent::JobReplicated { definition, next, .. })
                    if definition.spec.name.as_str() == name =>
                {
                    next
                }
                Event::Batch(BatchEvent::Generated { next, .. }) => next,
                _ => None,
            };
            fires.extend(next);
        }
    }
    fires
}

/// BYD-1: what is previewed is what fires: every next fire that the engine records is the one the timetable names.
#[test]
fn preview_is_what_fires() {
    let schedules = [
        json!({"cron": "0 30 2 * * ?", "zone": "Europe/Berlin"}),
        json!({"cron": "0 0 0/5 * * ?", "zone": "America/New_York"}),
        json!({"period": "hour", "zone": "Australia/Lord_Howe"}),
        json!({"period": "day", "zone": "Pacific/Apia"}),
        json!({"cron": "0 15 6 ? * MON-FRI", "zone": "Asia/Shanghai"}),
        json!({"cron": "0 0 12 L * ?", "zone": "UTC"}),
    ];
    let bounds = [
        json!({}),
        json!({"calendar": {"name": "cn"}}),
        json!({"calendar": {"name": "cn", "on": "holidays"}}),
        json!({"calendar": {"name": "cn", "shift": "next"}}),
        json!({"calendar": {"name": "cn", "shift": "previous"}}),
        json!({"valid_from": "2026-10-04T00:00:00.000Z", "valid_until": "2026-10-09T00:00:00.000Z"}),
    ];
    let calendar = json!({
        "name": "cn", "holidays": ["2026-10-01", "2026-10-02", "2026-10-05", "2026-10-26"], "working_days": ["2026-10-10"],
    });
    for schedule in &schedules {
        for more in &bounds {
            let mut world = World::at("2026-09-28T03:07:00.000Z");
            define_calendar(&mut world, calendar.clone());
            let mut spec = json!({"schedule": schedule});
            for (name, value) in more.as_object().unwrap() {
                spec[name] = value.clone();
            }
            if !matches!(world.apply(vec![job("a", spec.clone())]), Outcome::Answered(_)) {
                continue;
            }
            let definition = world.events().into_iter().find_map(|event| match event {
                Event::Job(JobEvent::Defined { definition, .. }) => Some(definition),
                _ => None,
            });
            let definition = definition.unwrap();
            hours(&mut world, "2026-11-04T00:00:00.000Z");
            let spec = CalendarSpec::from_value(calendar.clone()).unwrap();
            let days =
                tidemill_calendar::Days::try_from(&tidemill_model::Calendar { version: 1, spec }).unwrap();
            let timetable =
                tidemill_calendar::Timetable::of(&definition, |_| Some(std::sync::Arc::new(days)));
            let timetable = timetable.unwrap().unwrap();
            let mut fired = fires_of(&world, "a");
            fired.dedup();
            let preview = timetable.preview(at("2026-09-28T03:07:00.000Z"), fired.len());
            assert_eq!(fired, preview, "{timetable}");
            assert!(
                fired.len() > 3 || more.get("valid_until").is_some() || schedule["cron"] == "0 0 12 L * ?",
                "{timetable}: {fired:?}"
            );
        }
    }
}

/// A world in which the schedule of the job `bad` cannot be decided.
fn fault_injected() -> World {
    let mut world = World::new();
    let fault_injection =
        FaultInjection { panicking_schedule: Some("bad".try_into().unwrap()), ..FaultInjection::default() };
    world.partition = world.partition.clone().fault_injected(fault_injection);
    world
}

/// GEN-4: a fire that cannot be decided is tried again three times; then its timer is suspended and people are
/// told, once, by the job's priority. Switched on anew, it goes on where it stood.
#[test]
fn failing_generation_is_retried_and_told() {
    for (priority, severity) in [(4, Severity::Important), (5, Severity::Notice)] {
        let mut world = fault_injected();
        let ids = world.define(vec![
            job("bad", json!({"schedule": every("hour"), "priority": priority})),
            job("fine", json!({"schedule": every("hour")})),
        ]);
        world.until("2026-07-01T11:01:00.000Z");
        for _ in 0..8 {
            world.pass_ms(2_500);
        }
        let events = world.events();
        let alarms: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Alarm(AlarmEvent::Raised { kind, severity, job, message, .. }) => {
                    Some((*kind, *severity, *job, message))
                }
                _ => None,
            })
            .collect();
        let [(AlarmKind::GenerationFailed, told, Some(of), message)] = alarms[..] else {
            panic!("{alarms:?}")
        };
        assert_eq!((told, of), (severity, ids[0]));
        assert!(message.contains("g/bad") && message.contains("tried 4 times"), "{message}");
        let tries: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Schedule(ScheduleEvent::GenerationFailed { failures, retry_at, .. }) => {
                    Some((*failures, retry_at.map(|at| at.to_string())))
                }
                _ => None,
            })
            .collect();
        let retry = |second| Some(format!("2026-07-01T11:01:{second:02}.000Z"));
        assert_eq!(tries, [(1, retry(5)), (2, retry(10)), (3, retry(15)), (4, None)]);
        let generated =
            events.iter().filter(|event| matches!(event, Event::Batch(BatchEvent::Generated { .. }))).count();
        assert_eq!(generated, 1, "the other job's batch is made in time");
        world.partition = world.partition.clone().fault_injected(FaultInjection::default());
        world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: ids[0], enabled: false }));
        world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: ids[0], enabled: true }));
        world.until("2026-07-01T12:01:00.000Z");
        assert!(world.told().contains("generated bad 2026-07-01 12:00"));
        assert_eq!(world.folded(), world.partition);
    }
}

/// GEN-4: a fire that fails once and then can be decided makes its batch, and nobody is told.
#[test]
fn generation_that_recovers_is_not_told() {
    let mut world = fault_injected();
    world.define(vec![job("bad", json!({"schedule": every("hour")}))]);
    world.until("2026-07-01T11:01:00.000Z");
    world.partition = world.partition.clone().fault_injected(FaultInjection::default());
    world.pass_ms(5_000);
    told(
        &mut world,
        expect![[r#"
            failed bad 1: retry 2026-07-01 11:01:05Z
            b1 generated bad 2026-07-01 11:00 run 0
        "#]],
    );
}

/// GEN-4: more than ten jobs that fail within a minute are told to administrators, once.
#[test]
fn many_failures_are_told_to_administrators() {
    for (count, critical) in [(10, 0), (11, 1), (25, 1)] {
        let mut world = World::new();
        let fault_injection =
            FaultInjection { panicking_schedules: Some("bad-".to_owned()), ..FaultInjection::default() };
        world.partition = world.partition.clone().fault_injected(fault_injection);
        let jobs = (0..count).map(|n| job(&format!("bad-{n}"), json!({"schedule": every("hour")})));
        world.define(jobs.collect());
        world.until("2026-07-01T11:01:00.000Z");
        for _ in 0..8 {
            world.pass_ms(2_500);
        }
        let events = world.events();
        let of = |wanted: Severity| {
            let is = |event: &&Event| matches!(event, Event::Alarm(AlarmEvent::Raised { severity, .. }) if *severity == wanted);
            events.iter().filter(is).count()
        };
        assert_eq!((of(Severity::Critical), of(Severity::Notice)), (critical, count));
        assert_eq!(world.folded(), world.partition.clone().fault_injected(FaultInjection::default()));
    }
}
