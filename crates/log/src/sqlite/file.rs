//! The log file: its tables, its settings, its version.
//!
//! One table per topic and partition, `journal_0` and so on, with the offset as the row id: an append always
//! goes to the right edge of one tree.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::archived::Archived;
use super::directory::Directory;
use super::durability::checkpoint;
use super::restored::restores;
use super::trim::Kept;
use super::{SqliteConfig, is_durable};
use crate::{Error, Genesis, Head, LogId, Restore, Topic, clock};

/// Of the file; a later one brings its own migration.
pub(crate) const FORMAT_VERSION: i64 = 3;
/// Of a file of a restored log: a program that knows nothing of that would give ids of the life before.
pub(crate) const RESTORED_VERSION: i64 = 5;
/// All that this program reads.
pub(crate) const VERSIONS: [i64; 3] = [FORMAT_VERSION, ARCHIVED_VERSION, RESTORED_VERSION];
/// Of a file of which journals were archived: a program that knows nothing of that must not take what is left for all.
pub(crate) const ARCHIVED_VERSION: i64 = 4;
pub(crate) const PAGE_BYTES: u64 = 4096;

pub(crate) fn table(topic: Topic, partition: u32) -> String {
    format!("{}_{partition}", topic.name().replace('-', "_"))
}

/// The file, open for writing.
pub(crate) struct File {
    pub(crate) connection: Connection,
    pub(crate) write_ahead_log: std::fs::File,
    pub(crate) log_id: LogId,
}

impl File {
    pub(crate) fn open(directory: &Directory, config: &SqliteConfig) -> Result<Self, Error> {
        let failed =
            |error: rusqlite::Error| Error::open(format!("open {}", directory.file().display()), error);
        if !planted!(OpenedWithoutSync) {
            directory.sync_left().map_err(|error| Error::open("make durable what is in the log", error))?;
        }
        let mut connection = Connection::open(directory.file()).map_err(failed)?;
        // Before anything is set: a file of another format is left as it is.
        let found = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        let objects: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
            .map_err(failed)?;
        let is_new = (found, objects) == (0, 0);
        if !is_new && !VERSIONS.contains(&found) {
            return Err(Error::FormatVersion { file: directory.file(), found, wanted: FORMAT_VERSION });
        }
        let mode = set_up(&connection, config).map_err(failed)?;
        if mode != "wal" {
            let found = format!("SQLite keeps the journal mode {mode:?} there, and the log needs \"wal\"");
            return Err(Error::open(format!("open {}", directory.file().display()), found));
        }
        if is_new {
            make(&mut connection, config.partitions).map_err(failed)?;
            directory.sync().map_err(|error| Error::open("make the new log file durable", error))?;
        }
        let (log_id, found): (String, u32) = connection
            .query_row("SELECT log_id, partitions FROM log", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(failed)?;
        let log_id = LogId::try_from(log_id).map_err(|error| Error::open("read the log id", error))?;
        if found != config.partitions {
            return Err(Error::PartitionCount { topic: Topic::Journal, found, wanted: config.partitions });
        }
        let write_ahead_log = std::fs::File::open(directory.write_ahead_log())
            .map_err(|error| Error::open("open the write-ahead log", error))?;
        Ok(Self { connection, write_ahead_log, log_id })
    }

    /// The offset that comes next; 0 where the topic is not on disk.
    pub(crate) fn next_offset(&self, topic: Topic, partition: u32) -> Result<u64, Error> {
        if !is_durable(topic) {
            return Ok(0);
        }
        next_offset(&self.connection, topic, partition).map_err(Error::range(topic, partition))
    }

    /// From where on the topic is kept; all of it where it is not on disk.
    pub(crate) fn kept(&self, topic: Topic, partition: u32) -> Result<Kept, Error> {
        if !is_durable(topic) {
            return Ok(Kept::default());
        }
        let kept = Kept::of(&self.connection, topic, partition).map_err(Error::range(topic, partition))?;
        let archived = if topic == Topic::Journal { self.archived(partition)? } else { None };
        Ok(archived.map_or(kept, |archived| kept.at_least_from(archived.below)))
    }

    /// What of a journal is not in the file any more.
    pub(crate) fn archived(&self, partition: u32) -> Result<Option<Archived>, Error> {
        Archived::of(&self.connection, partition).map_err(Error::read(Topic::Journal, partition))
    }

    /// Where restores stand in the journals, by partition.
    pub(crate) fn restores(&self, partitions: u32) -> Result<Vec<Vec<Restore>>, Error> {
        restores(&self.connection, partitions)
            .map_err(|error| Error::open("read where the log was restored", error))
    }

    /// The last verified head of a journal, where there is one.
    pub(crate) fn stored_head(&self, partition: u32) -> Result<Option<Head>, Error> {
        let text: Option<String> = self
            .connection
            .query_row("SELECT head FROM head WHERE partition = ?1", [partition], |row| row.get(0))
            .optional()
            .map_err(Error::read(Topic::Journal, partition))?;
        let head = text.map(|text| serde_json::from_str(&text)).transpose();
        head.map_err(Error::read(Topic::Journal, partition))
    }
}

pub(crate) fn next_offset(connection: &Connection, topic: Topic, partition: u32) -> rusqlite::Result<u64> {
    let sql = format!("SELECT coalesce(max(offset) + 1, 0) FROM {}", table(topic, partition));
    connection.prepare_cached(&sql)?.query_row([], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
}

pub(crate) fn store_head(connection: &Connection, head: &Head) -> rusqlite::Result<()> {
    let text = serde_json::to_string(head).expect("a head is plain strings and numbers");
    let sql = "INSERT INTO head (partition, head) VALUES (?1, ?2)
        ON CONFLICT (partition) DO UPDATE SET head = excluded.head";
    connection.prepare_cached(sql)?.execute(params![head.partition, text]).map(drop)
}

/// Gives the journal mode.
fn set_up(connection: &Connection, config: &SqliteConfig) -> rusqlite::Result<String> {
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(512);
    connection.pragma_update(None, "page_size", PAGE_BYTES.cast_signed())?;
    // Of a new file alone; in an older one the room of what is removed is used again.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    // Where processes cannot share memory, SQLite keeps another mode and calls that no error.
    let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    if !planted!(OpenedWithoutSync) {
        checkpoint(connection)?;
    }
    connection.pragma_update(None, "cache_size", -16_000)?;
    if let Some(bytes) = config.max_bytes {
        let pages = (bytes / PAGE_BYTES).max(1).min(u64::from(u32::MAX)).cast_signed();
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(mode)
}

/// Everything in one transaction: a file is a log, or it is empty.
fn make(connection: &mut Connection, partitions: u32) -> rusqlite::Result<()> {
    let id = LogId::random();
    let transaction = connection.transaction()?;
    let now = make_tables(&transaction, &id, partitions)?;
    for partition in 0..partitions {
        let genesis = Genesis { log_id: id.clone(), partition, count: partitions }.record();
        let sql = format!("INSERT INTO {} VALUES (0, ?1, x'', ?2)", table(Topic::Journal, partition));
        transaction.execute(&sql, params![now, genesis])?;
    }
    transaction.pragma_update(None, "user_version", FORMAT_VERSION)?;
    transaction.commit()
}

/// The tables of a log, without a record. Gives when it was made.
pub(crate) fn make_tables(connection: &Connection, id: &LogId, partitions: u32) -> rusqlite::Result<i64> {
    connection.execute_batch(
        "CREATE TABLE log (log_id TEXT NOT NULL, partitions INTEGER NOT NULL, made_at_ms INTEGER NOT NULL);
         CREATE TABLE head (partition INTEGER PRIMARY KEY, head TEXT NOT NULL);",
    )?;
    let now = clock::now_ms();
    connection.execute("INSERT INTO log VALUES (?1, ?2, ?3)", params![id.as_str(), partitions, now])?;
    for topic in Topic::ALL.into_iter().filter(|topic| is_durable(*topic)) {
        for partition in 0..partitions {
            let table = table(topic, partition);
            connection.execute_batch(&format!(
                "CREATE TABLE {table} (offset INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL,
                 key BLOB NOT NULL, value BLOB NOT NULL);"
            ))?;
        }
    }
    Ok(now)
}
