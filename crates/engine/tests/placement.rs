//! DSP-1 to DSP-4: who gets a worker, which one, and who waits for it.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod kit;

use expect_test::expect;
use kit::{GROUP, Script, World, job, rejection};
use serde_json::json;
use tidemill_model::{BatchId, Command, Event, JobId, Priority, ShardId, Submission};

fn of_priority(name: &str, priority: u8) -> Submission {
    Submission { priority: Priority::try_from(priority).unwrap(), ..World::submission(name, &[]) }
}

/// The names of jobs in the order in which they were assigned.
fn order(world: &mut World, names: &[(BatchId, &str)]) -> String {
    let events = world.events();
    let assigned = events.iter().filter_map(|event| match event {
        Event::BatchAssigned { batch, .. } => names.iter().find(|(id, _)| id == batch).map(|(_, name)| *name),
        _ => None,
    });
    assigned.collect::<Vec<_>>().join(" ")
}

/// DSP-4: priority first, then age.
#[test]
fn priority_goes_first_then_age() {
    let mut world = World::new();
    let names = ["low", "middle", "high", "later"];
    let priorities = [9, 5, 0, 5];
    let batches = names.iter().zip(priorities).map(|(name, priority)| {
        let batch = world.submit(of_priority(name, priority)).1;
        world.pass_ms(1);
        (batch, *name)
    });
    let batches: Vec<_> = batches.collect();
    world.worker("w", 1, Script::Succeed);
    expect!["high middle later low"].assert_eq(&order(&mut world, &batches));
}

/// DSP-4: whoever waits long enough goes first, whatever the priority: ten minutes a step.
#[test]
fn waiting_makes_up_for_priority() {
    for (minutes, expected) in [(89, "high low"), (91, "low high")] {
        let mut world = World::new();
        let low = world.submit(of_priority("low", 9)).1;
        world.pass_minutes(minutes);
        let high = world.submit(of_priority("high", 0)).1;
        world.worker("w", 1, Script::Succeed);
        assert_eq!(order(&mut world, &[(low, "low"), (high, "high")]), expected);
    }
}

fn many(world: &mut World, id: JobId, count: u32) {
    for minute in 0..count {
        world.batch(id, Some(&format!("2026-07-01T00:{minute:02}:00Z")));
    }
}

fn running(world: &World) -> usize {
    world.workers.iter().map(|worker| worker.running.len()).sum()
}

/// DSP-1, DSP-2: exactly as many batches of a job at once as it says, and the next as soon as one ends.
#[test]
fn the_concurrency_limit_is_exact() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"max_concurrent": 3}))]);
    many(&mut world, ids[0], 8);
    let worker = world.worker("w", 100, Script::Run);
    for left in (0..=8).rev() {
        assert_eq!(running(&world), left.min(3));
        assert_eq!(world.unfinished(), left);
        let Some(token) = world.played(&worker).running.pop_first() else { continue };
        let end = world.played(&worker).finished(token.0, tidemill_model::AttemptResult::Success);
        world.say(end);
    }
    assert_eq!(world.partition, world.folded());
}

/// DSP-1: a limit that is lowered holds for what is not assigned yet; one that is raised does at once.
#[test]
fn a_changed_limit_holds_at_once() {
    let mut world = World::new();
    let limit = |n: u32| vec![job("a", json!({"max_concurrent": n}))];
    let ids = world.define(limit(5));
    many(&mut world, ids[0], 8);
    world.define(limit(2));
    world.worker("w", 100, Script::Run);
    assert_eq!(running(&world), 2);
    world.define(limit(4));
    assert_eq!(running(&world), 4);
    world.define(limit(1));
    assert_eq!(running(&world), 4, "what runs, runs on");
    assert_eq!(world.partition, world.folded());
}

/// DSP-4: a pinned job runs on its host only.
#[test]
fn a_pinned_job_waits_for_its_host() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"host": "host-x"}))]);
    world.worker("w", 9, Script::Succeed);
    let batch = world.batch(ids[0], None);
    assert_eq!(world.why_kinds(batch), ["pinned_host"]);
    world.events();
    world.worker("x", 1, Script::Succeed);
    expect![[r#"
        x registered 1
        b1 assigned t1 attempt 1 to x
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
}

/// DSP-4: never more attempts on a worker than it has slots, the emptiest worker first.
#[test]
fn slots_are_kept_and_spread() {
    let mut world = World::new();
    world.worker("w", 1, Script::Run);
    world.worker("x", 3, Script::Run);
    for n in 0..6 {
        world.submit(World::submission(&format!("s{n}"), &[]));
    }
    let loads: Vec<usize> = world.workers.iter().map(|worker| worker.running.len()).collect();
    assert_eq!(loads, [1, 3]);
    assert_eq!(world.partition.group(GROUP).unwrap().queued_batches(), 2);
}

/// An anchor needs no worker, not even where it names a host.
#[test]
fn anchors_complete_by_themselves() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("a", json!({"type": "anchor", "host": "nowhere"})),
        job("b", json!({"type": "anchor", "parents": ["a"]})),
    ]);
    world.batch(ids[0], Some("2026-07-01T00:00:00Z"));
    expect![[r#"
        b1 generated a 2026-07-01 00:00 run 0
        b2 generated b 2026-07-01 00:00 run 0, of a 0/1
        b1 finished success
        b2 satisfied a 2026-07-01 00:00, unmet 0
        b2 finished success
    "#]]
    .assert_eq(&world.told());
}

/// EXE-9: a drained worker finishes what it runs and takes nothing new.
#[test]
fn a_drained_worker_takes_nothing_new() {
    let mut world = World::new();
    let worker = world.worker("w", 4, Script::Run);
    world.submit(World::submission("first", &[]));
    world.say(Command::DrainWorker { worker: worker.clone() });
    let (_, batch) = world.submit(World::submission("second", &[]));
    assert_eq!(world.why_kinds(batch), ["drained"]);
    world.say(Command::DrainWorker { worker: worker.clone() });
    world.events();
    let again = world.played(&worker).restart();
    world.played(&worker).running.clear();
    world.say(again);
    assert_eq!(world.why_kinds(batch), ["drained"], "also after a restart");
    world.events();
    world.say(Command::ResumeWorker { worker });
    expect![[r#"
        w resumed
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
    "#]]
    .assert_eq(&world.told());
    let outcome = world.ask(GROUP, Command::DrainWorker { worker: tidemill_model::WorkerId::new("nobody") });
    expect!["unknown: there is no worker nobody"].assert_eq(&rejection(&outcome));
}

/// One group's flood does not keep another group's batch waiting.
#[test]
fn groups_take_turns() {
    let mut world = World::new();
    world.define_group("h", tidemill_model::GroupSettings::default());
    let many: Vec<_> =
        (0..300).map(|n| job(&format!("a{n}"), json!({"type": "anchor", "parents": ["top"]}))).collect();
    let top = world.define(vec![job("top", json!({"type": "anchor"}))])[0];
    world.define(many.clone());
    let renamed = many.into_iter().enumerate().map(|(n, spec)| tidemill_model::JobSpec {
        name: format!("b{n}").as_str().try_into().unwrap(),
        ..spec
    });
    world.define(renamed.collect());
    let other = world.define(vec![job("other", json!({"type": "anchor", "group": "h"}))]);
    let run = |job| Command::RunJob { job, logical_time: None, parameters: Default::default() };
    world.send(GROUP, run(top));
    world.send(ShardId(2), run(other[0]));
    world.step(usize::MAX);
    let finished = world
        .events()
        .iter()
        .any(|event| matches!(event, Event::BatchFinished { batch, .. } if batch.shard() == ShardId(2)));
    assert!(finished, "in the first draft, though the first group fills it");
}

/// DSP-1: what waits or is ready of a disabled job is not assigned; enabled again, it goes on.
#[test]
fn batches_of_a_disabled_job_wait_until_it_is_enabled() {
    let switch = |job, enabled| Command::SwitchJob { job, enabled };
    let mut world = World::new();
    let ids = world.define(vec![
        job("a", json!({"max_concurrent": 2, "retries": 1, "retry_interval_s": 60})),
        job("b", json!({"type": "anchor"})),
    ]);
    for minute in 0..3 {
        world.batch(ids[0], Some(&format!("2026-07-01T00:{minute:02}:00Z")));
    }
    world.pass_minutes(1);
    let since = world.wall;
    world.ask(ShardId::CATALOGUE, switch(ids[0], false));
    world.pass_minutes(1);
    world.worker("w", 4, Script::Fail);
    assert_eq!(world.unfinished(), 3);
    assert!(!world.told().contains("assigned"));
    for batch in (1..=3).map(|n| BatchId::mint(n, GROUP)) {
        let conditions = world.why(batch);
        let condition = conditions.iter().find(|condition| condition.kind == "disabled").unwrap();
        assert_eq!(condition.since, Some(since));
        assert_eq!(conditions.len(), 1, "{conditions:?}");
        assert_eq!(condition.message, "job g/a is disabled; enable it to let this go on");
    }
    world.ask(ShardId::CATALOGUE, switch(ids[0], true));
    let told = world.told();
    assert_eq!(told.matches("attempt 1 Failed").count(), 3, "{told}");
    // Switched off between two attempts, and changed while it is off, the second one waits as well.
    world.ask(ShardId::CATALOGUE, switch(ids[0], false));
    let changed = json!({"max_concurrent": 3, "retries": 1, "retry_interval_s": 60, "enabled": false});
    world.define(vec![job("a", changed), job("b", json!({"type": "anchor"}))]);
    world.pass_minutes(2);
    let told = world.told();
    assert!(told.contains("retry due") && !told.contains("assigned"), "{told}");
    assert!(world.why_kinds(BatchId::mint(1, GROUP)).contains(&"disabled".to_owned()));
    world.ask(ShardId::CATALOGUE, switch(ids[0], true));
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}
