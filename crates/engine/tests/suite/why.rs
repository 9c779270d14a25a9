//! DEP-8: why is it not running? One condition of each kind, as people read it.

use crate::kit::{GROUP, Script, World, every, job};
use expect_test::{Expect, expect};
use serde_json::json;
use tidemill_model::{
    AttemptResult, BatchId, BatchState, Command, JobCommand, LiveAnswer, LiveQuery, ShardId,
};

fn check(world: &World, batch: BatchId, expected: Expect) {
    let lines: Vec<String> = world
        .why(batch)
        .iter()
        .map(|condition| {
            assert!(condition.since.is_some_and(|since| since <= world.wall), "{condition:?}");
            format!("{}: {}", condition.kind, condition.message)
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn waiting_for_parents() {
    let mut world = World::at("2026-07-01T21:30:00.000Z");
    world.define(vec![
        job("p", json!({"schedule": every("hour")})),
        job("q", json!({"schedule": every("day")})),
        job("any", json!({"schedule": every("day"), "parents": [{"job": "p", "mapping": "any"}, "q"]})),
        job("before", json!({"schedule": every("day"), "parents": [{"job": "q", "mapping": {"offset": 1}}]})),
    ]);
    world.worker("w", 1, Script::Fail);
    world.until("2026-07-02T00:01:00.000Z");
    let batches = [BatchId::mint(5, GROUP), BatchId::mint(6, GROUP)];
    check(
        &world,
        batches[0],
        expect![[r#"
            dependency: any of: waits for g/p of 2026-07-01T01:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T02:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T03:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T04:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T05:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T06:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T07:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T08:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T09:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T10:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T11:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T12:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T13:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T14:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T15:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T16:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T17:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T18:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T19:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T20:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T21:00:00.000Z: it skipped this time
            dependency: any of: waits for g/p of 2026-07-01T22:00:00.000Z: batch 4097 (run 0) failed
            dependency: any of: waits for g/p of 2026-07-01T23:00:00.000Z: batch 8193 (run 0) failed
            dependency: any of: waits for g/p of 2026-07-02T00:00:00.000Z: batch 12289 (run 0) failed
            dependency: waits for g/q of 2026-07-02T00:00:00.000Z: batch 16385 (run 0) failed"#]],
    );
    check(&world, batches[1], expect![""]);
    let condition = &world.why(batches[0])[0];
    assert!(condition.job.is_some() && condition.logical_time.is_some());
}

/// DEP-8, BYD-18: met without a failure, a batch that runs only on failure says whose end it waits for.
#[test]
fn waiting_for_a_failure() {
    let mut world = World::at("2026-07-01T00:30:00.000Z");
    let ids = world.define(vec![
        job("p", json!({"schedule": every("hour")})),
        job("any", json!({"schedule": every("day"), "parents": [{"job": "p", "mapping": "any"}], "run_if": "failure"})),
    ]);
    world.worker("w", 1, Script::Succeed);
    // What it owes is waited for while it is switched off.
    world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: ids[0], enabled: false }));
    for time in ["2026-07-01T22:00:00.000Z", "2026-07-01T23:00:00.000Z", "2026-07-02T00:00:00.000Z"] {
        world.batch(ids[0], Some(time));
    }
    world.until("2026-07-02T00:01:00.000Z");
    let lines: Vec<String> =
        world.why(BatchId::mint(4, GROUP)).into_iter().map(|found| found.message).collect();
    assert_eq!(lines.len(), 21, "three of the day's hours have ended: {lines:#?}");
    let first = "it runs only on failure, and waits for the end of g/p of 2026-07-01T01:00:00.000Z: it is disabled and has no batch yet";
    assert_eq!(lines[0], first);
}

#[test]
fn waiting_for_a_worker() {
    let mut world = World::new();
    let ids = world.define(vec![job("pinned", json!({"host": "there"}))]);
    let (_, batch) = world.submit(World::submission("s", &[]));
    check(&world, batch, expect!["no_worker: no worker of the group takes jobs of type noop"]);
    let pinned = world.batch(ids[0], None);
    check(&world, pinned, expect!["pinned_host: it is pinned to host there, where no worker takes noop"]);
    let worker = world.worker("w", 1, Script::Silent);
    check(
        &world,
        batch,
        expect!["not_started: worker w (host-w) has it and has until 2026-07-01T10:15:00.000Z to start it"],
    );
    let (_, second) = world.submit(World::submission("t", &[]));
    check(&world, second, expect!["no_slot: every slot for noop is taken"]);
    world.say(tidemill_model::Command::Worker(tidemill_model::WorkerCommand::Drain {
        worker: worker.clone(),
    }));
    check(&world, second, expect!["drained: every worker of its type is drained, leaving or lost"]);
    world.lost(&worker);
    check(&world, second, expect!["no_worker: no worker of the group takes jobs of type noop"]);
}

/// DEP-8: since when is when the condition began, and not when the batch came to wait: a parent's time since it was taken
/// back, and a worker since the last one left.
#[test]
fn since_is_when_the_condition_began() {
    let since = |world: &World, batch: BatchId| {
        let conditions = world.why(batch).into_iter();
        let told = conditions.map(|condition| format!("{} {}", condition.kind, condition.since.unwrap()));
        told.collect::<Vec<_>>()
    };
    let mut world = World::new();
    let parents = json!({"parents": ["a", "z"], "host": "there"});
    let ids = world.define(vec![job("a", json!({})), job("z", json!({})), job("b", parents)]);
    let time = "2026-07-01T00:00:00.000Z";
    let batches: Vec<BatchId> = ids[..2].iter().map(|id| world.batch(*id, Some(time))).collect();
    // Generated with the first of its parents.
    let child = BatchId::mint(2, GROUP);
    let (first, last) = (batches[0], batches[1]);
    let waits = ["dependency 2026-07-01T10:10:00.000Z", "dependency 2026-07-01T10:10:00.000Z"];
    assert_eq!(since(&world, child), waits);
    world.pass_minutes(1);
    let worker = world.worker("w", 9, Script::Succeed);
    assert_eq!(since(&world, child), ["pinned_host 2026-07-01T10:11:00.000Z"]);
    world.played(&worker).script = Script::Run;
    world.pass_minutes(1);
    world.rerun(first, ids[0], time);
    world.pass_minutes(1);
    world.rerun(last, ids[1], time);
    let waits = ["dependency 2026-07-01T10:12:00.000Z", "dependency 2026-07-01T10:13:00.000Z"];
    assert_eq!(since(&world, child), waits);
    let (_, batch) = world.submit(World::submission("s", &[]));
    assert_eq!(since(&world, batch), [""; 0]);
    world.pass_minutes(1);
    world.say(tidemill_model::Command::Worker(tidemill_model::WorkerCommand::Drain {
        worker: worker.clone(),
    }));
    world.pass_minutes(1);
    let (_, late) = world.submit(World::submission("t", &[]));
    assert_eq!(since(&world, late), ["drained 2026-07-01T10:15:00.000Z"]);
    world.say(tidemill_model::Command::Worker(tidemill_model::WorkerCommand::Resume {
        worker: worker.clone(),
    }));
    let limited = world.define(vec![job("p", json!({"host": "host-w", "type": "shell", "command": "true"}))]);
    world.played(&worker).script = Script::Silent;
    world.pass_minutes(1);
    world.say(tidemill_model::Command::Worker(tidemill_model::WorkerCommand::Drain {
        worker: worker.clone(),
    }));
    let early = world.batch(limited[0], Some(time));
    assert_eq!(since(&world, early), ["pinned_host 2026-07-01T10:16:00.000Z"]);
    let (_, last) = world.submit(World::submission("u", &[]));
    assert_eq!(since(&world, last), ["drained 2026-07-01T10:16:00.000Z"]);
    world.pass_minutes(1);
    world.lost(&worker);
    world.pass_minutes(1);
    assert_eq!(since(&world, last), ["no_worker 2026-07-01T10:17:00.000Z"]);
    assert_eq!(since(&world, early)[0], "pinned_host 2026-07-01T10:16:00.000Z");
    assert_eq!(world.folded(), world.partition);

    // Ready at 10:10, and it only waits for its turn since its worker is back.
    let mut world = World::new();
    let worker = world.worker("w", 1, Script::Run);
    world.say(tidemill_model::Command::Worker(tidemill_model::WorkerCommand::Drain {
        worker: worker.clone(),
    }));
    world.submit(World::submission("s", &[]));
    let (_, second) = world.submit(World::submission("t", &[]));
    assert_eq!(since(&world, second), ["drained 2026-07-01T10:10:00.000Z"]);
    world.pass_minutes(1);
    world.say(tidemill_model::Command::Worker(tidemill_model::WorkerCommand::Resume { worker }));
    assert_eq!(since(&world, second), ["no_slot 2026-07-01T10:11:00.000Z"]);
}

#[test]
fn waiting_for_the_limit_and_for_a_retry() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"retries": 1}))]);
    let worker = world.worker("w", 9, Script::Run);
    let first = world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    let second = world.batch(ids[0], Some("2026-07-01T01:00:00.000Z"));
    check(&world, first, expect![""]);
    check(&world, second, expect!["concurrency: concurrency limit 1 reached"]);
    let token = *world.played(&worker).running.keys().next().unwrap();
    let failed = world.played(&worker).finished(token, AttemptResult::Failed);
    world.say(failed);
    check(
        &world,
        first,
        expect!["retry_interval: attempt 1 failed; the next may start at 2026-07-01T10:11:00.000Z"],
    );
}

/// What runs waits for nothing, even if its parent runs again; what ended says how.
#[test]
fn running_and_finished_batches_wait_for_nothing() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({"parents": ["a"]}))]);
    let worker = world.worker("w", 1, Script::Succeed);
    let parent = world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    world.played(&worker).script = Script::Run;
    let child = BatchId::mint(2, GROUP);
    world.rerun(child, ids[1], "2026-07-01T00:00:00.000Z");
    let child = BatchId::mint(3, GROUP);
    world.rerun(parent, ids[0], "2026-07-01T00:00:00.000Z");
    check(&world, child, expect![[""]]);
    let LiveAnswer::Why(why) = world.partition.answer(GROUP, &LiveQuery::Why { batch: parent }) else {
        panic!("it is remembered")
    };
    assert_eq!(why.state, BatchState::Finished);
    assert_eq!(why.result, Some(tidemill_model::BatchResult::Success));
    let unknown = world.partition.answer(GROUP, &LiveQuery::Why { batch: BatchId(4097 * 99) });
    assert_eq!(unknown, LiveAnswer::NotFound);
}

/// The [S4] calls mean a job's newest batch.
#[test]
fn the_newest_batch_of_a_job_is_known() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    let query = LiveQuery::NewestBatch { job: ids[0] };
    assert_eq!(world.partition.answer(GROUP, &query), LiveAnswer::NewestBatch { batch: None, state: None });
    let batch = world.batch(ids[0], None);
    let newest = |state| LiveAnswer::NewestBatch { batch: Some(batch), state: Some(state) };
    assert_eq!(world.partition.answer(GROUP, &query), newest(BatchState::Waiting));
    world.worker("w", 1, Script::Succeed);
    assert_eq!(world.partition.answer(GROUP, &query), newest(BatchState::Finished));
}
