//! What is missing, damaged or another log's is named, and never passed over.

use std::sync::Arc;

use tidemill_archive::{Archive, ArchivedLog, Bounds, SegmentName, Store, When};
use tidemill_log::{From, LogId, Readers, Record, Topic};

use crate::kit::{ALL, PATIENCE, Step, World, journal, read_all};

const STEPS: &[Step] = &[Step::Claim, Step::Envelope(100), Step::Envelope(200), Step::Envelope(300)];

fn archived() -> (World, Vec<Record>) {
    let world = journal(STEPS);
    let before = read_all(&*world.log, 1);
    world.cycle(Bounds { segment_bytes: 200, ..ALL }, When::Now).unwrap();
    (world, before)
}

fn names(world: &World) -> Vec<String> {
    world.store.names().into_iter().filter(|name| name.contains("journal-00001")).collect()
}

/// Reads from the start until an error; what came before it has to be the journal's beginning.
fn error_of(world: &World, before: &[Record]) -> Option<String> {
    let through = world.through();
    let mut read = Vec::new();
    let said = |error: tidemill_log::Error| {
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        format!("{error}: {source}")
    };
    let mut reader = match through.reader(Topic::Journal, 1, From::Start) {
        Ok(reader) => reader,
        Err(error) => return Some(said(error)),
    };
    while read.len() < before.len() {
        match reader.poll(2, PATIENCE) {
            Ok(records) => read.extend(records),
            Err(error) => {
                assert_eq!(read, before[..read.len()], "what came before the error");
                return Some(said(error));
            }
        }
    }
    assert_eq!(read, before);
    None
}

/// EVT-6: any byte of a segment that is another one stops the reader at the segment's name; nothing is skipped.
#[test]
fn any_changed_byte_is_named() {
    let (world, before) = archived();
    for name in names(&world) {
        let whole = world.store.objects.lock().unwrap().get(&name).unwrap().clone();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            world.store.objects.lock().unwrap().insert(name.clone(), damaged);
            let error =
                error_of(&world, &before).unwrap_or_else(|| panic!("byte {at} of {name} is not missed"));
            assert!(error.contains(&format!("memory:/{name}")), "byte {at}: {error}");
        }
        world.store.objects.lock().unwrap().insert(name, whole);
    }
    assert_eq!(error_of(&world, &before), None);
}

/// A segment that is cut anywhere is named.
#[test]
fn cut_segment_is_named() {
    let (world, before) = archived();
    let name = names(&world).swap_remove(1);
    let whole = world.store.objects.lock().unwrap().get(&name).unwrap().clone();
    for length in 0..whole.len() {
        world.store.objects.lock().unwrap().insert(name.clone(), whole[..length].to_vec());
        let error = error_of(&world, &before).unwrap();
        assert!(error.contains(&name) && error.contains("damaged"), "{length}: {error}");
    }
}

/// A segment that is gone is named by the record that nobody has.
#[test]
fn missing_segment_is_named_by_its_record() {
    let (world, before) = archived();
    for name in names(&world) {
        let whole = world.store.objects.lock().unwrap().remove(&name).unwrap();
        let first = SegmentName::parse_whole(&name).unwrap().first;
        let error = error_of(&world, &before).unwrap();
        assert!(
            error.contains(&format!("has no segment of log {} with record {first} ", world.log.log_id())),
            "{error}"
        );
        world.store.objects.lock().unwrap().insert(name, whole);
    }
}

/// A segment of another log, or journal, under a name that fits is named.
#[test]
fn segment_of_another_log_is_named() {
    let (world, before) = archived();
    let (other, _) = archived();
    let foreign = names(&other).swap_remove(0);
    let bytes = other.store.objects.lock().unwrap().get(&foreign).unwrap().clone();
    let name = names(&world).swap_remove(0);
    world.store.objects.lock().unwrap().insert(name.clone(), bytes);
    let error = error_of(&world, &before).unwrap();
    assert!(error.contains(&name) && error.contains("does not belong there"), "{error}");
    assert!(error.contains(other.log.log_id().as_str()), "{error}");
}

/// Segments of other logs beside them are nobody's business, and neither are files that are no segments.
#[test]
fn what_else_lies_there_is_left_alone() {
    let (world, before) = archived();
    let (other, _) = archived();
    let mut objects = world.store.objects.lock().unwrap();
    objects.extend(other.store.objects.lock().unwrap().clone());
    let directory = SegmentName::directory(world.log.log_id(), 1);
    objects.insert(format!("{directory}/.0000-0001.segment.partial"), b"half".to_vec());
    objects.insert(format!("{directory}/README"), b"hello".to_vec());
    drop(objects);
    assert_eq!(error_of(&world, &before), None);
}

/// Two archivers that had other bounds may both have written: any cover of the journal will do.
#[test]
fn overlapping_segments_are_one_journal() {
    let world = journal(STEPS);
    let before = read_all(&*world.log, 1);
    for segment_bytes in [1, 300, 700, 5_000] {
        let other = World::over(Arc::clone(&world.log));
        other.cycle(Bounds { segment_bytes, releases: false, ..ALL }, When::Now).unwrap();
        world.store.objects.lock().unwrap().extend(other.store.objects.lock().unwrap().clone());
    }
    world.cycle(ALL, When::Now).unwrap();
    assert!(world.log.range(Topic::Journal, 1).unwrap().start > 0);
    assert_eq!(error_of(&world, &before), None);
}

/// An archive of another log has nothing of this one.
#[test]
fn archive_of_another_log_has_nothing() {
    let (world, _) = archived();
    let other = LogId::try_from("other".to_owned()).unwrap();
    let archive = Archive::new(Arc::clone(&world.store) as Arc<dyn Store>, other);
    let through = ArchivedLog::new(Arc::clone(&world.log), Some(Arc::new(archive))).unwrap();
    let error = through.reader(Topic::Journal, 1, From::Start).err().unwrap();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("no segment of log other with record 0"), "{source}");
}
