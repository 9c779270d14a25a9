//! Records that are not in memory any more, read from the file.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row, params};

use super::directory::Directory;
use super::file::table;
use super::trim::Kept;
use crate::lane::{Lane, Older};
use crate::{Error, Record, Topic};

/// One answer holds no more than this, and one record.
const CHUNK_BYTES: usize = 8 << 20;

pub(crate) fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// A connection of the reader's own, made when first needed and dropped when the memory has caught up.
pub(crate) struct OnDisk {
    path: PathBuf,
    connection: Option<Connection>,
    /// The oldest record when it was last looked for.
    oldest: u64,
}

impl OnDisk {
    pub(crate) fn new(directory: &Directory) -> Self {
        Self { path: directory.file(), connection: None, oldest: 0 }
    }

    fn chunk(&mut self, lane: &Lane, from: u64, end: u64, max: usize) -> rusqlite::Result<Vec<Record>> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open_read_only(&self.path)?,
        };
        let records = read(&connection, (lane.topic, lane.partition), from..end, max)?;
        self.oldest = if records.is_empty() || records[0].offset != from {
            Kept::of(&connection, lane.topic, lane.partition)?.from
        } else {
            from
        };
        let caught_up = records.last().is_some_and(|last| last.offset + 1 == end);
        self.connection = (!caught_up).then_some(connection);
        Ok(records)
    }
}

/// What reads the records from one offset to before another, in their order.
pub(crate) fn select(topic: Topic, partition: u32) -> String {
    format!(
        "SELECT offset, at_ms, key, value FROM {} WHERE offset >= ?1 AND offset < ?2 ORDER BY offset",
        table(topic, partition)
    )
}

/// A row of that.
pub(crate) fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        offset: row.get::<_, i64>(0)?.cast_unsigned(),
        timestamp_ms: row.get(1)?,
        key: row.get(2)?,
        value: row.get_ref(3)?.as_blob()?.into(),
    })
}

/// Records of these offsets, as many as one answer holds.
pub(crate) fn read(
    connection: &Connection,
    (topic, partition): (Topic, u32),
    offsets: Range<u64>,
    max_records: usize,
) -> rusqlite::Result<Vec<Record>> {
    let mut statement = connection.prepare_cached(&format!("{} LIMIT ?3", select(topic, partition)))?;
    let limit = i64::try_from(max_records).unwrap_or(i64::MAX);
    let end = i64::try_from(offsets.end).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![offsets.start.cast_signed(), end, limit])?;
    let (mut records, mut bytes) = (Vec::new(), 0);
    while bytes < CHUNK_BYTES
        && let Some(row) = rows.next()?
    {
        let record = record(row)?;
        bytes += record.value.len();
        records.push(record);
    }
    Ok(records)
}

impl Older for OnDisk {
    fn read(&mut self, lane: &Lane, from: u64, end: u64, max_records: usize) -> Result<Vec<Record>, Error> {
        let (topic, partition) = (lane.topic, lane.partition);
        let records = self.chunk(lane, from, end, max_records).map_err(Error::read(topic, partition))?;
        if self.oldest > from {
            return Err(lane.out_of_range(from, self.oldest..lane.range()?.end));
        }
        for (record, offset) in records.iter().zip(from..) {
            if record.offset != offset {
                return Err(Error::Gap { topic, partition, offset });
            }
            // Nothing else is ever stored in a journal.
            if topic == Topic::Journal
                && let Err(reason) = record.value.header()
            {
                return Err(Error::Damaged {
                    partition,
                    offset,
                    file: self.path.clone(),
                    reason: reason.clone(),
                });
            }
        }
        if records.is_empty() { Err(Error::Gap { topic, partition, offset: from }) } else { Ok(records) }
    }
}
