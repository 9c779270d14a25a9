//! The embedded log does what every log does, and keeps it over restarts, damage and full disks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, mpsc};

use crate::conformance::fixture::{Fixture, PARTITIONS, PATIENCE, append, pipeline, read};
use rusqlite::Connection;
use tidemill_log::{
    AppendError, Error, From, Kind, Log, NewRecord, QueueBound, Readers, SqliteConfig, SqliteLog, SqliteView,
    Topic, VoidReason,
};

fn sqlite(queue: QueueBound) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let config = SqliteConfig { partitions: PARTITIONS, queue, ..SqliteConfig::new(directory.path()) };
    let log = SqliteLog::open(&config, Box::new(|reason| panic!("{reason}"))).unwrap();
    Fixture { log: Arc::new(log), _ground: Box::new(directory) }
}

suite!(sqlite);

fn open(directory: &Path) -> Result<SqliteLog, Error> {
    SqliteLog::open(&SqliteConfig::new(directory), Box::new(|_| {}))
}

fn on(log: SqliteLog) -> Fixture {
    Fixture { log: Arc::new(log), _ground: Box::new(()) }
}

/// A journal with a claim and so many envelopes after it.
fn write_journal(fixture: &Fixture, envelopes: u32) {
    let producer = fixture.producer();
    let claim = fixture.head(0).claim("a", "").unwrap();
    append(producer.as_ref(), Topic::Journal, 0, claim).unwrap();
    let mut tip = fixture.head(0).tip();
    let mut records = Vec::new();
    for number in 0..envelopes {
        let (record, next) = tip.next(Kind::Envelope, number.to_string().into()).unwrap();
        records.push(record);
        tip = next;
    }
    for outcome in pipeline(producer.as_ref(), Topic::Journal, 0, records) {
        outcome.unwrap();
    }
}

fn by_hand(directory: &Path, sql: &str) {
    Connection::open(directory.join("log.db")).unwrap().execute_batch(sql).unwrap();
}

/// Whoever waits for the first of several finds all of them.
#[test]
fn records_appended_together_are_one_commit() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = on(open(directory.path()).unwrap());
    let producer = fixture.producer();
    let mut reader = fixture.reader(Topic::Commands, 0, From::Start);
    for round in 0..50 {
        let record = |number: u8| {
            let (topic, key, value) = (Topic::Commands, Vec::new(), vec![round, number]);
            NewRecord {
                topic,
                partition: 0,
                key,
                value: value.into(),
                acted_on: false,
                done: Box::new(|outcome| assert!(outcome.is_ok())),
            }
        };
        producer.append_all((0..3).map(record).collect());
        let read = reader.poll(8, PATIENCE).unwrap();
        let values: Vec<u8> = read.iter().map(|record| record.value[1]).collect();
        assert_eq!(values, [0, 1, 2]);
    }
}

#[test]
fn reopened_log_has_everything_durable_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let first = on(open(directory.path()).unwrap());
    write_journal(&first, 5);
    for topic in [Topic::Commands, Topic::Events, Topic::DeadLetters, Topic::Work, Topic::Replies] {
        append(first.producer().as_ref(), topic, 0, topic.name()).unwrap();
    }
    let (id, history) = (first.log.log_id().clone(), first.history(0));
    drop(first);

    let again = on(open(directory.path()).unwrap());
    assert_eq!((again.log.log_id(), &again.history(0)), (&id, &history));
    for topic in [Topic::Commands, Topic::Events, Topic::DeadLetters] {
        assert_eq!(&again.read_all(topic, 0)[0].value[..], topic.name().as_bytes());
        assert_eq!(append(again.producer().as_ref(), topic, 0, "more"), Ok(1));
    }
    assert_eq!(again.read_all(Topic::Work, 0), [], "volatile");
    let late = append(again.producer().as_ref(), Topic::Journal, 0, history.accepted[2].encode().unwrap());
    assert_eq!(late, Err(AppendError::Refused(VoidReason::WrongPrev.to_string())), "the chain was resumed");
}

/// On this log a refused record takes no offset: nothing void is ever stored.
#[test]
fn refused_record_is_not_stored() {
    let fixture = sqlite(QueueBound::default());
    let outcome = append(fixture.producer().as_ref(), Topic::Journal, 0, "noise");
    assert_eq!(outcome, Err(AppendError::Refused(VoidReason::Garbled.to_string())));
    assert_eq!(fixture.log.range(Topic::Journal, 0).unwrap(), 0..1);
}

#[test]
fn records_that_left_memory_are_read_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = on(open(directory.path()).unwrap());
    let values = (0..40_000_u32).map(|number| number.to_be_bytes().to_vec());
    pipeline(fixture.producer().as_ref(), Topic::Commands, 0, values);
    let mut reader = fixture.reader(Topic::Commands, 0, From::Offset(7));
    for (record, number) in read(reader.as_mut(), 39_993).iter().zip(7_u32..) {
        assert_eq!((record.offset, &record.value[..]), (u64::from(number), &number.to_be_bytes()[..]));
    }
    append(fixture.producer().as_ref(), Topic::Commands, 0, "live").unwrap();
    assert_eq!(&read(reader.as_mut(), 1)[0].value[..], b"live");
}

/// What is done with and old is forgotten, a few at a time, behind what is queued: nothing younger, nothing
/// beyond, and nothing of the journal.
#[test]
fn old_commands_that_are_done_with_are_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = on(open(directory.path()).unwrap());
    write_journal(&fixture, 3);
    pipeline(
        fixture.producer().as_ref(),
        Topic::Commands,
        0,
        (0..10_000_u32).map(|n| n.to_be_bytes().to_vec()),
    );
    drop(fixture);
    by_hand(
        directory.path(),
        "UPDATE commands_0 SET at_ms = 0 WHERE offset < 9000; UPDATE journal_0 SET at_ms = 0;",
    );
    let fixture = on(open(directory.path()).unwrap());
    let mut behind = fixture.reader(Topic::Commands, 0, From::Start);
    let producer = fixture.producer();
    let starts_after = |below: u64| {
        fixture.log.trim(Topic::Commands, 0, below).unwrap();
        append(producer.as_ref(), Topic::Commands, 0, "behind it").unwrap();
        fixture.log.range(Topic::Commands, 0).unwrap().start
    };
    let starts = [0, 8_500, 8_500, 8_500, 8_500, 20_000, 20_000].map(starts_after);
    assert_eq!(starts, [0, 4_096, 8_192, 8_500, 8_500, 9_000, 9_000]);
    fixture.log.trim(Topic::Journal, 0, 3).unwrap();
    assert!(fixture.log.trim(Topic::Commands, 9, 3).is_err());

    let lost = behind.poll(10, PATIENCE).err();
    assert!(matches!(lost, Some(Error::OffsetOutOfRange { wanted: 0, low: 9_000, .. })), "{lost:?}");
    let lost = fixture.log.reader(Topic::Commands, 0, From::Offset(8_999)).err();
    assert!(matches!(lost, Some(Error::OffsetOutOfRange { wanted: 8_999, low: 9_000, .. })), "{lost:?}");
    let range = fixture.log.range(Topic::Commands, 0).unwrap();
    drop((producer, behind, fixture));

    let log = open(directory.path()).unwrap();
    assert_eq!(log.verify_all().unwrap().records, 5 + (range.end - range.start));
    let again = on(log);
    assert_eq!(again.log.range(Topic::Commands, 0).unwrap(), range);
    assert_eq!(again.read_all(Topic::Commands, 0)[0].value[..], 9_000_u32.to_be_bytes());
    assert_eq!(again.log.range(Topic::Journal, 0).unwrap(), 0..5);
}

/// The last command tells the offset of the next one.
#[test]
fn last_command_is_never_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let config = SqliteConfig { keep_commands_ms: 0, ..SqliteConfig::new(directory.path()) };
    let fixture = on(SqliteLog::open(&config, Box::new(|_| {})).unwrap());
    pipeline(fixture.producer().as_ref(), Topic::Commands, 0, (0..3_u8).map(|number| vec![number]));
    drop(fixture);
    by_hand(directory.path(), "UPDATE commands_0 SET at_ms = 0;");
    let fixture = on(SqliteLog::open(&config, Box::new(|_| {})).unwrap());
    fixture.log.trim(Topic::Commands, 0, 99).unwrap();
    drop(fixture);
    let again = on(open(directory.path()).unwrap());
    assert_eq!(again.log.range(Topic::Commands, 0).unwrap(), 2..3);
}

#[test]
fn reader_that_lags_behind_a_volatile_ring_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let config = SqliteConfig { ring_records: 10, ..SqliteConfig::new(directory.path()) };
    let fixture = on(SqliteLog::open(&config, Box::new(|_| {})).unwrap());
    let mut reader = fixture.reader(Topic::Work, 0, From::Start);
    pipeline(fixture.producer().as_ref(), Topic::Work, 0, (0..30_u8).map(|number| vec![number]));
    let error = reader.poll(10, PATIENCE).err();
    assert!(matches!(error, Some(Error::OffsetOutOfRange { wanted: 0, low: 20, high: 30, .. })), "{error:?}");
}

#[test]
fn directory_in_use_names_its_holder() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path()).unwrap();
    let text = open(directory.path()).err().unwrap().to_string();
    assert!(text.contains(&format!("in use by process {}", std::process::id())), "{text}");
    drop(first);
    open(directory.path()).unwrap();
}

#[test]
fn other_partition_count_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    let config = SqliteConfig { partitions: 2, ..SqliteConfig::new(directory.path()) };
    let error = SqliteLog::open(&config, Box::new(|_| {})).err();
    assert!(matches!(error, Some(Error::PartitionCount { found: 1, wanted: 2, .. })), "{error:?}");
}

#[test]
fn older_format_is_refused_by_name_and_left_untouched() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    // That of before events belonged to aggregates, and definitions held what was written.
    by_hand(directory.path(), "PRAGMA user_version = 2");
    let files = || {
        let files = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path());
        let contents = files.filter(|file| file.is_file() && !file.ends_with("lock"));
        contents.map(|file| (file.clone(), fs::read(file).unwrap())).collect::<BTreeMap<_, _>>()
    };
    let before = files();
    let error = open(directory.path()).err();
    assert!(matches!(error, Some(Error::FormatVersion { found: 2, wanted: 3, .. })), "{error:?}");
    let text = error.unwrap().to_string();
    assert!(
        text.contains(directory.path().to_str().unwrap()) && text.contains("nothing was changed"),
        "{text}"
    );
    assert_eq!(files(), before, "an older directory is left untouched");
}

#[test]
fn damage_after_the_verified_head_stops_the_opening() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = on(open(directory.path()).unwrap());
    write_journal(&fixture, 5);
    drop(fixture);
    by_hand(directory.path(), "DELETE FROM head; UPDATE journal_0 SET value = x'00' WHERE offset = 3");
    let error = open(directory.path()).err();
    assert!(
        matches!(error, Some(Error::ChainBroken { partition: 0, offset: 3, reason: VoidReason::Garbled })),
        "{error:?}"
    );
    by_hand(directory.path(), "DELETE FROM journal_0 WHERE offset = 3");
    let error = open(directory.path()).err();
    assert!(matches!(error, Some(Error::Gap { offset: 3, .. })), "{error:?}");
}

#[test]
fn journal_that_lost_its_verified_head_stops_the_opening() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = on(open(directory.path()).unwrap());
    write_journal(&fixture, 5);
    drop(fixture);
    by_hand(directory.path(), "UPDATE journal_0 SET value = x'00' WHERE offset = 6");
    let error = open(directory.path()).err();
    assert!(matches!(error, Some(Error::HeadMismatch { partition: 0, offset: 6 })), "{error:?}");
}

#[test]
fn verify_all_finds_damage_before_the_verified_head() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = on(open(directory.path()).unwrap());
    write_journal(&fixture, 5);
    let head = fixture.head(0);
    drop(fixture);
    let log = open(directory.path()).unwrap();
    let verified = log.verify_all().unwrap();
    assert_eq!((verified.records, verified.heads), (7, vec![head]));
    drop(log);
    by_hand(directory.path(), "UPDATE journal_0 SET value = x'00' WHERE offset = 2");
    let log = open(directory.path()).unwrap();
    let error = log.verify_all().err();
    assert!(matches!(error, Some(Error::ChainBroken { offset: 2, .. })), "{error:?}");
}

/// The stored head makes opening quick; it may not hide what came after it.
#[test]
fn head_is_stored_on_the_way_and_the_rest_is_folded() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = on(open(directory.path()).unwrap());
    write_journal(&fixture, 5000);
    write_journal(&fixture, 1000);
    let head = fixture.head(0);
    let text: String = Connection::open(directory.path().join("log.db"))
        .unwrap()
        .query_row("SELECT head FROM head", [], |row| row.get(0))
        .unwrap();
    drop(fixture);
    let stored: tidemill_log::Head = serde_json::from_str(&text).unwrap();
    assert!((4096..=5001).contains(&stored.seq), "{}", stored.seq);
    by_hand(directory.path(), &format!("UPDATE head SET head = '{text}'"));
    assert_eq!(on(open(directory.path()).unwrap()).head(0), head);
}

#[test]
fn full_disk_takes_nothing_and_room_lets_it_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let config = SqliteConfig { max_bytes: Some(400_000), ..SqliteConfig::new(directory.path()) };
    let fixture = on(SqliteLog::open(&config, Box::new(|reason| panic!("{reason}"))).unwrap());
    write_journal(&fixture, 3);
    let producer = fixture.producer();
    let outcomes = pipeline(producer.as_ref(), Topic::Commands, 0, (0..100).map(|_| vec![1; 50_000]));
    let stored = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(AppendError::Full))), "{outcomes:?}");
    assert!(stored < 100);
    assert_eq!(fixture.log.range(Topic::Commands, 0).unwrap(), 0..stored);

    let record = fixture.head(0).tip().next(Kind::Envelope, vec![b' '; 500_000]).unwrap().0;
    assert_eq!(append(producer.as_ref(), Topic::Journal, 0, record), Err(AppendError::Full));
    let record = fixture.head(0).tip().next(Kind::Envelope, b"small".to_vec()).unwrap().0;
    assert!(
        append(producer.as_ref(), Topic::Journal, 0, record).is_ok(),
        "the chain went back with the file"
    );
    drop((producer, fixture));
    open(directory.path()).unwrap().verify_all().unwrap();
}

#[test]
fn failing_file_ends_the_log_and_the_outcome_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let (fatal, told) = mpsc::channel();
    let on_fatal = Box::new(move |reason: &str| fatal.send(reason.to_owned()).unwrap());
    let fixture = on(SqliteLog::open(&SqliteConfig::new(directory.path()), on_fatal).unwrap());
    let mut reader = fixture.reader(Topic::Journal, 0, From::End);
    let producer = fixture.producer();
    by_hand(directory.path(), "DROP TABLE commands_0");
    let outcome = append(producer.as_ref(), Topic::Commands, 0, "x");
    assert!(matches!(outcome, Err(AppendError::Unknown(_))), "{outcome:?}");
    assert!(told.recv_timeout(PATIENCE).unwrap().contains("commands_0"));
    let outcome = append(producer.as_ref(), Topic::Commands, 0, "y");
    assert!(matches!(outcome, Err(AppendError::Refused(_))), "nothing more is taken: {outcome:?}");
    assert!(matches!(reader.poll(1, PATIENCE), Err(Error::Poisoned { .. })));
    assert!(matches!(fixture.log.range(Topic::Journal, 0), Err(Error::Poisoned { .. })));
}

#[test]
fn panicking_completion_ends_the_log_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let (fatal, told) = mpsc::channel();
    let on_fatal = Box::new(move |reason: &str| fatal.send(reason.to_owned()).unwrap());
    let fixture = on(SqliteLog::open(&SqliteConfig::new(directory.path()), on_fatal).unwrap());
    fixture.producer().append(Topic::Commands, 0, b"", b"x".to_vec(), Box::new(|_| panic!("planted")));
    assert!(told.recv_timeout(PATIENCE).unwrap().contains("panicked"));
}

#[test]
fn closing_stores_what_is_queued() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).unwrap();
    let producer = log.producer().unwrap();
    for number in 0..5000_u32 {
        producer.append(Topic::Commands, 0, b"", number.to_be_bytes().to_vec(), Box::new(|_| {}));
    }
    drop(log);
    assert_eq!(open(directory.path()).unwrap().range(Topic::Commands, 0).unwrap(), 0..5000);
    let outcome = append(producer.as_ref(), Topic::Commands, 0, "late");
    assert!(matches!(outcome, Err(AppendError::Refused(_))), "{outcome:?}");
}

/// BYD-9: what no process would open can still be looked at, as it lies there.
#[test]
fn view_reads_beside_the_owner_and_what_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = on(open(directory.path()).unwrap());
    write_journal(&fixture, 3);
    let view = SqliteView::open(directory.path()).unwrap();
    assert_eq!(view.log_id(), fixture.log.log_id());
    let mut reader = view.reader(Topic::Journal, 0, From::Start).unwrap();
    let offsets = |records: Vec<tidemill_log::Record>| -> Vec<u64> {
        records.iter().map(|record| record.offset).collect()
    };
    assert_eq!(offsets(reader.poll(2, PATIENCE).unwrap()), [0, 1]);
    assert_eq!(offsets(reader.poll(9, PATIENCE).unwrap()), [2, 3, 4]);
    reader.waker().wake();
    assert!(reader.poll(9, PATIENCE).unwrap().is_empty());
    let producer = fixture.producer();
    append(producer.as_ref(), Topic::Commands, 0, b"more".to_vec()).unwrap();
    assert_eq!(view.range(Topic::Commands, 0).unwrap(), 0..1, "it sees what is written meanwhile");
    assert!(view.producer().is_err() && view.reader(Topic::Work, 0, From::Start).is_err());

    drop((producer, fixture));
    by_hand(
        directory.path(),
        "DELETE FROM journal_0 WHERE offset = 2; UPDATE journal_0 SET value = x'00' WHERE offset = 4;",
    );
    assert!(open(directory.path()).is_err(), "an owner refuses it");
    let view = SqliteView::open(directory.path()).unwrap();
    let mut reader = view.reader(Topic::Journal, 0, From::Start).unwrap();
    let records = reader.poll(9, PATIENCE).unwrap();
    assert_eq!(&*records[3].value, [0]);
    assert_eq!(offsets(records), [0, 1, 3, 4]);
    assert!(open(directory.path()).is_err(), "the view leaves it as it was");
    assert!(SqliteView::open(&directory.path().join("absent")).is_err());
}
