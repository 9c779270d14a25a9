//! EXE-12: workers that are told to stop: no new work, nothing of what they have not begun is left behind, and what they end
//! uses up no retry.

use crate::kit::{GROUP, Script, World, job};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptOutcome, AttemptResult, BatchId, Command, Heartbeat, Leaving, Token, WorkerCommand, WorkerId,
};

const STAYS: Leaving = Leaving { keeps_jobs: true, is_empty: false };
const ENDS: Leaving = Leaving { keeps_jobs: false, is_empty: false };
const EMPTY: Leaving = Leaving { keeps_jobs: false, is_empty: true };

/// A worker `w` with one attempt that runs and one assignment that it has not started; the job has no retry.
fn busy(reads: u32) -> (World, WorkerId, Token) {
    let mut world = World::of_level(reads);
    let ids =
        world.define(vec![job("a", json!({"max_concurrent": 2, "retries": 0, "retry_interval_s": 60}))]);
    let worker = world.worker("w", 2, Script::Run);
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    let token = world.played(&worker).last_token();
    world.played(&worker).script = Script::Silent;
    world.batch(ids[0], Some("2026-07-01T01:00:00.000Z"));
    world.events();
    (world, worker, token)
}

pub(crate) fn leaves(world: &mut World, worker: &WorkerId, leaving: Leaving) {
    let Command::Worker(WorkerCommand::Heartbeat(heartbeat)) = world.played(worker).heartbeat() else {
        panic!("a heartbeat")
    };
    let heartbeat = Heartbeat { leaving: Some(leaving), ..heartbeat };
    world.say(Command::Worker(WorkerCommand::Heartbeat(heartbeat)));
}

/// The end that a worker reports of an attempt which it ended because it was stopped.
pub(crate) fn interrupted(token: Token, worker: &WorkerId, result: AttemptResult) -> Command {
    Command::Worker(WorkerCommand::ReportFinished {
        token,
        worker: worker.clone(),
        outcome: AttemptOutcome::bare(result),
        usage: None,
        interrupted: true,
        external: None,
    })
}

/// What is not begun goes to another worker at once, and comes back to the next life, which is not excluded.
#[test]
fn leaving_worker_gives_up_what_it_has_not_begun() {
    let (mut world, worker, _) = busy(3);
    leaves(&mut world, &worker, STAYS);
    expect![[r#"
        w leaving, its jobs stay
        b2 returned t2: WorkerLeaving
    "#]]
    .assert_eq(&world.told());
    leaves(&mut world, &worker, STAYS);
    assert_eq!(world.told(), "", "it leaves once, and gets nothing again");
    let register = world.played(&worker).restart();
    world.say(register);
    expect![[r#"
        w registered 2
        b2 assigned t3 attempt 1 to w
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// With nothing left it is gone: it is not lost, no lease is waited for, and its next life works.
#[test]
fn worker_that_left_is_not_lost() {
    let (mut world, worker, token) = busy(3);
    leaves(&mut world, &worker, ENDS);
    world.events();
    leaves(&mut world, &worker, EMPTY);
    assert_eq!(world.told(), "", "an attempt runs there, whatever it says");
    let end = world.played(&worker).finished(token, AttemptResult::Success);
    world.say(end);
    world.events();
    leaves(&mut world, &worker, EMPTY);
    expect![[r#"
        w left
    "#]]
    .assert_eq(&world.told());
    world.lost(&worker);
    world.lease_over(&worker);
    assert_eq!(world.told(), "");
    let register = world.played(&worker).restart();
    world.say(register);
    expect![[r#"
        w registered 2
        b2 assigned t3 attempt 1 to w
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// A grant that its worker never got is given back uncounted when the worker has left; where a start is on record, only
/// the lease ends it.
#[test]
fn grant_that_was_not_heard_ends_with_the_worker_that_left() {
    let mut world = World::of_level(3);
    let ids = world.define(vec![job("a", json!({"retries": 0}))]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    let token = world.played(&worker).last_token();
    let request = world.played(&worker).request(token);
    world.say(request);
    world.events();
    leaves(&mut world, &worker, EMPTY);
    expect![[r#"
        w leaving
        w left
        b1 returned t1: WorkerLeaving
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// The same of one whose end was asked for: its attempt ends as killed, and so does the batch.
#[test]
fn killed_grant_that_was_not_heard_ends_with_the_worker_that_left() {
    let mut world = World::of_level(3);
    let ids = world.define(vec![job("a", json!({"retries": 3}))]);
    let worker = world.worker("w", 1, Script::Silent);
    let batch = world.batch(ids[0], None);
    let token = world.played(&worker).last_token();
    let request = world.played(&worker).request(token);
    world.say(request);
    world.kill(batch);
    world.events();
    leaves(&mut world, &worker, EMPTY);
    expect![[r#"
        w leaving
        w left
        b1 external work of t1 unconfirmed
        b1 attempt 1 Killed
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// OPS-5: what a restore holds may have begun in what is lost, so a word of its worker that nothing is left does not make it
/// *not begun*.
#[test]
fn what_a_restore_holds_is_not_over_with_its_worker() {
    let mut world = World::of_level(3);
    let ids = world.define(vec![job("a", json!({"retries": 0}))]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    world.restored(1_000);
    let registration = world.played(&worker).registration();
    world.say(Command::Worker(WorkerCommand::Register(Box::new(registration))));
    world.events();
    leaves(&mut world, &worker, EMPTY);
    expect![[r#"
        w leaving
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// What a worker held that has left is taken back as that, also where its next life registers before it is.
#[test]
fn next_life_takes_nothing_back_that_the_last_one_has_left() {
    let mut world = World::of_level(3);
    let ids = world.define(vec![job("a", json!({"retries": 0}))]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    let token = world.played(&worker).last_token();
    let request = world.played(&worker).request(token);
    world.say(request);
    world.events();
    let Command::Worker(WorkerCommand::Heartbeat(heartbeat)) = world.played(&worker).heartbeat() else {
        panic!("a heartbeat")
    };
    let left = Heartbeat { leaving: Some(EMPTY), ..heartbeat };
    world.send(GROUP, Command::Worker(WorkerCommand::Heartbeat(left)));
    let again = world.played(&worker).restart();
    world.send(GROUP, again);
    world.run();
    let told = world.told();
    let expected = "w leaving\nw left\nw registered 2\nb1 returned t1: WorkerLeaving\nb1 assigned";
    assert!(told.starts_with(expected), "{told}");
    assert_eq!(world.partition, world.folded());
}

/// JOB-8: what a leaving worker has not been granted of final commands goes to another one, and so do those that become due
/// meanwhile; what it was granted stays.
#[test]
fn final_command_goes_to_another_worker_than_one_that_leaves() {
    for is_due_before in [true, false] {
        let mut world = World::of_level(3);
        let ids = world.define(vec![job("a", json!({"final_command": "true"}))]);
        let worker = world.worker("w", 1, Script::Run);
        world.batch(ids[0], None);
        let token = world.played(&worker).last_token();
        world.played(&worker).script = Script::Silent;
        let end = world.played(&worker).finished(token, AttemptResult::Success);
        world.events();
        if is_due_before {
            world.say(end);
            leaves(&mut world, &worker, ENDS);
        } else {
            leaves(&mut world, &worker, ENDS);
            world.say(end);
        }
        let told = world.told();
        assert!(!told.contains("final command not"), "{told}");
        world.worker("x", 1, Script::Succeed);
        let told = world.told();
        assert!(told.contains("to x\n") && told.contains("b1 final command success"), "{told}");
        assert_eq!(world.partition, world.folded());
    }
}

/// Silent and holding nothing, it has left; with an attempt that stays, it is lost, and its lease counts.
#[test]
fn silence_of_a_leaving_worker_is_its_end() {
    let (mut world, worker, token) = busy(3);
    leaves(&mut world, &worker, STAYS);
    world.events();
    world.lost(&worker);
    expect![[r#"
        w lost
    "#]]
    .assert_eq(&world.told());
    let (mut world, worker, again) = busy(3);
    assert_eq!(token, again);
    leaves(&mut world, &worker, ENDS);
    let end = world.played(&worker).finished(again, AttemptResult::Success);
    world.say(end);
    world.events();
    world.lost(&worker);
    expect![[r#"
        w left
    "#]]
    .assert_eq(&world.told());
}

/// What a worker ended because it was stopped is tried again at once, without a retry. What ended by itself uses one up, also
/// while its worker leaves; so does what somebody else ended.
#[test]
fn stopped_attempt_uses_no_retry() {
    let (mut world, worker, token) = busy(3);
    leaves(&mut world, &worker, ENDS);
    world.events();
    world.say(interrupted(token, &worker, AttemptResult::Lost));
    expect![[r#"
        b1 interrupted t1
        b1 attempt 1 Lost
        b1 retry 2 at 2026-07-01 10:10
        b1 retry due
    "#]]
    .assert_eq(&world.told());
    let register = world.played(&worker).restart();
    world.played(&worker).script = Script::Fail;
    world.say(register);
    let told = world.told();
    assert!(told.contains("b1 attempt 2 Failed\nb1 finished failed\n"), "{told}");
    assert_eq!(world.partition, world.folded());

    let (mut world, worker, token) = busy(3);
    leaves(&mut world, &worker, ENDS);
    let end = world.played(&worker).finished(token, AttemptResult::Failed);
    world.say(end);
    let told = world.told();
    assert!(told.contains("b1 attempt 1 Failed\nb1 finished failed\n"), "{told}");

    // Somebody else has sent the signal: the worker works on.
    let (mut world, worker, token) = busy(3);
    world.say(interrupted(token, &worker, AttemptResult::Lost));
    let told = world.told();
    assert!(told.contains("b1 attempt 1 Lost\nb1 finished failed\n"), "{told}");

    let (mut world, worker, token) = busy(3);
    world.kill(BatchId::mint(1, GROUP));
    world.say(interrupted(token, &worker, AttemptResult::Lost));
    let told = world.told();
    assert!(!told.contains("interrupted") && told.contains("b1 finished killed"), "{told}");
}

/// Only what is lost can be interrupted: a worker cannot have what failed excused.
#[test]
fn failed_attempt_is_not_excused() {
    let (mut world, worker, token) = busy(3);
    world.say(interrupted(token, &worker, AttemptResult::Failed));
    let told = world.told();
    assert!(!told.contains("interrupted") && told.contains("b1 finished failed"), "{told}");
}

/// Rule 13: below level 3 nothing of it is recorded: a leaving worker is as before, and what it ended is lost.
#[test]
fn nothing_of_leaving_is_recorded_below_level_3() {
    let (mut world, worker, token) = busy(2);
    leaves(&mut world, &worker, ENDS);
    assert_eq!(world.told(), "");
    world.say(interrupted(token, &worker, AttemptResult::Lost));
    expect![[r#"
        b1 attempt 1 Lost
        b1 finished failed
    "#]]
    .assert_eq(&world.told());
    leaves(&mut world, &worker, EMPTY);
    assert_eq!(world.told(), "");
}

/// EXE-1: what a machine lacks sends a batch to another worker; the same one is not asked again at once, where no other is there.
#[test]
fn batch_whose_resources_are_lacking_goes_elsewhere_or_waits() {
    let lacking = |world: &mut World, worker: &WorkerId| {
        let token = world.played(worker).last_token();
        world.say(Command::Worker(WorkerCommand::RejectAssignment {
            lacks_resources: true,
            token,
            worker: worker.clone(),
            nonce: None,
            reason: "it needs 9 MiB of memory, and 8 MiB are free".to_owned(),
        }));
    };
    let mut world = World::of_level(3);
    let ids = world.define(vec![job("a", json!({}))]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    world.events();
    lacking(&mut world, &worker);
    expect![[r#"
        b1 returned t1: LacksResources("it needs 9 MiB of memory, and 8 MiB are free")
    "#]]
    .assert_eq(&world.told());
    world.worker("x", 1, Script::Succeed);
    let told = world.told();
    assert!(!told.contains("assigned"), "it pauses: {told}");
    assert_eq!(world.partition, world.folded());

    let mut world = World::of_level(3);
    let ids = world.define(vec![job("a", json!({}))]);
    let worker = world.worker("w", 2, Script::Silent);
    world.worker("x", 1, Script::Succeed);
    world.batch(ids[0], None);
    world.events();
    lacking(&mut world, &worker);
    let told = world.told();
    assert!(told.contains("b1 assigned t2 attempt 1 to x"), "{told}");
}
