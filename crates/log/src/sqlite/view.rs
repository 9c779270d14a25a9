//! The log file as it lies there: read only, without the lock on its directory, and without a word on what is
//! in it. So it can be read while a process writes it, and when no process would open it any more.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::archived::Archived;
use super::directory::Directory;
use super::file::{FORMAT_VERSION, VERSIONS, next_offset, table};
use super::is_durable;
use super::older::{open_read_only, read};
use super::restored::restores;
use crate::signal::{Heard, Signal, deadline};
use crate::{
    Error, From, Log, LogId, Membership, Producer, Reader, Readers, Record, Restore, Topic, Usage, Waker,
};

/// Between two looks of a reader that waits.
const LOOK: Duration = Duration::from_millis(20);
/// A writer that recovers the file holds it for a moment.
const PATIENCE: Duration = Duration::from_secs(5);
const ONLY_IN_MEMORY: &str = "it is only in the memory of the process that has the log";

/// The embedded log, for reading alone. It gives the records of the durable topics whatever they hold: gaps
/// and damage too.
pub struct SqliteView {
    id: LogId,
    partitions: u32,
    restores: Vec<Vec<Restore>>,
    path: PathBuf,
}

impl SqliteView {
    /// Opens the log in this directory, which another process may have.
    ///
    /// # Errors
    /// There is no log, it cannot be read, or it is of another version.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let path = Directory::file_in(directory);
        let failed =
            |error: rusqlite::Error| Error::open(format!("open {} for reading", path.display()), error);
        // What a killed process left is in what is read, so it has to last.
        Directory::sync_read(directory)
            .map_err(|error| Error::open("make durable what is in the log", error))?;
        let connection = connect(&path).map_err(failed)?;
        let found = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        if !VERSIONS.contains(&found) {
            return Err(Error::FormatVersion { file: path, found, wanted: FORMAT_VERSION });
        }
        let (id, partitions): (String, u32) = connection
            .query_row("SELECT log_id, partitions FROM log", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(failed)?;
        let id = LogId::try_from(id).map_err(|error| Error::open("read the log id", error))?;
        let restores = restores(&connection, partitions).map_err(failed)?;
        Ok(Self { id, partitions, restores, path })
    }

    /// Where every journal and every partition's commands end, all at one moment: what was decided in one of them is not
    /// missing in another.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ends(&self) -> Result<BTreeMap<(Topic, u32), u64>, Error> {
        let failed = |error: rusqlite::Error| Error::open("ask where the log ends", error);
        let mut connection = connect(&self.path).map_err(failed)?;
        // One transaction is one state of the file.
        let transaction = connection.transaction().map_err(failed)?;
        let topics = [Topic::Journal, Topic::Commands].into_iter();
        let places = topics.flat_map(|topic| (0..self.partitions).map(move |partition| (topic, partition)));
        let end = |(topic, partition)| {
            let end = next_offset(&transaction, topic, partition).map_err(Error::range(topic, partition))?;
            Ok(((topic, partition), end))
        };
        places.map(end).collect()
    }

    fn check(&self, topic: Topic, partition: u32) -> Result<(), Error> {
        topic.check_partition(partition, self.partitions)?;
        if is_durable(topic) { Ok(()) } else { Err(Error::open(format!("read {topic}"), ONLY_IN_MEMORY)) }
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_read_only(path)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

impl Readers for SqliteView {
    fn log_id(&self) -> &LogId {
        &self.id
    }

    fn restores(&self, partition: u32) -> &[Restore] {
        self.restores.get(partition as usize).map_or(&[], Vec::as_slice)
    }

    fn partitions(&self, _: Topic) -> u32 {
        self.partitions
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let range = self.range(topic, partition)?;
        if topic == Topic::Journal && range.start > 0 {
            // Names what is missing where it begins before that.
            from.within(topic, partition, range.start..u64::MAX)?;
        }
        let next = match from {
            From::Start => range.start,
            From::End => range.end,
            From::Offset(offset) => offset,
        };
        let connection = connect(&self.path).map_err(Error::read(topic, partition))?;
        Ok(Box::new(ViewReader { connection, topic, partition, next, signal: Arc::default() }))
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.check(topic, partition)?;
        let ends = || -> rusqlite::Result<Range<u64>> {
            let sql = format!(
                "SELECT coalesce(min(offset), 0), coalesce(max(offset) + 1, 0) FROM {}",
                table(topic, partition)
            );
            let connection = connect(&self.path)?;
            let archived = match topic {
                Topic::Journal => Archived::of(&connection, partition)?.map_or(0, |archived| archived.below),
                _ => 0,
            };
            connection.query_row(&sql, [], |row| {
                let first = row.get::<_, i64>(0)?.cast_unsigned().max(archived);
                Ok(first..row.get::<_, i64>(1)?.cast_unsigned())
            })
        };
        ends().map_err(Error::range(topic, partition))
    }
}

impl Log for SqliteView {
    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        Err(Error::open("write to the log", "it is opened for reading alone"))
    }

    fn membership(&self, _: &str) -> Result<Box<dyn Membership>, Error> {
        Err(Error::open("take part in the log", "it is opened for reading alone"))
    }

    fn usage(&self) -> Result<Usage, Error> {
        let size = std::fs::metadata(&self.path).map_err(|error| Error::Usage { source: error.into() })?;
        Ok(Usage { bytes: Some(size.len()), ..Usage::default() })
    }
}

/// Each poll is a transaction of its own, so that it never holds up the writer's checkpoints.
struct ViewReader {
    connection: Connection,
    topic: Topic,
    partition: u32,
    next: u64,
    signal: Arc<Signal>,
}

impl Reader for ViewReader {
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        let (topic, partition) = (self.topic, self.partition);
        let end = deadline(timeout);
        loop {
            let records = read(&self.connection, (topic, partition), self.next..u64::MAX, max_records);
            let records = records.map_err(Error::read(topic, partition))?;
            if let Some(last) = records.last() {
                self.next = last.offset.saturating_add(1);
                return Ok(records);
            }
            // Nobody tells of what another process writes.
            if self.signal.wait(deadline(LOOK).min(end)) == Heard::Woken || Instant::now() >= end {
                return Ok(Vec::new());
            }
        }
    }

    fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.signal))
    }
}
