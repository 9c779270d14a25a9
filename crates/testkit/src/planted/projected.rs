//! The real projection of a history's journals, by a projector that ends at any moment, in the middle of a write
//! too, and begins again where its tables stand.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_journal::Shutdown;
use tidemill_log::{
    Error, From, Kind, Log, LogId, Membership, MemoryLog, Producer, Reader, Readers, Record, Restore, Topic,
    Usage, Waker, append_wait,
};
use tidemill_model::{Envelope, Level, Timestamp};
use tidemill_projector::{Config, Since, rebuild, rebuild_since, verify};
use tidemill_store::{SqliteTables, Tables};

use crate::rng::Rng;

const LONG: Duration = Duration::from_secs(10);
/// Lives of the projector after which it is let finish.
const LIVES: usize = 200;

/// Projects the journals, then compares the tables with them.
pub(super) fn differs(seed: u64, journals: &[Vec<Record>]) -> Result<(), String> {
    let mut rng = Rng::new(seed, "projector", 0);
    let log = Growing::of(journals)?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = directory.path().join("tables");
    let tables = SqliteTables::open(&file).map_err(|error| error.to_string())?;
    let config = Config { cached_rows: [0, 50, 32_768][rng.below(3)], ..Config::default() };
    for life in 0.. {
        let breaks_off = life > 0 && life < LIVES && rng.chance(30);
        if breaks_off {
            break_writes(&file, true)?;
        }
        let shutdown = Shutdown::new();
        let mut on_progress = |_| {
            let more = if life < LIVES { rng.range(1, 12) } else { u64::MAX / 2 };
            log.visible.fetch_add(more, Ordering::Relaxed);
            if life < LIVES && rng.chance(50) {
                shutdown.request();
            }
        };
        let ended = rebuild(&config, &log, &tables, &shutdown, &mut on_progress);
        if breaks_off {
            break_writes(&file, false)?;
        }
        match ended {
            Ok(_) => break,
            Err(tidemill_projector::Error::Interrupted) => {}
            Err(tidemill_projector::Error::Tables { .. }) if breaks_off => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    log.visible.store(u64::MAX, Ordering::Relaxed);
    let tables: &dyn Tables = &tables;
    compare(&log, tables)?;
    let Some(at) = time_of_some_record(&mut rng, journals) else { return Ok(()) };
    let since = Since { now: at, ..Since::new(at) };
    match rebuild_since(&config, &since, &log, tables, &Shutdown::new(), &mut |_| {}) {
        Ok(_) => compare(&log, tables).map_err(|difference| format!("rebuilt from {at}: {difference}")),
        // Nothing is older.
        Err(tidemill_projector::Error::Since { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn compare(log: &Growing, tables: &dyn Tables) -> Result<(), String> {
    let report = verify(log, tables, &Shutdown::new(), &mut |_, _| {}).map_err(|error| error.to_string())?;
    match report.differences.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} rows differ, first {first:?}", report.difference_count)),
    }
}

fn time_of_some_record(rng: &mut Rng, journals: &[Vec<Record>]) -> Option<Timestamp> {
    let records = &journals[rng.below(journals.len())];
    let envelope = |record: &Record| Envelope::read(&record.value.body(), Level::READS).ok();
    let is_envelope =
        |record: &&Record| record.value.header().is_ok_and(|header| header.kind == Kind::Envelope);
    let times: Vec<_> = records.iter().filter(is_envelope).filter_map(envelope).map(|it| it.now).collect();
    (!times.is_empty()).then(|| times[rng.below(times.len())])
}

/// From now on a write of rows is broken off in the middle; or no more.
fn break_writes(file: &Path, broken: bool) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    let connection = rusqlite::Connection::open(file).map_err(text)?;
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'g%\\_batches' ESCAPE '\\'";
    let tables: Vec<String> = connection
        .prepare(sql)
        .and_then(|mut found| found.query_map([], |row| row.get(0))?.collect())
        .map_err(text)?;
    for table in tables {
        let sql = if broken {
            format!(
                "CREATE TRIGGER broken_{table} BEFORE INSERT ON {table} \
                 BEGIN SELECT RAISE(ABORT, 'broken off'); END"
            )
        } else {
            format!("DROP TRIGGER IF EXISTS broken_{table}")
        };
        connection.execute_batch(&sql).map_err(text)?;
    }
    Ok(())
}

/// A log whose end is known at once, and whose records come by and by.
struct Growing {
    log: MemoryLog,
    visible: Arc<AtomicU64>,
}

impl Growing {
    fn of(journals: &[Vec<Record>]) -> Result<Self, String> {
        let log = MemoryLog::new(u32::try_from(journals.len()).map_err(|error| error.to_string())?);
        let producer = log.producer().map_err(|error| error.to_string())?;
        for (partition, records) in (0..).zip(journals) {
            // The log has a genesis of its own.
            for record in records.iter().skip(1) {
                append_wait(&*producer, Topic::Journal, partition, b"", record.value.to_vec(), LONG)
                    .map_err(|error| error.to_string())?;
            }
        }
        Ok(Self { log, visible: Arc::new(AtomicU64::new(1)) })
    }
}

impl Readers for Growing {
    fn log_id(&self) -> &LogId {
        self.log.log_id()
    }

    fn restores(&self, partition: u32) -> &[Restore] {
        self.log.restores(partition)
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.log.partitions(topic)
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let reader = Mutex::new(self.log.reader(topic, partition, from)?);
        Ok(Box::new(Slow { reader, visible: Arc::clone(&self.visible), read: VecDeque::new() }))
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.log.range(topic, partition)
    }
}

impl Log for Growing {
    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        self.log.producer()
    }

    fn membership(&self, member: &str) -> Result<Box<dyn Membership>, Error> {
        self.log.membership(member)
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.log.usage()
    }
}

/// A reader that gives what is visible, and never waits.
struct Slow {
    reader: Mutex<Box<dyn Reader>>,
    visible: Arc<AtomicU64>,
    read: VecDeque<Record>,
}

impl Reader for Slow {
    fn poll(&mut self, max_records: usize, _: Duration) -> Result<Vec<Record>, Error> {
        let reader = self.reader.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.read.extend(reader.poll(max_records, Duration::ZERO)?);
        let visible = self.visible.load(Ordering::Relaxed);
        let count = self.read.iter().take(max_records).take_while(|record| record.offset < visible).count();
        Ok(self.read.drain(..count).collect())
    }

    fn waker(&self) -> Waker {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).waker()
    }
}
