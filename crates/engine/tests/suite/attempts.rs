//! From assignment to result: handshake, retries, kill, reassignment.

use crate::kit::{GROUP, Script, World, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptResult, BatchCommand, BatchId, Command, Incarnation, JobId, Nonce, Outcome, StartRequest, Token,
    WorkMessage, WorkerCommand, WorkerId,
};

/// A batch, assigned to a worker for which the test speaks.
fn assigned() -> (World, JobId, BatchId, WorkerId, Token) {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"retries": 1, "retry_interval_s": 60}))]);
    let worker = world.worker("w", 1, Script::Silent);
    let batch = world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    let token = world.played(&worker).last_token();
    world.events();
    (world, ids[0], batch, worker, token)
}

fn granted() -> (World, JobId, BatchId, WorkerId, Token) {
    let (mut world, job, batch, worker, token) = assigned();
    let request = world.played(&worker).request(token);
    world.say(request);
    world.events();
    (world, job, batch, worker, token)
}

fn request(worker: &WorkerId, token: Token, incarnation: &str, nonce: &str) -> Command {
    Command::Worker(WorkerCommand::RequestStart(StartRequest {
        token,
        worker: worker.clone(),
        incarnation: Incarnation::new(incarnation),
        nonce: Nonce::new(nonce),
    }))
}

fn last_heard(world: &mut World, worker: &WorkerId) -> String {
    match world.played(worker).heard.last().unwrap() {
        WorkMessage::Granted { nonce, .. } => format!("granted {nonce}"),
        WorkMessage::Refused { reason, .. } => format!("refused: {reason}"),
        other => format!("{other:?}"),
    }
}

/// Rule 8: a grant counts only for the incarnation and the nonce that asked.
#[test]
fn only_the_assigned_life_is_granted_a_start() {
    let (mut world, _, _, worker, token) = assigned();
    let other = world.worker("other", 1, Script::Silent);
    world.events();
    world.say(request(&other, token, "1", "n"));
    expect!["refused: another worker has it"].assert_eq(&last_heard(&mut world, &other));
    world.say(request(&worker, token, "0", "n"));
    expect!["refused: this life of the worker is not registered, or lost"]
        .assert_eq(&last_heard(&mut world, &worker));
    world.say(request(&worker, Token(token.0 + 4096), "1", "n"));
    expect!["refused: it has ended, or was never issued"].assert_eq(&last_heard(&mut world, &worker));
    assert_eq!(world.told(), "");
    world.say(request(&worker, token, "1", "n"));
    expect!["granted n"].assert_eq(&last_heard(&mut world, &worker));
    expect![[r#"
        b1 granted t1
    "#]]
    .assert_eq(&world.told());
    let heard = world.played(&worker).heard.len();
    world.say(request(&worker, token, "1", "n"));
    assert_eq!(world.played(&worker).heard.len(), heard + 1, "a repeated question gets its grant again");
    expect!["granted n"].assert_eq(&last_heard(&mut world, &worker));
    world.say(request(&worker, token, "1", "another"));
    expect!["refused: it was granted to another question"].assert_eq(&last_heard(&mut world, &worker));
    assert_eq!(world.told(), "", "neither changes anything");
}

/// Rule 8: nothing is started twice by reports either.
#[test]
fn reports_of_what_was_never_granted_change_nothing() {
    let (mut world, _, _, worker, token) = assigned();
    for command in [
        Command::Worker(WorkerCommand::ReportStarted { token, worker: worker.clone() }),
        world.played(&worker).finished(token, AttemptResult::Success),
        Command::Worker(WorkerCommand::ReportStarted { token: Token(1), worker: worker.clone() }),
        Command::Worker(WorkerCommand::RejectAssignment {
            lacks_resources: false,
            token,
            worker: WorkerId::new("nobody"),
            nonce: None,
            reason: String::new(),
        }),
    ] {
        let outcome = world.ask(GROUP, command);
        assert!(rejection(&outcome).starts_with("stale_token"), "{}", rejection(&outcome));
    }
    assert_eq!(world.told(), "");
}

/// EXE-3: a failed attempt frees its slot, waits for its interval, and runs again; each is an event.
#[test]
fn a_failed_attempt_is_retried_after_its_interval() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"retries": 2, "retry_interval_s": 90}))]);
    world.worker("w", 1, Script::Fail);
    world.events();
    let batch = world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    assert_eq!(world.why_kinds(batch), ["retry_interval"]);
    world.pass_ms(89_999);
    world.pass_ms(1);
    world.pass_minutes(2);
    expect![[r#"
        b1 generated a 2026-07-01 10:00 run 0
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Failed
        b1 retry 2 at 2026-07-01 10:11:30Z
        b1 retry due
        b1 assigned t2 attempt 2 to w
        b1 granted t2
        b1 started t2
        b1 attempt 2 Failed
        b1 retry 3 at 2026-07-01 10:13
        b1 retry due
        b1 assigned t3 attempt 3 to w
        b1 granted t3
        b1 started t3
        b1 attempt 3 Failed
        b1 finished failed
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.unfinished(), 0);
}

/// EXE-3: success ends it, whatever retries are left.
#[test]
fn a_success_ends_the_batch() {
    let (mut world, _, _, worker, token) = granted();
    let finished = world.played(&worker).finished(token, AttemptResult::Success);
    world.say(finished.clone());
    expect![[r#"
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    let outcome = world.ask(GROUP, finished);
    expect!["stale_token: token 4097 is not live for this worker: it has ended, or was never issued"]
        .assert_eq(&rejection(&outcome));
    assert_eq!(world.played(&worker).heard.last(), Some(&WorkMessage::Recorded { token }));
}

/// EXE-5: a waiting batch is cancelled at once.
#[test]
fn a_waiting_batch_is_killed_at_once() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    let batch = world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    world.events();
    world.kill(batch);
    expect![[r#"
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
    let outcome = world.kill(batch);
    expect!["batch_already_finished: batch 4097 has already finished (killed)"]
        .assert_eq(&rejection(&outcome));
    let outcome = world.kill(BatchId(77));
    expect!["unknown: there is no batch 77"].assert_eq(&rejection(&outcome));
}

/// EXE-5: an assigned batch is cancelled at once, and the worker is refused its start.
#[test]
fn an_assigned_batch_is_killed_at_once() {
    let (mut world, _, batch, worker, token) = assigned();
    world.kill(batch);
    let request = world.played(&worker).request(token);
    world.say(request);
    expect!["refused: it has ended, or was never issued"].assert_eq(&last_heard(&mut world, &worker));
    expect![[r#"
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
}

/// EXE-5: a running batch is ended by its worker; killed is its result, however the process ended.
#[test]
fn a_running_batch_is_killed_by_its_worker() {
    for result in [AttemptResult::Killed, AttemptResult::Success, AttemptResult::Failed] {
        let (mut world, _, batch, worker, token) = granted();
        let heard = world.played(&worker).heard.len();
        world.kill(batch);
        world.kill(batch);
        let kills = world.played(&worker).heard[heard..].len();
        assert_eq!(kills, 1, "a second request says nothing new");
        let end = world.played(&worker).finished(token, result);
        world.say(end);
        let told = world.told();
        assert!(told.contains("b1 kill t1\n") && told.ends_with("b1 finished killed by ann\n"), "{told}");
        assert_eq!(world.unfinished(), 0, "no retry follows a kill");
    }
}

/// EXE-5: a batch between two attempts is cancelled, and its timer with it.
#[test]
fn a_pausing_batch_is_killed_at_once() {
    let (mut world, _, batch, worker, token) = granted();
    let failed = world.played(&worker).finished(token, AttemptResult::Failed);
    world.say(failed);
    world.kill(batch);
    world.pass_minutes(5);
    expect![[r#"
        b1 attempt 1 Failed
        b1 retry 2 at 2026-07-01 10:11
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
}

/// EXE-5: a batch that its job's limit holds back is cancelled, and so is one whose parent has not run.
#[test]
fn parked_and_dependent_batches_are_killed_at_once() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({"parents": ["a"]}))]);
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    let parked = world.batch(ids[0], Some("2026-07-01T11:00:00.000Z"));
    assert_eq!(world.why_kinds(parked), ["concurrency"]);
    world.kill(parked);
    let child = BatchId::mint(2, GROUP);
    assert_eq!(world.why_kinds(child), ["dependency"]);
    world.kill(child);
    world.kill(BatchId::mint(4, GROUP));
    world.events();
    world.worker("w", 4, Script::Succeed);
    expect![[r#"
        w registered 1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// The job call's kill ends the newest unfinished batch, also behind newer finished ones.
#[test]
fn killing_a_job_ends_its_newest_unfinished_batch() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"max_concurrent": 2}))]);
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    let newer = world.batch(ids[0], Some("2026-07-01T11:00:00.000Z"));
    world.kill(newer);
    world.events();
    world.ask(GROUP, Command::Batch(BatchCommand::KillJob { job: ids[0] }));
    expect![[r#"
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
    let outcome = world.ask(GROUP, Command::Batch(BatchCommand::KillJob { job: ids[0] }));
    expect!["batch_already_finished: batch 8193 has already finished (killed)"]
        .assert_eq(&rejection(&outcome));
}

/// A rerun is a new run of the same logical time, refused while the old one is unfinished.
#[test]
fn a_rerun_is_the_next_run_of_its_logical_time() {
    let (mut world, id, batch, worker, token) = granted();
    let outcome = world.rerun(batch, id, "2026-07-01T10:00:00.000Z");
    expect!["batch_unfinished: job 4096 has an unfinished batch 4097 for 2026-07-01T10:00:00.000Z; wait for it or kill it"].assert_eq(&rejection(&outcome));
    let end = world.played(&worker).finished(token, AttemptResult::Success);
    world.say(end);
    world.events();
    world.rerun(batch, id, "2026-07-01T10:00:00.000Z");
    expect![[r#"
        b2 generated a 2026-07-01 10:00 run 1
        b2 assigned t2 attempt 1 to w
    "#]]
    .assert_eq(&world.told());
    let outcome = world.rerun(batch, id, "2026-07-01T10:00:00.000Z");
    assert!(matches!(outcome, Outcome::Refused(_)));
    let outcome = world.rerun(batch, id, "2020-07-01T10:00:00.000Z");
    expect!["unknown: there is no batch 4097"].assert_eq(&rejection(&outcome));
}

/// A rerun keeps the parameters that were given by hand.
#[test]
fn a_rerun_keeps_its_parameters() {
    let mut world = World::new();
    let ids = world.define(vec![job(
        "a",
        json!({"type": "shell", "command": "echo", "arguments": ["${param.day}", "${run}"], "parameters": {"day": "today"}}),
    )]);
    let worker = world.worker("w", 1, Script::Succeed);
    let parameters = [("day".to_owned(), "monday".to_owned())].into_iter().collect();
    world.ask(
        GROUP,
        Command::Batch(BatchCommand::RunJob {
            job: ids[0],
            logical_time: None,
            parameters,
            concurrent: true,
        }),
    );
    world.rerun(BatchId::mint(1, GROUP), ids[0], "2026-07-01T10:10:00.000Z");
    let ran: Vec<String> = world
        .played(&worker)
        .heard
        .iter()
        .filter_map(|message| match message {
            WorkMessage::Granted { spec, .. } => Some(format!("{:?}", spec.program)),
            _ => None,
        })
        .collect();
    expect![[r#"
        Script { text: "echo", arguments: ["monday", "0"] }
        Script { text: "echo", arguments: ["monday", "1"] }"#]]
    .assert_eq(&ran.join("\n"));
}

/// DSP-5: an assignment that is not started in time goes to another worker; the late start is refused.
#[test]
fn an_assignment_not_started_in_time_goes_to_another_worker() {
    let (mut world, _, _, slow, token) = assigned();
    world.worker("x", 1, Script::Succeed);
    world.pass_ms(299_999);
    world.events();
    world.pass_ms(1);
    expect![[r#"
        b1 returned t1: NotStarted
        b1 assigned t2 attempt 1 to x
        b1 granted t2
        b1 started t2
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    let late = world.played(&slow).request(token);
    world.say(late);
    expect!["refused: it has ended, or was never issued"].assert_eq(&last_heard(&mut world, &slow));
    assert_eq!(world.told(), "");
}

/// EXE-1: what a worker gives back goes to another one, and to the same one only when all have had it.
#[test]
fn a_rejected_assignment_goes_to_whoever_has_not_had_it() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    let first = world.worker("w", 2, Script::Reject);
    world.worker("x", 1, Script::Silent);
    world.events();
    world.batch(ids[0], None);
    expect![[r#"
        b1 generated a 2026-07-01 10:10 run 0
        b1 assigned t1 attempt 1 to w
        b1 returned t1: Rejected("busy")
        b1 assigned t2 attempt 1 to x
    "#]]
    .assert_eq(&world.told());
    let token = world.workers[1].last_token();
    world.played(&first).script = Script::Succeed;
    let worker = world.workers[1].id.clone();
    world.say(Command::Worker(WorkerCommand::RejectAssignment {
        lacks_resources: false,
        token,
        worker,
        nonce: None,
        reason: "full".to_owned(),
    }));
    expect![[r#"
        b1 returned t2: Rejected("full")
        b1 assigned t3 attempt 1 to w
        b1 granted t3
        b1 started t3
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
}

/// EXE-1: what every worker gives back rests a while, instead of going round for ever.
#[test]
fn what_every_worker_gives_back_is_offered_again_later() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    world.worker("w", 1, Script::Reject);
    world.worker("x", 1, Script::Reject);
    world.events();
    let batch = world.batch(ids[0], None);
    expect![[r#"
        b1 generated a 2026-07-01 10:10 run 0
        b1 assigned t1 attempt 1 to x
        b1 returned t1: Rejected("busy")
        b1 assigned t2 attempt 1 to w
        b1 returned t2: Rejected("busy")
        b1 assigned t3 attempt 1 to x
        b1 returned t3: Rejected("busy")
    "#]]
    .assert_eq(&world.told());
    expect!["every worker gave it back; it is offered again at 2026-07-01T10:10:10.000Z"]
        .assert_eq(&world.why(batch)[0].message);
    world.pass_ms(9_999);
    assert_eq!(world.told(), "");
    world.pass_ms(1);
    expect![[r#"
        b1 retry due
        b1 assigned t4 attempt 1 to x
        b1 returned t4: Rejected("busy")
    "#]]
    .assert_eq(&world.told());
    world.kill(batch);
    world.pass_minutes(1);
    assert_eq!(world.told(), "b1 finished killed by ann\n");
}

/// An attempt that was started is not given back; its end is reported.
#[test]
fn a_started_attempt_is_not_given_back() {
    let (mut world, _, _, worker, token) = granted();
    let started = world.played(&worker).started(token);
    world.say(started);
    let given_back = world.played(&worker).give_back(token);
    let outcome = world.ask(GROUP, given_back);
    expect!["stale_token: token 4097 is not live for this worker: it was started; its end must be reported"]
        .assert_eq(&rejection(&outcome));
}

/// A template that cannot be resolved for this batch fails it, with the reason; it is not started.
#[test]
fn a_batch_whose_templates_cannot_be_resolved_fails() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"type": "shell", "command": "echo hello"}))]);
    world.worker("w", 1, Script::Succeed);
    world.events();
    let parameters = [("x".to_owned(), "${nonsense".to_owned())].into_iter().collect();
    world.ask(
        GROUP,
        Command::Batch(BatchCommand::RunJob {
            job: ids[0],
            logical_time: None,
            parameters,
            concurrent: true,
        }),
    );
    expect![[r#"
        b1 generated a 2026-07-01 10:10 run 0
        b1 assigned t1 attempt 1 to w
        b1 finished failed
    "#]]
    .assert_eq(&world.told());
}
