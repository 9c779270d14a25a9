//! What is compared, and what becomes of one that differs.

use std::fs;

use tidemill_model::PartitionEvent;
use tidemill_snapshots::{Error, Ladder, Refusal, Snapshot, Until};

use crate::kit::{PARTITION, World};

/// EVT-6: a fold from an older snapshot, or from the first record, gives the same digest, and so does whoever takes it again.
#[test]
fn snapshot_is_what_any_fold_gives() {
    let mut world = World::new(4);
    let older = world.take_and_name();
    world.envelope(Vec::new());
    let newer = world.take();
    assert_eq!(world.take(), newer, "whoever takes it takes the same");
    world.verify(&newer, u64::MAX).unwrap();
    world.verify(&newer, older.mark.offset).unwrap();
    world.verify(&newer, 0).unwrap();
    assert_eq!(Snapshot::of(&world.folded(newer.mark.offset + 1)).unwrap().digest, newer.digest);
}

/// EVT-6: one that is not the fold of its journal is a named error, is deleted, and is not used any more, though a record names it.
#[test]
fn snapshot_that_is_not_the_fold_is_deleted_and_said() {
    let mut world = World::new(4);
    let mut fold = world.folded(world.head().offset + 1);
    let set = PartitionEvent::ClockSet { now: tidemill_model::Timestamp::MAX };
    let wrong = world.body(vec![set]);
    fold.state.apply(&wrong);
    let mut taken = world.take();
    let encoded = Snapshot::of(&fold).unwrap();
    taken.digest = encoded.digest;
    world.snapshots.write(&encoded).unwrap();
    world.envelope(vec![taken.event()]);
    assert_eq!(world.begins_with(Until::Named), Some(taken.mark.offset), "a record names it");
    let error = world.verify(&taken, 0).unwrap_err();
    assert!(matches!(error, Error::Differs { .. }), "{error}");
    assert!(error.to_string().starts_with("SNAPSHOT DIFFERS"), "{error}");
    assert_eq!(world.snapshots.list(PARTITION).unwrap(), []);
    assert_eq!(world.begins_with(Until::Named), None);
}

/// EVT-6: that the store does not give one says nothing of it: it stays, and counts again.
#[test]
fn snapshot_that_cannot_be_read_back_is_not_deleted() {
    let mut world = World::new(4);
    let taken = world.take_and_name();
    let file = world.place.path().join(taken.name.to_string());
    let aside = world.place.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    // A link to itself is there and cannot be opened.
    std::os::unix::fs::symlink(&file, &file).unwrap();
    let error = world.verify(&taken, 0).unwrap_err();
    assert!(matches!(error, Error::ReadBack { source: Refusal::Store(_), .. }), "{error:?}");
    assert!(file.is_symlink());
    fs::rename(&aside, &file).unwrap();
    assert_eq!(world.begins_with(Until::Named), Some(taken.mark.offset));
}

/// EVT-6: what the ladder does not keep leaves the store.
#[test]
fn store_is_thinned() {
    let mut world = World::new(2);
    for _ in 0..6 {
        world.take_and_name();
    }
    assert_eq!(world.snapshots.list(PARTITION).unwrap().len(), 6);
    assert_eq!(world.snapshots.thin(PARTITION, Ladder { hours: 48, days: 365 }).unwrap(), 4);
    assert_eq!(world.snapshots.list(PARTITION).unwrap().len(), 2);
}
