//! Batches that have not got somewhere in time: marks and alarms, once each, whatever happens meanwhile.

use crate::kit::{GROUP, Script, World, every, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{AttemptResult, BatchId, Command, JobCommand, JobSpec, ShardId, WorkerCommand};

/// A job that waits for one that nobody runs.
fn waiting(more: serde_json::Value) -> Vec<JobSpec> {
    let mut fields = json!({"parents": ["p"]});
    for (name, value) in more.as_object().unwrap() {
        fields[name] = value.clone();
    }
    vec![job("p", json!({"type": "shell", "command": "true"})), job("c", fields)]
}

/// The child's batch, at 10:10; its parent's fails at once.
fn blocked(more: serde_json::Value) -> (World, BatchId) {
    let mut world = World::new();
    let ids = world.define(waiting(more));
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    world.events();
    (world, BatchId::mint(2, GROUP))
}

/// TMO-1: a batch that still waits at its dependency timeout is marked and told of once, and stays as it is.
#[test]
fn waiting_batch_is_marked_at_its_dependency_timeout() {
    let (mut world, batch) = blocked(json!({"dependency_timeout_s": 600}));
    world.pass_ms(599_999);
    assert_eq!(world.told(), "");
    world.pass_ms(1);
    world.pass_minutes(60);
    expect![[r#"
        b2 marked Dependency, due 2026-07-01 10:20
        alarm DependencyTimeout, Important
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.why_kinds(batch), ["dependency"]);
}

/// TMO-1: the base time is that of the schedule's fire, not of a generation that came late.
#[test]
fn base_time_is_the_fires_own() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": every("hour"), "dependency_timeout_s": 600}))]);
    world.events();
    // Nobody owned the shard from 10:10 to 11:21; the fire was at 11:01.
    world.wall = crate::kit::at("2026-07-01T11:21:00.000Z");
    world.run();
    expect![[r#"
        b1 generated a 2026-07-01 11:00 run 0
        b1 marked Dependency, due 2026-07-01 11:11
        alarm DependencyTimeout, Important
    "#]]
    .assert_eq(&world.told());
}

/// TMO-1: what was started in time is not marked, though it waits again for its next attempt.
#[test]
fn started_batch_is_past_its_dependency_timeout() {
    let mut world = World::new();
    let more = json!({"dependency_timeout_s": 60, "retries": 1, "retry_interval_s": 600});
    let ids = world.define(vec![job("a", more)]);
    world.worker("w", 1, Script::Fail);
    world.batch(ids[0], None);
    world.events();
    world.pass_minutes(5);
    assert_eq!(world.told(), "");
}

/// TMO-1: an assigned batch does not wait; given back after the time, it is marked at once.
#[test]
fn batch_given_back_after_its_time_is_marked_at_once() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"dependency_timeout_s": 60}))]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    world.events();
    world.pass_minutes(2);
    assert_eq!(world.told(), "");
    let token = world.played(&worker).last_token();
    world.say(Command::Worker(WorkerCommand::RejectAssignment {
        lacks_resources: false,
        token,
        worker,
        nonce: None,
        reason: "busy".to_owned(),
    }));
    expect![[r#"
        b1 returned t1: Rejected("busy")
        b1 marked Dependency, due 2026-07-01 10:11
        alarm DependencyTimeout, Important
        b1 assigned t2 attempt 1 to w
    "#]]
    .assert_eq(&world.told());
}

/// TMO-2, TMO-4: a running batch that is not successful in time is marked once per time that its job sets, and
/// may still succeed.
#[test]
fn timed_out_batch_may_still_succeed() {
    let mut world = World::new();
    let more = json!({"output_timeout_s": 600, "not_successful_by": "10:30:00", "dependency_timeout_s": 60});
    let ids = world.define(vec![job("a", more)]);
    let worker = world.worker("w", 1, Script::Run);
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    world.events();
    world.until("2026-07-01T10:40:00.000Z");
    let token = world.played(&worker).last_token();
    let finished = world.played(&worker).finished(token, AttemptResult::Success);
    world.say(finished);
    world.pass_minutes(24 * 60);
    expect![[r#"
        b1 marked Output, due 2026-07-01 10:20
        alarm OutputTimeout, Important
        b1 marked ByTime, due 2026-07-01 10:30
        alarm NotSuccessfulBy, Important
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
}

/// TMO-2: what has ended in time is never marked.
#[test]
fn batch_that_ended_in_time_is_not_marked() {
    let mut world = World::new();
    let more = json!({"output_timeout_s": 60, "not_successful_by": "10:30:00", "dependency_timeout_s": 60});
    let ids = world.define(vec![job("a", more)]);
    world.worker("w", 1, Script::Succeed);
    world.batch(ids[0], None);
    world.events();
    world.pass_minutes(24 * 60);
    assert_eq!(world.told(), "");
}

/// TMO-2: what failed is not successful either, and is marked when its time comes; another run of its logical time
/// takes its place, with times of its own.
#[test]
fn failed_batch_is_marked_unless_it_ran_again() {
    let mut world = World::new();
    let more = json!({"output_timeout_s": 600, "not_successful_by": "11:00:00"});
    let ids = world.define(vec![job("a", more)]);
    world.worker("w", 1, Script::Fail);
    let batch = world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    world.batch(ids[0], Some("2026-07-01T09:00:00.000Z"));
    world.events();
    world.pass_minutes(5);
    world.rerun(batch, ids[0], "2026-07-01T10:00:00.000Z");
    world.pass_minutes(24 * 60);
    expect![[r#"
        b3 generated a 2026-07-01 10:00 run 1
        b3 assigned t3 attempt 1 to w
        b3 granted t3
        b3 started t3
        b3 attempt 1 Failed
        b3 finished failed
        b2 marked Output, due 2026-07-01 10:20
        alarm OutputTimeout, Important
        b3 marked Output, due 2026-07-01 10:25
        alarm OutputTimeout, Important
        b2 marked ByTime, due 2026-07-01 11:00
        alarm NotSuccessfulBy, Important
        b3 marked ByTime, due 2026-07-01 11:00
        alarm NotSuccessfulBy, Important
    "#]]
    .assert_eq(&world.told());
}

/// TMO-2: of a job that was deleted nobody expects anything, also not of what is ended with it.
#[test]
fn deleted_job_is_not_late() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"output_timeout_s": 600}))]);
    world.worker("w", 1, Script::Fail);
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    world.worker("w", 0, Script::Silent);
    // One has failed, and one still waits.
    world.batch(ids[0], Some("2026-07-01T09:00:00.000Z"));
    let delete = Command::Job(JobCommand::Delete { job: ids[0], cancel: true, orphan_children: false });
    world.ask(ShardId::CATALOGUE, delete);
    world.events();
    world.pass_minutes(60);
    assert!(!world.told().contains("marked"));
}

/// TMO-5: an attempt that ran too long counts as a failed one, and is followed by another while retries are left.
#[test]
fn attempt_that_ran_too_long_counts_as_failed() {
    let mut world = World::new();
    let ids =
        world.define(vec![job("a", json!({"execution_timeout_s": 5, "retries": 1, "retry_interval_s": 0}))]);
    let worker = world.worker("w", 1, Script::Run);
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    world.events();
    for _ in 0..2 {
        let token = world.played(&worker).last_token();
        let finished = world.played(&worker).finished(token, AttemptResult::TimedOut);
        world.say(finished);
    }
    expect![[r#"
        b1 attempt 1 TimedOut
        b1 retry 2 at 2026-07-01 10:10
        b1 retry due
        b1 assigned t2 attempt 2 to w
        b1 granted t2
        b1 started t2
        b1 attempt 2 TimedOut
        b1 finished failed
    "#]]
    .assert_eq(&world.told());
}

/// TMO-3: a deadline that passed while nobody owned the shard is told of at once, from a state folded anew.
#[test]
fn nothing_is_missed_over_an_outage() {
    let (mut world, _) = blocked(json!({"dependency_timeout_s": 600, "output_timeout_s": 900}));
    world.partition = world.folded();
    world.wall = crate::kit::at("2026-07-03T00:00:00.000Z");
    world.run();
    expect![[r#"
        b2 marked Dependency, due 2026-07-01 10:20
        alarm DependencyTimeout, Important
        b2 marked Output, due 2026-07-01 10:25
        alarm OutputTimeout, Important
    "#]]
    .assert_eq(&world.told());
    assert!(!world.step(usize::MAX), "and once only");
}

/// TMO-4: where the job says so, a batch that is out of time is ended: at once if it waits, by its worker if it
/// runs.
#[test]
fn batch_is_ended_on_timeout_where_its_job_says_so() {
    let (mut world, _) = blocked(json!({"dependency_timeout_s": 600, "cancel_on_timeout": true}));
    world.pass_minutes(60);
    expect![[r#"
        b2 marked Dependency, due 2026-07-01 10:20
        alarm DependencyTimeout, Important
        b2 finished killed
    "#]]
    .assert_eq(&world.told());

    let mut world = World::new();
    let more = json!({"output_timeout_s": 600, "not_successful_by": "10:20:00", "cancel_on_timeout": true});
    let ids = world.define(vec![job("a", more)]);
    world.worker("w", 1, Script::Run);
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    world.events();
    world.pass_minutes(60);
    expect![[r#"
        b1 marked Output, due 2026-07-01 10:20
        alarm OutputTimeout, Important
        b1 kill t1
        b1 marked ByTime, due 2026-07-01 10:20
        alarm NotSuccessfulBy, Important
        b1 attempt 1 Killed
        b1 finished killed
    "#]]
    .assert_eq(&world.told());
}

/// TMO-1, TMO-2: what cannot be meant is refused by its field.
#[test]
fn bad_timeouts_are_refused_by_field() {
    let mut world = World::new();
    for more in [
        json!({"dependency_timeout_s": 0}),
        json!({"output_timeout_s": 40_000_000}),
        json!({"execution_timeout_s": 0}),
        json!({"cancel_on_timeout": true, "execution_timeout_s": 5}),
        json!({"cancel_on_timeout": true}),
    ] {
        let refused = rejection(&world.apply(vec![job("a", more.clone())]));
        let field = more.as_object().unwrap().keys().next().unwrap();
        assert!(refused.starts_with("invalid") && refused.contains(field), "{refused}");
    }
    let value = json!({"name": "a", "group": "g", "type": "noop", "not_successful_by": "7:00"});
    let error = JobSpec::from_value(value).unwrap_err();
    assert_eq!((error.field.as_str(), error.value.as_str()), ("not_successful_by", "7:00"));
    assert!(error.rule.contains("must be HH:MM:SS"), "{error}");
}

/// TMO-1: a batch that its parent's generation made counts from the fire of the nearest ancestor with a schedule, however
/// late that was generated; one that a run by hand brought forth counts from its generation.
#[test]
fn base_time_of_a_child_is_its_ancestors_fire() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("a", json!({"schedule": every("hour")})),
        job("b", json!({"parents": ["a"]})),
        job("c", json!({"parents": ["b"], "dependency_timeout_s": 600})),
    ]);
    world.wall = crate::kit::at("2026-07-01T11:21:00.000Z");
    world.run();
    expect![[r#"
        b1 generated a 2026-07-01 11:00 run 0
        b2 generated b 2026-07-01 11:00 run 0, of a 0/1
        b3 generated c 2026-07-01 11:00 run 0, of b 0/1
        b3 marked Dependency, due 2026-07-01 11:11
        alarm DependencyTimeout, Important
    "#]]
    .assert_eq(&world.told());
    world.batch(ids[0], Some("2026-07-01T09:00:00.000Z"));
    expect![[r#"
        b4 generated a 2026-07-01 09:00 run 1
        b5 generated b 2026-07-01 09:00 run 0, of a 0/1
        b6 generated c 2026-07-01 09:00 run 0, of b 0/1
    "#]]
    .assert_eq(&world.told());
    world.pass_minutes(10);
    expect![[r#"
        b6 marked Dependency, due 2026-07-01 11:31
        alarm DependencyTimeout, Important
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.folded(), world.partition);
}
