//! BYD-18: what batches do when a parent failed for good.

use crate::kit::{GROUP, Script, World, at, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    Answer, AttemptResult, BatchCommand, BatchEvent, BatchId, Cascade, Command, Event, GroupSettings, JobId,
    JobSpec, LiveAnswer, LiveQuery, Outcome, OverriddenResult, PartitionEvent, RerunCommand, RerunDefinition,
    RerunOnly, RerunOrder, RerunScope, RerunSpec, ShardId, Waiver,
};

/// The shard of another group, whose jobs no worker takes.
const OTHER: ShardId = ShardId(2);
const TEN: &str = "2026-07-01T10:00:00.000Z";

/// A parent, and one child of each kind, of a type that no worker takes.
fn family() -> (World, Vec<JobId>, BatchId) {
    let mut world = World::new();
    let child = |name: &str, more: serde_json::Value| {
        let mut fields = json!({"parents": ["p"], "type": "python", "command": "x"});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job(name, fields)
    };
    let ids = world.define(vec![
        job("p", json!({"type": "python", "command": "x"})),
        child("waits", json!({})),
        child("fails", json!({"on_parent_failure": "fail"})),
        child("skips", json!({"on_parent_failure": "skip"})),
        child("runs", json!({"on_parent_failure": "run"})),
        child("rescues", json!({"run_if": "failure"})),
    ]);
    let batch = world.batch(ids[0], Some(TEN));
    world.events();
    (world, ids, batch)
}

fn kinds(world: &World, nth: u64) -> Vec<String> {
    world.why_kinds(BatchId::mint(nth, GROUP))
}

fn blocked(world: &World, nth: u64) -> Option<tidemill_model::Condition> {
    let batch = BatchId::mint(nth, GROUP);
    match world.partition.answer(GROUP, &LiveQuery::Why { batch }) {
        LiveAnswer::Why(why) => why.blocked,
        other => panic!("{other:?}"),
    }
}

fn mark(world: &mut World, batch: BatchId, job: JobId, result: OverriddenResult) {
    let (logical_time, reason) = (at(TEN), "as seen".to_owned());
    world.ask(
        GROUP,
        Command::Batch(BatchCommand::OverrideResult { batch, job, logical_time, result, reason, run: None }),
    );
}

/// A parent that failed for good: its children wait, fail, are skipped, run, or run because of it.
#[test]
fn children_do_what_their_jobs_say_when_a_parent_failed() {
    let (mut world, _, batch) = family();
    world.kill(batch);
    expect![[r#"
        b1 finished killed by ann
        b5 satisfied p 2026-07-01 10:00, unmet 0
        b6 satisfied p 2026-07-01 10:00, unmet 0
        b3 finished failed
        b4 finished skipped
        b2 blocked by p 2026-07-01 10:00, since 2026-07-01 10:10
    "#]]
    .assert_eq(&world.told());
    assert_eq!([2, 5, 6].map(|nth| kinds(&world, nth)), [["dependency"], ["no_worker"], ["no_worker"]]);
    assert!(world.folded() == world.partition);
}

/// A parent that succeeded: what runs on failure only is skipped, and is for its own children what success is.
#[test]
fn what_runs_on_failure_is_skipped_after_success() {
    let (mut world, ids, batch) = family();
    mark(&mut world, batch, ids[0], OverriddenResult::Success);
    expect![[r#"
        b1 marked Success by ann: as seen
        b1 finished success by ann
        b2 satisfied p 2026-07-01 10:00, unmet 0
        b3 satisfied p 2026-07-01 10:00, unmet 0
        b4 satisfied p 2026-07-01 10:00, unmet 0
        b5 satisfied p 2026-07-01 10:00, unmet 0
        b6 satisfied p 2026-07-01 10:00, unmet 0
        b6 finished skipped
    "#]]
    .assert_eq(&world.told());
    assert_eq!([2, 3, 4, 5].map(|nth| kinds(&world, nth)), [["no_worker"]; 4]);
}

/// Nothing is for good: a parent that runs again takes back what was ready, and a mark turns what it failed into
/// success, after which what runs on failure has nothing to do.
#[test]
fn parent_that_runs_again_is_waited_for_again() {
    let (mut world, ids, batch) = family();
    world.kill(batch);
    world.events();
    world.rerun(batch, ids[0], TEN);
    expect![[r#"
        b7 generated p 2026-07-01 10:00 run 1
        b5 withdrawn p 2026-07-01 10:00, unmet 1
        b6 withdrawn p 2026-07-01 10:00, unmet 1
        b2 unblocked
    "#]]
    .assert_eq(&world.told());
    let again = BatchId::mint(7, GROUP);
    world.kill(again);
    mark(&mut world, again, ids[0], OverriddenResult::Success);
    expect![[r#"
        b7 finished killed by ann
        b5 satisfied p 2026-07-01 10:00, unmet 0
        b6 satisfied p 2026-07-01 10:00, unmet 0
        b2 blocked by p 2026-07-01 10:00, since 2026-07-01 10:10
        b7 marked Success by ann: as seen
        b2 satisfied p 2026-07-01 10:00, unmet 0
        b6 finished skipped
        b2 unblocked
    "#]]
    .assert_eq(&world.told());
    assert!(world.folded() == world.partition);
}

/// DEP-8: while a failed parent keeps a subtree waiting, each batch of it says so once; a rerun, a mark or an override ends
/// it, and what another parent blocks then says so since the same moment.
#[test]
fn a_failed_parent_blocks_its_subtree() {
    let mut world = World::new();
    let python = |name: &str, parents: serde_json::Value| {
        job(name, json!({"parents": parents, "type": "python", "command": "x"}))
    };
    let ids = world.define(vec![
        python("p", json!([])),
        python("q", json!([])),
        python("c", json!(["p", "q"])),
        python("g", json!(["c"])),
    ]);
    let parents: Vec<BatchId> = ids[..2].iter().map(|id| world.batch(*id, Some(TEN))).collect();
    world.events();
    for batch in &parents {
        world.pass_minutes(1);
        world.kill(*batch);
    }
    expect![[r#"
        b1 finished killed by ann
        b2 blocked by p 2026-07-01 10:00, since 2026-07-01 10:11
        b3 blocked by c 2026-07-01 10:00, since 2026-07-01 10:11
        b4 finished killed by ann
    "#]]
    .assert_eq(&world.told());
    let message = |world: &World, nth: u64| blocked(world, nth).map(|condition| condition.message);
    expect!["blocked by a failed parent: g/c of 2026-07-01T10:00:00.000Z: it is blocked itself, by g/p of 2026-07-01T10:00:00.000Z: batch 4097 (run 0) killed"].assert_eq(&message(&world, 3).unwrap());
    world.pass_minutes(1);
    mark(&mut world, parents[0], ids[0], OverriddenResult::Success);
    expect![[r#"
        b1 marked Success by ann: as seen
        b2 satisfied p 2026-07-01 10:00, unmet 1
        b2 blocked by q 2026-07-01 10:00, since 2026-07-01 10:11
    "#]]
    .assert_eq(&world.told());
    world.rerun(parents[1], ids[1], TEN);
    expect![[r#"
        b5 generated q 2026-07-01 10:00 run 1
        b2 unblocked
        b3 unblocked
    "#]]
    .assert_eq(&world.told());
    assert_eq!(blocked(&world, 2), None);
    world.pass_minutes(1);
    world.kill(BatchId::mint(5, GROUP));
    expect![[r#"
        b5 finished killed by ann
        b2 blocked by q 2026-07-01 10:00, since 2026-07-01 10:14
        b3 blocked by c 2026-07-01 10:00, since 2026-07-01 10:14
    "#]]
    .assert_eq(&world.told());
    assert_eq!(blocked(&world, 2).unwrap().since, Some(at("2026-07-01T10:14:00.000Z")));
    let (what, reason) = (Waiver::All, "they do without".to_owned());
    let batch = BatchId::mint(2, GROUP);
    world.ask(GROUP, Command::Batch(BatchCommand::OverrideDependency { batch, what, reason }));
    expect![[r#"
        b2 runs without q, unmet 0: they do without
        b2 unblocked
        b3 unblocked
    "#]]
    .assert_eq(&world.told());
    assert!(world.folded() == world.partition);
}

/// What runs already goes on; once it waits for its next attempt, its failed parent counts.
#[test]
fn what_runs_goes_on_until_it_waits_again() {
    let mut world = World::new();
    let child = json!({"parents": ["p"], "on_parent_failure": "fail", "retries": 2, "retry_interval_s": 60});
    let ids = world.define(vec![job("p", json!({"type": "anchor"})), job("c", child)]);
    let worker = world.worker("w", 1, Script::Run);
    let batch = world.batch(ids[0], Some(TEN));
    mark(&mut world, batch, ids[0], OverriddenResult::Failed);
    world.events();
    let token = world.played(&worker).last_token();
    let failed = world.played(&worker).finished(token, AttemptResult::Failed);
    world.say(failed);
    expect![[r#"
        b2 attempt 1 Failed
        b2 retry 2 at 2026-07-01 10:11
        b2 finished failed
    "#]]
    .assert_eq(&world.told());
}

/// `any` is lost only when all of its times are, or were skipped; a batch generated after its parent failed is ended at once; the own
/// past is waited for whatever the rule.
#[test]
fn mappings_are_lost_when_they_cannot_be_met() {
    let mut world = World::at("2026-07-01T01:59:00.000Z");
    let hourly =
        json!({"schedule": {"cron": "0 0 * * * ?", "zone": "UTC"}, "type": "python", "command": "x"});
    let daily = |mapping: &str, past: bool| {
        json!({
            "schedule": {"cron": "0 30 2 * * ?", "zone": "UTC"}, "type": "python", "command": "x",
            "parents": [{"job": "h", "mapping": mapping}], "on_parent_failure": "skip", "depends_on_past": past,
        })
    };
    let ids = world.define(vec![
        job("h", hourly),
        job("all", daily("all", false)),
        job("any", daily("any", false)),
        job("past", daily("latest", true)),
    ]);
    world.until("2026-07-01T02:00:00.000Z");
    world.kill(BatchId::mint(1, GROUP));
    world.events();
    world.until("2026-07-01T02:30:00.000Z");
    let told = world.told();
    assert!(told.contains("finished skipped"), "{told}");
    assert_eq!(
        told.matches("finished skipped").count(),
        3,
        "what was before the parent was there is lost: {told}"
    );
    assert_eq!(ids.len(), 4);
}

/// What a worker has not started yet when its parent is marked well after all is not started: there is no failure.
#[test]
fn what_runs_on_failure_is_not_started_once_the_failure_is_gone() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("p", json!({"type": "python", "command": "x"})),
        job("rescues", json!({"parents": ["p"], "run_if": "failure"})),
    ]);
    let worker = world.worker("w", 1, Script::Silent);
    let batch = world.batch(ids[0], Some(TEN));
    mark(&mut world, batch, ids[0], OverriddenResult::Failed);
    mark(&mut world, batch, ids[0], OverriddenResult::Success);
    world.events();
    let token = world.played(&worker).last_token();
    let asks = world.played(&worker).request(token);
    world.say(asks);
    expect![[r#"
        b2 returned t1: Rejected("something that it waits for was withdrawn")
        b2 finished skipped
    "#]]
    .assert_eq(&world.told());
    assert!(world.folded() == world.partition);
}

/// DEP-7: somebody lets it run without a parent that is still open; whether another one failed does not matter then.
#[test]
fn who_lets_it_run_without_a_parent_lets_it_run_without_a_failure() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("p", json!({"type": "anchor"})),
        job("q", json!({"type": "python", "command": "x"})),
        job("rescues", json!({"type": "python", "command": "x", "parents": ["p", "q"], "run_if": "failure"})),
    ]);
    world.batch(ids[1], Some(TEN));
    world.batch(ids[0], Some(TEN));
    let batch = BatchId::mint(2, GROUP);
    world.events();
    let (what, reason) = (Waiver::Parent { job: ids[1], logical_time: None }, "q hangs".to_owned());
    world.ask(GROUP, Command::Batch(BatchCommand::OverrideDependency { batch, what, reason }));
    expect![[r#"
        b2 runs without q, unmet 0: q hangs
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.why_kinds(batch), ["no_worker"]);
    assert!(world.folded() == world.partition);
}

/// A parent in another group: its children hear of its end, and of its rerun, as they would in their own.
#[test]
fn children_of_a_parent_in_another_group_do_what_their_jobs_say() {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    let child = |name: &str, more: serde_json::Value| {
        let mut fields = json!({"group": "h", "parents": ["g/p"], "type": "python", "command": "x"});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job(name, fields)
    };
    let jobs: Vec<JobSpec> = vec![
        job("p", json!({"type": "python", "command": "x"})),
        child("waits", json!({})),
        child("fails", json!({"on_parent_failure": "fail"})),
        child("skips", json!({"on_parent_failure": "skip"})),
        child("runs", json!({"on_parent_failure": "run"})),
        child("rescues", json!({"run_if": "failure"})),
    ];
    let ids = world.define(jobs);
    let batch = world.batch(ids[0], Some(TEN));
    world.events();
    world.kill(batch);
    expect![[r#"
        b1 finished killed by ann
        heard p: 2026-07-01 10:00 run 0 killed
        b4 satisfied p 2026-07-01 10:00, unmet 0
        b5 satisfied p 2026-07-01 10:00, unmet 0
        b2 finished failed
        b3 finished skipped
        b1 blocked by p 2026-07-01 10:00, since 2026-07-01 10:10
    "#]]
    .assert_eq(&world.told());
    assert_eq!(
        said_of(&world, 1),
        "waits for g/p of 2026-07-01T10:00:00.000Z: its group last said that batch 4097 (run 0) killed"
    );
    assert_eq!(said_of(&world, 5), "no worker of the group takes jobs of type python");
    world.rerun(batch, ids[0], TEN);
    expect![[r#"
        b2 generated p 2026-07-01 10:00 run 1
        heard p: 2026-07-01 10:00 run 1 -
        heard p generated: 2026-07-01 10:00, left out 0
        b4 withdrawn p 2026-07-01 10:00, unmet 1
        b5 withdrawn p 2026-07-01 10:00, unmet 1
        b1 unblocked
    "#]]
    .assert_eq(&world.told());
    mark(&mut world, BatchId::mint(2, GROUP), ids[0], OverriddenResult::Success);
    expect![[r#"
        b2 marked Success by ann: as seen
        b2 finished success by ann
        heard p: 2026-07-01 10:00 run 1 success
        b1 satisfied p 2026-07-01 10:00, unmet 0
        b4 satisfied p 2026-07-01 10:00, unmet 0
        b5 satisfied p 2026-07-01 10:00, unmet 0
        b5 finished skipped
    "#]]
    .assert_eq(&world.told());
    assert!(world.folded() == world.partition);
}

/// What keeps a batch of the other group back.
fn said_of(world: &World, nth: u64) -> String {
    match world.partition.answer(OTHER, &LiveQuery::Why { batch: BatchId::mint(nth, OTHER) }) {
        LiveAnswer::Why(why) => why.conditions.into_iter().map(|condition| condition.message).collect(),
        other => panic!("{other:?}"),
    }
}

/// A parent of another group that failed so long ago that its shard keeps no more than that: the child hears it all the
/// same, and ends.
#[test]
fn a_failure_that_left_the_history_is_heard_across_groups() {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    let child =
        json!({"parents": ["h/p"], "schedule": crate::kit::every("hour"), "on_parent_failure": "fail"});
    let ids = world.define(vec![job("p", json!({"group": "h", "type": "anchor"})), job("c", child)]);
    let hour =
        |n: i64| at("2026-06-01T00:00:00.000Z").checked_add(jiff::SignedDuration::from_hours(n)).unwrap();
    for n in 0..60 {
        let (job, parameters) = (ids[0], std::collections::BTreeMap::new());
        let outcome = world.ask(
            OTHER,
            Command::Batch(BatchCommand::RunJob {
                job,
                logical_time: Some(hour(n)),
                parameters,
                concurrent: true,
            }),
        );
        let Outcome::Answered(Answer::Generated { batch, .. }) = outcome else { panic!("{outcome:?}") };
        if n == 2 {
            let (logical_time, reason) = (hour(2), "as seen".to_owned());
            let result = OverriddenResult::Failed;
            world.ask(
                OTHER,
                Command::Batch(BatchCommand::OverrideResult {
                    batch,
                    job,
                    logical_time,
                    result,
                    reason,
                    run: None,
                }),
            );
        }
    }
    let evicted = |event: &Event| matches!(event, Event::Partition(PartitionEvent::HistoryEvicted { upto, .. }) if *upto >= hour(2));
    assert!(world.events().iter().any(evicted));
    world.batch(ids[1], Some(&hour(2).to_string()));
    expect![[r#"
        b1 generated c 2026-06-01 02:00 run 1, of p 0/1
        p watched by 1: 2026-06-01 02:00
        heard p: 2026-06-01 02:00 run 0 failed
        b1 finished failed
        p unwatched by 1: 2026-06-01 02:00
    "#]]
    .assert_eq(&world.told());
}

/// GEN-8: a rerun by the recorded definition waits as that one says, though today's says otherwise.
#[test]
fn recorded_definition_says_what_a_rerun_waits_for() {
    const DAY: &str = "2026-06-28T00:00:00.000Z";
    let daily = |name: &str, more: serde_json::Value| {
        let mut fields = json!({"type": "python", "command": "x", "schedule": crate::kit::every("day")});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job(name, fields)
    };
    let child = |rule: &str| daily("c", json!({"parents": ["p"], "on_parent_failure": rule}));
    for (definition, expected) in [(RerunDefinition::Recorded, (1, 1)), (RerunDefinition::Today, (2, 0))] {
        let mut world = World::new();
        let ids = world.define(vec![daily("p", json!({})), child("run")]);
        let (parent, batch) = (world.batch(ids[0], Some(DAY)), world.batch(ids[1], Some(DAY)));
        world.kill(parent);
        world.kill(batch);
        world.define(vec![child("wait")]);
        world.events();
        let request = RerunSpec {
            scope: RerunScope::Rerun { jobs: vec![ids[1]], cascade: Cascade::Job },
            from: at(DAY),
            to: at("2026-06-29T00:00:00.000Z"),
            reach: None,
            only: RerunOnly::All,
            order: RerunOrder::Oldest,
            concurrency: 1,
            definition,
            reason: "again".to_owned(),
            approve: true,
        };
        world.ask(ShardId::CATALOGUE, Command::Rerun(RerunCommand::Plan(Box::new(request))));
        let generated = world.events().into_iter().find_map(|event| match event {
            Event::Batch(BatchEvent::Generated { version, dependencies, .. }) => {
                Some((version, dependencies[0].met.len()))
            }
            _ => None,
        });
        assert_eq!(generated, Some(expected));
        assert!(world.folded() == world.partition);
    }
}

/// JOB-1: a rule without parents, or two that say different things, are refused.
#[test]
fn rules_without_parents_or_meaning_are_refused() {
    let refused = |more: serde_json::Value| {
        let jobs = vec![job("p", json!({})), job("a", more)];
        rejection(&World::new().apply(jobs)) + "\n"
    };
    let told = [
        refused(json!({"on_parent_failure": "skip"})),
        refused(json!({"run_if": "failure", "depends_on_past": true})),
        refused(json!({"parents": ["p"], "run_if": "failure", "on_parent_failure": "run"})),
    ]
    .concat();
    expect![[r#"
        invalid: jobs[1].on_parent_failure: "skip": is for jobs with parents; name some, or leave it out
        invalid: jobs[1].run_if: "failure": is for jobs with parents; name some, or leave it out
        invalid: jobs[1].run_if: "failure": says what a failed parent does already; leave on_parent_failure out
    "#]].assert_eq(&told);
}
