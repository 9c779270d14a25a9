//! What people say of batches: marks, whatever state the batch is in, and what its children make of them.

use crate::kit::{GROUP, Script, World, at, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{AttemptResult, BatchCommand, BatchId, Command, JobId, Outcome, OverriddenResult};

const TEN: &str = "2026-07-01T10:00:00.000Z";

fn mark(world: &mut World, batch: BatchId, job: JobId, result: OverriddenResult, reason: &str) -> Outcome {
    let (logical_time, reason) = (at(TEN), reason.to_owned());
    world.ask(
        GROUP,
        Command::Batch(BatchCommand::OverrideResult { batch, job, logical_time, result, reason, run: None }),
    )
}

/// A parent without a worker, and its child, for 10:00.
fn pair(more: serde_json::Value) -> (World, Vec<JobId>, BatchId) {
    let mut world = World::new();
    let parent = job("p", more);
    let ids = world.define(vec![parent, job("c", json!({"parents": ["p"]}))]);
    let batch = world.batch(ids[0], Some(TEN));
    world.events();
    (world, ids, batch)
}

/// BYD-16: a waiting batch ends as it is marked, and skipped is for its children what success is.
#[test]
fn waiting_batch_ends_as_marked_and_its_children_go_on() {
    let (mut world, ids, batch) = pair(json!({}));
    assert_eq!(
        mark(&mut world, batch, ids[0], OverriddenResult::Skipped, "closed"),
        Outcome::Answered(tidemill_model::Answer::Done)
    );
    expect![[r#"
        b1 marked Skipped by ann: closed
        b1 finished skipped by ann
        b2 satisfied p 2026-07-01 10:00, unmet 0
    "#]]
    .assert_eq(&world.told());
}

/// BYD-16: what runs is killed first; then the mark stands, however the attempt ended.
#[test]
fn running_batch_is_killed_and_ends_as_marked() {
    let (mut world, ids, batch) = pair(json!({"retries": 3}));
    let worker = world.worker("w", 1, Script::Run);
    world.events();
    mark(&mut world, batch, ids[0], OverriddenResult::Failed, "wrong input");
    mark(&mut world, batch, ids[0], OverriddenResult::Success, "it was right after all");
    expect![[r#"
        b1 marked Failed by ann: wrong input
        b1 kill t1
        b1 attempt 1 Killed
        b1 finished failed by ann
        b2 blocked by p 2026-07-01 10:00, since 2026-07-01 10:10
        b1 marked Success by ann: it was right after all
        b2 satisfied p 2026-07-01 10:00, unmet 0
        b2 unblocked
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.played(&worker).running.len(), 1);
}

/// BYD-16: the last mark before the end stands, also over a kill that somebody asked for before.
#[test]
fn last_mark_stands_over_an_earlier_kill() {
    let mut world = World::new();
    let ids = world.define(vec![job("p", json!({}))]);
    let worker = world.worker("w", 1, Script::Silent);
    let batch = world.batch(ids[0], Some(TEN));
    let token = world.played(&worker).last_token();
    let request = world.played(&worker).request(token);
    world.say(request);
    world.kill(batch);
    world.events();
    mark(&mut world, batch, ids[0], OverriddenResult::Failed, "no");
    mark(&mut world, batch, ids[0], OverriddenResult::Skipped, "not needed");
    let finished = world.played(&worker).finished(token, AttemptResult::Success);
    world.say(finished);
    expect![[r#"
        b1 marked Failed by ann: no
        b1 marked Skipped by ann: not needed
        b1 attempt 1 Success
        b1 finished skipped by ann
    "#]]
    .assert_eq(&world.told());
}

/// BYD-16: a finished batch gets another result, which is withdrawn from its children or satisfies them, without
/// a second end; what a restart folds is the same.
#[test]
fn finished_batch_is_marked_and_its_children_hear_of_it() {
    let (mut world, ids, batch) = pair(json!({"type": "anchor"}));
    expect![""].assert_eq(&world.told());
    mark(&mut world, batch, ids[0], OverriddenResult::Failed, "the source was broken");
    assert_eq!(world.why_kinds(BatchId::mint(2, GROUP)), ["dependency"]);
    mark(&mut world, batch, ids[0], OverriddenResult::Failed, "again");
    mark(&mut world, batch, ids[0], OverriddenResult::Success, "mended");
    expect![[r#"
        b1 marked Failed by ann: the source was broken
        b2 withdrawn p 2026-07-01 10:00, unmet 1
        b2 blocked by p 2026-07-01 10:00, since 2026-07-01 10:10
        b1 marked Success by ann: mended
        b2 satisfied p 2026-07-01 10:00, unmet 0
        b2 unblocked
    "#]]
    .assert_eq(&world.told());
    assert!(world.folded() == world.partition);
}

/// BYD-16: a mark needs a reason, and a batch whose result counts; nothing changes where it is refused.
#[test]
fn mark_without_reason_or_of_an_older_run_is_refused() {
    let (mut world, ids, batch) = pair(json!({"type": "anchor"}));
    let long = "x".repeat(501);
    let mut told = String::new();
    for reason in ["", "  ", long.as_str()] {
        told += &rejection(&mark(&mut world, batch, ids[0], OverriddenResult::Failed, reason))
            .replace(&long[..200], "x*");
        told.push('\n');
    }
    let unknown = mark(&mut world, BatchId::mint(99, GROUP), ids[0], OverriddenResult::Failed, "no");
    world.rerun(batch, ids[0], TEN);
    let older = mark(&mut world, batch, ids[0], OverriddenResult::Failed, "no");
    told += &format!("{}\n{}\n", rejection(&unknown), rejection(&older));
    expect![[r#"
        invalid: reason: "": must be 1 to 500 characters: say why
        invalid: reason: "": must be 1 to 500 characters: say why
        invalid: reason: "x*": must be 1 to 500 characters: say why
        unknown: there is no batch 405505
        invalid: batch: "4097": is not the newest run of its logical time, which decides; mark batch 12289 (run 1)
    "#]].assert_eq(&told);
}

/// BYD-16, TMO-2: nobody is told that a batch is late whose work need not be done.
#[test]
fn skipped_batch_is_not_late() {
    let (mut world, ids, batch) = pair(json!({"output_timeout_s": 60}));
    world.kill(batch);
    mark(&mut world, batch, ids[0], OverriddenResult::Skipped, "holiday");
    world.events();
    world.pass_minutes(10);
    assert_eq!(world.told(), "");
}
