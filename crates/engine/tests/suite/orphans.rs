//! JOB-9: a job is deleted though others name it as parent (`orphan_children`), and their batches go on waiting.

use std::collections::BTreeMap;

use crate::kit::{GROUP, World, at, every, group, job, rejection};
use expect_test::expect;
use serde_json::{Value, json};
use tidemill_engine::Effect;
use tidemill_model::{
    Answer, BatchCommand, BatchId, Command, Event, GroupSettings, JobCommand, JobEvent, JobId, JobSpec,
    Outcome, RequestId, ShardCommand, ShardId, Waiver,
};

const OTHER: ShardId = ShardId(2);
const THIRD: ShardId = ShardId(3);
/// The first fire of a job that is defined at the start makes it, an hour later; what is before is skipped.
const NEXT: &str = "2026-07-01T11:00:00.000Z";

/// Groups `g`, `h` and `i`, without workers; anchors complete by themselves where nothing keeps them.
fn world() -> World {
    let mut world = World::new();
    for name in ["h", "i"] {
        world.define_group(name, GroupSettings::default());
    }
    world.events();
    world
}

fn anchor(of: &str, name: &str, more: Value) -> JobSpec {
    let mut fields = json!({"group": of, "type": "anchor"});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job(name, fields)
}

fn child(of: &str, name: &str) -> JobSpec {
    anchor(of, name, json!({"parents": ["g/p"]}))
}

fn delete(world: &mut World, job: JobId) -> Outcome {
    let command = Command::Job(JobCommand::Delete { job, cancel: false, orphan_children: true });
    world.ask(ShardId::CATALOGUE, command)
}

fn run(world: &mut World, shard: ShardId, job: JobId, time: &str) -> BatchId {
    let (logical_time, parameters) = (Some(at(time)), BTreeMap::new());
    match world
        .ask(shard, Command::Batch(BatchCommand::RunJob { job, logical_time, parameters, concurrent: true }))
    {
        Outcome::Answered(Answer::Generated { batch, .. }) => batch,
        other => panic!("{}", rejection(&other)),
    }
}

fn why(world: &World, shard: ShardId, batch: BatchId) -> Vec<String> {
    let conditions = world.why_of(shard, batch).into_iter();
    conditions.map(|condition| format!("{}: {}", condition.kind, condition.message)).collect()
}

fn unfinished(world: &World, shard: ShardId) -> usize {
    world.partition.group(shard).unwrap().unfinished_batches()
}

/// What the children's batches wait for stays, in the parent's group and in others, and `why` says it; a new definition
/// without the parent lets them go, a waiver lets one go.
#[test]
fn batches_wait_for_a_deleted_parent_until_somebody_acts() {
    let mut world = world();
    let ids = world.define(vec![
        anchor("g", "p", json!({"schedule": every("hour")})),
        child("g", "c"),
        child("h", "d"),
        child("h", "e"),
    ]);
    let own = run(&mut world, GROUP, ids[1], NEXT);
    let foreign = run(&mut world, OTHER, ids[2], NEXT);
    let waived = run(&mut world, OTHER, ids[3], NEXT);
    world.events();
    assert!(matches!(delete(&mut world, ids[0]), Outcome::Answered(_)));
    expect![[r#"
        asked 1: unfinished of p
        told 1: 
        p is deleted as parent of 1 of shard 1, 2 of shard 2
        job deleted p
        decided 1: done
        p deleted as parent of c
        job removed p
        p deleted as parent of d, e
        heard p: 2026-07-01 11:00 none -
    "#]]
    .assert_eq(&world.told());
    for (shard, batch) in [(GROUP, own), (OTHER, foreign)] {
        let condition = &world.why_of(shard, batch)[0];
        assert_eq!((condition.kind.as_str(), condition.job), ("parent_deleted", Some(ids[0])));
    }
    expect!["parent_deleted: waits for g/p of 2026-07-01T11:00:00.000Z, and that job was deleted at 2026-07-01T10:10:00.000Z (it has no batch yet): give g/c other parents, or override its dependency on job 4096"].assert_eq(&why(&world, GROUP, own).join("\n"));
    expect!["parent_deleted: waits for g/p of 2026-07-01T11:00:00.000Z, and that job was deleted at 2026-07-01T10:10:00.000Z (its group last said that it has no batch yet): give h/d other parents, or override its dependency on job 4096"].assert_eq(&why(&world, OTHER, foreign).join("\n"));
    // Later batches wait, too.
    let later = run(&mut world, GROUP, ids[1], "2026-07-01T13:00:00.000Z");
    let later_elsewhere = run(&mut world, OTHER, ids[2], "2026-07-01T13:00:00.000Z");
    assert_eq!(world.why_of(GROUP, later)[0].kind, "parent_deleted");
    assert_eq!(world.why_of(OTHER, later_elsewhere)[0].kind, "parent_deleted");
    assert_eq!(world.partition, world.folded());
    // The old definition is no new one.
    let refused = world.apply(vec![anchor("g", "c", json!({"parents": ["g/p"], "comment": "new"}))]);
    expect![[r#"invalid: jobs[0].parents[0]: "g/p": there is no job of that name"#]]
        .assert_eq(&rejection(&refused));
    // A job of the same name is another job.
    let again = world.define(vec![anchor("g", "p", json!({"schedule": every("hour")}))])[0];
    run(&mut world, GROUP, again, NEXT);
    assert_ne!(again, ids[0]);
    assert_eq!((unfinished(&world, GROUP), unfinished(&world, OTHER)), (2, 3));
    world.events();
    let what = Waiver::Parent { job: ids[0], logical_time: None };
    let waive = Command::Batch(BatchCommand::OverrideDependency {
        batch: waived,
        what,
        reason: "without it".to_owned(),
    });
    let outcome = world.ask(OTHER, waive);
    assert!(matches!(outcome, Outcome::Done | Outcome::Answered(_)), "{outcome:?}");
    assert_eq!(unfinished(&world, OTHER), 2);
    world.events();
    world.define(vec![anchor("g", "c", json!({})), anchor("h", "d", json!({}))]);
    // `e` names it still.
    assert_eq!((unfinished(&world, GROUP), unfinished(&world, OTHER)), (0, 2));
    world.define(vec![anchor("h", "e", json!({"parents": ["g/p"]}))]);
    assert_eq!((unfinished(&world, GROUP), unfinished(&world, OTHER)), (0, 0));
    assert_eq!(world.partition, world.folded());
}

/// What the parent did before it was deleted counts: its successes, and the times that it had skipped.
#[test]
fn what_the_parent_did_before_counts() {
    let mut world = world();
    let ids = world.define(vec![
        anchor("g", "p", json!({"schedule": every("hour")})),
        child("g", "c"),
        child("h", "d"),
    ]);
    world.pass_minutes(60);
    world.events();
    assert!(matches!(delete(&mut world, ids[0]), Outcome::Answered(_)));
    for (shard, id) in [(GROUP, ids[1]), (OTHER, ids[2])] {
        let succeeded = run(&mut world, shard, id, "2026-07-01T11:00:00.000Z");
        let skipped = run(&mut world, shard, id, "2026-07-01T09:00:00.000Z");
        assert_eq!(unfinished(&world, shard), 0, "{succeeded} {skipped}");
        run(&mut world, shard, id, "2026-07-01T12:00:00.000Z");
        assert_eq!(unfinished(&world, shard), 1);
    }
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: the parent's group keeps what it knows while any definition names the deleted job, though nothing waits for it and
/// its own jobs do not name it: for later batches, and for a job that comes to the group later.
#[test]
fn what_the_parent_did_counts_as_long_as_anybody_names_it() {
    let mut world = world();
    let ids = world.define(vec![
        anchor("g", "p", json!({"schedule": every("hour")})),
        child("h", "d"),
        child("i", "e"),
    ]);
    world.pass_minutes(60);
    assert!(matches!(delete(&mut world, ids[0]), Outcome::Answered(_)));
    let check = |world: &mut World, shard, id| {
        for (time, left) in [(NEXT, 0), ("2026-07-01T09:00:00.000Z", 0), ("2026-07-01T13:00:00.000Z", 1)] {
            let batch = run(world, shard, id, time);
            assert_eq!(unfinished(world, shard), left, "{time}");
            world.ask(shard, Command::Batch(BatchCommand::Kill { batch, reason: String::new() }));
        }
    };
    check(&mut world, OTHER, ids[1]);
    world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: ids[1], enabled: false }));
    let moved = world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Move { job: ids[1], to: group("g") }));
    assert!(matches!(moved, Outcome::Answered(Answer::Done)), "{}", rejection(&moved));
    world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: ids[1], enabled: true }));
    check(&mut world, GROUP, ids[1]);
    world.events();
    world.apply(vec![anchor("g", "d", json!({}))]);
    expect![[r#"
        job defined d v3
        job received d v3, next never
    "#]]
    .assert_eq(&world.told());
    world.apply(vec![anchor("i", "e", json!({}))]);
    expect![[r#"
        job defined e v2
        p released
        job received e v2, next never
        p followed by 3: Nothing
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// What the parent's own group says of the deletion may come before what the catalogue says, or after.
#[test]
fn nothing_runs_whoever_speaks_first() {
    for catalogue_first in [true, false] {
        let mut world = world();
        let ids = world.define(vec![anchor("g", "p", json!({"schedule": every("hour")})), child("h", "d")]);
        run(&mut world, OTHER, ids[1], NEXT);
        world.held = Some(Vec::new());
        let command = Command::Job(JobCommand::Delete { job: ids[0], cancel: true, orphan_children: true });
        world.send(ShardId::CATALOGUE, command);
        world.run();
        for _ in 0..20 {
            let mut held = world.held.replace(Vec::new()).unwrap();
            let is_late = |effect: &Effect| {
                let Effect::Send { shard, command: Command::Shard(ShardCommand::Deliver { from, .. }) } =
                    effect
                else {
                    return false;
                };
                *shard == OTHER && (*from == ShardId::CATALOGUE) != catalogue_first
            };
            let late: Vec<Effect> = held.extract_if(.., |effect| is_late(effect)).collect();
            for effect in held {
                let Effect::Send { shard, command } = effect else { continue };
                world.send(shard, command);
            }
            world.run();
            world.held.as_mut().unwrap().extend(late);
            assert_eq!(unfinished(&world, OTHER), 1, "catalogue first: {catalogue_first}");
        }
        for effect in world.held.take().unwrap() {
            let Effect::Send { shard, command } = effect else { continue };
            world.send(shard, command);
        }
        world.run();
        world.say_again();
        world.run();
        assert_eq!(unfinished(&world, OTHER), 1, "catalogue first: {catalogue_first}");
        assert_eq!(world.partition, world.folded());
        world.define(vec![anchor("h", "d", json!({}))]);
        assert_eq!(unfinished(&world, OTHER), 0, "catalogue first: {catalogue_first}");
        assert_eq!(world.partition, world.folded());
    }
}

/// An orphaned job keeps waiting when it is renamed, and when it goes to another group; deleting it leaves nothing.
#[test]
fn an_orphaned_job_may_be_renamed_moved_and_deleted() {
    let mut world = world();
    let ids = world.define(vec![anchor("g", "p", json!({"schedule": every("hour")})), child("h", "d")]);
    assert!(matches!(delete(&mut world, ids[0]), Outcome::Answered(_)));
    let name = "renamed".try_into().unwrap();
    let outcome = world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Rename { job: ids[1], name }));
    assert_eq!(outcome, Outcome::Answered(Answer::Done));
    let switch = |enabled| Command::Job(JobCommand::Switch { job: ids[1], enabled });
    world.ask(ShardId::CATALOGUE, switch(false));
    world.events();
    let outcome =
        world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Move { job: ids[1], to: group("i") }));
    assert!(matches!(outcome, Outcome::Answered(Answer::Done)), "{}", rejection(&outcome));
    world.ask(ShardId::CATALOGUE, switch(true));
    expect![[r#"
        shard 2 asked to release renamed
        job released renamed with 0 times
        job moved i/renamed v3
        p followed by 2: Nothing
        parents received i/renamed
        parents received i/renamed
        p deleted as parent of 
        job taken i/renamed v3, next never
        job enabled renamed
        job switched renamed true, next never
    "#]]
    .assert_eq(&world.told());
    let batch = run(&mut world, THIRD, ids[1], NEXT);
    expect!["parent_deleted: waits for g/p of 2026-07-01T11:00:00.000Z, and that job was deleted at 2026-07-01T10:10:00.000Z (it has no batch yet): give i/renamed other parents, or override its dependency on job 4096"].assert_eq(&why(&world, THIRD, batch).join("\n"));
    assert_eq!(unfinished(&world, THIRD), 1);
    let back = world.apply(vec![anchor("i", "renamed", json!({}))]);
    assert!(matches!(back, Outcome::Answered(_)), "{}", rejection(&back));
    assert_eq!(unfinished(&world, THIRD), 0);
    let deleted = world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Delete { job: ids[1], cancel: false, orphan_children: false }),
    );
    assert!(matches!(deleted, Outcome::Answered(_)), "{}", rejection(&deleted));
    assert_eq!(world.partition, world.folded());
}

/// An owner that dies at any record of the deletion, and what it said lost or said twice, changes nothing.
#[test]
fn a_crash_at_any_point_of_the_deletion_changes_nothing() {
    for crash_after in 0..8 {
        for (lost, twice) in [(false, false), (true, false), (false, true)] {
            let mut world = world();
            let ids = world.define(vec![
                anchor("g", "p", json!({"schedule": every("hour")})),
                child("g", "c"),
                child("h", "d"),
            ]);
            run(&mut world, GROUP, ids[1], NEXT);
            run(&mut world, OTHER, ids[2], NEXT);
            let since = world.journal.len();
            world.send(
                ShardId::CATALOGUE,
                Command::Job(JobCommand::Delete { job: ids[0], cancel: false, orphan_children: true }),
            );
            world.crash_on_the_way(since + crash_after, lost, twice);
            let what = format!("crash after {crash_after}, lost {lost}, twice {twice}");
            assert_eq!((unfinished(&world, GROUP), unfinished(&world, OTHER)), (1, 1), "{what}");
            assert_eq!(world.partition, world.folded(), "{what}");
            world.define(vec![anchor("g", "c", json!({})), anchor("h", "d", json!({}))]);
            assert_eq!((unfinished(&world, GROUP), unfinished(&world, OTHER)), (0, 0), "{what}");
            assert_eq!(world.partition, world.folded(), "{what}");
        }
    }
}

/// What `apply --prune` deletes goes the same way, at once or staged; children that it deletes or rewrites are no orphans.
#[test]
fn pruned_parents_orphan_those_that_stay() {
    for staged in [false, true] {
        let mut world = world();
        let ids = world.define(vec![
            anchor("g", "p", json!({"schedule": every("hour")})),
            child("g", "goes"),
            child("g", "rewritten"),
            child("h", "stays"),
        ]);
        run(&mut world, OTHER, ids[3], NEXT);
        let jobs = vec![anchor("g", "rewritten", json!({}))];
        let prune = vec![group("g")];
        let refused = world.ask(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Apply {
                jobs: jobs.clone(),
                prune: prune.clone(),
                cancel: false,
                orphan_children: false,
            }),
        );
        assert!(rejection(&refused).contains("it is a parent of h/stays"), "{}", rejection(&refused));
        world.events();
        let outcome = if staged {
            let apply = RequestId::new("one");
            world.ask(
                ShardId::CATALOGUE,
                Command::Job(JobCommand::Stage { apply: apply.clone(), part: 0, jobs }),
            );
            let commit = Command::Job(JobCommand::Commit {
                apply,
                parts: 1,
                prune,
                cancel: false,
                orphan_children: true,
                if_revision: None,
            });
            world.ask(ShardId::CATALOGUE, commit)
        } else {
            world.ask(
                ShardId::CATALOGUE,
                Command::Job(JobCommand::Apply { jobs, prune, cancel: false, orphan_children: true }),
            )
        };
        assert!(matches!(outcome, Outcome::Answered(_)), "{}", rejection(&outcome));
        let recorded = world.events().into_iter().find_map(|event| match event {
            Event::Job(JobEvent::ParentDeleted { parent, children, .. }) => Some((parent, children)),
            _ => None,
        });
        let (parent, children) = recorded.expect("on record");
        let children: Vec<(ShardId, u32)> = children.iter().map(|of| (of.shard, of.jobs)).collect();
        assert_eq!((parent, &children[..]), (ids[0], &[(OTHER, 1)][..]), "staged {staged}");
        assert_eq!(unfinished(&world, OTHER), 1, "staged {staged}");
        assert_eq!(world.partition, world.folded());
    }
}
