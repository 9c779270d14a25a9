//! Reruns and cold starts: planned, approved, carried out; what was planned is what runs.

use crate::kit::{Script, World, at, every, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_engine::{MAX_DECISION_BYTES, MAX_ENVELOPE_BYTES};
use tidemill_model::{
    AlarmEvent, AlarmKind, Answer, AttemptResult, BatchEvent, CalendarSpec, Cascade, CatalogueCommand,
    ColdStartOf, Command, Event, JobCommand, JobId, Outcome, Period, RerunCommand, RerunDefinition,
    RerunEvent, RerunId, RerunOnly, RerunOrder, RerunScope, RerunSpec, ShardId,
};

fn daily(name: &str, more: serde_json::Value) -> tidemill_model::JobSpec {
    let mut fields = json!({"schedule": every("day"), "max_concurrent": 4});
    for (key, value) in more.as_object().unwrap() {
        fields[key] = value.clone();
    }
    job(name, fields)
}

/// `a` → `b` → `c`, every day; nothing has run yet.
fn chain() -> (World, Vec<JobId>) {
    let mut world = World::new();
    let ids = world.define(vec![
        daily("a", json!({})),
        daily("b", json!({"parents": ["a"]})),
        daily("c", json!({"parents": ["b"]})),
    ]);
    (world, ids)
}

fn rerun_spec(jobs: &[JobId], cascade: Cascade, from: &str, to: &str) -> RerunSpec {
    RerunSpec {
        scope: RerunScope::Rerun { jobs: jobs.to_vec(), cascade },
        from: at(from),
        to: at(to),
        reach: None,
        only: RerunOnly::All,
        order: RerunOrder::Oldest,
        concurrency: 2,
        definition: RerunDefinition::Today,
        reason: "late data".to_owned(),
        approve: false,
    }
}

fn cold(of: ColdStartOf, period: Period, from: &str, to: &str) -> RerunSpec {
    RerunSpec { scope: RerunScope::ColdStart { of, period }, ..rerun_spec(&[], Cascade::Job, from, to) }
}

const DAY: [&str; 4] = [
    "2026-06-27T00:00:00.000Z",
    "2026-06-28T00:00:00.000Z",
    "2026-06-29T00:00:00.000Z",
    "2026-06-30T00:00:00.000Z",
];

fn plan(world: &mut World, rerun_spec: RerunSpec) -> RerunId {
    match world.ask(ShardId::CATALOGUE, Command::Rerun(RerunCommand::Plan(Box::new(rerun_spec)))) {
        Outcome::Answered(Answer::Rerun { rerun, .. }) => rerun,
        other => panic!("{}", rejection(&other)),
    }
}

fn ask(world: &mut World, command: Command) -> Outcome {
    world.ask(ShardId::CATALOGUE, command)
}

fn approve(world: &mut World, rerun: RerunId) {
    let outcome = ask(world, Command::Rerun(RerunCommand::Approve { rerun }));
    assert_eq!(outcome, Outcome::Answered(Answer::Done), "{}", rejection(&outcome));
}

/// Only what the catalogue says of reruns.
fn of_rerun(told: &str) -> String {
    let words = ["rerun", "planned", "ordered", "ended", "blocked", "skips", "alarm", "run "];
    let of_it = |line: &&str| words.iter().any(|word| line.starts_with(word));
    told.lines().filter(of_it).map(|line| format!("{line}\n")).collect()
}

/// GEN-6, GEN-7: the plan names every batch with its order, its run and what it waits for; then exactly that runs.
#[test]
fn what_was_planned_is_what_runs_each_after_what_it_waits_for() {
    let (mut world, ids) = chain();
    world.worker("w", 4, Script::Succeed);
    world.batch(ids[1], Some(DAY[3]));
    world.events();
    let rerun = plan(&mut world, rerun_spec(&ids[..1], Cascade::Logic, DAY[2], DAY[3]));
    expect![[r#"
        rerun requested, 3 jobs
        planned from 1: a 2026-06-29 00:00 first; b 2026-06-29 00:00 first after [1]; c 2026-06-29 00:00 first after [2]; a 2026-06-30 00:00 first; b 2026-06-30 00:00 run 2 after [4]; c 2026-06-30 00:00 first after [5]
        rerun planned, 6 batches
    "#]]
    .assert_eq(&world.told());
    approve(&mut world, rerun);
    expect![[r#"
        rerun approved
        ordered 1, 4
        ended 1: success
        ended 4: success
        ordered 2, 5
        ended 2: success
        ended 5: success
        ordered 3, 6
        ended 3: success
        ended 6: success
        rerun ended done
    "#]]
    .assert_eq(&of_rerun(&world.told()));
    assert_eq!(world.folded(), world.partition);
}

/// GEN-7: what comes after a batch that failed for good is blocked, on record; the rest goes on.
#[test]
fn what_waits_for_a_failed_batch_is_blocked_and_the_rest_goes_on() {
    let (mut world, ids) = chain();
    let worker = world.worker("w", 4, Script::Run);
    let rerun = plan(&mut world, rerun_spec(&ids[..1], Cascade::Logic, DAY[2], DAY[3]));
    approve(&mut world, rerun);
    world.events();
    let tokens: Vec<_> = world.played(&worker).running.keys().copied().collect();
    let failing = world.played(&worker).finished(tokens[0], AttemptResult::Failed);
    world.say(failing);
    world.played(&worker).script = Script::Succeed;
    let fine = world.played(&worker).finished(tokens[1], AttemptResult::Success);
    world.say(fine);
    expect![[r#"
        ended 1: failed
        blocked [2]
        blocked [3]
        ended 4: success
        ordered 5
        ended 5: success
        ordered 6
        ended 6: success
        rerun ended done_with_failures
    "#]]
    .assert_eq(&of_rerun(&world.told()));
}

/// BYD-18, GEN-7: where a job says what it does when a parent failed, it does so in a rerun, too, and the plan goes on.
#[test]
fn rules_for_failed_parents_hold_within_a_rerun() {
    let mut world = World::new();
    let after = |parent: &str, more: serde_json::Value| {
        let mut fields = json!({"parents": [parent]});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    let ids = world.define(vec![
        daily("a", json!({})),
        daily("cleans", after("a", json!({"run_if": "failure"}))),
        daily("fails", after("a", json!({"on_parent_failure": "fail"}))),
        daily("waits", after("a", json!({}))),
        daily("last", after("waits", json!({"on_parent_failure": "run"}))),
    ]);
    world.worker("w", 4, Script::Fail);
    let rerun = plan(&mut world, rerun_spec(&ids[..1], Cascade::Logic, DAY[3], DAY[3]));
    approve(&mut world, rerun);
    expect![[r#"
        rerun requested, 5 jobs
        planned from 1: a 2026-06-30 00:00 first; cleans 2026-06-30 00:00 first after [1]; fails 2026-06-30 00:00 first after [1]; waits 2026-06-30 00:00 first after [1]; last 2026-06-30 00:00 first after [4]
        rerun planned, 5 batches
        rerun approved
        ordered 1
        ended 1: failed
        blocked [4]
        blocked [5]
        ordered 2, 3
        ended 3: failed
        ended 2: failed
        rerun ended done_with_failures
    "#]].assert_eq(&of_rerun(&world.told()));
    assert_eq!(world.folded(), world.partition);
}

/// GEN-7: paused, nothing more starts; resumed, it goes on; cancelled, nothing starts and what runs may be ended.
#[test]
fn paused_and_cancelled_reruns_start_nothing() {
    let (mut world, ids) = chain();
    let worker = world.worker("w", 4, Script::Run);
    let rerun = plan(&mut world, rerun_spec(&ids[..1], Cascade::Job, DAY[0], DAY[3]));
    approve(&mut world, rerun);
    ask(&mut world, Command::Rerun(RerunCommand::Pause { rerun }));
    world.events();
    let first = *world.played(&worker).running.keys().next().unwrap();
    let done = world.played(&worker).finished(first, AttemptResult::Success);
    world.say(done);
    assert_eq!(of_rerun(&world.told()), "ended 1: success\n");
    ask(&mut world, Command::Rerun(RerunCommand::Resume { rerun }));
    assert_eq!(of_rerun(&world.told()), "rerun resumed\nordered 3\n");
    ask(&mut world, Command::Rerun(RerunCommand::Cancel { rerun, kill: true }));
    expect![[r#"
        rerun cancelled, kills
        ended 2: killed
        ended 3: killed
        rerun ended cancelled
    "#]]
    .assert_eq(&of_rerun(&world.told()));
    let again = ask(&mut world, Command::Rerun(RerunCommand::Resume { rerun }));
    expect!["unknown: there is no live rerun 4096"].assert_eq(&rejection(&again));
    assert_eq!(world.folded(), world.partition);
}

/// GEN-7: a cancelled one stays, as a tombstone, until what it had ordered has been answered.
#[test]
fn cancelled_rerun_stays_until_what_it_sent_is_answered() {
    let (mut world, ids) = chain();
    let worker = world.worker("w", 4, Script::Run);
    let rerun = plan(&mut world, rerun_spec(&ids[..1], Cascade::Job, DAY[0], DAY[3]));
    approve(&mut world, rerun);
    world.events();
    ask(&mut world, Command::Rerun(RerunCommand::Cancel { rerun, kill: false }));
    assert_eq!(of_rerun(&world.told()), "rerun cancelled\n");
    for token in world.played(&worker).running.keys().copied().collect::<Vec<_>>() {
        let done = world.played(&worker).finished(token, AttemptResult::Success);
        world.say(done);
    }
    assert_eq!(of_rerun(&world.told()), "ended 1: success\nended 2: success\nrerun ended cancelled\n");
}

/// Approving is refused when a planned definition has changed meanwhile, by name.
#[test]
fn changed_definition_makes_a_plan_out_of_date() {
    let (mut world, ids) = chain();
    let rerun = plan(&mut world, rerun_spec(&ids[..1], Cascade::Logic, DAY[3], DAY[3]));
    world.define(vec![daily("b", json!({"parents": ["a"], "comment": "other"}))]);
    let outcome = ask(&mut world, Command::Rerun(RerunCommand::Approve { rerun }));
    expect!["plan_outdated: the plan of rerun 4096 is out of date, for g/b changed since; plan it anew"]
        .assert_eq(&rejection(&outcome));
    ask(&mut world, Command::Rerun(RerunCommand::Cancel { rerun, kill: false }));
    world.events();
    let mut changed = rerun_spec(&ids[..1], Cascade::Logic, DAY[3], DAY[3]);
    changed.approve = true;
    plan(&mut world, changed);
    assert!(of_rerun(&world.told()).contains("rerun approved"));
}

/// BYD-3: only what is missing, only what failed, the newest first.
#[test]
fn only_missing_and_only_failed_leave_the_others_out() {
    let (mut world, ids) = chain();
    let worker = world.worker("w", 4, Script::Fail);
    world.batch(ids[0], Some(DAY[1]));
    world.played(&worker).script = Script::Succeed;
    world.batch(ids[0], Some(DAY[2]));
    world.events();
    let base =
        || RerunSpec { order: RerunOrder::Newest, ..rerun_spec(&ids[..1], Cascade::Job, DAY[0], DAY[3]) };
    plan(&mut world, RerunSpec { only: RerunOnly::Missing, ..base() });
    plan(&mut world, RerunSpec { only: RerunOnly::Failed, ..base() });
    expect![[r#"
        rerun requested, 1 jobs
        planned from 1: a 2026-06-30 00:00 first; a 2026-06-27 00:00 first
        rerun planned, 2 batches
        rerun requested, 1 jobs
        planned from 1: a 2026-06-28 00:00 run 2
        rerun planned, 1 batches
    "#]]
    .assert_eq(&world.told());
}

/// BYD-3: a batch may get the definition that its logical time had.
#[test]
fn recorded_definition_is_that_of_the_newest_run() {
    let mut world = World::new();
    let ids = world.define(vec![daily("a", json!({"type": "shell", "command": "old"}))]);
    let worker = world.worker("w", 4, Script::Succeed);
    world.batch(ids[0], Some(DAY[3]));
    world.define(vec![daily("a", json!({"type": "shell", "command": "new"}))]);
    world.events();
    let recorded = RerunSpec {
        definition: RerunDefinition::Recorded,
        approve: true,
        ..rerun_spec(&ids, Cascade::Job, DAY[3], DAY[3])
    };
    plan(&mut world, recorded);
    let versions: Vec<u32> = world
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Batch(BatchEvent::Generated { version, .. }) => Some(*version),
            _ => None,
        })
        .collect();
    assert_eq!(versions, [1]);
    let heard = serde_json::to_string(&world.played(&worker).heard).unwrap();
    assert_eq!((heard.matches("\"old\"").count(), heard.matches("\"new\"").count()), (2, 0), "{heard}");
}

/// BYD-3, DSP-1: it is followed with its own schedule: earliest start and zone are those of the recorded definition, not
/// today's.
#[test]
fn recorded_definition_is_followed_with_its_own_schedule() {
    let spec = |schedule: serde_json::Value| {
        let more = json!({"type": "shell", "command": "${yyyyMMddHH}", "earliest_start_minutes": 5});
        let mut more = more.as_object().unwrap().clone();
        more.insert("schedule".to_owned(), schedule);
        vec![job("a", more.into())]
    };
    for (definition, expected) in [
        // A day's base time is 1 minute after it begins; what cron fires is due at its logical time.
        (RerunDefinition::Recorded, ("2026-06-30T00:06:00.000Z", "2026063000")),
        (RerunDefinition::Today, ("2026-06-30T00:05:00.000Z", "2026063009")),
    ] {
        let mut world = World::new();
        let ids = world.define(spec(json!({"period": "day", "zone": "UTC"})));
        let worker = world.worker("w", 4, Script::Succeed);
        world.batch(ids[0], Some(DAY[3]));
        world.define(spec(json!({"cron": "0 0 * * * ?", "zone": "Asia/Tokyo"})));
        world.events();
        let heard_before = world.played(&worker).heard.len();
        plan(
            &mut world,
            RerunSpec { definition, approve: true, ..rerun_spec(&ids, Cascade::Job, DAY[3], DAY[3]) },
        );
        let earliest = world.events().into_iter().find_map(|event| match event {
            Event::Batch(BatchEvent::Generated { earliest_start, .. }) => earliest_start,
            _ => None,
        });
        assert_eq!(earliest.map(|at| at.to_string()).as_deref(), Some(expected.0));
        let heard = serde_json::to_string(&world.played(&worker).heard[heard_before..]).unwrap();
        assert!(heard.contains(expected.1), "{heard}");
        assert!(world.folded() == world.partition);
    }
}

/// GEN-7, BYD-2: what a rerun by the recorded definition waits for, and the calendar on its record, follow from that
/// definition's grid; where its calendar is gone since, its schedule is left.
#[test]
fn recorded_definition_waits_by_its_own_grid_and_calendar() {
    let spec = |schedule: &str, calendar: serde_json::Value| {
        let parents = json!([{"job": "p", "mapping": "all"}]);
        let child = json!({"schedule": every(schedule), "parents": parents, "calendar": calendar});
        vec![job("p", json!({"type": "anchor", "schedule": every("hour")})), job("a", child)]
    };
    for (definition, is_gone, hours, calendar) in [
        (RerunDefinition::Recorded, false, 24, Some(1)),
        (RerunDefinition::Recorded, true, 24, None),
        (RerunDefinition::Today, false, 1, None),
    ] {
        let mut world = World::new();
        let days = CalendarSpec::from_value(json!({"name": "days", "holidays": ["2026-01-01"]})).unwrap();
        world.ask(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::DefineCalendar { calendar: Box::new(days) }),
        );
        let ids = world.define(spec("day", json!({"name": "days"})));
        let batch = world.batch(ids[1], Some(DAY[3]));
        world.kill(batch);
        world.define(spec("hour", json!(null)));
        if is_gone {
            let name = "days".try_into().unwrap();
            let outcome =
                world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DeleteCalendar { name }));
            assert_eq!(outcome, Outcome::Answered(Answer::Done), "{}", rejection(&outcome));
        }
        world.events();
        let rerun_spec = rerun_spec(&ids[1..], Cascade::Job, DAY[3], DAY[3]);
        plan(&mut world, RerunSpec { definition, approve: true, ..rerun_spec });
        let generated = world.events().into_iter().find_map(|event| match event {
            Event::Batch(BatchEvent::Generated { dependencies, calendar, .. }) => {
                Some((dependencies[0].times.len(), calendar))
            }
            _ => None,
        });
        assert_eq!(generated, Some((hours, calendar)), "{definition:?}, its calendar gone: {is_gone}");
        assert!(world.folded() == world.partition);
    }
}

/// GEN-7: two reruns may overlap; what is unfinished when its turn comes is skipped on record, and never runs twice.
#[test]
fn overlapping_reruns_never_run_one_logical_time_twice() {
    let (mut world, ids) = chain();
    world.worker("w", 4, Script::Run);
    let one = rerun_spec(&ids[..1], Cascade::Job, DAY[3], DAY[3]);
    plan(&mut world, RerunSpec { approve: true, ..one.clone() });
    world.events();
    plan(&mut world, RerunSpec { approve: true, ..one });
    let told = of_rerun(&world.told());
    assert!(told.contains("ended 1: skipped, Unfinished"), "{told}");
    assert!(told.ends_with("rerun ended done_with_failures\n"), "{told}");
    assert_eq!(world.unfinished(), 1);
}

/// GEN-6: a rerun reaches jobs of other groups; its concurrency counts over all of them.
#[test]
fn subset_over_two_groups_shares_one_concurrency() {
    let mut world = World::new();
    world.define_group("h", tidemill_model::GroupSettings::default());
    let other = |name: &str| daily(name, json!({"group": "h", "type": "anchor"}));
    let ids = world.define(vec![daily("a", json!({})), other("x")]);
    world.worker("w", 4, Script::Succeed);
    let mut both = rerun_spec(&ids[..1], Cascade::Subset(vec![ids[1]]), DAY[0], DAY[3]);
    (both.concurrency, both.approve) = (1, true);
    plan(&mut world, both);
    let told = of_rerun(&world.told());
    let orders = told.lines().filter(|line| line.starts_with("ordered")).collect::<Vec<_>>();
    assert_eq!(orders, (1..=8).map(|number| format!("ordered {number}")).collect::<Vec<_>>());
    assert!(told.ends_with("rerun ended done\n"), "{told}");
    assert_eq!(world.folded(), world.partition);
}

/// GEN-6: what comes after takes part for the logical times that wait for the rerun ones, whatever the mapping.
#[test]
fn cascade_reaches_the_logical_times_that_wait_for_the_rerun_ones() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("h", json!({"schedule": every("hour")})),
        daily("d", json!({"parents": [{"job": "h", "mapping": "all"}]})),
        daily("e", json!({"parents": [{"job": "d", "mapping": {"offset": 1}}]})),
    ]);
    world.events();
    plan(
        &mut world,
        rerun_spec(&ids[..1], Cascade::Logic, "2026-06-28T22:00:00.000Z", "2026-06-29T01:00:00.000Z"),
    );
    expect![[r#"
        rerun requested, 3 jobs
        planned from 1: h 2026-06-28 22:00 first; h 2026-06-28 23:00 first; h 2026-06-29 00:00 first; d 2026-06-29 00:00 first after [1, 2, 3]; h 2026-06-29 01:00 first; d 2026-06-30 00:00 first after [5]; e 2026-06-30 00:00 first after [4]; e 2026-07-01 00:00 first after [6]
        rerun planned, 8 batches
    "#]]
    .assert_eq(&world.told());
}

/// BYD-2, GEN-6: a rerun over closed days plans no batch for them: neither of its job nor of those that wait for it, and
/// what is planned for the day after them waits for what there is.
#[test]
fn closed_days_take_no_part_in_a_rerun() {
    let mut world = World::at("2026-07-08T10:10:00.000Z");
    let spec = json!({"name": "week", "holidays": ["2026-07-06"]});
    let calendar = Box::new(CalendarSpec::from_value(spec).unwrap());
    world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DefineCalendar { calendar }));
    let working = json!({"name": "week"});
    let ids = world.define(vec![
        daily("a", json!({"calendar": working})),
        daily("b", json!({"calendar": working, "parents": ["a"], "depends_on_past": true})),
        daily("moved", json!({"calendar": {"name": "week", "shift": "next"}})),
    ]);
    world.worker("w", 4, Script::Succeed);
    world.events();
    let days = ("2026-07-03T00:00:00.000Z", "2026-07-07T00:00:00.000Z");
    let rerun = plan(&mut world, rerun_spec(&ids[..1], Cascade::Logic, days.0, days.1));
    expect![[r#"
        rerun requested, 2 jobs
        skips jobs b from 2026-07-08 00:00 on: OwnPast
        planned from 1: a 2026-07-03 00:00 first; b 2026-07-03 00:00 first after [1]; a 2026-07-07 00:00 first; b 2026-07-07 00:00 first after [2, 3]
        rerun planned, 4 batches
    "#]].assert_eq(&world.told());
    approve(&mut world, rerun);
    expect![[r#"
        rerun approved
        ordered 1, 3
        ended 1: success
        ended 3: success
        ordered 2
        ended 2: success
        ordered 4
        ended 4: success
        rerun ended done
    "#]]
    .assert_eq(&of_rerun(&world.told()));
    // Days that are shifted keep their logical times, so they do take part.
    plan(&mut world, rerun_spec(&ids[2..], Cascade::Job, days.0, days.1));
    expect![[r#"
        rerun requested, 1 jobs
        planned from 1: moved 2026-07-03 00:00 first; moved 2026-07-04 00:00 first; moved 2026-07-05 00:00 first; moved 2026-07-06 00:00 first; moved 2026-07-07 00:00 first
        rerun planned, 5 batches
    "#]].assert_eq(&world.told());
    assert_eq!(world.folded(), world.partition);
}

/// GEN-6: what depends on rerun batches follows, whatever its logical time, up to now or as far as the request says; the plan
/// says from when on it leaves something out, and why.
#[test]
fn cascade_follows_what_depends_on_it_up_to_now() {
    let (one, last) = ("2026-06-30T01:00:00.000Z", "2026-06-30T23:00:00.000Z");
    let mut world = World::new();
    let ids = world.define(vec![
        job("h", json!({"schedule": every("hour")})),
        daily("report", json!({"parents": [{"job": "h", "mapping": "all"}], "depends_on_past": true})),
    ]);
    world.events();
    let planned = |world: &mut World, jobs: &[JobId], reach: Option<&str>, from: &str, to: &str| {
        plan(world, RerunSpec { reach: reach.map(at), ..rerun_spec(jobs, Cascade::Logic, from, to) });
        let told = world.told();
        let of = |word: &'static str| told.lines().filter(move |line| line.starts_with(word));
        let reports =
            of("planned from").flat_map(|line| line.split("; ")).filter(|line| line.contains("report"));
        let skips = of("skips jobs");
        reports.chain(skips).map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let all = (1..=23).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    assert_eq!(
        planned(&mut world, &ids[..1], None, one, last),
        format!("report 2026-07-01 00:00 first after [{all}]")
    );
    // The day of these hours is not over.
    let today = ("2026-07-01T08:00:00.000Z", "2026-07-01T09:00:00.000Z");
    expect!["skips jobs report from 2026-07-02 00:00 on: BeyondReach"].assert_eq(&planned(
        &mut world,
        &ids[..1],
        None,
        today.0,
        today.1,
    ));
    expect!["skips jobs report from 2026-07-01 00:00 on: BeyondReach"].assert_eq(&planned(
        &mut world,
        &ids[..1],
        Some(last),
        one,
        last,
    ));
    expect![[r#"
        planned from 1: report 2026-06-28 00:00 first
        skips jobs report from 2026-06-29 00:00 on: OwnPast"#]]
    .assert_eq(&planned(&mut world, &ids[1..], None, DAY[1], DAY[1]));
    assert_eq!(world.folded(), world.partition);
}

/// GEN-6: what a cascade would reach up to now is bounded, and refused by the bound's name; a narrower reach fits.
#[test]
fn cascade_that_reaches_too_far_is_refused_by_name() {
    let mut world = World::new();
    let yearly = json!({"cron": "0 0 0 1 4 ?", "zone": "UTC"});
    let minutely = json!({"cron": "0 * * * * ?", "zone": "UTC"});
    let child = |name: &str, mapping: &str| {
        job(name, json!({"schedule": minutely, "parents": [{"job": "year", "mapping": mapping}]}))
    };
    let ids = world.define(vec![
        job("year", json!({"schedule": yearly, "outputs": ["/y/${yyyy}"]})),
        child("latest", "latest"),
        job("later", json!({"schedule": yearly})),
        job("all", json!({"schedule": minutely, "parents": [{"job": "later", "mapping": "all"}]})),
        job("reads", json!({"schedule": minutely, "inputs": ["/y/${yyyy}"]})),
        job("makes", json!({"schedule": minutely, "outputs": ["/one"]})),
        job("takes", json!({"schedule": minutely, "inputs": ["/one"]})),
    ]);
    world.events();
    let april = "2026-04-01T00:00:00.000Z";
    let mut planned = |rerun_spec: RerunSpec| {
        let outcome = world.ask(ShardId::CATALOGUE, Command::Rerun(RerunCommand::Plan(Box::new(rerun_spec))));
        let told = world.told();
        let Outcome::Answered(Answer::Rerun { .. }) = outcome else { return rejection(&outcome) };
        told.lines().last().unwrap().to_owned()
    };
    let by_logic = rerun_spec(&ids[..1], Cascade::Logic, april, april);
    let narrow = RerunSpec { reach: Some(at("2026-04-01T00:09:00.000Z")), ..by_logic.clone() };
    assert_eq!(planned(narrow), "rerun planned, 11 batches");
    let told = planned(by_logic);
    assert!(told.contains("the number of batches of one plan is at its limit of 100000"), "{told}");
    let told = planned(rerun_spec(&ids[2..3], Cascade::Logic, "2025-04-01T00:00:00.000Z", april));
    assert!(told.contains("the number of logical times of g/all that one plan looks at"), "{told}");
    let told = planned(rerun_spec(&ids[..1], Cascade::Data, april, april));
    assert!(told.contains("the number of paths that one plan resolves"), "{told}");
    let one_path = rerun_spec(&ids[5..6], Cascade::Data, DAY[2], DAY[3]);
    let told = planned(RerunSpec { reach: Some(at(DAY[3])), ..one_path });
    assert!(told.contains("its batches wait for each other more than 1000000 times"), "{told}");
}

/// GEN-6: by data, paths are resolved for each logical time, with the definition's parameters: what reads yesterday's path
/// comes a day later, what reads the month's follows on all its days, a job reads what it made itself, and so on up to now;
/// text alone makes nobody a reader.
#[test]
fn cascade_by_data_matches_resolved_paths() {
    let mut world = World::new();
    let reads = |input: &str| json!({"inputs": [input]});
    let ids = world.define(vec![
        daily("w", json!({"outputs": ["/d/${yyyyMMdd}", "/m/${yyyyMM}"]})),
        daily("eve", json!({"inputs": ["/${param.lake}/${yyyyMMdd-1d}"], "parameters": {"lake": "d"}})),
        daily("month", reads("/m/${yyyyMM-1M}")),
        daily("never", reads("/d/${yyyyMMdd}00")),
        daily("sum", json!({"inputs": ["/sum/${yyyyMMdd-1d}"], "outputs": ["/sum/${yyyyMMdd}"]})),
        job("hand", reads("/d/${yyyyMMdd}")),
    ]);
    world.events();
    plan(&mut world, rerun_spec(&ids[..1], Cascade::Data, DAY[0], DAY[0]));
    expect![[r#"
        rerun requested, 4 jobs
        skips jobs month from 2026-07-02 00:00 on: BeyondReach
        planned from 1: w 2026-06-27 00:00 first; hand 2026-06-27 00:00 first after [1]; eve 2026-06-28 00:00 first after [1]; month 2026-07-01 00:00 first after [1]
        rerun planned, 4 batches
    "#]]
    .assert_eq(&world.told());
    plan(&mut world, rerun_spec(&ids[4..5], Cascade::Data, DAY[1], DAY[1]));
    expect![[r#"
        rerun requested, 1 jobs
        skips jobs sum from 2026-07-02 00:00 on: BeyondReach
        planned from 1: sum 2026-06-28 00:00 first; sum 2026-06-29 00:00 first after [1]; sum 2026-06-30 00:00 first after [2]; sum 2026-07-01 00:00 first after [3]
        rerun planned, 4 batches
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.folded(), world.partition);
}

/// GEN-6: paths of other logical times may lead round between jobs; those of the same logical time cannot be put in order,
/// and the plan is refused by name.
#[test]
fn cascade_by_data_goes_round_through_other_days_only() {
    for (shift, planned) in [("-1d", true), ("", false)] {
        let mut world = World::new();
        let of_b = format!("/b/${{yyyyMMdd{shift}}}");
        let ids = world.define(vec![
            daily("a", json!({"inputs": [of_b], "outputs": ["/a/${yyyyMMdd}"]})),
            daily("b", json!({"inputs": ["/a/${yyyyMMdd}"], "outputs": ["/b/${yyyyMMdd}"]})),
        ]);
        world.worker("w", 4, Script::Succeed);
        world.events();
        plan(&mut world, rerun_spec(&ids[..1], Cascade::Data, DAY[2], DAY[2]));
        let told = world.told();
        let days = "a 2026-06-29 00:00 first; b 2026-06-29 00:00 first after [1]; a 2026-06-30 00:00 first after [2]";
        assert_eq!(told.contains(days), planned, "{told}");
        assert_eq!(told.contains("rerun ended refused"), !planned, "{told}");
    }
}

/// GEN-6: what one batch comes after stands in one record, so it is bounded: a plan in which a batch reads what more than
/// 20,000 batches write is refused.
#[test]
fn batch_that_reads_of_too_many_is_refused() {
    for (from, is_planned) in [("2026-06-29T00:00:00.000Z", true), ("2026-06-16T00:00:00.000Z", false)] {
        let mut world = World::new();
        let minutely = json!({"cron": "0 * * * * ?", "zone": "UTC"});
        let ids = world.define(vec![
            job("w", json!({"schedule": minutely, "outputs": ["/data/latest"]})),
            daily("r", json!({"inputs": ["/data/latest"]})),
        ]);
        world.events();
        plan(&mut world, rerun_spec(&ids[..1], Cascade::Data, from, "2026-06-30T00:00:00.000Z"));
        let told = world.told();
        assert_eq!(told.contains("rerun planned"), is_planned, "from {from}");
        assert_eq!(told.contains("rerun ended refused"), !is_planned, "from {from}");
        assert!(world.largest < MAX_ENVELOPE_BYTES + MAX_DECISION_BYTES, "{}", world.largest);
    }
}

/// GEN-6: by data, what reads a path that a rerun job writes comes after it, whether or not it names it as parent.
#[test]
fn cascade_by_data_follows_paths() {
    let mut world = World::new();
    let ids = world.define(vec![
        daily("a", json!({"outputs": ["/a/${yyyyMMdd}"]})),
        daily("b", json!({"inputs": ["/a/${yyyyMMdd}"], "outputs": ["/b/${yyyyMMdd}"]})),
        daily("c", json!({"inputs": ["/b/${yyyyMMdd}"]})),
        daily("d", json!({"inputs": ["/other"], "parents": ["c"]})),
    ]);
    world.events();
    plan(&mut world, rerun_spec(&ids[..1], Cascade::Data, DAY[3], DAY[3]));
    expect![[r#"
        rerun requested, 3 jobs
        planned from 1: a 2026-06-30 00:00 first; b 2026-06-30 00:00 first after [1]; c 2026-06-30 00:00 first after [2]
        rerun planned, 3 batches
    "#]]
    .assert_eq(&world.told());
}

/// BYD-16: one batch and all after it: what waits for it later than the span takes part, too.
#[test]
fn reach_goes_on_behind_the_span() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("h", json!({"schedule": every("hour")})),
        daily("d", json!({"parents": [{"job": "h", "mapping": "all"}]})),
        daily("e", json!({"parents": [{"job": "d", "mapping": {"offset": 1}}]})),
    ]);
    world.events();
    let one = rerun_spec(&ids[..1], Cascade::Logic, "2026-06-28T22:00:00.000Z", "2026-06-28T22:00:00.000Z");
    plan(&mut world, RerunSpec { reach: Some(at("2026-07-01T10:10:00.000Z")), ..one });
    expect![[r#"
        rerun requested, 3 jobs
        planned from 1: h 2026-06-28 22:00 first; d 2026-06-29 00:00 first after [1]; e 2026-06-30 00:00 first after [2]
        rerun planned, 3 batches
    "#]]
    .assert_eq(&world.told());
}

/// GEN-8: enabled jobs of the period, all of them, those of a group, or by name; a job with an unfinished batch in
/// the span is left out, on record, and the administrators hear of it once.
#[test]
fn cold_start_leaves_out_jobs_with_unfinished_batches() {
    let mut world = World::new();
    let ids = world.define(vec![
        daily("a", json!({})),
        daily("b", json!({"parents": ["a"]})),
        daily("off", json!({"enabled": false})),
        job("hourly", json!({"schedule": every("hour")})),
    ]);
    let busy = world.batch(ids[0], Some(DAY[3]));
    world.events();
    for of in
        [ColdStartOf::All, ColdStartOf::Group("g".try_into().unwrap()), ColdStartOf::Jobs(ids[..2].to_vec())]
    {
        let rerun = plan(&mut world, cold(of, Period::Day, DAY[2], DAY[3]));
        let events = world.events();
        let skipped: Vec<String> = events
            .iter()
            .filter_map(|event| match event {
                Event::Rerun(RerunEvent::JobsSkipped { jobs, .. }) => {
                    Some(serde_json::to_string(jobs).unwrap())
                }
                _ => None,
            })
            .collect();
        let reason = json!({"unfinished": {"batch": busy, "logical_time": DAY[3]}});
        assert_eq!(skipped, [json!([{"job": ids[0], "reason": reason}]).to_string()]);
        let alarms = events.iter().filter(|event| {
            matches!(event, Event::Alarm(AlarmEvent::Raised { kind: AlarmKind::ColdStartSkipped, message, .. })
                if message.contains("g/a"))
        });
        assert_eq!(alarms.count(), 1);
        let planned = events.iter().find_map(|event| match event {
            Event::Rerun(RerunEvent::BatchesPlanned { batches, .. }) => {
                Some(batches.iter().map(|b| b.job).collect::<Vec<_>>())
            }
            _ => None,
        });
        assert_eq!(planned.unwrap(), [ids[1], ids[1]]);
        ask(&mut world, Command::Rerun(RerunCommand::Cancel { rerun, kill: false }));
        world.events();
    }
}

/// GEN-8, GEN-9: the plan says what a cold start runs: it does not also trigger the children of what it starts.
#[test]
fn cold_start_triggers_nothing_beyond_its_plan() {
    let mut world = World::new();
    let ids = world.define(vec![daily("a", json!({})), job("b", json!({"parents": ["a"]}))]);
    world.worker("w", 4, Script::Succeed);
    world.events();
    let mut start = cold(ColdStartOf::Jobs(ids[..1].to_vec()), Period::Day, DAY[3], DAY[3]);
    start.approve = true;
    plan(&mut world, start);
    let told = world.told();
    assert!(told.contains("b1 generated a 2026-06-30 00:00 run 1"), "{told}");
    assert!(!told.contains("generated b"), "{told}");
}

/// What cannot be requested is refused with its field, and changes nothing.
#[test]
fn impossible_rerun_specs_are_refused_by_name() {
    let (mut world, ids) = chain();
    world.define(vec![daily("off", json!({"enabled": false})), job("hand", json!({}))]);
    let (off, hand) = (JobId::mint(4, ShardId::CATALOGUE), JobId::mint(5, ShardId::CATALOGUE));
    world.events();
    let base = rerun_spec(&ids[..1], Cascade::Job, DAY[0], DAY[3]);
    let minutely =
        world.define(vec![job("m", json!({"schedule": {"cron": "0/10 * * * * ?", "zone": "UTC"}}))]);
    world.events();
    for (rerun_spec, refusal) in [
        (RerunSpec { to: at("2027-01-01T00:00:00.000Z"), ..base.clone() }, "to: "),
        (RerunSpec { from: at(DAY[3]), to: at(DAY[0]), ..base.clone() }, "from: "),
        (RerunSpec { concurrency: 0, ..base.clone() }, "concurrency: "),
        (RerunSpec { reason: "x".repeat(501), ..base.clone() }, "reason: "),
        (self::rerun_spec(&[], Cascade::Job, DAY[0], DAY[3]), "jobs: \"0\": must name"),
        (self::rerun_spec(&[JobId(7)], Cascade::Job, DAY[0], DAY[3]), "there is no job 7"),
        (cold(ColdStartOf::Jobs(vec![off]), Period::Day, DAY[0], DAY[3]), "is disabled"),
        (self::rerun_spec(&[hand], Cascade::Job, DAY[0], DAY[3]), "has no schedule"),
        (
            self::rerun_spec(&minutely, Cascade::Job, "2026-06-01T00:00:00.000Z", DAY[3]),
            "at its limit of 100000",
        ),
        (
            cold(ColdStartOf::Jobs(minutely.clone()), Period::Day, DAY[0], DAY[3]),
            "is not a job of period day",
        ),
    ] {
        let outcome = world.ask(ShardId::CATALOGUE, Command::Rerun(RerunCommand::Plan(Box::new(rerun_spec))));
        assert!(rejection(&outcome).contains(refusal), "{refusal}: {}", rejection(&outcome));
    }
    assert_eq!(world.told(), "");
}

/// DSP-1, GEN-6: a disabled job that is named is rerun, and the answer says that it is disabled; what comes after it and
/// is disabled is left out of a cascade, on record, and not waited for where it was not defined yet (DEP-3); a cold start
/// is for enabled jobs.
#[test]
fn disabled_job_is_rerun_where_it_is_named() {
    let (mut world, ids) = chain();
    world.worker("w", 4, Script::Succeed);
    for job in &ids[..2] {
        ask(&mut world, Command::Job(JobCommand::Switch { job: *job, enabled: false }));
    }
    world.events();
    let cascade = RerunSpec { approve: true, ..rerun_spec(&ids[..1], Cascade::Logic, DAY[3], DAY[3]) };
    let outcome = ask(&mut world, Command::Rerun(RerunCommand::Plan(Box::new(cascade))));
    let Outcome::Answered(Answer::Rerun { disabled, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(disabled, ids[..1]);
    expect![[r#"
        rerun requested, 3 jobs
        skips jobs b
        planned from 1: a 2026-06-30 00:00 first; c 2026-06-30 00:00 first
        rerun planned, 2 batches
        rerun approved
        ordered 1, 2
        ended 1: success
        ended 2: success
        rerun ended done
    "#]]
    .assert_eq(&of_rerun(&world.told()));
    let start = RerunSpec { approve: true, ..cold(ColdStartOf::All, Period::Day, DAY[2], DAY[2]) };
    plan(&mut world, start);
    assert!(of_rerun(&world.told()).contains("planned from 1: c 2026-06-29 00:00 first\n"));
    assert_eq!(world.folded(), world.partition);
}

/// A plan larger than one decision is made in steps, and a restart in any of them changes nothing.
#[test]
fn large_plan_is_made_in_bounded_steps() {
    let mut world = World::new();
    let cron = json!({"cron": "0 * * * * ?", "zone": "UTC"});
    let ids = world.define(vec![
        job("a", json!({"schedule": cron})),
        job("b", json!({"schedule": cron, "parents": ["a"]})),
    ]);
    world.events();
    plan(&mut world, rerun_spec(&ids[..1], Cascade::Logic, DAY[2], DAY[3]));
    let told = world.told();
    assert!(told.ends_with("rerun planned, 2882 batches\n"), "{}", &told[told.len() - 200..]);
    assert!(told.lines().filter(|line| line.starts_with("planned from")).count() >= 6);
    assert!(world.largest < 300_000, "{}", world.largest);
    assert_eq!(world.folded(), world.partition);
}
