//! JOB-9: a job goes to another group, and is the same job: nothing of its times is lost, and nothing happens twice,
//! whatever crashes.

use std::collections::BTreeMap;

use crate::kit::{GROUP, World, at, every, group, job, rejection};
use expect_test::expect;
use serde_json::{Value, json};
use tidemill_engine::{Effect, FaultInjection};
use tidemill_model::{
    Answer, BatchCommand, BatchEvent, BatchId, Command, CommandRecord, Envelope, Event, GroupSettings,
    InstanceId, JobCommand, JobEvent, JobId, LiveAnswer, LiveQuery, Outcome, OverriddenResult, RecordedBatch,
    RequestId, RerunCommand, RerunDefinition, RerunSpec, ShardCommand, ShardId, Timestamp, TransferEvent,
};

/// The shard of group h.
const OTHER: ShardId = ShardId(2);
const TEN: &str = "2026-07-01T10:00:00.000Z";
const NINE: &str = "2026-07-01T09:00:00.000Z";
/// After the next fire of a daily job, so that it is waited for.
const LATER: &str = "2026-07-05T00:00:00.000Z";

/// Groups g, h and i, whose jobs complete by themselves.
fn world() -> World {
    let mut world = World::at("2026-07-01T10:00:30.000Z");
    world.define_group("h", GroupSettings::default());
    world.define_group("i", GroupSettings::default());
    world.events();
    world
}

fn anchor(name: &str, more: Value) -> tidemill_model::JobSpec {
    let mut fields = json!({"type": "anchor"});
    for (key, field) in more.as_object().unwrap() {
        fields[key] = field.clone();
    }
    job(name, fields)
}

fn move_to(job: JobId, to: &str) -> Command {
    Command::Job(JobCommand::Move { job, to: group(to) })
}

fn moves(world: &mut World, job: JobId, to: &str) -> Outcome {
    world.ask(ShardId::CATALOGUE, move_to(job, to))
}

fn moved(world: &mut World, job: JobId, to: &str) {
    let outcome = moves(world, job, to);
    assert_eq!(outcome, Outcome::Answered(Answer::Done), "{}", rejection(&outcome));
}

fn run(world: &mut World, shard: ShardId, job: JobId, time: &str, parameters: Value) -> Outcome {
    let parameters = serde_json::from_value(parameters).unwrap();
    let logical_time = Some(at(time));
    world.ask(shard, Command::Batch(BatchCommand::RunJob { job, logical_time, parameters, concurrent: true }))
}

fn batch(outcome: &Outcome) -> BatchId {
    match outcome {
        Outcome::Answered(Answer::Generated { batch, .. }) => *batch,
        other => panic!("{}", rejection(other)),
    }
}

/// What was generated of the job since this was last called: shard, logical time, run.
fn generated(world: &mut World, of: JobId) -> Vec<(u16, String, u32)> {
    let events = world.events();
    let batch = |event: &Event| match event {
        Event::Batch(BatchEvent::Generated { batch, job, logical_time, run, .. }) if *job == of => {
            Some((batch.shard().0, logical_time.strftime("%H:%M").to_string(), *run))
        }
        _ => None,
    };
    events.iter().filter_map(batch).collect()
}

/// What the shards' events say of the move, with the shard, in short.
fn told(world: &World, since: usize) -> Vec<String> {
    let bodies = world.journal[since..].iter();
    let recorded = bodies.flat_map(|body| serde_json::from_slice::<Envelope>(body).unwrap().events);
    let line = |recorded: tidemill_model::Recorded| {
        let line = crate::kit::brief(&recorded.event, &BTreeMap::new())?;
        Some(format!("{}: {line}", recorded.shard))
    };
    recorded.filter_map(line).filter(|line| !line.contains("parents received")).collect()
}

/// JOB-9: id, run numbers and the fire that is to come go along; the old group fires no more, and its batches are as
/// they were. Back again, it is the same.
#[test]
fn moved_job_keeps_its_id_its_run_numbers_and_its_fires() {
    let mut world = world();
    let id = world.define(vec![anchor("a", json!({"schedule": every("hour")}))])[0];
    run(&mut world, GROUP, id, NINE, json!({}));
    run(&mut world, GROUP, id, NINE, json!({}));
    generated(&mut world, id);
    let since = world.journal.len();
    moved(&mut world, id, "h");
    expect![[r#"
        [
            "0: shard 1 asked to release 4096",
            "1: job released 4096 with 1 times",
            "0: job moved h/a v2",
            "2: job taken h/a v2, next 2026-07-01 10:01",
        ]
    "#]]
    .assert_debug_eq(&told(&world, since));
    assert_eq!(
        rejection(&run(&mut world, GROUP, id, NINE, json!({}))),
        format!("unknown: there is no job {id}")
    );
    world.pass_minutes(61);
    batch(&run(&mut world, OTHER, id, NINE, json!({})));
    let expected = [(2, "10:00", 0), (2, "11:00", 0), (2, "09:00", 3)];
    let expected = expected.map(|(shard, time, run)| (shard, time.to_owned(), run));
    assert_eq!(generated(&mut world, id), expected);
    moved(&mut world, id, "g");
    world.pass_minutes(60);
    batch(&run(&mut world, GROUP, id, NINE, json!({})));
    batch(&run(&mut world, GROUP, id, TEN, json!({})));
    let expected = [(1, "12:00", 0), (1, "09:00", 4), (1, "10:00", 1)];
    let expected = expected.map(|(shard, time, run)| (shard, time.to_owned(), run));
    assert_eq!(generated(&mut world, id), expected);
    assert_eq!(world.partition, world.folded());
}

/// JOB-9, GEN-10: a rerun after the move has the parameters that the batch had, newest or not, however old it is; the
/// definition of then was the old group's, and is said to be unknown.
#[test]
fn reruns_after_a_move_use_the_parameters_of_then() {
    let fault_injection = FaultInjection { spare_history: Some(1), ..FaultInjection::default() };
    let mut world =
        World::fault_injected("2026-07-01T10:00:30.000Z", GroupSettings::default(), fault_injection);
    world.define_group("h", GroupSettings::default());
    let id = world.define(vec![anchor("a", json!({"schedule": every("hour")}))])[0];
    let old = batch(&run(&mut world, GROUP, id, NINE, json!({"day": "1"})));
    run(&mut world, GROUP, id, NINE, json!({"day": "2"}));
    world.pass_minutes(6 * 60);
    world.events();
    moved(&mut world, id, "h");
    let rerun = |batch, run, day: Option<&str>| {
        Command::Batch(BatchCommand::Rerun {
            batch,
            job: id,
            logical_time: at(NINE),
            recorded: day.map(|day| {
                let parameters = BTreeMap::from([("day".to_owned(), day.to_owned())]);
                Box::new(RecordedBatch { run, parameters })
            }),
        })
    };
    batch(&world.ask(OTHER, rerun(old, 1, Some("1"))));
    let parameters = |world: &mut World| {
        let events = world.events();
        let of = |event: Event| match event {
            Event::Batch(BatchEvent::Generated { run, parameters, .. }) => {
                Some((run, parameters.get("day").cloned()))
            }
            _ => None,
        };
        events.into_iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(parameters(&mut world), [(3, Some("1".to_owned()))], "of the one that was named");
    moved(&mut world, id, "g");
    moved(&mut world, id, "h");
    batch(&world.ask(OTHER, rerun(old, 3, None)));
    assert_eq!(parameters(&mut world), [(4, Some("1".to_owned()))], "of the newest");

    let rerun_spec = |definition: RerunDefinition| RerunSpec { definition, ..rerun_spec_of(id) };
    for (definition, expected) in [(RerunDefinition::Today, 1), (RerunDefinition::Recorded, 0)] {
        moved(&mut world, id, "g");
        moved(&mut world, id, "h");
        world.ask(ShardId::CATALOGUE, Command::Rerun(RerunCommand::Plan(Box::new(rerun_spec(definition)))));
        world.pass_minutes(1);
        let made = parameters(&mut world).into_iter().filter(|(_, day)| day.is_some()).count();
        assert_eq!(made, expected, "{definition:?}");
    }
    assert_eq!(world.partition, world.folded());
}

fn rerun_spec_of(id: JobId) -> RerunSpec {
    serde_json::from_value(json!({
        "scope": {"rerun": {"jobs": [id], "cascade": "job"}}, "from": NINE, "to": NINE, "concurrency": 1, "approve": true,
    }))
    .unwrap()
}

/// JOB-9: a fire that was due on the way is made up for in the new group, once; none is lost.
#[test]
fn fires_due_on_the_way_are_made_up_for_once() {
    let mut world = world();
    let id = world.define(vec![anchor("a", json!({"schedule": every("hour")}))])[0];
    world.pass_minutes(1);
    generated(&mut world, id);
    world.held = Some(Vec::new());
    world.send(ShardId::CATALOGUE, move_to(id, "h"));
    world.run();
    for _ in 0..2 {
        // To the old shard, and its answer.
        let_one_through(&mut world);
    }
    world.pass_minutes(150);
    assert_eq!(generated(&mut world, id), [], "nobody runs it now");
    for effect in world.held.take().unwrap() {
        let Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
        world.send(shard, command);
    }
    world.run();
    let expected = [(2, "11:00".to_owned(), 0), (2, "12:00".to_owned(), 0)];
    assert_eq!(generated(&mut world, id), expected);
    assert_eq!(world.partition, world.folded());
}

/// Hands on what is held up now, and holds what follows.
fn let_one_through(world: &mut World) {
    for effect in world.held.replace(Vec::new()).unwrap() {
        let Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
        world.send(shard, command);
    }
    world.run();
}

/// JOB-9, GEN-2: an owner that dies after any record of the move, with what it said lost or not, and messages that come
/// twice: each record of the move stands once, and every time is generated once.
#[test]
fn crash_at_any_point_of_a_move_changes_nothing() {
    for crash_after in 0..8 {
        for (lost, twice) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut world = world();
            let id = world.define(vec![anchor("a", json!({"schedule": every("hour")}))])[0];
            run(&mut world, GROUP, id, NINE, json!({"day": "1"}));
            generated(&mut world, id);
            let since = world.journal.len();
            let request = RequestId::new("move-1");
            world.send_record(CommandRecord {
                shard: ShardId::CATALOGUE,
                request: Some(request.clone()),
                reply_to: Some(InstanceId::new("tester")),
                actor: Default::default(),
                command: move_to(id, "h"),
            });
            world.crash_on_the_way(since + crash_after, lost, twice);
            let what = format!("crash after {crash_after}, lost {lost}, twice {twice}");
            let expected = [
                "0: shard 1 asked to release 4096",
                "1: job released 4096 with 1 times",
                "0: job moved h/a v2",
                "2: job taken h/a v2, next 2026-07-01 10:01",
            ];
            assert_eq!(told(&world, since), expected, "{what}");
            let outcome = world.ask_as(ShardId::CATALOGUE, move_to(id, "h"), request);
            assert_eq!(outcome, Outcome::Answered(Answer::Done), "{what}");
            world.pass_minutes(61);
            batch(&run(&mut world, OTHER, id, NINE, json!({})));
            let expected = [(2, "10:00", 0), (2, "11:00", 0), (2, "09:00", 2)];
            let expected = expected.map(|(shard, time, run)| (shard, time.to_owned(), run));
            assert_eq!(generated(&mut world, id), expected, "{what}");
            assert_eq!(world.partition, world.folded(), "{what}");
        }
    }
}

/// JOB-9: whatever keeps a job is named, and it is then as it was.
#[test]
fn move_is_refused_by_name() {
    let mut world = world();
    let daily = json!({"schedule": every("day")});
    let ids = world.define(vec![
        anchor("free", json!({})),
        job("busy", daily.clone()),
        anchor("parent", json!({"group": "g"})),
        anchor("child", json!({"parents": ["parent"], "schedule": every("day")})),
        anchor("triggered", json!({"parents": ["parent"]})),
        anchor("twice", json!({})),
        anchor("twice", json!({"group": "h"})),
        anchor("named", json!({"parents": ["parent"], "schedule": every("day")})),
    ]);
    let [free, busy, parent, _, triggered, twice, _, _] = ids[..] else { panic!("{ids:?}") };
    batch(&world.run_job(busy, Some(NINE)));
    world.events();
    let table = [
        (JobId(4095), "h", expect!["unknown: there is no job 4095"]),
        (free, "nowhere", expect![[r#"invalid: group: "nowhere": there is no such group"#]]),
        (
            busy,
            "h",
            expect![
                "job_not_moved: job g/busy cannot be moved: it has unfinished batches (1, the newest is 4097); wait for them, or end them first"
            ],
        ),
        (
            parent,
            "h",
            expect![
                "job_not_moved: job g/parent cannot be moved: it is a parent of g/child, g/triggered and g/named; point them elsewhere first, and back when it has moved"
            ],
        ),
        (
            triggered,
            "h",
            expect![
                "job_not_moved: job g/triggered cannot be moved: which batches it gets, or waits for, follows from what its parents generate, and of that something could be lost on the way; disable it first, and enable it when it has moved"
            ],
        ),
        (
            twice,
            "h",
            expect![[r#"invalid: group: "h": group h has a job twice already; rename one of them first"#]],
        ),
    ];
    for (id, to, expected) in table {
        expected.assert_eq(&rejection(&moves(&mut world, id, to)));
    }
    moved(&mut world, free, "g");
    assert!(
        !world.events().iter().any(|event| matches!(event, Event::Job(JobEvent::Moved { .. }))),
        "it is there already"
    );
    // What was refused goes on: its name in the other group is free, and its batch ends.
    world.define(vec![anchor("busy", json!({"group": "h"}))]);
    expect![[r#"invalid: group: "h": group h has a job busy already; rename one of them first"#]]
        .assert_eq(&rejection(&moves(&mut world, busy, "h")));
    world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: triggered, enabled: false }));
    moved(&mut world, triggered, "h");
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: while a job is on its way nothing else changes it, nobody becomes its child and no rerun lists it; other jobs
/// are free.
#[test]
fn job_on_its_way_is_not_changed() {
    let mut world = world();
    let id = world.define(vec![anchor("a", json!({}))])[0];
    world.held = Some(Vec::new());
    world.send(ShardId::CATALOGUE, move_to(id, "h"));
    world.run();
    let name = "b".try_into().unwrap();
    let rerun_specs = [
        Command::Job(JobCommand::Rename { job: id, name }),
        Command::Job(JobCommand::Switch { job: id, enabled: false }),
        Command::Job(JobCommand::Delete { job: id, cancel: true, orphan_children: false }),
        Command::Rerun(RerunCommand::Plan(Box::new(rerun_spec_of(id)))),
        move_to(id, "i"),
    ];
    let refused = "job_moving: job g/a is being moved to group h; try again in a moment";
    for rerun_spec in rerun_specs {
        assert_eq!(rejection(&world.ask(ShardId::CATALOGUE, rerun_spec)), refused);
    }
    let specs = [
        anchor("a", json!({"owner": "bob"})),
        anchor("a", json!({"group": "h"})),
        anchor("c", json!({"parents": ["a"]})),
    ];
    for spec in specs {
        assert_eq!(rejection(&world.apply(vec![spec])), refused);
    }
    assert_eq!(rejection(&world.apply_pruning(vec![], &["g"])), refused);
    world.define(vec![anchor("z", json!({}))]);
    for effect in world.held.take().unwrap() {
        let Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
        world.send(shard, command);
    }
    world.run();
    let name = "b".try_into().unwrap();
    let renamed = world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Rename { job: id, name }));
    assert_eq!(renamed, Outcome::Answered(Answer::Done));
    world.define(vec![anchor("a", json!({})), anchor("a", json!({"group": "h"}))]);
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: a request that its group reads after more than a minute moves nothing: nobody waits for it any more.
#[test]
fn late_rerun_spec_moves_nothing() {
    let mut world = world();
    let id = world.define(vec![anchor("a", json!({}))])[0];
    world.held = Some(Vec::new());
    world.send(ShardId::CATALOGUE, move_to(id, "h"));
    world.run();
    world.pass_minutes(2);
    for effect in world.held.take().unwrap() {
        let Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
        world.send(shard, command);
    }
    world.run();
    let told = world.told();
    assert!(
        told.contains(
            "not moved: job g/a cannot be moved: its group has read the request more than a minute"
        ),
        "{told}"
    );
    batch(&run(&mut world, GROUP, id, NINE, json!({})));
    moved(&mut world, id, "h");
    assert_eq!(world.partition, world.folded());
}

/// JOB-9, DEP-3: its parents stay where they are, in its old group, in its new one, or in a third; children that name it
/// from then on, in any group, learn how its old times stand, and what becomes of new ones.
#[test]
fn parents_and_children_of_a_moved_job_go_on() {
    let mut world = world();
    let parents: Vec<JobId> = world.define(vec![
        job("p", json!({"schedule": every("hour"), "type": "shell", "command": "true"})),
        job("p", json!({"schedule": every("hour"), "type": "shell", "command": "true", "group": "h"})),
        job("p", json!({"schedule": every("hour"), "type": "shell", "command": "true", "group": "i"})),
    ]);
    let all = json!({"parents": ["g/p", "h/p", "i/p"], "schedule": every("hour"), "depends_on_past": true});
    let id = world.define(vec![anchor("a", all)])[0];
    moved(&mut world, id, "h");
    world.pass_minutes(1);
    let waits = generated(&mut world, id);
    assert_eq!(waits, [(2, "10:00".to_owned(), 0)]);
    let unfinished = |world: &World| {
        let group = |shard| world.partition.group(ShardId(shard)).unwrap().unfinished_batches();
        [group(1), group(2), group(3)]
    };
    assert_eq!(unfinished(&world), [1, 2, 1]);
    for (parent, shard) in parents.iter().zip(1..) {
        let newest = world.partition.answer(ShardId(shard), &LiveQuery::NewestBatch { job: *parent });
        let LiveAnswer::NewestBatch { batch: Some(batch), .. } = newest else { panic!("{newest:?}") };
        let command = Command::Batch(BatchCommand::OverrideResult {
            batch,
            job: *parent,
            logical_time: at(TEN),
            result: OverriddenResult::Success,
            reason: "as seen".to_owned(),
            run: None,
        });
        world.ask(ShardId(shard), command);
    }
    assert_eq!(unfinished(&world), [0, 0, 0], "it waited for all three");
    moved(&mut world, id, "g");
    let previous = json!({"group": "i", "parents": [{"job": "g/a", "mapping": {"offset": 1}}], "schedule": every("hour")});
    let child = world.define(vec![anchor("c", previous)])[0];
    world.events();
    world.pass_minutes(60);
    assert_eq!(generated(&mut world, child), [(3, "11:00".to_owned(), 0)]);
    let waiting = world.partition.group(ShardId(3)).unwrap().unfinished_batches();
    assert_eq!(waiting, 1, "of p alone: the batch of 10:00, which group h ran, is known to have succeeded");
    assert_eq!(world.partition, world.folded());
}

/// JOB-9, DEP-3, API-1: a submitted job that is run again after its parent went to another group knows what its group has
/// heard of the parent for another batch: of a time that is watched already nothing new is said.
#[test]
fn submitted_job_knows_what_was_heard_of_a_parent_that_moved() {
    let mut world = world();
    let parent = world.define(vec![anchor("p", json!({"schedule": every("hour")}))])[0];
    world.pass_minutes(1);
    let [first, second] = ["first", "second"].map(|name| {
        let (job, batch) = world.submit(World::submission(name, &[parent]));
        world.kill(batch);
        job
    });
    moved(&mut world, parent, "h");
    world.define(vec![anchor(
        "child",
        json!({"parents": [{"job": "h/p", "mapping": "latest"}], "schedule": every("day")}),
    )]);
    world.pass_minutes(60);
    for job in [first, second] {
        let outcome = world.run_job(job, Some("2026-07-01T11:00:00.000Z"));
        assert_eq!(world.why_kinds(batch(&outcome)), ["no_worker"], "{}", world.told());
    }
    assert_eq!(world.partition, world.folded());
}

/// JOB-9, DEP-3: a watch that comes to the old group after it let the job go is not lost: every group hears where the job
/// is, and asks there. Back again, nothing of it stands in the way.
#[test]
fn watch_that_crosses_the_release_is_asked_again() {
    let mut world = world();
    let id = world.define(vec![job("a", json!({"schedule": every("day")}))])[0];
    let child = |more: Value| {
        let mut fields = json!({"group": "i"});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        anchor("c", fields)
    };
    world.held = Some(Vec::new());
    let c = world.define(vec![child(json!({"parents": [{"job": "g/a", "mapping": "same"}]}))])[0];
    let third = ShardId(3);
    // What group i says to group g stays on its way.
    let to_g = |shard: ShardId, command: &Command| {
        shard == GROUP
            && matches!(command, Command::Shard(ShardCommand::Deliver { from, .. }) if *from == third)
    };
    let mut late = Vec::new();
    let go_on = |world: &mut World, late: &mut Vec<(ShardId, Command)>| loop {
        world.run();
        let held = world.held.replace(Vec::new()).unwrap();
        if held.is_empty() {
            return;
        }
        for effect in held {
            let Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
            match to_g(shard, &command) {
                true => late.push((shard, command)),
                false => world.send(shard, command),
            }
        }
    };
    go_on(&mut world, &mut late);
    batch(&run(&mut world, third, c, LATER, json!({})));
    go_on(&mut world, &mut late);
    world.define(vec![child(json!({}))]);
    go_on(&mut world, &mut late);
    world.send(ShardId::CATALOGUE, move_to(id, "h"));
    go_on(&mut world, &mut late);
    assert!(
        world
            .events()
            .iter()
            .any(|event| matches!(event, Event::Transfer(TransferEvent::JobAttached { .. })))
    );
    world.held = None;
    for (shard, command) in late {
        world.send(shard, command);
    }
    world.run();
    let unfinished = |world: &World| world.partition.group(third).unwrap().unfinished_batches();
    assert_eq!(unfinished(&world), 1);
    let made = batch(&run(&mut world, OTHER, id, LATER, json!({})));
    let command = Command::Batch(BatchCommand::OverrideResult {
        batch: made,
        job: id,
        logical_time: at(LATER),
        result: OverriddenResult::Success,
        reason: "as seen".to_owned(),
        run: None,
    });
    world.ask(OTHER, command);
    assert_eq!(unfinished(&world), 0, "it has heard of the batch in the other group");
    moved(&mut world, id, "g");
    moved(&mut world, id, "h");
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: what goes along is bounded: the parameters of the oldest times are left behind, and known to be.
#[test]
fn parameters_beyond_the_bound_are_known_to_be_left_behind() {
    let mut world = world();
    let id = world.define(vec![anchor("a", json!({}))])[0];
    let time = |n: i64| Timestamp::from_second(1_780_000_000 + n * 3_600).unwrap().to_string();
    for n in 0..3 {
        let text = format!("{n}").repeat(60_000);
        batch(&run(&mut world, GROUP, id, &time(n), json!({"text": text})));
    }
    moved(&mut world, id, "h");
    let envelope = world.largest;
    assert!(envelope < 256 * 1024, "{envelope}");
    let rerun = |n: i64| {
        let (batch, logical_time) = (BatchId::mint(1, GROUP), time(n).parse().unwrap());
        Command::Batch(BatchCommand::Rerun { batch, job: id, logical_time, recorded: None })
    };
    batch(&world.ask(OTHER, rerun(2)));
    let refused = rejection(&world.ask(OTHER, rerun(0)));
    assert!(refused.contains("its shard does not keep its parameters"), "{refused}");
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: many old times are few bytes, and each keeps its result and run.
#[test]
fn many_times_are_moved_as_they_were() {
    let mut world = world();
    let id = world.define(vec![job("a", json!({}))])[0];
    let time = |n: i64| Timestamp::from_second(1_780_000_000 + n * 3_600).unwrap();
    for n in 0..120 {
        let made = batch(&run(&mut world, GROUP, id, &time(n).to_string(), json!({})));
        let result = if n % 17 == 5 { OverriddenResult::Failed } else { OverriddenResult::Success };
        let reason = "as seen".to_owned();
        let command = Command::Batch(BatchCommand::OverrideResult {
            batch: made,
            job: id,
            logical_time: time(n),
            result,
            reason,
            run: None,
        });
        world.ask(GROUP, command);
    }
    world.events();
    moved(&mut world, id, "h");
    let events = world.events();
    let of = |event: &Event| match event {
        Event::Transfer(TransferEvent::JobAttached { moved, .. }) => Some(std::sync::Arc::clone(moved)),
        _ => None,
    };
    let taken = events.iter().find_map(of).unwrap();
    assert!(taken.runs.len() <= 15, "{}", taken.runs.len());
    assert_eq!(taken.runs.iter().map(|of| of.times).sum::<u32>(), 120);
    let child = json!({"group": "h", "type": "anchor", "parents": [{"job": "a", "mapping": "same"}]});
    let child = world.define(vec![job("c", child)])[0];
    for n in [4, 5, 6, 21, 22, 23] {
        batch(&run(&mut world, OTHER, child, &time(n).to_string(), json!({})));
    }
    let waiting = world.partition.group(OTHER).unwrap().unfinished_batches();
    assert_eq!(waiting, 2, "for those that failed");
    assert_eq!(world.partition, world.folded());
}
