//! Who reads through the archive reads what was in the log, byte for byte, wherever the log begins by now.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tidemill_archive::{ArchivedLog, Bounds, When};
use tidemill_log::{Error, From, MemoryLog, Readers, Topic};

use crate::kit::{ALL, PATIENCE, Step, World, journal, read_all, take, write};

const EXAMPLE: &[Step] = &[
    Step::Claim,
    Step::Envelope(10),
    Step::Garbage(7),
    Step::Envelope(300_000),
    Step::Stale,
    Step::Claim,
    Step::Envelope(0),
    Step::Envelope(70),
    Step::Resign,
    Step::Garbage(0),
    Step::Claim,
    Step::Envelope(12),
];

/// EVT-6: from every offset, whatever the segments and however much of them left the log, the records are those of before.
#[test]
fn reader_from_every_offset_gives_what_was_in_the_log_over_every_split() {
    let total: usize = 300_400;
    for segment_bytes in [1, 150, 1_000, total as u64] {
        let world = journal(EXAMPLE);
        let before = read_all(&*world.log, 1);
        let copied = Bounds { segment_bytes, releases: false, ..ALL };
        world.cycle(copied, When::Now).unwrap();
        assert_eq!(world.log.range(Topic::Journal, 1).unwrap().start, 0, "only copied");
        let mut starts = Vec::new();
        // The less the log has to keep, the further it begins.
        for keep_bytes in [u64::MAX, 100_000, 100, 50, 0] {
            world.cycle(Bounds { keep_ms: u64::MAX / 2, keep_bytes, ..copied }, When::Due).unwrap();
            world
                .cycle(Bounds { keep_ms: u64::MAX / 2, keep_bytes, releases: true, ..copied }, When::Due)
                .unwrap();
            starts.push(world.log.range(Topic::Journal, 1).unwrap().start);
            let through = world.through();
            assert_eq!(through.range(Topic::Journal, 1).unwrap(), 0..before.len() as u64);
            for from in 0..=before.len() {
                let place = From::Offset(from as u64);
                let mut reader = through.reader(Topic::Journal, 1, place).unwrap();
                assert_eq!(take(reader.as_mut(), before.len() - from), before[from..], "from {from}");
                assert!(reader.poll(9, Duration::ZERO).unwrap().is_empty());
            }
            assert_eq!(read_all(&through, 1), before);
        }
        assert!(starts.is_sorted() && starts[0] == 0 && starts[4] > 0, "{starts:?}");
    }
}

/// A reader that was opened before goes on, though what it has not read yet leaves the log under it, and it hears of what is
/// appended afterwards.
#[test]
fn reader_that_is_overtaken_goes_on_in_the_archive_and_back_in_the_log() {
    let world = journal(EXAMPLE);
    let before = read_all(&*world.log, 1);
    let through = world.through();
    let mut reader = through.reader(Topic::Journal, 1, From::Start).unwrap();
    let mut read = take(reader.as_mut(), 3);
    world.cycle(ALL, When::Now).unwrap();
    assert_eq!(world.log.range(Topic::Journal, 1).unwrap().start, before.len() as u64 - 1);
    read.extend(take(reader.as_mut(), before.len() - 3));
    assert_eq!(read, before);
    let writer = world.through();
    let appending = thread::spawn(move || write(&writer, 1, &[Step::Envelope(5)]));
    assert_eq!(take(reader.as_mut(), 1)[0].offset, before.len() as u64);
    appending.join().unwrap();
}

/// A waker ends the wait of a reader that came from the archive, as of any.
#[test]
fn waker_that_was_taken_at_the_beginning_ends_a_wait_in_the_log() {
    let world = journal(EXAMPLE);
    let count = read_all(&*world.log, 1).len();
    world.cycle(ALL, When::Now).unwrap();
    let through = world.through();
    let mut reader = through.reader(Topic::Journal, 1, From::Start).unwrap();
    let waker = reader.waker();
    take(reader.as_mut(), count);
    let waiting = thread::spawn(move || reader.poll(1, Duration::from_secs(3600)).unwrap());
    waker.wake();
    assert!(waiting.join().unwrap().is_empty());
}

/// Woken between two segments it ends, too.
#[test]
fn waker_ends_a_poll_of_the_archive() {
    let world = journal(EXAMPLE);
    world.cycle(ALL, When::Now).unwrap();
    let through = world.through();
    let mut reader = through.reader(Topic::Journal, 1, From::Start).unwrap();
    reader.waker().wake();
    assert!(reader.poll(1, PATIENCE).unwrap().is_empty());
    assert_eq!(reader.poll(1, PATIENCE).unwrap().len(), 1);
}

/// Without an archive a log that does not have its beginning is not read at all, and says what to configure.
#[test]
fn log_without_its_beginning_names_what_to_configure() {
    let world = journal(EXAMPLE);
    let bare = ArchivedLog::new(Arc::clone(&world.log), None).unwrap();
    world.cycle(ALL, When::Now).unwrap();
    let first = world.log.range(Topic::Journal, 1).unwrap().start;
    let refused = |error: Option<Error>| {
        let error = error.expect("it begins later");
        assert!(
            matches!(error, Error::JournalBeginsLater { partition: 1, first: at } if at == first),
            "{error:?}"
        );
        assert!(error.to_string().contains("archive.place"), "{error}");
    };
    refused(ArchivedLog::new(Arc::clone(&world.log), None).err());
    for from in [From::Start, From::Offset(0), From::Offset(first - 1)] {
        refused(bare.reader(Topic::Journal, 1, from).err());
        refused(world.log.reader(Topic::Journal, 1, from).err());
    }
    assert!(bare.reader(Topic::Journal, 1, From::Offset(first)).is_ok());
    let ahead = bare.reader(Topic::Journal, 1, From::Offset(99)).err();
    assert!(matches!(ahead, Some(Error::OffsetOutOfRange { wanted: 99, .. })), "{ahead:?}");
}

/// What is young stays, as far as there is not too much of it.
#[test]
fn bounds_say_what_is_closed_and_what_leaves_the_log() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    let world = journal(EXAMPLE);
    let end = read_all(&*world.log, 1).len() as u64;
    let start = || world.log.range(Topic::Journal, 1).unwrap().start;
    let long = Bounds { segment_age_ms: DAY_MS, keep_ms: DAY_MS, keep_bytes: 1 << 40, ..ALL };
    // Not full, and not old.
    let cycle = world.cycle(Bounds { segment_bytes: 1 << 30, ..long }, When::Due).unwrap();
    assert_eq!((cycle.segments, world.store.names().len()), (0, 0));
    // Full, and neither old nor too much.
    world.cycle(Bounds { segment_bytes: 100, ..long }, When::Due).unwrap();
    assert_eq!(start(), 0);
    // Too much: what is left behind the last that leaves is at least what is to be kept.
    world.cycle(Bounds { segment_bytes: 100, keep_bytes: 300, ..long }, When::Due).unwrap();
    let kept: usize = read_all(&world.through(), 1)[usize::try_from(start()).unwrap()..]
        .iter()
        .map(|record| record.value.len() + record.key.len())
        .sum();
    assert!(start() > 0 && start() < end - 1 && kept >= 300, "{kept} bytes from {} on", start());
    // Old.
    world.cycle(Bounds { segment_bytes: 100, keep_ms: 0, keep_bytes: 1 << 40, ..long }, When::Now).unwrap();
    assert_eq!(start(), end - 1, "the last record stays");
    // And on Kafka nothing leaves that nobody asked for.
    let other = journal(EXAMPLE);
    other.cycle(Bounds { releases: false, ..ALL }, When::Now).unwrap();
    assert_eq!(other.log.range(Topic::Journal, 1).unwrap().start, 0);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Claim),
        6 => (0_usize..2_000).prop_map(Step::Envelope),
        1 => (0_usize..300_000).prop_map(Step::Envelope),
        2 => (0_usize..500).prop_map(Step::Garbage),
        2 => Just(Step::Stale),
        1 => Just(Step::Resign),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// EVT-6: whatever stands in a journal, void records and claims too, is read as before, while it grows and is archived bit
    /// by bit with other bounds each time.
    #[test]
    fn random_journals_are_read_as_before(
        parts in prop::collection::vec((steps(), 1_u64..20_000, 0_u64..20_000, any::<bool>()), 1..4),
        from in 0_u64..100,
    ) {
        let world = World::over(Arc::new(MemoryLog::new(2)));
        let mut before = read_all(&*world.log, 1);
        for (steps, segment_bytes, keep_bytes, releases) in parts {
            // Whoever writes has read the journal, through the archive.
            write(&world.through(), 1, &steps);
            let more = before.len() as u64;
            let end = world.log.range(Topic::Journal, 1).unwrap().end;
            let mut reader = world.log.reader(Topic::Journal, 1, From::Offset(more)).unwrap();
            before.extend(take(reader.as_mut(), usize::try_from(end - more).unwrap()));
            let bounds = Bounds { segment_bytes, keep_bytes, keep_ms: u64::MAX / 2, releases, ..ALL };
            world.cycle(bounds, When::Now).unwrap();
            let through = world.through();
            prop_assert_eq!(&read_all(&through, 1), &before);
            let from = from.min(end);
            let mut reader = through.reader(Topic::Journal, 1, From::Offset(from)).unwrap();
            let at = usize::try_from(from).unwrap();
            prop_assert_eq!(&take(reader.as_mut(), before.len() - at), &before[at..]);
        }
    }
}
