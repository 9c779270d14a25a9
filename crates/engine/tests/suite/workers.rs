//! EXE-8, EXE-11: workers that come, fall silent, come back.

use crate::kit::{GROUP, Script, World, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptEvent, AttemptResult, BatchCommand, BatchEvent, Command, Event, GroupSettings, Incarnation,
    OnSilence, Registration, ReplicationEvent, Token, WorkMessage, WorkerCommand, WorkerEvent, WorkerId,
};

/// A worker `w` with one attempt that runs and one assignment that it has not started.
fn busy(settings: GroupSettings) -> (World, WorkerId, Token) {
    let mut world = World::with(crate::kit::START, settings);
    let ids = world.define(vec![job("a", json!({"max_concurrent": 2, "retries": 1, "retry_interval_s": 0}))]);
    let worker = world.worker("w", 2, Script::Run);
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    let token = world.played(&worker).last_token();
    world.played(&worker).script = Script::Silent;
    world.batch(ids[0], Some("2026-07-01T01:00:00.000Z"));
    world.events();
    (world, worker, token)
}

fn register(registration: Registration) -> Command {
    Command::Worker(WorkerCommand::Register(Box::new(registration)))
}

/// EXE-11: only what the group's key signed is registered.
#[test]
fn registration_needs_the_groups_key() {
    let mut world = World::new();
    let good = crate::kit::TestWorker::new("w", 1, Script::Run).registration();
    let bad = [
        Registration { signature: "00".repeat(64), ..good.clone() },
        Registration { signature: "nonsense".to_owned(), ..good.clone() },
        Registration { incarnation: Incarnation::new("2"), ..good.clone() },
        Registration { worker: WorkerId::new("x"), ..good.clone() },
        Registration { group: crate::kit::group("h"), ..good.clone() },
        Registration { slots: Default::default(), ..good.clone() },
        Registration { address: "x".repeat(300), ..good.clone() },
    ];
    for registration in bad {
        let outcome = world.ask(GROUP, register(registration));
        assert!(rejection(&outcome).starts_with("bad_registration"), "{}", rejection(&outcome));
    }
    assert_eq!(world.told(), "");
    world.say(register(good));
    expect![[r#"
        w registered 1
    "#]]
    .assert_eq(&world.told());
}

/// EXE-8: a lost worker's assignments go elsewhere, what runs there is left alone until its lease is over.
#[test]
fn a_lost_workers_attempts_wait_for_its_lease() {
    let (mut world, worker, _) = busy(GroupSettings::default());
    world.worker("x", 4, Script::Succeed);
    world.events();
    world.lost(&worker);
    expect![[r#"
        w lost
        b2 returned t2: WorkerLost
        b2 assigned t3 attempt 1 to x
        b2 granted t3
        b2 started t3
        b2 attempt 1 Success
        b2 finished success
    "#]]
    .assert_eq(&world.told());
    world.lost(&worker);
    assert_eq!(world.told(), "", "lost once is lost");
    world.lease_over(&worker);
    expect![[r#"
        w lease expired
        b1 attempt 1 Lost
        b1 retry 2 at 2026-07-01 10:10
        b1 retry due
        b1 assigned t4 attempt 2 to x
        b1 granted t4
        b1 started t4
        b1 attempt 2 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// EXE-8: a lease ends only for a worker that was lost, and only for the life that was.
#[test]
fn a_lease_ends_only_for_the_lost_life() {
    let (mut world, worker, _) = busy(GroupSettings::default());
    world.lease_over(&worker);
    assert_eq!(world.told(), "");
    world.lost(&worker);
    world.events();
    let (worker, incarnation) = (worker.clone(), Incarnation::new("9"));
    world.observe(GROUP, Command::Worker(WorkerCommand::ExpireLease { worker, incarnation }));
    assert_eq!(world.told(), "");
}

/// EXE-8: with *hold*, silence alone never ends an attempt.
#[test]
fn a_holding_group_waits_for_a_witness() {
    let (mut world, worker, token) =
        busy(GroupSettings { on_silence: OnSilence::Hold, ..GroupSettings::default() });
    world.lost(&worker);
    world.events();
    world.lease_over(&worker);
    assert_eq!(world.told(), "");
    let end = world.played(&worker).finished(token, AttemptResult::Failed);
    world.say(end);
    expect![[r#"
        b1 attempt 1 Failed
        b1 retry 2 at 2026-07-01 10:10
        b1 retry due
    "#]]
    .assert_eq(&world.told());
}

/// EXE-8: a worker that is heard of again in the same life goes on as if nothing had been.
#[test]
fn a_found_worker_goes_on() {
    let (mut world, worker, token) = busy(GroupSettings::default());
    world.lost(&worker);
    world.events();
    let alive = world.played(&worker).heartbeat();
    world.say(alive.clone());
    expect![[r#"
        w found
        b2 assigned t3 attempt 1 to w
    "#]]
    .assert_eq(&world.told());
    world.say(alive);
    assert_eq!(world.told(), "", "a heartbeat alone is no event");
    let end = world.played(&worker).finished(token, AttemptResult::Success);
    world.say(end);
    expect![[r#"
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
}

/// EXE-8: a life whose lease is over is over: its words are refused, and it must come as another.
#[test]
fn an_expired_life_must_register_anew() {
    let (mut world, worker, token) = busy(GroupSettings::default());
    world.lost(&worker);
    world.lease_over(&worker);
    let told = world.played(&worker).heard.last().cloned();
    assert!(
        matches!(told, Some(WorkMessage::Recorded { .. } | WorkMessage::Unregistered { .. })),
        "{told:?}"
    );
    let again = world.played(&worker).registration();
    let outcome = world.ask(GROUP, register(again));
    expect![
        "bad_registration: worker w is not registered: the lease of this life is over; start as a new one"
    ]
    .assert_eq(&rejection(&outcome));
    let late = world.played(&worker).finished(token, AttemptResult::Success);
    let outcome = world.ask(GROUP, late);
    expect!["stale_token: token 4097 is not live for this worker: it has ended, or was never issued"]
        .assert_eq(&rejection(&outcome));
    let alive = world.played(&worker).heartbeat();
    world.say(alive);
    let told = world.played(&worker).heard.last().cloned();
    assert_eq!(
        told,
        Some(WorkMessage::Unregistered { incarnation: Incarnation::new("1"), shard: Some(GROUP) })
    );
    world.events();
    world.played(&worker).script = Script::Succeed;
    let anew = world.played(&worker).restart();
    world.say(anew);
    expect![[r#"
        w registered 2
        b1 assigned t3 attempt 2 to w
        b2 assigned t4 attempt 1 to w
        b1 granted t3
        b2 granted t4
        b1 started t3
        b1 attempt 2 Success
        b1 finished success
        b2 started t4
        b2 attempt 1 Success
        b2 finished success
    "#]]
    .assert_eq(&world.told());
}

/// EXE-10: a restarted worker hears what it was granted, and reports what it does not have as lost.
#[test]
fn a_restarted_worker_reports_what_it_lost() {
    let (mut world, worker, _) = busy(GroupSettings::default());
    world.played(&worker).script = Script::Succeed;
    let anew = world.played(&worker).restart();
    world.say(anew);
    expect![[r#"
        w registered 2
        b2 returned t2: WorkerRestarted
        b2 assigned t3 attempt 1 to w
        b1 attempt 1 Lost
        b1 retry 2 at 2026-07-01 10:10
        b2 granted t3
        b1 retry due
        b1 assigned t4 attempt 2 to w
        b2 started t3
        b2 attempt 1 Success
        b2 finished success
        b1 granted t4
        b1 started t4
        b1 attempt 2 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// A worker that registers again in the same life keeps what it has.
#[test]
fn the_same_life_registers_twice() {
    let (mut world, worker, token) = busy(GroupSettings::default());
    let again = world.played(&worker).registration();
    let heard = world.played(&worker).heard.len();
    world.say(register(again));
    expect![[r#"
        w registered 1
    "#]]
    .assert_eq(&world.told());
    let heard = world.played(&worker).heard[heard..].to_vec();
    assert!(
        matches!(&heard[0], WorkMessage::Registered { granted, .. } if *granted == [token]),
        "the answer comes first, with what was granted: {heard:?}"
    );
    assert_eq!(heard.len(), 3, "then the grant and the assignment");
}

/// A worker that nobody knows is told to register.
#[test]
fn an_unknown_worker_is_told_to_register() {
    let mut world = World::new();
    world.say(crate::kit::TestWorker::new("ghost", 1, Script::Run).heartbeat());
    assert!(matches!(world.work()[..], [WorkMessage::Unregistered { .. }]));
    assert_eq!(world.told().lines().count(), 0);
}

/// Rule 1: a worker with thousands of attempts is settled in steps that fit into records, all of them.
#[test]
fn thousands_of_attempts_of_a_dead_worker_are_settled_in_steps() {
    let mut world = World::new();
    let worker = world.worker("w", 3_000, Script::Run);
    for n in 0..3_000 {
        let submission = World::submission(&format!("s{n}"), &[]);
        world.send(GROUP, Command::Batch(BatchCommand::SubmitJob(Box::new(submission))));
    }
    world.run();
    world.played(&worker).script = Script::Silent;
    assert_eq!(world.played(&worker).running.len(), 3_000);
    world.lost(&worker);
    world.events();
    world.lease_over(&worker);
    let ended =
        world.events().iter().filter(|e| matches!(e, Event::Attempt(AttemptEvent::Finished { .. }))).count();
    assert_eq!(ended, 3_000);
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// Rule 1: the same for assignments, when the worker comes back as another process in between.
#[test]
fn thousands_of_assignments_of_a_restarted_worker_are_returned_in_steps() {
    let mut world = World::new();
    let worker = world.worker("w", 3_000, Script::Silent);
    for n in 0..3_000 {
        let submission = World::submission(&format!("s{n}"), &[]);
        world.send(GROUP, Command::Batch(BatchCommand::SubmitJob(Box::new(submission))));
    }
    world.run();
    world.events();
    let anew = world.played(&worker).restart();
    world.say(anew);
    let returned = world
        .events()
        .iter()
        .filter(|e| matches!(e, Event::Batch(BatchEvent::AssignmentReturned { .. })))
        .count();
    assert_eq!(returned, 3_000);
    assert_eq!(world.unfinished(), 3_000);
    assert_eq!(world.partition, world.folded());
}

/// EXE-10: a registration that comes late, of a life that another one has replaced, does not replace that.
#[test]
fn a_life_that_was_replaced_does_not_come_again() {
    let (mut world, worker, _) = busy(GroupSettings::default());
    let late = world.played(&worker).registration();
    let anew = world.played(&worker).restart();
    world.say(anew);
    world.events();
    let outcome = world.ask(GROUP, register(late));
    expect![
        "bad_registration: worker w is not registered: another life has replaced this one; start as a new one"
    ]
    .assert_eq(&rejection(&outcome));
    assert_eq!(world.told(), "");
    let group = world.partition.group(GROUP).unwrap();
    assert!(
        group.is_live(&worker, &Incarnation::new("2")) && group.has_ended(&worker, &Incarnation::new("1"))
    );
    assert_eq!(world.partition, world.folded());
}

/// 15e45e7: a new life that registers twice before its predecessor's assignments were returned does not keep
/// them.
#[test]
fn registering_twice_does_not_keep_what_an_earlier_life_was_assigned() {
    let (mut world, worker, _) = busy(GroupSettings::default());
    let anew = world.played(&worker).restart();
    // Both are decided before anything is settled.
    world.send(GROUP, anew.clone());
    world.send(GROUP, anew);
    world.run();
    let told = world.told();
    assert!(told.contains("b2 returned t2: WorkerRestarted"), "{told}");
    let late = world.played(&worker).request(Token::mint(2, GROUP));
    world.say(late);
    assert!(!world.told().contains("granted t2"));
    assert_eq!(world.partition, world.folded());
}

/// Rule 8: what an earlier life was assigned is not granted to the next, however early that one asks.
#[test]
fn a_new_life_is_not_granted_what_an_earlier_one_was_assigned() {
    let (mut world, worker, _) = busy(GroupSettings::default());
    let anew = world.played(&worker).restart();
    let early = world.played(&worker).request(Token::mint(2, GROUP));
    // Both are decided before anything is settled.
    world.send(GROUP, anew);
    world.send(GROUP, early);
    world.run();
    let told = world.told();
    assert!(told.contains("b2 returned t2: WorkerRestarted") && !told.contains("granted t2"), "{told}");
    assert_eq!(world.partition, world.folded());
}

fn kills_after(lease_ms: u64) -> GroupSettings {
    GroupSettings { lost_after_ms: 1_000, lease_ms, lease_margin_ms: 0, ..GroupSettings::default() }
}

fn holds() -> GroupSettings {
    GroupSettings { on_silence: OnSilence::Hold, ..kills_after(600_000) }
}

fn lease(world: &World) -> Option<u64> {
    world.partition.group(GROUP).unwrap().live_workers().next().unwrap().lease_ends_after_ms
}

/// EXE-8: a lease is over by what the worker was told, not by what the group has become since: shortened, or
/// turned from hold to kill, it would be over for the owner while the worker goes on.
#[test]
fn a_lease_ends_by_what_the_worker_was_told() {
    let minute = kills_after(60_000);
    let table = [
        ("shortened", minute.clone(), kills_after(5_000), Some(60_000)),
        ("prolonged", minute.clone(), kills_after(90_000), Some(60_000)),
        ("hold to kill", holds(), kills_after(5_000), None),
        ("kill to hold", minute, holds(), None),
    ];
    for (case, told, changed, expected) in table {
        let (mut world, worker, _) = busy(told.clone());
        world.define_group("g", changed.clone());
        assert_eq!(lease(&world), expected, "{case}");
        // An answer may be lost, so the first one counts on, if it is the longer.
        let again = world.played(&worker).registration();
        world.say(register(again));
        let both = [&told, &changed].map(|s| (s.on_silence == OnSilence::Kill).then_some(s.lease_ms));
        let longest = both[0].zip(both[1]).map(|(a, b)| a.max(b));
        assert_eq!(lease(&world), longest, "{case}, registered again");
        world.lost(&worker);
        world.events();
        world.lease_over(&worker);
        assert_eq!(world.told().contains("lease expired"), longest.is_some(), "{case}");
        assert_eq!(world.partition, world.folded());
    }
}

/// EXE-8: another life is told anew; what its earlier ones were told counts until all they held has ended.
#[test]
fn a_new_life_counts_what_earlier_ones_were_told_while_they_hold_something() {
    let (mut world, worker, token) = busy(holds());
    world.define_group("g", kills_after(5_000));
    let anew = world.played(&worker).restart();
    world.say(anew);
    assert_eq!(lease(&world), None, "what the first life ran may run on");
    let end = world.played(&worker).finished(token, AttemptResult::Lost);
    world.say(end);
    let busy = world.played(&worker).last_token();
    let rejected = Command::Worker(WorkerCommand::RejectAssignment {
        lacks_resources: false,
        token: busy,
        worker: worker.clone(),
        nonce: None,
        reason: "no".to_owned(),
    });
    let drain = Command::Worker(WorkerCommand::Drain { worker: worker.clone() });
    world.say(drain);
    world.say(rejected);
    for token in [3, 4, 5, 6].map(|n| Token::mint(n, GROUP)) {
        let rejected = Command::Worker(WorkerCommand::RejectAssignment {
            lacks_resources: false,
            token,
            worker: worker.clone(),
            nonce: None,
            reason: "no".to_owned(),
        });
        world.say(rejected);
    }
    assert_eq!(lease(&world), Some(5_000), "it holds nothing any more");
    assert_eq!(world.partition, world.folded());
}

/// EXE-8: the answer to a registration gives the bounds that the event of the registration has.
#[test]
fn a_worker_is_told_what_its_registration_says() {
    let mut world = World::with(crate::kit::START, kills_after(60_000));
    let worker = world.worker("w", 1, Script::Silent);
    // Registered and changed within one envelope: the answer leaves after both.
    let again = world.played(&worker).registration();
    world.held = Some(Vec::new());
    world.define_group("g", kills_after(5_000));
    let held = world.held.take().unwrap();
    world.events();
    world.send(GROUP, register(again));
    for effect in held {
        let tidemill_engine::Effect::Send { shard, command } = effect else { continue };
        world.send(shard, command);
    }
    world.run();
    let events = world.events();
    let recorded = events.iter().find_map(|event| match event {
        Event::Worker(WorkerEvent::Registered { settings, .. }) => settings.clone(),
        _ => None,
    });
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Replication(ReplicationEvent::GroupReplicated { .. })))
    );
    let told = world.played(&worker).heard.iter().rev().find_map(|message| match message {
        WorkMessage::Registered { settings, .. } => Some(settings.clone()),
        _ => None,
    });
    assert_eq!(recorded.as_deref(), Some(&kills_after(60_000)));
    assert_eq!(told.as_ref(), recorded.as_deref());
}
