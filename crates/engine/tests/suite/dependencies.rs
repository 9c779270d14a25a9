//! DEP-3: what a batch waits for, and what changes its mind.

use crate::kit::{GROUP, Script, World, at, every, job};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tidemill_model::{BatchCommand, BatchEvent, Command, Event, JobCommand};

/// The times that the daily child of an hourly parent waits for, at one midnight.
fn check(mapping: Value, zone: &str, midnight: &str, expected: Expect) {
    let mut world = World::with(midnight, tidemill_model::GroupSettings::default());
    world.wall = world.wall.saturating_sub(jiff::SignedDuration::from_mins(30)).unwrap();
    let schedule = |period: &str| json!({"period": period, "zone": zone});
    world.define(vec![
        job("p", json!({"schedule": schedule("hour")})),
        job("c", json!({"schedule": schedule("day"), "parents": [{"job": "p", "mapping": mapping}]})),
    ]);
    world.pass_minutes(31);
    let times = world.events().into_iter().find_map(|event| match event {
        Event::Batch(BatchEvent::Generated { dependencies, .. }) if !dependencies.is_empty() => {
            Some(dependencies[0].times.clone())
        }
        _ => None,
    });
    let times = times.unwrap();
    let ends = [times.first(), times.last()].map(|time| time.map_or("-".to_owned(), ToString::to_string));
    expected.assert_eq(&format!("{} from {} to {}", times.len(), ends[0], ends[1]));
}

/// DEP-3: each mapping between periods, on days of 24, 23 and 25 hours.
#[test]
fn mappings_give_the_parents_times() {
    check(
        json!("all"),
        "UTC",
        "2026-07-02T00:00:00.000Z",
        expect!["24 from 2026-07-01T01:00:00.000Z to 2026-07-02T00:00:00.000Z"],
    );
    check(
        json!("any"),
        "UTC",
        "2026-07-02T00:00:00.000Z",
        expect!["24 from 2026-07-01T01:00:00.000Z to 2026-07-02T00:00:00.000Z"],
    );
    check(
        json!("latest"),
        "UTC",
        "2026-07-02T00:00:00.000Z",
        expect!["1 from 2026-07-02T00:00:00.000Z to 2026-07-02T00:00:00.000Z"],
    );
    check(
        json!({"offset": 1}),
        "UTC",
        "2026-07-02T00:00:00.000Z",
        expect!["1 from 2026-07-01T23:00:00.000Z to 2026-07-01T23:00:00.000Z"],
    );
    check(
        json!({"offset": 30}),
        "UTC",
        "2026-07-02T00:00:00.000Z",
        expect!["1 from 2026-06-30T18:00:00.000Z to 2026-06-30T18:00:00.000Z"],
    );
    check(
        json!("all"),
        "Europe/Berlin",
        "2026-03-29T22:00:00.000Z",
        expect!["23 from 2026-03-29T00:00:00.000Z to 2026-03-29T22:00:00.000Z"],
    );
    check(
        json!("all"),
        "Europe/Berlin",
        "2026-10-25T23:00:00.000Z",
        expect!["25 from 2026-10-24T23:00:00.000Z to 2026-10-25T23:00:00.000Z"],
    );
}

fn family(mapping: Value) -> (World, Vec<tidemill_model::JobId>) {
    let mut world = World::new();
    let ids = world.define(vec![
        job("p", json!({"schedule": every("hour")})),
        job("c", json!({"schedule": every("hour"), "parents": [{"job": "p", "mapping": mapping}]})),
    ]);
    (world, ids)
}

/// DEP-3: the child runs after its parent, not before.
#[test]
fn a_child_waits_for_its_parents_success() {
    let (mut world, _) = family(json!("same"));
    world.until("2026-07-01T11:01:00.000Z");
    world.worker("w", 4, Script::Succeed);
    expect![[r#"
        b1 generated p 2026-07-01 11:00 run 0
        b2 generated c 2026-07-01 11:00 run 0, of p 0/1
        w registered 1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b2 satisfied p 2026-07-01 11:00, unmet 0
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
    "#]]
    .assert_eq(&world.told());
}

/// DEP-3: a failed or killed parent satisfies nothing; its next run does.
#[test]
fn only_success_satisfies_and_the_newest_run_decides() {
    let (mut world, ids) = family(json!("same"));
    let worker = world.worker("w", 4, Script::Fail);
    world.until("2026-07-01T11:01:00.000Z");
    let parent = tidemill_model::BatchId::mint(1, GROUP);
    assert_eq!(world.unfinished(), 1);
    world.played(&worker).script = Script::Succeed;
    world.events();
    world.rerun(parent, ids[0], "2026-07-01T11:00:00.000Z");
    expect![[r#"
        b3 generated p 2026-07-01 11:00 run 1
        b2 unblocked
        b3 assigned t2 attempt 1 to w
        b3 granted t2
        b3 started t2
        b3 attempt 1 Success
        b3 finished success
        b2 satisfied p 2026-07-01 11:00, unmet 0
        b2 assigned t3 attempt 1 to w
        b2 granted t3
        b2 started t3
        b2 attempt 1 Success
        b2 finished success
    "#]]
    .assert_eq(&world.told());
}

/// DEP-3: a rerun of the parent takes back what its earlier run satisfied, also from a batch that is
/// assigned, but not from one that runs.
#[test]
fn a_rerun_withdraws_what_was_satisfied() {
    let (mut world, ids) = family(json!("same"));
    let other = world
        .define(vec![job("d", json!({"schedule": every("hour"), "parents": ["p"], "host": "host-idle"}))]);
    let worker = world.worker("w", 1, Script::Succeed);
    let idle = world.worker("idle", 1, Script::Silent);
    // The child gets no slot on the first worker, and is assigned on the second.
    world.until("2026-07-01T11:01:00.000Z");
    assert_eq!(other.len(), 1);
    world.played(&worker).script = Script::Run;
    world.events();
    let parent = tidemill_model::BatchId::mint(1, GROUP);
    world.rerun(parent, ids[0], "2026-07-01T11:00:00.000Z");
    expect![[r#"
        b4 generated p 2026-07-01 11:00 run 1
        b3 withdrawn p 2026-07-01 11:00, unmet 1
        b3 returned t3: Rejected("a dependency was withdrawn")
        b4 assigned t4 attempt 1 to w
        b4 granted t4
        b4 started t4
    "#]]
    .assert_eq(&world.told());
    let token = world.played(&idle).last_token();
    let late = world.played(&idle).request(token);
    world.say(late);
    assert_eq!(world.told(), "", "the assignment that was taken back cannot be started");
    let running = *world.played(&worker).running.keys().next().unwrap();
    let end = world.played(&worker).finished(running, tidemill_model::AttemptResult::Success);
    world.played(&worker).script = Script::Succeed;
    world.played(&idle).script = Script::Succeed;
    world.say(end);
    expect![[r#"
        b4 attempt 1 Success
        b4 finished success
        b3 satisfied p 2026-07-01 11:00, unmet 0
        b3 assigned t5 attempt 1 to idle
        b3 granted t5
        b3 started t5
        b3 attempt 1 Success
        b3 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// DEP-3: `depends_on_past` runs logical times in order, and the first one waits for nothing.
#[test]
fn own_previous_batch_goes_first() {
    let mut world = World::new();
    world.define(vec![job(
        "a",
        json!({"schedule": every("hour"), "depends_on_past": true, "max_concurrent": 9}),
    )]);
    world.until("2026-07-01T13:30:00.000Z");
    world.worker("w", 9, Script::Succeed);
    expect![[r#"
        b1 generated a 2026-07-01 11:00 run 0, of a 0/0
        b2 generated a 2026-07-01 12:00 run 0, of a 0/1
        b3 generated a 2026-07-01 13:00 run 0, of a 0/1
        w registered 1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b2 satisfied a 2026-07-01 11:00, unmet 0
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
        b3 satisfied a 2026-07-01 12:00, unmet 0
        b3 assigned t3 attempt 1 to w
        b3 granted t3
        b3 started t3
        b3 attempt 1 Success
        b3 finished success
    "#]]
    .assert_eq(&world.told());
}

/// DEP-3: after a span without batches there is no previous one to wait for.
#[test]
fn a_gap_in_the_own_past_is_not_waited_for() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"schedule": every("hour"), "depends_on_past": true}))]);
    world.worker("w", 1, Script::Succeed);
    world.until("2026-07-01T11:01:00.000Z");
    let switch = |enabled| Command::Job(JobCommand::Switch { job: ids[0], enabled });
    world.ask(tidemill_model::ShardId::CATALOGUE, switch(false));
    world.pass_minutes(180);
    world.ask(tidemill_model::ShardId::CATALOGUE, switch(true));
    world.pass_minutes(60);
    assert_eq!(world.unfinished(), 0);
}

/// DEP-3: *any* needs one success, and a second one changes nothing.
#[test]
fn any_is_satisfied_by_one_success() {
    let mut world = World::at("2026-07-01T21:30:00.000Z");
    let ids = world.define(vec![
        job("p", json!({"schedule": every("hour"), "max_concurrent": 9})),
        job("c", json!({"schedule": every("day"), "parents": [{"job": "p", "mapping": "any"}]})),
    ]);
    world.until("2026-07-02T00:01:00.000Z");
    world.events();
    world.worker("w", 1, Script::Succeed);
    expect![[r#"
        w registered 1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b4 satisfied p 2026-07-01 22:00, unmet 0
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
        b4 satisfied p 2026-07-01 23:00, unmet 0
        b3 assigned t3 attempt 1 to w
        b3 granted t3
        b3 started t3
        b3 attempt 1 Success
        b3 finished success
        b4 satisfied p 2026-07-02 00:00, unmet 0
        b4 assigned t4 attempt 1 to w
        b4 granted t4
        b4 started t4
        b4 attempt 1 Success
        b4 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(ids.len(), 2);
}

/// A batch run again long afterwards finds its parent's success, though that left the working history.
#[test]
fn an_old_rerun_finds_its_parents_old_success() {
    let (mut world, ids) = family(json!("same"));
    let worker = world.worker("w", 4, Script::Succeed);
    for _ in 0..60 {
        world.pass_minutes(60);
    }
    let first = tidemill_model::BatchId::mint(2, GROUP);
    world.events();
    world.rerun(first, ids[1], "2026-07-01T11:00:00.000Z");
    expect![[r#"
        b121 generated c 2026-07-01 11:00 run 1, of p 1/1
        b121 assigned t121 attempt 1 to w
        b121 granted t121
        b121 started t121
        b121 attempt 1 Success
        b121 finished success
    "#]]
    .assert_eq(&world.told());
    // A failure is remembered as well.
    world.played(&worker).script = Script::Fail;
    world.rerun(tidemill_model::BatchId::mint(1, GROUP), ids[0], "2026-07-01T11:00:00.000Z");
    world.played(&worker).script = Script::Succeed;
    for _ in 0..30 {
        world.pass_minutes(60);
    }
    world.events();
    world.rerun(first, ids[1], "2026-07-01T11:00:00.000Z");
    assert_eq!(world.unfinished(), 1, "{}", world.told());
}

/// API-1: a submitted job waits for the newest batch of its parents.
#[test]
fn a_submission_waits_for_the_newest_batches_of_its_parents() {
    let mut world = World::new();
    let (first, _) = world.submit(World::submission("first", &[]));
    world.submit(World::submission("second", &[first]));
    world.events();
    world.worker("w", 4, Script::Succeed);
    expect![[r#"
        w registered 1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b2 satisfied first 2026-07-01 10:10, unmet 0
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
    "#]]
    .assert_eq(&world.told());
    world.submit(World::submission("third", &[first]));
    assert_eq!(world.unfinished(), 0);
    let unknown = World::submission("fourth", &[tidemill_model::JobId(99)]);
    let outcome = world.ask(GROUP, Command::Batch(BatchCommand::SubmitJob(Box::new(unknown))));
    expect!["unknown: there is no job 99"].assert_eq(&crate::kit::rejection(&outcome));
}

/// A parent that is deleted, after its child stopped naming it, leaves the child's old batch waiting and
/// everything else going.
#[test]
fn a_deleted_parent_holds_nothing_else_up() {
    let (mut world, ids) = family(json!("same"));
    world.until("2026-07-01T11:01:00.000Z");
    world.define(vec![job("c", json!({"schedule": every("hour")}))]);
    let delete = Command::Job(JobCommand::Delete { job: ids[0], cancel: true, orphan_children: false });
    world.ask(tidemill_model::ShardId::CATALOGUE, delete);
    world.events();
    world.worker("w", 4, Script::Succeed);
    expect![[r#"
        w registered 1
    "#]]
    .assert_eq(&world.told());
    world.until("2026-07-01T12:01:00.000Z");
    assert_eq!(world.unfinished(), 1);
    let old = tidemill_model::BatchId::mint(2, crate::kit::GROUP);
    assert_eq!(world.why_kinds(old), ["dependency"]);
    world.kill(old);
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.wall, at("2026-07-01T12:01:00.000Z"));
    assert_eq!(world.partition, world.folded());
}

/// API-1: only without dependencies a submitted job runs at once. For a parent that never had a batch it waits
/// for the first one, whatever that one's logical time is, and for its success.
#[test]
fn a_submission_waits_for_the_first_batch_of_its_parent() {
    let mut world = World::new();
    let ids = world.define(vec![job("p", json!({})), job("q", json!({"schedule": every("day")}))]);
    let worker = world.worker("w", 4, Script::Fail);
    for parent in ids.clone() {
        world.submit(World::submission("once", &[parent]));
    }
    world.events();
    assert_eq!(world.unfinished(), 2);
    let waits: Vec<String> = (1..=2)
        .flat_map(|n| world.why(tidemill_model::BatchId::mint(n, crate::kit::GROUP)))
        .map(|condition| format!("{}: {}", condition.kind, condition.message))
        .collect();
    assert_eq!(
        waits,
        [
            "dependency: waits for the first batch of g/p: it has no batch yet",
            "dependency: waits for the first batch of g/q: it has no batch yet"
        ]
    );
    let first = world.batch(ids[0], Some("2027-01-01T00:00:00.000Z"));
    world.played(&worker).script = Script::Succeed;
    assert_eq!(world.unfinished(), 2, "the first batch has failed");
    world.events();
    world.rerun(first, ids[0], "2027-01-01T00:00:00.000Z");
    expect![[r#"
        b4 generated p 2027-01-01 00:00 run 1
        b1 unblocked
        b4 assigned t2 attempt 1 to w
        b4 granted t2
        b4 started t2
        b4 attempt 1 Success
        b4 finished success
        b1 satisfied p 2027-01-01 00:00, unmet 0
        b1 assigned t3 attempt 1 to w
        b1 granted t3
        b1 started t3
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    // The day's logical time of today was never generated: the job counts from its definition on.
    world.until("2026-07-02T00:01:00.000Z");
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// API-1: one that is killed while it waits for a first batch is waited for by nothing.
#[test]
fn a_killed_submission_waits_for_no_first_batch() {
    let mut world = World::new();
    let ids = world.define(vec![job("p", json!({}))]);
    let (_, batch) = world.submit(World::submission("once", &ids));
    world.kill(batch);
    world.worker("w", 1, Script::Succeed);
    world.batch(ids[0], None);
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}
