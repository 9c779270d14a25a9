//! Requests, dead letters, outboxes, time: what holds for every command.

use crate::kit::{GROUP, Script, World, at, every, job, rejection};
use expect_test::expect;
use jiff::SignedDuration;
use serde_json::json;
use tidemill_engine::{Effect, FaultInjection};
use tidemill_model::{
    Actor, Answer, BatchCommand, CatalogueCommand, Command, CommandRecord, Envelope, Event, GroupSettings,
    JobCommand, JobEvent, Outcome, PartitionEvent, Rejection, RequestId, ShardCommand, ShardId, Source,
    WorkerCommand,
};

fn submit() -> Command {
    Command::Batch(BatchCommand::SubmitJob(Box::new(World::submission("once", &[]))))
}

/// API-4, rule 5: a repeated request gets the first answer and makes nothing.
#[test]
fn a_repeated_request_gets_the_stored_answer() {
    let mut world = World::new();
    let request = || RequestId::new("r");
    let first = world.ask_as(GROUP, submit(), request());
    world.events();
    world.partition = world.folded();
    assert_eq!(world.ask_as(GROUP, submit(), request()), first, "also from a new owner");
    world.pass_minutes(24 * 60 - 1);
    assert_eq!(world.ask_as(GROUP, submit(), request()), first);
    assert_eq!(world.told(), "");
}

/// Rule 5: refusals are stored as well.
#[test]
fn a_repeated_refusal_stays_refused() {
    let mut world = World::new();
    let run = || {
        Command::Batch(BatchCommand::RunJob {
            job: tidemill_model::JobId(4096),
            logical_time: None,
            parameters: Default::default(),
            concurrent: false,
        })
    };
    let first = world.ask_as(GROUP, run(), RequestId::new("r"));
    assert!(matches!(first, Outcome::Refused(_)));
    world.define(vec![job("a", json!({}))]);
    assert_eq!(world.ask_as(GROUP, run(), RequestId::new("r")), first);
}

/// Rule 5: twice in one envelope is a repeat too.
#[test]
fn a_request_repeated_within_one_draft_is_decided_once() {
    let mut world = World::new();
    world.events();
    for _ in 0..3 {
        world.send_record(CommandRecord {
            shard: GROUP,
            request: Some(RequestId::new("r")),
            reply_to: Some(tidemill_model::InstanceId::new("me")),
            actor: Actor::default(),
            command: submit(),
        });
    }
    world.run();
    expect![[r#"
        job submitted once
        b1 generated once 2026-07-01 10:10 run 0
    "#]]
    .assert_eq(&world.told());
    let answers: Vec<_> = world
        .outside
        .iter()
        .filter_map(|effect| match effect {
            Effect::Reply { to, reply } if to.as_str() == "me" => Some(reply.outcome.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

/// Rule 5: after 24 hours of work a request id means nothing any more; days when everything is off do not count, for a
/// repeat may have stood in the commands meanwhile.
#[test]
fn answers_are_forgotten_after_a_day_of_work() {
    let mut world = World::new();
    let first = world.ask_as(GROUP, submit(), RequestId::new("r"));
    world.pass_minutes(3 * 24 * 60);
    world.submit(World::submission("after-days", &[]));
    assert_eq!(world.ask_as(GROUP, submit(), RequestId::new("r")), first);
    for hour in 1..24 {
        world.pass_minutes(60);
        // Forgetting follows from later answers.
        world.submit(World::submission(&format!("hour-{hour}"), &[]));
    }
    assert_ne!(world.ask_as(GROUP, submit(), RequestId::new("r")), first);
    assert_eq!(world.partition, world.folded());
}

/// EVT-9, rule 12: a command on which deciding panics is set aside, and everything else goes on.
#[test]
fn a_command_that_panics_is_dead_lettered() {
    let mut world = World::new();
    world.events();
    for shard in [GROUP, ShardId::CATALOGUE] {
        let outcome = world.ask(shard, Command::Shard(ShardCommand::PlantedPanic {}));
        assert_eq!(outcome, Outcome::Refused(Rejection::DeadLettered { reason: "planted".to_owned() }));
    }
    expect![[r#"
        dead_lettered: planted
        dead_lettered: planted
    "#]]
    .assert_eq(&world.told());
    let letters = world.outside.iter().filter(|effect| matches!(effect, Effect::DeadLetter { .. })).count();
    assert_eq!(letters, 2);
    world.submit(World::submission("s", &[]));
    assert_eq!(world.partition, world.folded());
}

/// Rule 12: a message to a worker on which deriving it panics is set aside by itself: in the envelope that it follows from, at a
/// worker's return, and at a takeover, where it would come again and leave the partition without an owner.
#[test]
fn an_effect_that_panics_is_set_aside() {
    let fault_injection =
        FaultInjection { panicking_effect: Some("bad".try_into().unwrap()), ..FaultInjection::default() };
    let mut world = World::fault_injected(crate::kit::START, GroupSettings::default(), fault_injection);
    let jobs = world.define(["bad", "good", "late"].map(|name| job(name, json!({}))).into());
    let worker = world.worker("w1", 4, Script::Run);
    let run = |world: &mut World, job: usize| world.batch(jobs[job], None);
    let (bad, good) = (run(&mut world, 0), run(&mut world, 1));
    let set_aside = |world: &mut World| -> Vec<String> {
        let outside = std::mem::take(&mut world.outside);
        let told = outside.into_iter().filter_map(|effect| match effect {
            Effect::Underivable { of, reason } => Some(format!("{of}: {reason}")),
            _ => None,
        });
        told.collect()
    };
    let told = set_aside(&mut world);
    assert_eq!(told, [format!("batch.assigned of batch/{bad} in shard 1: planted in an effect")]);
    // A new owner folds the journal, says everything again, and works.
    world.partition = world.folded();
    world.say_again();
    world.run();
    let of_token = |told: Vec<String>| {
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("what worker w1 is to do by token "), "{told:?}");
        assert!(told[0].ends_with(": planted in an effect"), "{told:?}");
    };
    of_token(set_aside(&mut world));
    // The worker says again who it is.
    let registration = world.played(&worker).registration();
    world.say(Command::Worker(WorkerCommand::Register(Box::new(registration))));
    of_token(set_aside(&mut world));
    let late = run(&mut world, 2);
    let started = |event: &Event| (event.kind() == "attempt.started").then(|| event.subject());
    let started: Vec<String> = world.events().iter().filter_map(started).collect();
    assert_eq!(started, [good, late].map(|batch| format!("batch/{batch}")));
    assert_eq!(world.partition, world.folded());
}

/// EVT-9: a record that is no command is set aside with its reason.
#[test]
fn an_undecodable_record_is_dead_lettered() {
    let mut world = World::new();
    world.events();
    world.undecodable("expected value at line 1");
    expect![[r#"
        dead_lettered: expected value at line 1
    "#]]
    .assert_eq(&world.told());
    assert!(world.outside.iter().any(|effect| matches!(effect, Effect::DeadLetter { .. })));
}

/// Rule 1: nothing that anyone sends makes a record that the log cannot take.
#[test]
fn oversized_commands_are_dead_lettered() {
    let mut world = World::new();
    let long = "x".repeat(600_000);
    let plain = CommandRecord {
        shard: GROUP,
        request: None,
        reply_to: None,
        actor: Actor::default(),
        command: submit(),
    };
    world.events();
    let records = [
        CommandRecord { request: Some(RequestId::new(long.as_str())), ..plain.clone() },
        CommandRecord { actor: Actor { app: long.as_str().into(), user: None }, ..plain.clone() },
        CommandRecord { actor: Actor { app: "a".into(), user: Some(long.as_str().into()) }, ..plain.clone() },
        CommandRecord {
            command: Command::Worker(WorkerCommand::Drain {
                worker: tidemill_model::WorkerId::new(long.as_str()),
            }),
            ..plain.clone()
        },
        CommandRecord {
            shard: ShardId::CATALOGUE,
            command: Command::Catalogue(CatalogueCommand::RevokeKey { app: long }),
            ..plain
        },
    ];
    let count = records.len();
    for record in records {
        world.send_record(record);
    }
    world.run();
    assert_eq!(world.told().matches("dead_lettered").count(), count);
    assert_eq!(world.partition, world.folded());
}

/// Commands go to the shard that decides them, and only an owner can see silence.
#[test]
fn commands_of_another_shard_are_refused() {
    let mut world = World::new();
    let lost = Command::Worker(WorkerCommand::DeclareLost {
        worker: tidemill_model::WorkerId::new("w"),
        incarnation: tidemill_model::Incarnation::new("1"),
    });
    let cases = [
        (ShardId::CATALOGUE, submit()),
        (
            GROUP,
            Command::Job(JobCommand::Apply {
                jobs: Vec::new(),
                prune: Vec::new(),
                cancel: false,
                orphan_children: false,
            }),
        ),
        (GROUP, lost),
    ];
    for (shard, command) in cases {
        let outcome = world.ask(shard, command);
        assert!(rejection(&outcome).starts_with("wrong_shard"), "{}", rejection(&outcome));
    }
}

/// Rule 7: messages that come too early are refused, those that come again are acknowledged again, and in
/// the end each was applied once and in order.
#[test]
fn messages_between_shards_are_applied_once_and_in_order() {
    let mut world = World::new();
    world.held = Some(Vec::new());
    for name in ["a", "b", "c"] {
        world.define(vec![job(name, json!({}))]);
    }
    let held = world.held.take().unwrap();
    let messages: Vec<Command> = held
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { command, .. } => Some(command.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(messages.len(), 3);
    world.held = Some(Vec::new());
    world.events();
    for message in [&messages[2], &messages[0], &messages[0], &messages[2], &messages[1]] {
        world.send(GROUP, message.clone());
        world.run();
    }
    expect![[r#"
        job received a v1, next never
        job received b v1, next never
    "#]]
    .assert_eq(&world.told());
    let acknowledged: Vec<u64> = world
        .held
        .take()
        .unwrap()
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { command: Command::Shard(ShardCommand::Acknowledge { upto, .. }), .. } => {
                Some(*upto)
            }
            _ => None,
        })
        .collect();
    assert_eq!(acknowledged, [2, 2, 3], "the first message was the group's own");
    // A new owner says again what is unacknowledged, and that brings the rest over.
    world.say_again();
    world.run();
    expect![[r#"
        job received c v1, next never
    "#]]
    .assert_eq(&world.told());
    world.say_again();
    let before = world.journal.len();
    world.run();
    assert_eq!(world.journal.len(), before, "nothing is left to be said");
    assert_eq!(world.partition, world.folded());
}

/// Rule 7: an acknowledgement of what was never sent frees nothing.
#[test]
fn a_false_acknowledgement_changes_nothing() {
    let mut world = World::new();
    world.held = Some(Vec::new());
    world.define(vec![job("a", json!({}))]);
    let before = world.partition.clone();
    world.send(ShardId::CATALOGUE, Command::Shard(ShardCommand::Acknowledge { from: GROUP, upto: 99 }));
    world.send(ShardId::CATALOGUE, Command::Shard(ShardCommand::Acknowledge { from: ShardId(7), upto: 1 }));
    world.run();
    assert_eq!(world.partition, before);
}

/// Rule 10: the clock never goes back, except where an operator sets it.
#[test]
fn now_never_goes_back_by_itself() {
    let mut world = World::new();
    let nows = |world: &World| {
        let envelope = |body: &Vec<u8>| serde_json::from_slice::<Envelope>(body).unwrap().now;
        world.journal.iter().map(envelope).collect::<Vec<_>>()
    };
    world.submit(World::submission("a", &[]));
    let before = world.partition.now();
    world.wall = before.saturating_sub(SignedDuration::from_mins(10)).unwrap();
    world.submit(World::submission("b", &[]));
    assert_eq!(world.partition.now(), before);
    assert!(nows(&world).is_sorted());
    let set = world.wall;
    world.send(GROUP, Command::Shard(ShardCommand::SetTime { now: set }));
    world.run();
    assert_eq!(world.partition.now(), set);
    world.submit(World::submission("c", &[]));
    assert_eq!(world.partition.now(), set);
    assert_eq!(world.partition, world.folded());
}

/// API-4: a key that was used for another request is refused, and nothing is done; the first request keeps its answer. Also
/// where both come at once.
#[test]
fn key_of_another_request_is_refused() {
    let id = |fingerprint| RequestId::of_client("app", "key", fingerprint);
    for at_once in [false, true] {
        let mut world = World::new();
        if at_once {
            for fingerprint in [1, 2, 1] {
                let actor = Actor { app: "app".into(), user: None };
                let (request, reply_to) = (Some(id(fingerprint)), None);
                world.send_record(CommandRecord {
                    shard: GROUP,
                    request,
                    reply_to,
                    actor,
                    command: submit(),
                });
            }
            world.run();
        }
        let first = world.ask_as(GROUP, submit(), id(1));
        assert!(matches!(first, Outcome::Answered(_)), "{first:?}");
        for _ in 0..2 {
            let other = world.ask_as(GROUP, submit(), id(2));
            assert_eq!(other, Outcome::Refused(Rejection::RequestKeyReused {}));
        }
        assert_eq!(world.ask_as(GROUP, submit(), id(1)), first);
        let made = world
            .events()
            .iter()
            .filter(|event| matches!(event, Event::Job(JobEvent::Submitted { .. })))
            .count();
        assert_eq!(made, 1, "at once: {at_once}");
        world.partition = world.folded();
        assert_eq!(world.ask_as(GROUP, submit(), id(2)), Outcome::Refused(Rejection::RequestKeyReused {}));
        assert_eq!(
            world.ask_as(GROUP, submit(), id(1).part(1)).clone(),
            world.ask_as(GROUP, submit(), id(1).part(1))
        );
    }
}

/// Rule 10: a time ahead of the owner's clock would skip every fire until then; it is refused, wherever the partition's own
/// time is.
#[test]
fn time_is_not_set_ahead_of_the_owners_clock() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": every("hour")}))]);
    world.pass_minutes(90);
    let true_time = world.wall;
    world.events();
    for (ahead, is_taken) in [(60, true), (61, false), (3 * 86_400, false), (i64::from(u32::MAX), false)] {
        let now = true_time + SignedDuration::from_secs(ahead);
        let outcome = world.ask(GROUP, Command::Shard(ShardCommand::SetTime { now }));
        assert_eq!(outcome == Outcome::Done, is_taken, "{ahead}: {outcome:?}");
        if !is_taken {
            assert!(rejection(&outcome).contains("is after the owner's clock"), "{ahead}");
        }
    }
    // A clock that was wrong took the partition along: it is set back, and not anywhere ahead of the true time.
    world.wall = true_time + SignedDuration::from_hours(72);
    world.submit(World::submission("a", &[]));
    world.wall = true_time;
    let ahead = Command::Shard(ShardCommand::SetTime { now: true_time + SignedDuration::from_hours(1) });
    assert!(rejection(&world.ask(GROUP, ahead)).contains("is after the owner's clock"));
    assert_eq!(world.ask(GROUP, Command::Shard(ShardCommand::SetTime { now: true_time })), Outcome::Done);
    assert_eq!(world.partition.now(), true_time);
    assert_eq!(world.partition, world.folded());
}

/// Rule 5: every command that was read is covered by the next envelope, heartbeats too.
#[test]
fn envelopes_name_the_last_command_that_is_done() {
    let mut world = World::new();
    let worker = world.worker("w", 1, Script::Silent);
    let alive = world.played(&worker).heartbeat();
    let before = world.journal.len();
    world.say(alive);
    assert_eq!(world.journal.len(), before, "a heartbeat makes no envelope");
    let at = world.partition.resume().unwrap().offset;
    world.submit(World::submission("s", &[]));
    assert_eq!(world.partition.resume().unwrap().offset, at + 2);
    let envelope: Envelope = serde_json::from_slice(&world.journal[before]).unwrap();
    assert!(matches!(&envelope.causes[0].source, Source::Command { offset, .. } if *offset == at + 2));
}

/// The counts in the causes add up to the events.
#[test]
fn causes_account_for_every_event() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": every("hour")})), job("b", json!({"parents": ["a"]}))]);
    world.worker("w", 2, Script::Succeed);
    world.pass_minutes(300);
    for body in &world.journal {
        let envelope: Envelope = serde_json::from_slice(body).unwrap();
        let counted: u32 = envelope.causes.iter().map(|cause| cause.events).sum();
        assert_eq!(counted as usize, envelope.events.len());
    }
}

/// Answers of `apply` are stored like all others.
#[test]
fn a_repeated_apply_changes_nothing() {
    let mut world = World::new();
    let apply = || {
        Command::Job(JobCommand::Apply {
            jobs: vec![job("a", json!({}))],
            prune: Vec::new(),
            cancel: false,
            orphan_children: false,
        })
    };
    let first = world.ask_as(ShardId::CATALOGUE, apply(), RequestId::new("r"));
    assert!(matches!(first, Outcome::Answered(Answer::Applied { .. })));
    assert_eq!(world.ask_as(ShardId::CATALOGUE, apply(), RequestId::new("r")), first);
}

/// Rule 12, 45a31d4: what cannot be read in a partition without a shard is set aside in one of its own.
#[test]
fn what_cannot_be_read_in_an_empty_partition_is_set_aside_there() {
    use tidemill_engine::{Draft, Partition};
    for (number, count) in [(0, 1), (3, 4), (15, 16)] {
        let mut partition = Partition::new(number, count);
        let mut draft = Draft::new(&mut partition, at(crate::kit::START), None);
        draft.undecodable(0, "hash".to_owned(), "not JSON");
        let envelope = draft.finish(false).envelope.unwrap();
        let [recorded] = &envelope.events[..] else { panic!("{envelope:?}") };
        assert!(matches!(
            recorded.event,
            Event::Partition(PartitionEvent::CommandDeadLettered { offset: 0, .. })
        ));
        assert_eq!(recorded.shard.partition(count), number);
        assert!(partition.shards().all(|(shard, _)| shard.partition(count) == number));
    }
}
