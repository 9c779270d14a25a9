//! Which snapshot a fold begins with.

use std::fs;

use tidemill_log::{Chain, Head, Kind};
use tidemill_model::{PartitionEvent, Timestamp};
use tidemill_snapshots::{Mark, Refusal, Snapshot, SnapshotName, Until};

use crate::kit::{PARTITION, World};

fn reasons(world: &World) -> Vec<Refusal> {
    world.restore(Until::Named).refused.into_iter().map(|(_, refusal)| refusal).collect()
}

/// EVT-6: a snapshot counts once an accepted record names it, and what follows from it is the fold from the first record.
#[test]
fn snapshot_counts_once_an_accepted_record_names_it() {
    let mut world = World::new(5);
    let taken = world.take();
    assert_eq!(world.begins_with(Until::Named), None);
    assert_eq!(reasons(&world), [Refusal::NotNamed]);
    world.envelope(Vec::new());
    assert_eq!(reasons(&world), [Refusal::NotNamed], "what follows and names nothing does not help");
    world.envelope(vec![taken.event()]);
    let restored = world.restore(Until::Named);
    assert_eq!(restored.begun.unwrap().name, taken.name);
    let whole = world.folded(restored.fold.next);
    assert!(restored.fold.state == whole.state && restored.fold.latest == whole.latest);
    assert_eq!(restored.fold.chain.head(), whole.chain.head());
}

/// EVT-6: every field of the word counts, and a word of the right content for another record names nothing.
#[test]
fn word_that_differs_in_anything_names_nothing() {
    type Change = fn(&mut PartitionEvent);
    let changes: [Change; 6] = [
        |event| {
            if let PartitionEvent::SnapshotTaken { offset, .. } = event {
                *offset += 1
            }
        },
        |event| {
            if let PartitionEvent::SnapshotTaken { epoch, .. } = event {
                *epoch += 1
            }
        },
        |event| {
            if let PartitionEvent::SnapshotTaken { seq, .. } = event {
                *seq += 1
            }
        },
        |event| {
            if let PartitionEvent::SnapshotTaken { hash, .. } = event {
                hash.replace_range(..1, "z")
            }
        },
        |event| {
            if let PartitionEvent::SnapshotTaken { digest, .. } = event {
                digest.replace_range(..1, "z")
            }
        },
        |event| {
            if let PartitionEvent::SnapshotTaken { form, .. } = event {
                form.replace_range(..1, "z")
            }
        },
    ];
    for change in changes {
        let mut world = World::new(3);
        let mut event = world.take().event();
        change(&mut event);
        world.envelope(vec![event]);
        assert_eq!(reasons(&world), [Refusal::NotNamed]);
    }
}

/// EVT-6: a void record has a hash, and a claim behind it is accepted by a chain that begins with it. A snapshot of it is whole;
/// nobody names it, so it is not used. Rule 11.
#[test]
fn snapshot_of_a_void_record_is_never_used() {
    let mut world = World::new(3);
    let before = world.head();
    let body = serde_json::to_vec(&world.body(Vec::new())).unwrap();
    let (late, _) = before.tip().next(Kind::Envelope, body).unwrap();
    world.claim();
    let offset = world.put(late.clone());
    let hash = tidemill_log::Hash::of(&late);
    assert_ne!(world.head().hash, hash, "it is void");
    let mut fold = world.folded(offset);
    fold.chain = Chain::resume(Head { offset, hash, seq: before.seq + 1, ..before });
    fold.next = offset + 1;
    world.snapshots.write(&Snapshot::of(&fold).unwrap()).unwrap();
    world.claim();
    world.envelope(Vec::new());
    assert_eq!(reasons(&world), [Refusal::NotNamed]);
    let taken = world.take_and_name();
    assert_eq!(world.begins_with(Until::Named), Some(taken.mark.offset));
    assert!(world.try_take(Mark { offset, epoch: before_epoch(&world), seq: 0, hash }).is_err());
}

fn before_epoch(world: &World) -> u64 {
    world.head().epoch - 2
}

/// EVT-6: one that is missing, cut off, changed in any byte, of another partition or of another form is passed over for an older
/// one.
#[test]
fn older_one_stands_in_for_one_that_is_not_whole() {
    let mut world = World::new(4);
    let older = world.take_and_name();
    world.envelope(Vec::new());
    let newer = world.take_and_name();
    assert_eq!(world.begins_with(Until::Named), Some(newer.mark.offset));
    let file = world.place.path().join(newer.name.to_string());
    let whole = fs::read(&file).unwrap();
    let (meant, mut same) = (Snapshot::read(&whole).unwrap(), 0);
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x11;
        for bytes in [&changed[..], &whole[..at]] {
            fs::write(&file, bytes).unwrap();
            // Snappy may say the same in other bytes: then it is the same snapshot.
            let is_same = Snapshot::read(bytes).is_ok_and(|read| {
                (&read.head, read.digest) == (&meant.head, meant.digest) && read.state == meant.state
            });
            let begins = if is_same { &newer } else { &older };
            assert_eq!(world.begins_with(Until::Named), Some(begins.mark.offset), "byte {at}");
            same += usize::from(is_same);
        }
    }
    assert!(same < 20, "{same} of {} bytes say nothing", whole.len());
    fs::write(&file, &whole).unwrap();
    let elsewhere = SnapshotName { partition: 0, ..newer.name.clone() };
    let foreign = world.place.path().join(elsewhere.to_string());
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::copy(&file, &foreign).unwrap();
    assert!(matches!(world.snapshots.read(&elsewhere), Err(Refusal::Foreign { partition: PARTITION, .. })));
    let other = SnapshotName { form: "0123456789abcdef".to_owned(), ..newer.name.clone() };
    fs::rename(&file, world.place.path().join(other.to_string())).unwrap();
    assert_eq!(world.begins_with(Until::Named), Some(older.mark.offset), "of another form");
    fs::remove_dir_all(world.place.path().join(older.name.to_string()).parent().unwrap()).unwrap();
    assert_eq!(world.begins_with(Until::Named), None);
}

/// DSP-1, EVT-6: a question about the past begins with the newest snapshot that holds nothing later, also where a record after
/// its moment names it, and the state is that of the moment.
#[test]
fn past_begins_with_the_newest_snapshot_before_its_moment() {
    let mut world = World::new(4);
    let first = world.take_and_name();
    world.envelope(Vec::new());
    let second = world.take_and_name();
    world.envelope(Vec::new());
    let (a, b) = (first.mark.offset, second.mark.offset);
    let cases =
        [(a - 1, None), (a, Some(a)), (a + 1, Some(a)), (b - 1, Some(a)), (b, Some(b)), (b + 2, Some(b))];
    for (offset, begins) in cases {
        assert_eq!(world.begins_with(Until::Offset(offset)), begins, "at {offset}");
        let time = world.folded(offset + 1).latest;
        assert_eq!(world.begins_with(Until::Time(time)), begins, "at {time}");
    }
    let restored = world.restore(Until::Offset(a));
    assert!(restored.is_past, "the record that names it is later");
    assert!(restored.fold.state == world.folded(a + 1).state);
    assert_eq!(world.begins_with(Until::Time(Timestamp::UNIX_EPOCH)), None);
}
