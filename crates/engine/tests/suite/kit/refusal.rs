//! One command on a partition that has lived, and whether it left anything where it was refused.

use serde_json::json;
use tidemill_engine::{Draft, Partition};
use tidemill_model::{CommandRecord, Envelope, Event, Outcome, PartitionEvent};

use super::{Script, World, every, job};

/// A partition with jobs, a parent, a batch that runs, one that waits, and one that has failed.
pub(crate) fn lived() -> World {
    let mut world = World::new();
    let jobs = world.define(vec![
        job("a", json!({"schedule": every("hour"), "retries": 1})),
        job("b", json!({"parents": ["a"], "max_concurrent": 2})),
        job("c", json!({"type": "shell", "command": "echo ${yyyyMMdd}"})),
    ]);
    let worker = world.worker("w1", 2, Script::Fail);
    world.pass_minutes(61);
    world.played(&worker).script = Script::Run;
    world.batch(jobs[2], None);
    world.batch(jobs[1], Some("2026-07-01T00:00:00.000Z"));
    world.pass_minutes(1);
    // A command of a level comes where that stands.
    world.raise();
    world
}

/// Decides one command. What it drafted is in the journal's form, so that its fold can be compared.
pub(crate) fn decided(
    world: &World,
    drafted: &mut Partition,
    record: CommandRecord,
    and_due: bool,
) -> Option<Envelope> {
    let mut draft = Draft::new(drafted, world.wall, world.partition.resume().cloned());
    draft.command(1_000, "hash".to_owned(), record);
    if and_due {
        draft.due(world.wall, &());
    }
    draft.finish(true).envelope
}

/// A refusal is kept as the answer to its request, and that is all: every shard is as it was, and whoever asks without an id
/// leaves nothing at all but how far commands were read.
pub(crate) fn refusal_changes_nothing(world: &World, record: CommandRecord) {
    let has_id = record.request.is_some();
    let mut drafted = world.partition.clone();
    let Some(envelope) = decided(world, &mut drafted, record, false) else { return };
    let [cause] = &*envelope.causes else { return };
    if !matches!(cause.outcome, Outcome::Refused(_)) {
        return;
    }
    let is_note = |recorded: &tidemill_model::Recorded| {
        matches!(recorded.event, Event::Partition(PartitionEvent::CommandDeadLettered { .. }))
    };
    assert!(envelope.events.iter().all(is_note), "a refusal comes with {:?}", envelope.events);
    // One that is set aside may be the first that its shard hears of.
    let before = |id| world.partition.shards().find(|(shard, _)| *shard == id);
    let same = drafted
        .shards()
        .filter(|(id, _)| before(*id).is_some() || envelope.events.is_empty())
        .eq(world.partition.shards());
    assert!(same, "a refused command has changed a shard: {cause:?}");
    if !has_id && envelope.events.is_empty() {
        let mut silent = world.partition.clone();
        let causes = Vec::new();
        silent.apply(&Envelope { causes, ..envelope.clone() });
        assert!(silent == drafted, "a refused command without an id has left something: {cause:?}");
    }
}
