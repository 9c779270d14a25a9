//! DEP-3: logical times that a parent skipped on record are left out.

use crate::kit::{GROUP, World, at, every, job};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tidemill_model::{
    Answer, BatchCommand, BatchEvent, BatchId, Command, Dependency, Event, GroupSettings, JobCommand, JobId,
    LiveAnswer, LiveQuery, Outcome, ShardId, Why,
};

/// The shard of the second group.
const OTHER: ShardId = ShardId(2);

fn child(group: &str, parent: &str, mapping: Value, period: &str) -> tidemill_model::JobSpec {
    let parents = json!([{"job": parent, "mapping": mapping}]);
    job("c", json!({"group": group, "type": "anchor", "schedule": every(period), "parents": parents}))
}

fn switch(world: &mut World, job: JobId, enabled: bool) {
    let command = Command::Job(JobCommand::Switch { job, enabled });
    assert!(matches!(world.ask(ShardId::CATALOGUE, command), Outcome::Answered(_)));
}

fn check(world: &mut World, expected: Expect) {
    expected.assert_eq(&world.told());
}

fn why(world: &World, shard: ShardId, batch: BatchId) -> Why {
    match world.partition.answer(shard, &LiveQuery::Why { batch }) {
        LiveAnswer::Why(why) => why,
        other => panic!("{other:?}"),
    }
}

fn by_hand(world: &mut World, shard: ShardId, job: JobId, time: &str) -> BatchId {
    let parameters = std::collections::BTreeMap::new();
    match world.ask(
        shard,
        Command::Batch(BatchCommand::RunJob {
            job,
            logical_time: Some(at(time)),
            parameters,
            concurrent: true,
        }),
    ) {
        Outcome::Answered(Answer::Generated { batch, .. }) => batch,
        other => panic!("{other:?}"),
    }
}

/// Times of the only dependency of the newest batch that has one, and those of them that are met.
fn waits(world: &mut World) -> Dependency {
    let of = |event| match event {
        Event::Batch(BatchEvent::Generated { mut dependencies, .. }) => dependencies.pop(),
        _ => None,
    };
    world.events().into_iter().filter_map(of).next_back().unwrap()
}

/// DEP-3: what a parent skipped before its child's batch is made is left out: before its first definition, while it was
/// switched off, and by its policy for missed runs.
#[test]
fn what_was_skipped_before_is_left_out() {
    let mut world = World::at("2026-07-01T05:10:00.000Z");
    let parent = json!({"type": "anchor", "schedule": every("hour"), "missed_runs": "latest"});
    let ids = world.define(vec![job("p", parent), child("g", "p", json!("all"), "day")]);
    world.until("2026-07-01T08:10:00.000Z");
    switch(&mut world, ids[0], false);
    world.until("2026-07-01T11:10:00.000Z");
    switch(&mut world, ids[0], true);
    // Nobody owns the shard meanwhile.
    world.until("2026-07-01T18:10:00.000Z");
    for _ in 19..25 {
        world.pass_minutes(60);
    }
    let dependency = waits(&mut world);
    assert_eq!(dependency.times.len(), 24);
    // The last one has its batch, which is still to end.
    assert_eq!(dependency.met, dependency.times[..23]);
    assert_eq!(world.unfinished(), 0);
}

/// A parent that skips while its batch for 11:00 is unfinished.
fn skipping() -> Value {
    json!({"schedule": every("hour"), "overlap": "skip"})
}

/// DEP-3: a batch that waits already is told that its parent skips the time; a run of it by hand counts again.
#[test]
fn who_waits_is_told_of_a_skip_and_of_a_later_run() {
    let mut world = World::new();
    let child = json!({"parents": [{"job": "p", "mapping": "latest"}], "schedule": every("day")});
    let ids = world.define(vec![job("p", skipping()), job("c", child)]);
    let batch = by_hand(&mut world, GROUP, ids[1], "2026-07-01T12:00:00.000Z");
    world.until("2026-07-01T12:01:00.000Z");
    check(
        &mut world,
        expect![[r#"
            b1 generated c 2026-07-01 12:00 run 1, of p 0/1
            b2 generated p 2026-07-01 11:00 run 0
            skipped p 2026-07-01 12:00 to 2026-07-01 12:00, 1: Overlap
            b1 leaves out p 2026-07-01 12:00, unmet 0
        "#]],
    );
    let told: Vec<String> = why(&world, GROUP, batch).left_out.into_iter().map(|it| it.message).collect();
    assert_eq!(
        told,
        ["leaves out g/p of 2026-07-01T12:00:00.000Z: it skipped this time and has no batch for it"]
    );
    by_hand(&mut world, GROUP, ids[0], "2026-07-01T12:00:00.000Z");
    check(
        &mut world,
        expect![[r#"
            b3 generated p 2026-07-01 12:00 run 1
            b1 withdrawn p 2026-07-01 12:00, unmet 1
        "#]],
    );
    assert_eq!(why(&world, GROUP, batch).left_out, []);
}

/// DEP-3: the same between groups: the child's group hears that the parent skips, and that it runs after all.
#[test]
fn another_group_is_told_of_a_skip() {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    let parents =
        json!({"group": "h", "parents": [{"job": "g/p", "mapping": "latest"}], "schedule": every("day")});
    let ids = world.define(vec![job("p", skipping()), job("c", parents)]);
    world.events();
    let batch = by_hand(&mut world, OTHER, ids[1], "2026-07-01T12:00:00.000Z");
    let passed = by_hand(&mut world, OTHER, ids[1], "2026-07-01T10:00:00.000Z");
    let left_out = |world: &World, batch| why(world, OTHER, batch).left_out.len();
    assert_eq!((left_out(&world, batch), left_out(&world, passed)), (0, 1));
    world.until("2026-07-01T12:01:00.000Z");
    assert_eq!(left_out(&world, batch), 1);
    by_hand(&mut world, GROUP, ids[0], "2026-07-01T12:00:00.000Z");
    assert_eq!(left_out(&world, batch), 0);
    let kinds: Vec<String> =
        why(&world, OTHER, batch).conditions.into_iter().map(|condition| condition.kind).collect();
    assert_eq!(kinds[0], "dependency");
}

/// DEP-3: `latest` goes back to the newest time with a batch, and *any* of nothing but skipped times is no success.
#[test]
fn latest_goes_back_and_any_is_not_met() {
    let mut world = World::new();
    let of = |name: &str, mapping: &str| {
        let parents = json!([{"job": "p", "mapping": mapping}]);
        job(name, json!({"schedule": every("hour"), "parents": parents}))
    };
    let ids = world.define(vec![job("p", skipping()), of("l", "latest"), of("a", "any")]);
    world.until("2026-07-01T11:01:00.000Z");
    world.until("2026-07-01T12:01:00.000Z");
    world.events();
    world.until("2026-07-01T13:01:00.000Z");
    let of_jobs: Vec<(JobId, Dependency)> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Batch(BatchEvent::Generated { job, mut dependencies, .. }) => {
                Some((job, dependencies.pop()?))
            }
            _ => None,
        })
        .collect();
    let times = |job: JobId| {
        let (_, dependency) = of_jobs.iter().find(|(of, _)| *of == job).unwrap();
        (dependency.times.clone(), dependency.met.clone())
    };
    assert_eq!(times(ids[1]), (vec![at("2026-07-01T11:00:00.000Z")], vec![]));
    assert_eq!(times(ids[2]), (vec![at("2026-07-01T13:00:00.000Z")], vec![]));
}

/// A child that no worker runs, so that it can be asked what it waits for.
fn waiting() -> Value {
    json!({"parents": [{"job": "p", "mapping": "latest"}], "schedule": every("day")})
}

/// DEP-3, GEN-9: what a parent owes from its next fire on is waited for while it is switched off, however late it gets; what
/// has no batch by the time at which it is switched on again was skipped.
#[test]
fn who_waits_for_a_disabled_parent_goes_on_waiting() {
    let mut world = World::new();
    let second = json!({"schedule": every("hour"), "retries": 1, "enabled": false});
    let ids = world.define(vec![job("p", json!({"schedule": every("hour")})), job("c", waiting())]);
    let passed = by_hand(&mut world, GROUP, ids[1], "2026-07-01T10:00:00.000Z");
    let ahead = by_hand(&mut world, GROUP, ids[1], "2026-07-01T13:00:00.000Z");
    let left_out = |world: &World, batch| why(world, GROUP, batch).left_out.len();
    assert_eq!((left_out(&world, passed), left_out(&world, ahead)), (1, 0));
    switch(&mut world, ids[0], false);
    world.until("2026-07-01T14:30:00.000Z");
    assert_eq!((left_out(&world, passed), left_out(&world, ahead)), (1, 0));
    assert_eq!(
        why(&world, GROUP, ahead).conditions[0].message,
        "waits for g/p of 2026-07-01T13:00:00.000Z: it is disabled and has no batch yet"
    );
    // A later version of it is disabled, too.
    world.define(vec![job("p", second)]);
    assert_eq!((left_out(&world, passed), left_out(&world, ahead)), (1, 0));
    switch(&mut world, ids[0], true);
    assert_eq!((left_out(&world, passed), left_out(&world, ahead)), (1, 1));
    assert!(world.folded() == world.partition);
}

/// DEP-3: a parent that was never on skips nothing; from when it is switched on, what lies before its next fire.
#[test]
fn a_parent_that_was_never_on_skips_nothing() {
    let mut world = World::new();
    let parent = json!({"schedule": every("hour"), "enabled": false});
    let ids = world.define(vec![job("p", parent), job("c", waiting())]);
    let batch = by_hand(&mut world, GROUP, ids[1], "2026-07-01T10:00:00.000Z");
    assert_eq!(why(&world, GROUP, batch).left_out, []);
    switch(&mut world, ids[0], true);
    assert_eq!(why(&world, GROUP, batch).left_out.len(), 1);
    assert!(world.folded() == world.partition);
}

/// DEP-3: a parent without a schedule skips what its own parent skipped, but nothing while it is switched off.
#[test]
fn a_parent_without_a_schedule_skips_what_its_parents_skipped() {
    let mut world = World::new();
    let middle = json!({"parents": ["p"]});
    let child = json!({"parents": [{"job": "m", "mapping": "latest"}], "schedule": every("day")});
    let ids = world.define(vec![job("p", skipping()), job("m", middle), job("c", child)]);
    let batch = by_hand(&mut world, GROUP, ids[2], "2026-07-01T12:00:00.000Z");
    let left_out = |world: &World| why(world, GROUP, batch).left_out.len();
    assert_eq!(left_out(&world), 0);
    switch(&mut world, ids[1], false);
    assert_eq!(left_out(&world), 0);
    switch(&mut world, ids[1], true);
    world.until("2026-07-01T12:01:00.000Z");
    assert_eq!(left_out(&world), 1);
    switch(&mut world, ids[1], false);
    assert_eq!(left_out(&world), 0);
    switch(&mut world, ids[1], true);
    assert_eq!(left_out(&world), 1);
    // Its parent runs after all, and so does it.
    by_hand(&mut world, GROUP, ids[0], "2026-07-01T12:00:00.000Z");
    assert_eq!(left_out(&world), 0);
    assert!(world.folded() == world.partition);
}
