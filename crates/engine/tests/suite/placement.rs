//! DSP-1 to DSP-4: who gets a worker, which one, and who waits for it.

use crate::kit::{GROUP, Script, World, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    BatchCommand, BatchEvent, BatchId, Command, Event, GroupSettings, Heartbeat, JobCommand, JobId, Measure,
    Priority, Reserved, ShardId, Submission, WorkerCommand,
};

fn of_priority(name: &str, priority: u8) -> Submission {
    Submission { priority: Priority::try_from(priority).unwrap(), ..World::submission(name, &[]) }
}

/// The names of jobs in the order in which they were assigned.
fn order(world: &mut World, names: &[(BatchId, &str)]) -> String {
    let events = world.events();
    let assigned = events.iter().filter_map(|event| match event {
        Event::Batch(BatchEvent::Assigned { batch, .. }) => {
            names.iter().find(|(id, _)| id == batch).map(|(_, name)| *name)
        }
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
        world.batch(id, Some(&format!("2026-07-01T00:{minute:02}:00.000Z")));
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
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
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
    world.say(Command::Worker(WorkerCommand::Drain { worker: worker.clone() }));
    let (_, batch) = world.submit(World::submission("second", &[]));
    assert_eq!(world.why_kinds(batch), ["drained"]);
    world.say(Command::Worker(WorkerCommand::Drain { worker: worker.clone() }));
    world.events();
    let again = world.played(&worker).restart();
    world.played(&worker).running.clear();
    world.say(again);
    assert_eq!(world.why_kinds(batch), ["drained"], "also after a restart");
    world.events();
    world.say(Command::Worker(WorkerCommand::Resume { worker }));
    expect![[r#"
        w resumed
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
    "#]]
    .assert_eq(&world.told());
    let outcome = world.ask(
        GROUP,
        Command::Worker(WorkerCommand::Drain { worker: tidemill_model::WorkerId::new("nobody") }),
    );
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
    let run = |job| {
        Command::Batch(BatchCommand::RunJob {
            job,
            logical_time: None,
            parameters: Default::default(),
            concurrent: true,
        })
    };
    world.send(GROUP, run(top));
    world.send(ShardId(2), run(other[0]));
    world.step(usize::MAX);
    let finished = world
        .events()
        .iter()
        .any(|event| matches!(event, Event::Batch(BatchEvent::Finished { batch, .. }) if batch.shard() == ShardId(2)));
    assert!(finished, "in the first draft, though the first group fills it");
}

/// DSP-1: what waits or is ready of a disabled job is not assigned; enabled again, it goes on.
#[test]
fn batches_of_a_disabled_job_wait_until_it_is_enabled() {
    let switch = |job, enabled| Command::Job(JobCommand::Switch { job, enabled });
    let mut world = World::new();
    let of_p = json!({"parents": ["p"], "max_concurrent": 2, "retries": 1, "retry_interval_s": 60});
    let ids = world.define(vec![
        job("p", json!({"type": "anchor"})),
        job("a", of_p),
        job("b", json!({"type": "anchor"})),
    ]);
    for minute in 0..3 {
        world.batch(ids[0], Some(&format!("2026-07-01T00:{minute:02}:00.000Z")));
    }
    world.pass_minutes(1);
    let since = world.wall;
    world.events();
    world.ask(ShardId::CATALOGUE, switch(ids[1], false));
    world.pass_minutes(1);
    world.worker("w", 4, Script::Fail);
    assert_eq!(world.unfinished(), 3);
    assert!(!world.told().contains("assigned"));
    // Each batch of the parent is followed by one of its child.
    for batch in (1..=3).map(|n| BatchId::mint(2 * n, GROUP)) {
        let conditions = world.why(batch);
        let condition = conditions.iter().find(|condition| condition.kind == "disabled").unwrap();
        assert_eq!(condition.since, Some(since));
        assert_eq!(conditions.len(), 1, "{conditions:?}");
        assert_eq!(condition.message, "job g/a is disabled; enable it to let this go on");
    }
    world.ask(ShardId::CATALOGUE, switch(ids[1], true));
    let told = world.told();
    assert_eq!(told.matches("attempt 1 Failed").count(), 3, "{told}");
    // Switched off between two attempts, and changed while it is off, the second one waits as well.
    world.ask(ShardId::CATALOGUE, switch(ids[1], false));
    let changed = json!({"parents": ["p"], "max_concurrent": 3, "retries": 1, "retry_interval_s": 60, "enabled": false});
    world.define(vec![
        job("p", json!({"type": "anchor"})),
        job("a", changed),
        job("b", json!({"type": "anchor"})),
    ]);
    world.pass_minutes(2);
    let told = world.told();
    assert!(told.contains("retry due") && !told.contains("assigned"), "{told}");
    assert!(world.why_kinds(BatchId::mint(2, GROUP)).contains(&"disabled".to_owned()));
    world.ask(ShardId::CATALOGUE, switch(ids[1], true));
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

fn measured(world: &mut World, worker: &tidemill_model::WorkerId, measure: (u32, u32, u32)) {
    let played = world.played(worker);
    let (worker, incarnation) = (played.id.clone(), played.incarnation.clone());
    let (memory_total_mb, memory_free_mb, load_percent) = measure;
    let measure = Some(Measure { memory_total_mb, memory_free_mb, load_percent });
    world.say(Command::Worker(WorkerCommand::Heartbeat(Heartbeat {
        worker,
        incarnation,
        number: 7,
        measure,
        unready: None,
        excesses: Vec::new(),
        leaving: None,
        external_work: Vec::new(),
        status: None,
    })));
}

/// DSP-4: memory that a job needs is reserved while a batch of it is assigned or runs, and never more than there is.
#[test]
fn memory_is_reserved_and_never_oversold() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"memory_mb": 400, "max_concurrent": 9}))]);
    let worker = world.worker("w", 100, Script::Run);
    let first = world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    assert_eq!(world.why_kinds(first), ["no_memory"], "it has not said what it has");
    measured(&mut world, &worker, (1_000, 900, 10));
    assert_eq!(running(&world), 1);
    let second = world.batch(ids[0], Some("2026-07-01T00:01:00.000Z"));
    let third = world.batch(ids[0], Some("2026-07-01T00:02:00.000Z"));
    assert_eq!(running(&world), 2, "100 MiB are others', 800 are reserved");
    assert_eq!(world.why_kinds(third), ["no_memory"]);
    world.events();
    let restarted = world.played(&worker).registration();
    world.say(Command::Worker(WorkerCommand::Register(Box::new(restarted))));
    assert_eq!(running(&world), 2, "what is reserved stays so when it registers again");
    let token = world.played(&worker).running.pop_first().unwrap().0;
    let end = world.played(&worker).finished(token, tidemill_model::AttemptResult::Success);
    world.say(end);
    assert_eq!(running(&world), 2, "the third has got the memory of the first");
    assert_eq!(world.why_kinds(second), Vec::<String>::new());
    assert_eq!(world.partition, world.folded());
}

/// EXE-1, DSP-4: a batch that a worker gave back goes to that worker again where the others can never hold it: one has
/// less memory in all than the batch needs, one keeps every slot for other jobs.
#[test]
fn a_batch_given_back_does_not_wait_for_a_worker_that_can_never_take_it() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"memory_mb": 1_100}))]);
    let able = world.worker("w", 1, Script::Reject);
    let small = world.worker("small", 1, Script::Run);
    let keeping = world.worker("keeping", 1, Script::Run);
    world.played(&keeping).reserved = Some(Reserved { slots: 1, priority: None });
    let registration = world.played(&keeping).registration();
    world.say(Command::Worker(WorkerCommand::Register(Box::new(registration))));
    measured(&mut world, &able, (4_000, 4_000, 10));
    measured(&mut world, &small, (1_000, 1_000, 10));
    measured(&mut world, &keeping, (4_000, 4_000, 10));
    world.events();
    world.batch(ids[0], None);
    expect![[r#"
        b1 generated a 2026-07-01 10:10 run 0
        b1 assigned t1 attempt 1 to w
        b1 returned t1: Rejected("busy")
        b1 assigned t2 attempt 1 to w
        b1 returned t2: Rejected("busy")
    "#]]
    .assert_eq(&world.told());
    world.played(&able).script = Script::Succeed;
    world.pass_ms(10_000);
    expect![[r#"
        b1 retry due
        b1 assigned t3 attempt 1 to w
        b1 granted t3
        b1 started t3
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// MON-7, EXE-8: a heartbeat that says nothing new makes no event.
#[test]
fn heartbeats_that_say_nothing_new_make_no_event() {
    let mut world = World::new();
    let worker = world.worker("w", 1, Script::Run);
    world.events();
    for free in [500, 510, 595, 405, 100, 999] {
        measured(&mut world, &worker, (1_000, free, 10));
    }
    assert_eq!(world.told(), "w load 10 %, 500 MiB free\n", "within a minute nothing else is noted");
    world.pass_minutes(1);
    measured(&mut world, &worker, (1_000, 505, 40));
    assert_eq!(world.told(), "", "too little has changed");
    measured(&mut world, &worker, (1_000, 300, 40));
    assert_eq!(world.told(), "w load 40 %, 300 MiB free\n");
}

/// MON-7: an overloaded worker gets no work, says so in *why*, and recovers by itself.
#[test]
fn an_overloaded_worker_gets_no_work_until_it_recovers() {
    let settings = GroupSettings { max_load_percent: 200, ..GroupSettings::default() };
    let mut world = World::with(crate::kit::START, settings);
    let worker = world.worker("w", 5, Script::Run);
    measured(&mut world, &worker, (1_000, 900, 250));
    let (_, batch) = world.submit(World::submission("a", &[]));
    assert_eq!(world.why_kinds(batch), ["worker_overloaded"]);
    measured(&mut world, &worker, (1_000, 900, 180));
    assert_eq!(running(&world), 0, "not yet well below its bound");
    measured(&mut world, &worker, (1_000, 900, 150));
    assert_eq!(running(&world), 1);
    assert_eq!(world.partition, world.folded());
}

/// DSP-4: slots that are kept for pinned jobs and high priorities are given to no other, and serve those first.
#[test]
fn reserved_slots_are_kept_for_whom_they_are_for() {
    let mut world = World::new();
    let worker = world.worker("w", 3, Script::Run);
    let kept = Reserved { slots: 2, priority: Some(Priority::try_from(1_i64).unwrap()) };
    world.played(&worker).reserved = Some(kept);
    let again = world.played(&worker).registration();
    world.say(Command::Worker(WorkerCommand::Register(Box::new(again))));
    let common: Vec<BatchId> = (0..2).map(|_| world.submit(of_priority("common", 2)).1).collect();
    assert_eq!(running(&world), 1, "one of three slots is for anybody");
    let why = world.why(common[1]);
    assert_eq!((why[0].kind.as_str(), why[0].message.contains("kept for other jobs")), ("no_slot", true));
    world.submit(of_priority("high", 1));
    assert_eq!(running(&world), 2);
    let ids = world.define(vec![job("pinned", json!({"host": "host-w", "priority": 9}))]);
    world.batch(ids[0], None);
    assert_eq!(running(&world), 3);
    let (_, late) = world.submit(of_priority("high", 0));
    assert_eq!(world.why_kinds(late), ["no_slot"], "three slots are three slots");
    assert_eq!(world.partition, world.folded());
}

/// DSP-4: what cannot be kept is refused with the registration.
#[test]
fn more_than_all_slots_cannot_be_kept() {
    let mut world = World::new();
    let worker = world.worker("w", 3, Script::Run);
    world.played(&worker).reserved = Some(Reserved { slots: 4, priority: None });
    let again = world.played(&worker).registration();
    let outcome = world.ask(GROUP, Command::Worker(WorkerCommand::Register(Box::new(again))));
    expect![
        "bad_registration: worker w is not registered: it reserves 4 of its 3 slots for noop; 1 to all can be"
    ]
    .assert_eq(&rejection(&outcome));
}

/// DSP-4: memory of no size, and for what runs nowhere, is refused by name.
#[test]
fn memory_that_cannot_be_is_refused() {
    let mut world = World::new();
    let outcome = world.apply(vec![job("a", json!({"memory_mb": 0}))]);
    expect![[r#"invalid: jobs[0].memory_mb: "0": must be 1 to 16777216; leave it out for none"#]]
        .assert_eq(&rejection(&outcome));
    let outcome = world.apply(vec![job("a", json!({"memory_mb": 5, "type": "anchor"}))]);
    expect![[r#"invalid: jobs[0].memory_mb: "5": an anchor runs on no worker; leave it out"#]]
        .assert_eq(&rejection(&outcome));
}

fn owned(name: &str, owner: &str) -> Submission {
    Submission { owner: owner.to_owned(), ..World::submission(name, &[]) }
}

/// BYD-4: two owners of equal priority take turns, however many batches one of them has.
#[test]
fn owners_take_turns() {
    let mut world = World::new();
    let mut names = Vec::new();
    for n in 0..5 {
        names.push((world.submit(owned(&format!("a{n}"), "ann")).1, "a"));
        world.pass_ms(1);
    }
    for n in 0..2 {
        names.push((world.submit(owned(&format!("b{n}"), "bob")).1, "b"));
        world.pass_ms(1);
    }
    world.worker("w", 1, Script::Succeed);
    expect!["a b a b a a a"].assert_eq(&order(&mut world, &names));
    assert_eq!(world.partition, world.folded());
}
