//! A log that is made of the records of another one, or of its own at an earlier time.
//!
//! ```text
//!   journal   genesis … records as they were … │ claim: the log's new id, …
//!                                              └ one row of `restores`: from here on the new id counts
//! ```
//! What the chain voids was voided in the log that the records come from, and stays where it was: offsets are those of events
//! and positions. The file is written without a sync and synced as a whole at the end, for until then it is nobody's.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::directory::Directory;
use super::file::{PAGE_BYTES, RESTORED_VERSION, make_tables, store_head, table};
use super::is_durable;
use crate::{Chain, Error, Head, LogId, Record, Restore, Topic, Verdict};

/// Records of one transaction.
const RECORDS: u64 = 10_000;

/// Where restores stand in the journals of a file, by partition.
pub(crate) fn restores(connection: &Connection, partitions: u32) -> rusqlite::Result<Vec<Vec<Restore>>> {
    let mut found = vec![Vec::new(); usize::try_from(partitions).unwrap_or_default()];
    let known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'restores'";
    if connection.query_row(known, [], |_| Ok(())).optional()?.is_none() {
        return Ok(found);
    }
    let sql =
        "SELECT partition, from_offset, before_id, log_id FROM restores ORDER BY partition, from_offset";
    let id = |text: String| {
        LogId::try_from(text).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, error.into())
        })
    };
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let from = row.get::<_, i64>(1)?.cast_unsigned();
        let restore = Restore { from, before: id(row.get(2)?)?, log_id: id(row.get(3)?)? };
        if let Some(found) = found.get_mut(row.get::<_, u32>(0)? as usize) {
            found.push(restore);
        }
    }
    Ok(found)
}

/// A log that is being made. Dropped before [`SqliteImport::finish`], it is no log.
pub struct SqliteImport {
    connection: Connection,
    directory: Directory,
    file: PathBuf,
    lanes: Vec<Lane>,
    restores: Vec<Vec<Restore>>,
    written: u64,
}

/// A topic of a partition, as far as it is there.
struct Lane {
    topic: Topic,
    insert: String,
    next: Option<u64>,
    /// Of a journal.
    chain: Chain,
}

fn lane_of(topic: Topic, partition: u32) -> Option<usize> {
    let at = usize::try_from(partition).ok()?.checked_mul(2)?;
    match topic {
        Topic::Journal => Some(at),
        Topic::Commands => at.checked_add(1),
        Topic::Events | Topic::DeadLetters | Topic::Work | Topic::Replies => None,
    }
}

impl SqliteImport {
    /// Makes the file of a log in a directory that has none. It gets the id that its journals end with.
    ///
    /// # Errors
    /// The directory cannot be used, or has a log.
    pub fn create(directory: &Path, partitions: u32) -> Result<Self, Error> {
        let directory = Directory::take(directory)?;
        let file = directory.file();
        if file.exists() {
            return Err(Error::open(format!("make {}", file.display()), "there is a log already"));
        }
        let failed = |error: rusqlite::Error| Error::open(format!("make {}", file.display()), error);
        let connection = Connection::open(&file).map_err(failed)?;
        set_up(&connection).map_err(failed)?;
        make_tables(&connection, &LogId::random(), partitions).map_err(failed)?;
        connection.execute_batch("BEGIN").map_err(failed)?;
        let places = (0..partitions).flat_map(|number| [(Topic::Journal, number), (Topic::Commands, number)]);
        let lane = |(topic, partition)| Lane {
            topic,
            insert: format!("INSERT INTO {} VALUES (?1, ?2, ?3, ?4)", table(topic, partition)),
            next: None,
            chain: Chain::new(),
        };
        let lanes = places.map(lane).collect();
        let restores = vec![Vec::new(); usize::try_from(partitions).unwrap_or_default()];
        Ok(Self { connection, directory, file, lanes, restores, written: 0 })
    }

    /// Adds the next record of a journal or of commands, at its own offset. Gives what the chain says of a journal's.
    ///
    /// # Errors
    /// An offset is missing; a journal's record is damaged, or the journal begins with no genesis; the disk.
    pub fn push(&mut self, topic: Topic, partition: u32, record: &Record) -> Result<Option<Verdict>, Error> {
        let offset = record.offset;
        let failed =
            |error: rusqlite::Error| Error::open(format!("write {topic} of partition {partition}"), error);
        let lane = lane_of(topic, partition).and_then(|at| self.lanes.get_mut(at));
        let lane = lane.ok_or_else(|| {
            Error::open(format!("import {topic} of partition {partition}"), "there is no such")
        })?;
        // Commands are forgotten from the first on, a journal never.
        let wanted = lane.next.unwrap_or(if topic == Topic::Commands { offset } else { 0 });
        if offset != wanted {
            return Err(Error::Gap { topic, partition, offset: wanted });
        }
        let verdict = match topic {
            Topic::Journal => Some(self.judge(partition, record)?),
            _ => None,
        };
        let lane = &mut self.lanes[lane_of(topic, partition).expect("it was found above")];
        let mut insert = self.connection.prepare_cached(&lane.insert).map_err(failed)?;
        let row = params![offset.cast_signed(), record.timestamp_ms, record.key, &record.value[..]];
        insert.execute(row).map_err(failed)?;
        drop(insert);
        lane.next = Some(offset + 1);
        self.written += 1;
        if self.written.is_multiple_of(RECORDS) {
            self.connection.execute_batch("COMMIT; BEGIN").map_err(failed)?;
        }
        Ok(verdict)
    }

    /// What the chain says, and whether a restore stands here.
    fn judge(&mut self, partition: u32, record: &Record) -> Result<Verdict, Error> {
        let offset = record.offset;
        if let Err(reason) = record.value.header() {
            return Err(Error::Damaged {
                partition,
                offset,
                file: self.file.clone(),
                reason: reason.clone(),
            });
        }
        let lane = &mut self.lanes[lane_of(Topic::Journal, partition).expect("a journal has a lane")];
        let before = lane.chain.head().map(|head| head.log_id.clone());
        let verdict = lane.chain.accept(offset, &record.value);
        let Some(head) = lane.chain.head() else {
            let reason = "its first record is no genesis".to_owned();
            return Err(Error::ForeignJournal { partition, reason });
        };
        if let Some(before) = before.filter(|before| *before != head.log_id) {
            let restore = Restore { from: offset, before, log_id: head.log_id.clone() };
            self.restores[usize::try_from(partition).expect("it has a lane")].push(restore);
        }
        Ok(verdict)
    }

    /// Where a journal stands.
    #[must_use]
    pub fn head(&self, partition: u32) -> Option<&Head> {
        lane_of(Topic::Journal, partition).and_then(|at| self.lanes.get(at)?.chain.head())
    }

    /// The offset after the last record of a journal.
    #[must_use]
    pub fn next(&self, partition: u32) -> u64 {
        lane_of(Topic::Journal, partition).and_then(|at| self.lanes.get(at)?.next).unwrap_or(0)
    }

    /// Makes it a log, which lasts once this returns.
    ///
    /// # Errors
    /// The disk.
    pub fn finish(self) -> Result<(), Error> {
        let failed = |error: rusqlite::Error| Error::open(format!("complete {}", self.file.display()), error);
        self.complete().map_err(failed)?;
        self.connection.close().map_err(|(_, error)| failed(error))?;
        let synced = fs::File::open(&self.file).and_then(|file| file.sync_all());
        synced
            .and_then(|()| self.directory.sync())
            .map_err(|error| Error::open(format!("make {} durable", self.file.display()), error))
    }

    fn complete(&self) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.execute_batch(
            "CREATE TABLE restores (partition INTEGER NOT NULL, from_offset INTEGER NOT NULL, before_id TEXT NOT NULL,
             log_id TEXT NOT NULL, PRIMARY KEY (partition, from_offset));",
        )?;
        // Of the last restore; all journals have it alike.
        if let Some(head) = self.head(0) {
            connection.execute("UPDATE log SET log_id = ?1", [head.log_id.as_str()])?;
        }
        for (partition, restore) in
            (0_u32..).zip(&self.restores).flat_map(|(at, of)| of.iter().map(move |it| (at, it)))
        {
            let Restore { from, before, log_id } = restore;
            let row = params![partition, from.cast_signed(), before.as_str(), log_id.as_str()];
            connection.execute("INSERT INTO restores VALUES (?1, ?2, ?3, ?4)", row)?;
        }
        for lane in self.lanes.iter().filter(|lane| lane.topic == Topic::Journal) {
            lane.chain.head().map_or(Ok(()), |head| store_head(connection, head))?;
        }
        connection.pragma_update(None, "user_version", RESTORED_VERSION)?;
        connection.execute_batch("COMMIT")?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
    }
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    debug_assert!(is_durable(Topic::Journal) && is_durable(Topic::Commands), "both are in the file");
    connection.pragma_update(None, "page_size", PAGE_BYTES.cast_signed())?;
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -64_000)
}
