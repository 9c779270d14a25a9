//! OPS-9: journals of every level, as versions of the program wrote them, fold to the same state and the same rows for ever.
//!
//! A level gets journals of its own by files in `tests/journals/level-N`: `sim --seed N --export FILE` writes one, and
//! `UPDATE_EXPECT=1` writes beside it what it folds to. A journal that is there never changes, nor what it folds to.
#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::expect_file;
use tidemill_checker::{Options, check_file, exported_journals};
use tidemill_engine::{OutboxSender, Partition};
use tidemill_journal::Shutdown;
use tidemill_log::{Chain, Hash, Kind, Log, MemoryLog, Record, Topic, Verdict, append_wait};
use tidemill_model::{BatchEvent, Envelope, Event, Level, LiveQuery};
use tidemill_projector::{Config, Since, rebuild, rebuild_since};
use tidemill_store::{SqliteTables, Tables, rows};

const LONG: Duration = Duration::from_secs(10);

/// The journals of each level, by its number.
fn golden() -> BTreeMap<u32, Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals");
    let listed = |dir: &Path| {
        let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let of_level = |dir: &PathBuf| {
        let name = dir.file_name().unwrap().to_str().unwrap();
        let number = name.strip_prefix("level-").unwrap().parse().unwrap();
        let is_journal = |path: &PathBuf| path.extension().is_some_and(|it| it == "journal");
        (number, listed(dir).into_iter().filter(is_journal).collect())
    };
    listed(&root).iter().map(of_level).collect()
}

fn digest(text: &str) -> String {
    Hash::of(text.as_bytes()).to_string()
}

/// The envelopes that count.
fn envelopes(records: &[Record]) -> Vec<Envelope> {
    let mut chain = Chain::new();
    let counts = |record: &Record| match chain.accept(record.offset, &record.value) {
        Verdict::Accepted(header) if header.kind == Kind::Envelope => {
            Some(Envelope::read(&record.value.body(), Level::READS).unwrap())
        }
        Verdict::Accepted(_) | Verdict::Void(_) => None,
    };
    records.iter().filter_map(counts).collect()
}

/// What an owner says of the state that a journal folds to.
fn state(partition: &Partition, envelopes: &[Envelope]) -> String {
    let mut told =
        format!("{:?}\n{:?}\n", partition.outstanding(), OutboxSender::default().collect(partition));
    for recorded in envelopes.iter().flat_map(|envelope| &envelope.events) {
        if let Event::Batch(BatchEvent::Generated { batch, job, .. }) = &recorded.event {
            for query in [LiveQuery::Why { batch: *batch }, LiveQuery::NewestBatch { job: *job }] {
                let answer = partition.answer(recorded.shard, &query);
                writeln!(told, "{batch} {}", serde_json::to_string(&answer).unwrap()).unwrap();
            }
        }
    }
    for group in partition.groups() {
        for query in [
            LiveQuery::WantedExternalDependencies { after: None, limit: 1_000 },
            LiveQuery::WantedQuality { after: None, limit: 1_000 },
        ] {
            writeln!(told, "{}", serde_json::to_string(&group.answer(&query)).unwrap()).unwrap();
        }
    }
    let (now, next, unfinished) = (
        partition.now(),
        partition.next_timer(),
        partition.groups().map(|group| group.unfinished_batches()).sum::<usize>(),
    );
    let level = partition.level();
    format!("now {now}, level {level}, next timer {next:?}, {unfinished} unfinished, {}", digest(&told))
}

/// The rows of the read tables, table by table.
fn tables(journals: &[Vec<Record>]) -> String {
    let log = MemoryLog::new(u32::try_from(journals.len()).unwrap());
    let producer = log.producer().unwrap();
    for (partition, records) in (0..).zip(journals) {
        // The log has a genesis of its own.
        for record in records.iter().skip(1) {
            append_wait(&*producer, Topic::Journal, partition, b"", record.value.to_vec(), LONG).unwrap();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let tables = SqliteTables::open(directory.path().join("tables")).unwrap();
    rebuild(&Config::default(), &log, &tables, &Shutdown::new(), &mut |_| {}).unwrap();
    let told = rows_of(&tables);
    from_any_time_they_are_the_same(&log, &tables, journals, &told);
    told
}

/// EVT-7: whatever the kinds of events, a rebuild from a time comes to the same rows.
fn from_any_time_they_are_the_same(
    log: &MemoryLog,
    tables: &SqliteTables,
    journals: &[Vec<Record>],
    expected: &str,
) {
    let mut times: Vec<_> =
        journals.iter().flat_map(|records| envelopes(records)).map(|envelope| envelope.now).collect();
    times.sort_unstable();
    for part in 1..8 {
        let at = times[times.len() * part / 8];
        let since = Since { now: at, ..Since::new(at) };
        let go = Shutdown::new();
        match rebuild_since(&Config::default(), &since, log, tables, &go, &mut |_| {}) {
            Ok(_) => assert_eq!(rows_of(tables), expected, "from {}", since.at),
            // All of the history has one time.
            Err(error) => assert!(error.to_string().contains("after the first record"), "{error}"),
        }
    }
}

fn rows_of(tables: &SqliteTables) -> String {
    let mut snapshot = tables.snapshot().unwrap();
    let mut text = String::new();
    for table in rows::TABLES {
        let found = snapshot.rows(table, None, 1_000_000).unwrap();
        writeln!(text, "{} {} rows, {}", table.name, found.len(), digest(&format!("{found:?}"))).unwrap();
    }
    text
}

/// OPS-9, EVT-2: a journal of an older level folds to the same state and the same rows as it did, and keeps every rule.
#[test]
fn journals_of_every_level_fold_to_the_same_state() {
    for path in golden().into_values().flatten() {
        let journals = exported_journals(&path).unwrap();
        let mut text = String::new();
        for (number, records) in (0..).zip(&journals) {
            let envelopes = envelopes(records);
            let mut partition = Partition::new(number, u32::try_from(journals.len()).unwrap());
            envelopes.iter().for_each(|envelope| partition.apply(envelope));
            writeln!(text, "partition {number}: {}", state(&partition, &envelopes)).unwrap();
        }
        text += &tables(&journals);
        expect_file![path.with_extension("expected")].assert_eq(&text);
        let options = Options { commands: false, clock_tolerance_ms: 20_000, ..Options::default() };
        let report = check_file(&path, options).unwrap();
        assert!(report.is_clean(), "{}: {report}", path.display());
    }
}

/// OPS-9: every level that this version reads has journals; those of the first have nearly every kind of event that was there
/// when it was the only one.
#[test]
fn every_level_has_journals() {
    let golden = golden();
    for level in 1..=Level::READS.number() {
        assert!(golden.get(&level).is_some_and(|paths| !paths.is_empty()), "level {level} has no journal");
    }
    let mut kinds = BTreeSet::new();
    let mut bytes = 0;
    for path in &golden[&1] {
        bytes += fs::metadata(path).unwrap().len();
        for records in exported_journals(path).unwrap() {
            let events = envelopes(&records).into_iter().flat_map(|envelope| envelope.events);
            kinds.extend(events.map(|recorded| recorded.event.kind()));
        }
    }
    assert!(kinds.len() > 140 && bytes < 1_000_000, "{} kinds in {bytes} bytes", kinds.len());
}
