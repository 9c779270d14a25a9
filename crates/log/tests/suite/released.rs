//! Archived records leave the embedded log, and the log knows what it had.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use tidemill_log::{Chain, Error, From, Head, Kind, Readers, SqliteConfig, SqliteLog, SqliteView, Topic};

use crate::conformance::fixture::{Fixture, PATIENCE, append, pipeline, read};

fn open(directory: &Path) -> Fixture {
    let log = SqliteLog::open(&SqliteConfig::new(directory), Box::new(|reason| panic!("{reason}"))).unwrap();
    Fixture { log: Arc::new(log), _ground: Box::new(()) }
}

/// A claim, and so many envelopes of so many bytes.
fn write(fixture: &Fixture, envelopes: u32, bytes: usize) {
    let producer = fixture.producer();
    let head = fixture.head(0);
    append(producer.as_ref(), Topic::Journal, 0, head.claim("a", "").unwrap()).unwrap();
    let mut tip = fixture.head(0).tip();
    let records = (0..envelopes).map(|number| {
        let body = vec![u8::try_from(number % 251).unwrap(); bytes];
        let (record, next) = tip.next(Kind::Envelope, body).unwrap();
        tip = next;
        record
    });
    let records: Vec<_> = records.collect();
    let outcomes = pipeline(producer.as_ref(), Topic::Journal, 0, records);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// Where the chain stands before this offset.
fn head_before(fixture: &Fixture, below: u64) -> Head {
    let mut chain = Chain::new();
    for record in fixture.read_all(Topic::Journal, 0) {
        if record.offset < below {
            chain.accept(record.offset, &record.value);
        }
    }
    chain.head().unwrap().clone()
}

fn size(directory: &Path) -> u64 {
    std::fs::metadata(directory.join("log.db")).unwrap().len()
}

/// OPS-8: the file becomes smaller; what is left is read as before, and verified from where it begins; the next opening
/// knows it.
#[test]
fn released_records_leave_the_file_and_the_rest_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = open(directory.path());
    write(&fixture, 3_000, 3_000);
    let all = fixture.read_all(Topic::Journal, 0);
    let (head, end) = (fixture.head(0), 3_002);
    let before = head_before(&fixture, 2_900);
    drop(fixture);
    let full = size(directory.path());
    let fixture = open(directory.path());
    fixture.log.release_archived(2_900, &before).unwrap();
    assert_eq!(fixture.log.range(Topic::Journal, 0).unwrap(), 2_900..end);
    let mut reader = fixture.reader(Topic::Journal, 0, From::Offset(2_900));
    assert_eq!(read(reader.as_mut(), 102), all[2_900..]);
    for from in [From::Start, From::Offset(2_899)] {
        let error = fixture.log.reader(Topic::Journal, 0, from).err();
        assert!(matches!(error, Some(Error::JournalBeginsLater { partition: 0, first: 2_900 })), "{error:?}");
    }
    // It goes on with the same chain.
    let (record, tip) = head.tip().next(Kind::Envelope, b"more".to_vec()).unwrap();
    append(fixture.producer().as_ref(), Topic::Journal, 0, record).unwrap();
    drop((reader, fixture));

    assert!(size(directory.path()) * 5 < full, "{} of {full}", size(directory.path()));
    let view = SqliteView::open(directory.path()).unwrap();
    assert_eq!(view.range(Topic::Journal, 0).unwrap(), 2_900..end + 1);
    let error = view.reader(Topic::Journal, 0, From::Start).err();
    assert!(matches!(error, Some(Error::JournalBeginsLater { first: 2_900, .. })), "{error:?}");
    drop(view);
    let log = SqliteLog::open(&SqliteConfig::new(directory.path()), Box::new(|_| {})).unwrap();
    let verified = log.verify_all().unwrap();
    assert_eq!((verified.records, verified.heads[0].tip()), (103, tip));
    assert_eq!(log.range(Topic::Journal, 0).unwrap(), 2_900..end + 1);
}

/// Without the short cut of a stored head the chain is taken up where the file begins.
#[test]
fn opening_takes_the_chain_up_behind_what_was_released() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = open(directory.path());
    write(&fixture, 10, 10);
    let (before, head) = (head_before(&fixture, 7), fixture.head(0));
    fixture.log.release_archived(7, &before).unwrap();
    drop(fixture);
    let by_hand = |sql: &str| {
        Connection::open(directory.path().join("log.db")).unwrap().execute_batch(sql).unwrap();
    };
    by_hand("DELETE FROM head");
    let fixture = open(directory.path());
    let (record, _) = head.tip().next(Kind::Envelope, b"more".to_vec()).unwrap();
    append(fixture.producer().as_ref(), Topic::Journal, 0, record).unwrap();
    drop(fixture);
    // A head that is stored for a record that is gone by now.
    let stored = serde_json::to_string(&before).unwrap();
    by_hand(&format!("INSERT OR REPLACE INTO head VALUES (0, '{stored}')"));
    open(directory.path());
    by_hand("DELETE FROM head; UPDATE journal_0 SET value = x'00' WHERE offset = 8");
    let error = SqliteLog::open(&SqliteConfig::new(directory.path()), Box::new(|_| {})).err();
    assert!(matches!(error, Some(Error::ChainBroken { offset: 8, .. })), "{error:?}");
}

/// A program that knows nothing of archives must not take what is left for the whole journal; one file without any stays
/// readable for it.
#[test]
fn file_of_which_records_were_released_has_another_version() {
    let directory = tempfile::tempdir().unwrap();
    let version = || -> i64 {
        let file = Connection::open(directory.path().join("log.db")).unwrap();
        file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    };
    let fixture = open(directory.path());
    write(&fixture, 3, 3);
    assert_eq!(version(), 3);
    let before = head_before(&fixture, 2);
    fixture.log.release_archived(2, &before).unwrap();
    assert_eq!(version(), 4);
}

/// The log compares what it is asked to let go of with what it has.
#[test]
fn head_of_another_journal_releases_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = open(directory.path());
    write(&fixture, 5, 5);
    let before = head_before(&fixture, 4);
    let end = fixture.log.range(Topic::Journal, 0).unwrap().end;
    let last = head_before(&fixture, end);
    let other = tempfile::tempdir().unwrap();
    let foreign = open(other.path()).head(0);
    let hash = tidemill_log::Hash::of(b"another");
    let wrong = [
        (4, Head { hash, ..before.clone() }),
        (5, before.clone()),
        (end, last),
        (1, foreign),
        (4, Head { partition: 3, ..before.clone() }),
    ];
    for (below, head) in wrong {
        let error = fixture.log.release_archived(below, &head).unwrap_err();
        let is_named = matches!(error, Error::NotReleased { .. } | Error::NoSuchPartition { .. });
        assert!(is_named, "{error:?}");
        assert_eq!(fixture.log.range(Topic::Journal, 0).unwrap(), 0..end);
    }
    fixture.log.release_archived(4, &before).unwrap();
    fixture.log.release_archived(4, &before).unwrap();
    assert_eq!(fixture.log.range(Topic::Journal, 0).unwrap(), 4..end, "asked twice, done once");
}

/// A process that was killed between two steps left records that the file says are released: nobody reads them, and the
/// next call removes them.
#[test]
fn records_that_a_killed_process_left_are_removed_later() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = open(directory.path());
    write(&fixture, 20, 20);
    let before = head_before(&fixture, 15);
    fixture.log.release_archived(2, &head_before(&fixture, 2)).unwrap();
    drop(fixture);
    let file = directory.path().join("log.db");
    let head = serde_json::to_string(&before).unwrap();
    Connection::open(&file).unwrap().execute("UPDATE archived SET below = 15, head = ?1", [head]).unwrap();
    let fixture = open(directory.path());
    assert_eq!(fixture.log.range(Topic::Journal, 0).unwrap(), 15..22);
    assert!(fixture.log.reader(Topic::Journal, 0, From::Offset(14)).is_err());
    fixture.log.release_archived(15, &before).unwrap();
    let first: i64 = Connection::open(&file)
        .unwrap()
        .query_row("SELECT min(offset) FROM journal_0", [], |row| row.get(0))
        .unwrap();
    assert_eq!(first, 15);
}

/// Appends go on while records are removed, and a reader that is behind is told.
#[test]
fn appends_go_on_meanwhile_and_a_reader_that_is_behind_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = open(directory.path());
    write(&fixture, 4_000, 4_000);
    let before = head_before(&fixture, 3_990);
    drop(fixture);
    let fixture = open(directory.path());
    let mut behind = fixture.reader(Topic::Journal, 0, From::Start);
    thread::scope(|scope| {
        let removing = scope.spawn(|| fixture.log.release_archived(3_990, &before).unwrap());
        let producer = fixture.producer();
        let mut appended = 0;
        while !removing.is_finished() {
            append(producer.as_ref(), Topic::Commands, 0, "while").unwrap();
            appended += 1;
        }
        assert!(appended > 3, "only {appended} appends went between {} steps", 4_000 * 4_000 / (1 << 20));
    });
    let error = behind.poll(10, PATIENCE).err();
    assert!(matches!(error, Some(Error::OffsetOutOfRange { wanted: 0, low: 3_990, .. })), "{error:?}");
}

/// OPS-8: the log says what each topic takes and by how much it grows, about; what is free in the file is told as well.
#[test]
fn usage_of_each_topic_is_told_about() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = open(directory.path());
    write(&fixture, 2_000, 2_000);
    let usage = fixture.log.usage().unwrap();
    let journal = usage.topics[&Topic::Journal];
    assert_eq!(journal.records, 2_002);
    assert!((4_000_000..4_500_000).contains(&journal.bytes), "{journal:?}");
    assert!(usage.bytes.unwrap() >= journal.bytes, "{usage:?}");
    assert_eq!(journal.bytes_per_day, journal.bytes * 24, "it is younger than an hour");
    assert_eq!(usage.topics[&Topic::Commands], tidemill_log::TopicUsage::default());
    drop(fixture);
    let by_hand = Connection::open(directory.path().join("log.db")).unwrap();
    let two_days_ago = "UPDATE journal_0 SET at_ms = at_ms - 172800000 WHERE offset < 1500";
    by_hand.execute(two_days_ago, []).unwrap();
    drop(by_hand);
    let fixture = open(directory.path());
    let journal = fixture.log.usage().unwrap().topics[&Topic::Journal];
    assert!((journal.bytes / 5..journal.bytes / 3).contains(&journal.bytes_per_day), "{journal:?}");
}
