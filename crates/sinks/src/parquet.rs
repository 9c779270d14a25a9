//! Task logs in Parquet files: a row per fact, for Hive and whatever else reads them.
//!
//! ```text
//!  <root>/dt=2026-03-01/p3-0000000000000010-0000000000000057.parquet    partition, first and last record
//!  <root>/_positions/p3.json                                            where it stands beyond its newest file
//!  <root>/_tmp/…                                                        files being written
//! ```
//! A file is written whole under another name and renamed, and its footer holds the position at its last record. So a
//! fact is in a file if and only if the position of the newest file covers it, and rows and position cannot part. What
//! is not in a file yet is only in memory, and read again after a start.

mod encode;
mod files;
mod layout;
#[cfg(feature = "s3")]
mod s3;

use std::time::{Duration, Instant};

use tidemill_log::Head;
use tidemill_model::Timestamp;

use crate::config::ParquetConfig;
use crate::{Batch, Change, Error, Sink, Stored};
pub use files::{Files, LocalFiles};
#[cfg(feature = "s3")]
pub use s3::S3Files;

/// Between two positions without rows: they only spare reading again what brought no rows.
const POSITION_EVERY: Duration = Duration::from_secs(60);

/// Rows of the file to be.
#[derive(Default)]
struct Buffer {
    rows: Vec<Change>,
    bytes: usize,
    /// When its first row came.
    begun_at: Option<Instant>,
    /// The last record read.
    head: Option<Head>,
}

/// One partition's task logs in files.
pub struct ParquetSink {
    config: ParquetConfig,
    files: Box<dyn Files>,
    partition: u32,
    buffer: Buffer,
    position_at: Instant,
}

impl ParquetSink {
    /// The sink of a partition, on these files.
    #[must_use]
    pub fn new(config: &ParquetConfig, files: Box<dyn Files>, partition: u32) -> Self {
        let buffer = Buffer::default();
        Self { config: config.clone(), files, partition, buffer, position_at: Instant::now() }
    }

    /// Whether the file to be is large or old enough.
    fn is_ripe(&self) -> bool {
        let Buffer { rows, bytes, begun_at, .. } = &self.buffer;
        let age = Duration::from_secs(self.config.roll_s.into());
        rows.len() >= self.config.roll_rows as usize
            || *bytes >= (self.config.roll_mb as usize) << 20
            || begun_at.is_some_and(|at| at.elapsed() >= age)
    }

    /// Writes the rows that there are into a file.
    fn roll(&mut self) -> Result<Stored, Error> {
        let Buffer { rows, head, .. } = &self.buffer;
        let (Some(first), Some(last), Some(head)) = (rows.first(), rows.last(), head) else {
            return Ok(Stored::default());
        };
        let name = layout::name(self.partition, first.offset, last.offset);
        let bytes = encode::file(rows, self.partition, head).map_err(|source| Error::Refused {
            what: "hold task logs",
            place: name.clone(),
            source: source.into(),
        })?;
        self.files.put(&layout::directory(last.at), &name, &bytes)?;
        let stored = Stored { offset: Some(head.offset), changes: rows.len() };
        self.buffer = Buffer { head: self.buffer.head.take(), ..Buffer::default() };
        self.position_at = Instant::now();
        Ok(stored)
    }

    /// Writes the position where no rows came for a while, or at the end.
    fn note_position(&mut self, last: bool) -> Result<Stored, Error> {
        let Some(head) = self.buffer.head.as_ref().filter(|_| self.buffer.rows.is_empty()) else {
            return Ok(Stored::default());
        };
        if !last && self.position_at.elapsed() < POSITION_EVERY {
            return Ok(Stored::default());
        }
        let text = serde_json::to_vec(head).expect("a head is plain strings and numbers");
        self.files.put(layout::POSITIONS, &layout::position(self.partition), &text)?;
        self.position_at = Instant::now();
        Ok(Stored { offset: Some(head.offset), changes: 0 })
    }

    fn unreadable(&self, name: &str, source: crate::error::Cause) -> Error {
        Error::StoredPosition { partition: self.partition, place: self.files.place(name), source }
    }

    /// The position in the newest file's footer.
    fn of_newest_file(&self) -> Result<Option<Head>, Error> {
        let mut days = self.files.list("")?;
        days.retain(|name| layout::is_day(name));
        days.sort_unstable();
        for day in days.iter().rev() {
            let files = self.files.list(day)?;
            let Some(name) = layout::newest(self.partition, &files) else { continue };
            let bytes = self.files.get(day, name)?.unwrap_or_default();
            let head = encode::head(bytes).map_err(|source| self.unreadable(name, source))?;
            return Ok(Some(head));
        }
        Ok(None)
    }

    /// The position that was noted without rows.
    fn noted(&self) -> Result<Option<Head>, Error> {
        let name = layout::position(self.partition);
        let Some(bytes) = self.files.get(layout::POSITIONS, &name)? else { return Ok(None) };
        let head = serde_json::from_slice(&bytes);
        head.map(Some).map_err(|source| self.unreadable(&name, source.into()))
    }
}

impl Sink for ParquetSink {
    fn position(&mut self) -> Result<Option<Head>, Error> {
        self.files.begin(self.partition)?;
        let heads = [self.of_newest_file()?, self.noted()?];
        Ok(heads.into_iter().flatten().max_by_key(|head| head.offset))
    }

    fn write(&mut self, batch: Batch) -> Result<Stored, Error> {
        let is_other_day = match (self.buffer.rows.last(), batch.changes.first()) {
            (Some(last), Some(first)) => layout::directory(last.at) != layout::directory(first.at),
            _ => false,
        };
        let mut stored = if is_other_day { self.roll()? } else { Stored::default() };
        if !batch.changes.is_empty() {
            self.buffer.begun_at.get_or_insert_with(Instant::now);
        }
        self.buffer.bytes += batch.changes.iter().map(Change::size).sum::<usize>();
        self.buffer.rows.extend(batch.changes);
        self.buffer.head = Some(batch.head);
        let next = if self.is_ripe() { self.roll()? } else { self.note_position(false)? };
        stored.changes += next.changes;
        stored.offset = next.offset.or(stored.offset);
        Ok(stored)
    }

    fn rest(&mut self, last: bool) -> Result<Stored, Error> {
        if last || self.is_ripe() {
            let stored = self.roll()?;
            if stored.changes > 0 {
                return Ok(stored);
            }
        }
        self.note_position(last)
    }
}

/// Where the files are that are configured.
pub(crate) fn files(config: &ParquetConfig) -> Result<Box<dyn Files>, Error> {
    let root = config.root.as_deref().unwrap_or_default();
    #[cfg(feature = "s3")]
    if root.starts_with("s3://") {
        return Ok(Box::new(S3Files::new(root, &config.s3)?));
    }
    Ok(Box::new(LocalFiles::new(root)))
}

/// The UTC day as Hive likes it.
fn day(at: i64) -> String {
    let at = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(jiff::tz::TimeZone::UTC).date().to_string()
}
