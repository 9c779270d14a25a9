//! What follows a failed attempt: exit codes with a meaning, and pauses that grow.

use crate::kit::{Script, World, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptOutcome, AttemptResult, BatchEvent, Command, Event, JobSpec, Timestamp, WorkerCommand, WorkerId,
};

/// The attempt at hand asks, starts, and exits so.
fn exits(world: &mut World, worker: &WorkerId, exit_code: i32) {
    let token = world.played(worker).last_token();
    let (request, started) = (world.played(worker).request(token), world.played(worker).started(token));
    world.say(request);
    world.say(started);
    let outcome =
        AttemptOutcome { exit_code: Some(exit_code), ..AttemptOutcome::bare(AttemptResult::Failed) };
    world.say(Command::Worker(WorkerCommand::ReportFinished {
        token,
        worker: worker.clone(),
        outcome,
        usage: None,
        interrupted: false,
        external: None,
    }));
}

fn one(more: serde_json::Value) -> (World, WorkerId) {
    let mut world = World::new();
    let mut fields = json!({"type": "shell", "command": "x", "retries": 3, "retry_interval_s": 10});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let ids = world.define(vec![job("a", fields)]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    world.events();
    (world, worker)
}

/// BYD-19: a code that means *no retry* ends the batch with retries left, one that means *skip* skips it, and any
/// other is followed by another attempt.
#[test]
fn exit_codes_end_a_batch_as_they_mean() {
    let codes = json!({"exit_codes": {"no_retry": [2], "skip": [3, 4]}});
    let mut told = String::new();
    for code in [1, 2, 3] {
        let (mut world, worker) = one(codes.clone());
        exits(&mut world, &worker, code);
        told += &format!("exit code {code}\n{}", world.told());
    }
    expect![[r#"
        exit code 1
        b1 granted t1
        b1 started t1
        b1 attempt 1 Failed
        b1 retry 2 at 2026-07-01 10:10:10Z
        exit code 2
        b1 granted t1
        b1 started t1
        b1 attempt 1 Failed
        b1 finished failed
        exit code 3
        b1 granted t1
        b1 started t1
        b1 attempt 1 Failed
        b1 finished skipped
    "#]]
    .assert_eq(&told);
}

/// The pauses before the second and later attempts, milliseconds.
fn pauses(more: serde_json::Value) -> Vec<i64> {
    let (mut world, worker) = one(more);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        exits(&mut world, &worker, 1);
        let until: Timestamp = world
            .events()
            .iter()
            .find_map(|event| match event {
                Event::Batch(BatchEvent::RetryScheduled { at, .. }) => Some(*at),
                _ => None,
            })
            .unwrap();
        pauses.push(until.duration_since(world.wall).as_millis() as i64);
        world.pass(until.duration_since(world.wall));
    }
    pauses
}

/// BYD-19: pauses grow by their factor up to their maximum; without one they stay as they are.
#[test]
fn pauses_grow_by_their_factor_up_to_the_maximum() {
    assert_eq!(pauses(json!({})), [10_000, 10_000, 10_000]);
    let grown = |factor: f64| json!({"retry_backoff": {"factor": factor, "max_interval_s": 22}});
    assert_eq!(pauses(grown(2.0)), [10_000, 20_000, 22_000]);
    assert_eq!(pauses(grown(1.15)), [10_000, 11_500, 13_225]);
}

/// BYD-19: with jitter pauses differ from each other, keep at least a half, and are the same whenever the same
/// history is decided.
#[test]
fn jitter_spreads_pauses_and_is_always_the_same() {
    let jitter = json!({"retry_backoff": {"factor": 1, "max_interval_s": 60, "jitter": true}});
    let drawn = pauses(jitter.clone());
    assert!(drawn.iter().all(|pause| (5_000..=10_000).contains(pause)), "{drawn:?}");
    assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2], "{drawn:?}");
    assert_eq!(drawn, pauses(jitter));
}

/// BYD-19: what cannot be meant is refused, by its field.
#[test]
fn meaningless_codes_and_factors_are_refused() {
    let refused = |more: serde_json::Value| {
        let job: JobSpec = job("a", more);
        rejection(&World::new().apply(vec![job])) + "\n"
    };
    let backoff =
        |factor: f64, most: u32| json!({"retry_backoff": {"factor": factor, "max_interval_s": most}});
    let told = [
        refused(json!({"exit_codes": {"skip": [0]}})),
        refused(json!({"exit_codes": {"skip": [3], "no_retry": [3]}})),
        refused(json!({"exit_codes": {"skip": vec![3; 65]}})),
        refused(backoff(2.0, 59)),
    ]
    .concat();
    expect![[r#"
        invalid: jobs[0].exit_codes.skip: "0": must be 1 to 255; 0 is success
        invalid: jobs[0].exit_codes.skip: "3": stands in no_retry as well; it can only mean one
        invalid: jobs[0].exit_codes.skip: "65": at most 64 codes
        invalid: jobs[0].retry_backoff.max_interval_s: "59": must be retry_interval_s (60) to 604800
    "#]]
    .assert_eq(&told);
    for factor in [0.5, 1.005, 10.01] {
        let backoff = json!({"factor": factor, "max_interval_s": 60});
        let given = json!({"name": "a", "group": "g", "type": "noop", "retry_backoff": backoff});
        let error = JobSpec::from_value(given).unwrap_err();
        assert_eq!((error.field.as_str(), error.value), ("retry_backoff.factor", factor.to_string()));
        assert_eq!(error.rule, "must be 1 to 10, with at most two decimals");
    }
}
