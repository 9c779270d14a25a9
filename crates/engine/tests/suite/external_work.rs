//! EXE-13: work that attempts start elsewhere.

use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptOutcome, AttemptResult, BatchCommand, BatchId, Command, ExternalEnd, ExternalWork, ExternalWorkId,
    Heartbeat, RunSpec, Token, WorkMessage, WorkerCommand, WorkerId,
};

use crate::kit::{GROUP, Script, World, job, rejection};

/// A batch of a job with retries that runs.
fn running(world: &mut World) -> (WorkerId, BatchId, Token) {
    let all = json!({"type": "shell", "command": "x", "retries": 3, "retry_interval_s": 0});
    let ids = world.define(vec![job("a", all)]);
    let worker = world.worker("w", 1, Script::Silent);
    let batch = world.batch(ids[0], None);
    let token = begin(world, &worker);
    (worker, batch, token)
}

fn ask(world: &mut World, worker: &WorkerId) -> Token {
    let token = world.played(worker).last_token();
    let request = world.played(worker).request(token);
    world.say(request);
    token
}

fn begin(world: &mut World, worker: &WorkerId) -> Token {
    let token = ask(world, worker);
    let started = world.played(worker).started(token);
    world.say(started);
    world.events();
    token
}

fn ids(of: &[&str]) -> Vec<ExternalWorkId> {
    of.iter().map(|id| ExternalWorkId::try_from(*id).unwrap()).collect()
}

fn beats(world: &mut World, worker: &WorkerId, external_work: Vec<ExternalWork>) {
    let Command::Worker(WorkerCommand::Heartbeat(heartbeat)) = world.played(worker).heartbeat() else {
        panic!("a heartbeat")
    };
    world.say(Command::Worker(WorkerCommand::Heartbeat(Heartbeat { external_work, ..heartbeat })));
}

fn ends(
    world: &mut World,
    worker: &WorkerId,
    token: Token,
    (result, external): (AttemptResult, Option<ExternalEnd>),
) {
    world.say(Command::Worker(WorkerCommand::ReportFinished {
        token,
        worker: worker.clone(),
        outcome: AttemptOutcome::bare(result),
        usage: None,
        interrupted: false,
        external: external.map(Box::new),
    }));
}

fn granted(world: &mut World, worker: &WorkerId, token: Token) -> RunSpec {
    let heard = world.played(worker).heard.iter().rev().find_map(|message| match message {
        WorkMessage::Granted { spec, .. } if spec.token == token => Some((**spec).clone()),
        _ => None,
    });
    heard.expect("a start was granted")
}

/// EXE-13: an id is an event when it is first seen, once, whoever repeats it; of another worker's attempt nothing is.
#[test]
fn each_id_is_on_record_once() {
    let mut world = World::new();
    world.raise();
    let (worker, _, token) = running(&mut world);
    let other = world.worker("other", 1, Script::Silent);
    world.events();
    let work = |of: &[&str]| vec![ExternalWork { token, ids: ids(of) }];
    beats(&mut world, &worker, work(&["application_1", "application_1"]));
    beats(&mut world, &worker, work(&["application_1", "application_2"]));
    beats(&mut world, &other, work(&["application_3"]));
    let external = ExternalEnd { ids: ids(&["application_2", "application_4"]), unconfirmed: false };
    ends(&mut world, &worker, token, (AttemptResult::Success, Some(external)));
    beats(&mut world, &worker, work(&["application_5"]));
    expect![[r#"
        b1 external work of t1: application_1
        b1 external work of t1: application_2
        b1 external work of t1: application_4
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
}

/// EXE-13: of one attempt so many ids are on record and no more.
#[test]
fn ids_of_an_attempt_are_bounded() {
    let mut world = World::new();
    world.raise();
    let (worker, _, token) = running(&mut world);
    let many: Vec<String> = (0..150).map(|number| format!("application_{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for half in many.chunks(75) {
        beats(&mut world, &worker, vec![ExternalWork { token, ids: ids(half) }]);
    }
    ends(&mut world, &worker, token, (AttemptResult::Lost, Some(ExternalEnd::unknown())));
    let next = ask(&mut world, &worker);
    let [left] = &granted(&mut world, &worker, next).unconfirmed[..] else { panic!("one attempt") };
    assert_eq!((left.token, left.ids.len()), (token, 100));
}

/// EXE-13: each next attempt is told of what nobody has confirmed, until one of them has started.
#[test]
fn unconfirmed_work_is_passed_on_until_an_attempt_has_started() {
    let mut world = World::new();
    world.raise();
    let (worker, _, first) = running(&mut world);
    beats(&mut world, &worker, vec![ExternalWork { token: first, ids: ids(&["application_1"]) }]);
    ends(&mut world, &worker, first, (AttemptResult::Lost, Some(ExternalEnd::unknown())));
    let left = ExternalWork { token: first, ids: ids(&["application_1"]) };

    let second = ask(&mut world, &worker);
    assert_eq!(granted(&mut world, &worker, second).unconfirmed, std::slice::from_ref(&left));
    // Not started: its worker may have ended some of it, or nothing.
    ends(&mut world, &worker, second, (AttemptResult::Failed, None));

    let third = begin(&mut world, &worker);
    assert_eq!(granted(&mut world, &worker, third).unconfirmed, [left]);
    ends(&mut world, &worker, third, (AttemptResult::Failed, None));
    let fourth = ask(&mut world, &worker);
    assert_eq!(granted(&mut world, &worker, fourth).unconfirmed, []);
}

/// EXE-13, EXE-8: what ends with a lease is unconfirmed.
#[test]
fn end_by_lease_is_unconfirmed() {
    let mut world = World::new();
    world.raise();
    let (worker, _, token) = running(&mut world);
    world.lost(&worker);
    world.lease_over(&worker);
    let other = world.worker("other", 1, Script::Silent);
    let told = world.told();
    assert!(told.contains("external work of t1 unconfirmed\nb1 attempt 1 Lost"), "{told}");
    let next = ask(&mut world, &other);
    let unconfirmed = granted(&mut world, &other, next).unconfirmed;
    assert_eq!(unconfirmed, [ExternalWork { token, ids: Vec::new() }]);
}

/// EXE-13, EXE-12: a person who vouches for an end vouches for all that the attempts of the batch did.
#[test]
fn vouched_end_leaves_nothing_unconfirmed() {
    let mut world = World::new();
    world.raise();
    let (worker, batch, first) = running(&mut world);
    ends(&mut world, &worker, first, (AttemptResult::Lost, Some(ExternalEnd::unknown())));
    let second = ask(&mut world, &worker);
    beats(&mut world, &worker, vec![ExternalWork { token: second, ids: ids(&["application_2"]) }]);
    world.lost(&worker);
    world.say(Command::Batch(BatchCommand::VouchEnded {
        batch,
        token: second,
        reason: "I looked".to_owned(),
    }));
    let other = world.worker("other", 1, Script::Silent);
    let third = ask(&mut world, &other);
    assert_eq!(granted(&mut world, &other, third).unconfirmed, []);
}

/// EXE-13: what the worker of an attempt has to end before it begins is said, until it has begun.
#[test]
fn attempt_that_waits_for_earlier_work_says_so() {
    let mut world = World::new();
    world.raise();
    let (worker, batch, first) = running(&mut world);
    let many: Vec<String> = (1..=7).map(|number| format!("application_{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    beats(&mut world, &worker, vec![ExternalWork { token: first, ids: ids(&many) }]);
    ends(&mut world, &worker, first, (AttemptResult::Lost, Some(ExternalEnd::unknown())));
    let second = ask(&mut world, &worker);
    let why = world.why(batch);
    let [condition] = &why[..] else { panic!("one condition: {why:?}") };
    assert_eq!(condition.kind, "external_work");
    let named = "application_1, application_2, application_3, application_4, application_5 and 2 more";
    let said = format!("attempt {first} ({named})");
    assert!(condition.message.contains("first ends") && condition.message.ends_with(&said), "{why:?}");
    let started = world.played(&worker).started(second);
    world.say(started);
    assert_eq!(world.why(batch), []);
}

/// EXE-13, EXE-12: a person may vouch for an attempt that waits for earlier work to end: its worker is asked to end it, the next one has
/// nothing to end, and what waits for nothing is not vouched for while its worker is heard of.
#[test]
fn attempt_that_waits_for_earlier_work_is_vouched_for() {
    let mut world = World::new();
    world.raise();
    let (worker, batch, first) = running(&mut world);
    let vouch = |world: &mut World, token| {
        let reason = "I looked".to_owned();
        rejection(&world.ask(GROUP, Command::Batch(BatchCommand::VouchEnded { batch, token, reason })))
    };
    assert!(vouch(&mut world, first).contains("which is heard of"), "it runs");
    ends(&mut world, &worker, first, (AttemptResult::Lost, Some(ExternalEnd::unknown())));
    let second = ask(&mut world, &worker);
    assert_eq!(vouch(&mut world, second), "accepted: Done");
    world.events();
    let is_kill =
        |message: &WorkMessage| matches!(message, WorkMessage::Kill { token, .. } if *token == second);
    assert!(world.played(&worker).heard.iter().any(is_kill));
    let third = ask(&mut world, &worker);
    assert_eq!(granted(&mut world, &worker, third).unconfirmed, []);
    assert!(vouch(&mut world, third).contains("which is heard of"), "nothing is left that it waits for");
    assert_eq!(world.partition, world.folded());
}

/// Rule 13: below its level nothing of it is on record, and no attempt is told of anything.
#[test]
fn below_its_level_nothing_is_on_record() {
    let mut world = World::new();
    let (worker, _, token) = running(&mut world);
    beats(&mut world, &worker, vec![ExternalWork { token, ids: ids(&["application_1"]) }]);
    ends(&mut world, &worker, token, (AttemptResult::Lost, Some(ExternalEnd::unknown())));
    let told = world.told();
    assert!(!told.contains("external work"), "{told}");
    let next = ask(&mut world, &worker);
    assert_eq!(granted(&mut world, &worker, next).unconfirmed, []);
}
