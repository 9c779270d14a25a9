//! Removes records of journals that are archived, and gives their room back.
//!
//! ```text
//!   in the archive                  in the file
//!  ──────────────────────────────┬──────────────────┐
//!  0    removed bit by bit        below         next
//!                                 └ from here on the journal is read in the file: one row says so, and the head
//!                                   of the chain before it, in the transaction that removes the first records
//! ```
//! Every step is a transaction of its own between two groups of appends, and small, so that no append waits for long. A
//! process that is killed between two steps leaves records that nobody reads; the next call removes them.

use std::sync::mpsc::{self, SyncSender};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::Shared;
use super::durability::Durability;
use super::file::{ARCHIVED_VERSION, PAGE_BYTES, table};
use super::queue::Item;
use crate::signal::lock;
use crate::{Error, Hash, Head, Topic};

/// The most that one step removes.
const STEP_RECORDS: u32 = 512;
const STEP_BYTES: i64 = 1 << 20;
/// So many pages are given back at once, and so many are left for new records.
const STEP_PAGES: i64 = 256;
const LEFT_PAGES: i64 = 256;

/// What of a journal is not in the file any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Archived {
    /// The first offset that is.
    pub(crate) below: u64,
    /// Where the chain stands before it.
    pub(crate) head: Head,
}

impl Archived {
    /// As the file has it.
    pub(crate) fn of(connection: &Connection, partition: u32) -> rusqlite::Result<Option<Self>> {
        let known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'archived'";
        if connection.query_row(known, [], |_| Ok(())).optional()?.is_none() {
            return Ok(None);
        }
        let sql = "SELECT below, head FROM archived WHERE partition = ?1";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        let Some((below, head)) = connection.query_row(sql, [partition], row).optional()? else {
            return Ok(None);
        };
        let head = serde_json::from_str(&head).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into())
        })?;
        Ok(Some(Self { below: below.cast_unsigned(), head }))
    }

    fn store(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS archived
             (partition INTEGER PRIMARY KEY, below INTEGER NOT NULL, head TEXT NOT NULL);",
        )?;
        let head = serde_json::to_string(&self.head).expect("a head is plain strings and numbers");
        let sql = "INSERT INTO archived (partition, below, head) VALUES (?1, ?2, ?3)
            ON CONFLICT (partition) DO UPDATE SET below = excluded.below, head = excluded.head";
        connection.execute(sql, params![self.head.partition, self.below.cast_signed(), head])?;
        let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        connection.pragma_update(None, "user_version", found.max(ARCHIVED_VERSION))
    }
}

/// One step that the writer is asked for.
pub(crate) struct Release {
    archived: Archived,
    step: Step,
    told: SyncSender<Outcome>,
}

#[derive(Clone, Copy)]
enum Step {
    /// Notes what is archived, and removes the first of it.
    Remove,
    /// Gives free pages back.
    Shrink,
}

/// Whether there is more to do, or why it was not done.
type Outcome = Result<bool, String>;

/// The releases among these items, and the rest in its order.
pub(crate) fn apart(items: Vec<Item>) -> (Vec<Item>, Vec<Release>) {
    let mut releases = Vec::new();
    let other = |item| match item {
        Item::Release(release) => {
            releases.push(release);
            None
        }
        item => Some(item),
    };
    let items = items.into_iter().filter_map(other).collect();
    (items, releases)
}

impl Release {
    /// On the writer's thread. Only a full disk, and a head that the journal does not have, are forgiven.
    pub(crate) fn serve(
        self,
        shared: &Shared,
        connection: &Connection,
        durability: &mut Durability,
    ) -> Result<(), String> {
        let failed = |error: rusqlite::Error| format!("removing archived records failed: {error}");
        durability.begin(connection, false).map_err(failed)?;
        let before = connection.total_changes();
        let done = self.transaction(connection);
        if done.is_err() && !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK").map_err(failed)?;
        }
        let outcome = match done {
            Ok(outcome) => outcome,
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                Err("the disk is full, and removing takes a little room".to_owned())
            }
            Err(error) => return Err(failed(error)),
        };
        if outcome.is_ok() {
            let changed = connection.total_changes() - before;
            let pages = match self.step {
                Step::Remove => changed.min((STEP_BYTES.cast_unsigned()) / PAGE_BYTES),
                Step::Shrink => 2 * STEP_PAGES.cast_unsigned(),
            };
            durability.committed(usize::try_from(pages).unwrap_or_default());
            if let Ok(lane) = shared.lane_index(Topic::Journal, self.archived.head.partition) {
                let mut kept = lock(&shared.kept[lane]);
                *kept = kept.at_least_from(self.archived.below);
            }
        }
        // Nobody may wait for it any more.
        let _ = self.told.send(outcome);
        durability
            .checkpoint(connection)
            .map_err(|error| format!("the write-ahead log could not be written back: {error}"))
    }

    fn transaction(&self, connection: &Connection) -> rusqlite::Result<Outcome> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let outcome = match self.step {
            Step::Remove => self.remove(connection),
            Step::Shrink => shrink(connection).map(Ok),
        }?;
        connection.execute_batch(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        Ok(outcome)
    }

    /// Only what this journal has: the record of the head is looked at in the transaction that begins to remove.
    fn remove(&self, connection: &Connection) -> rusqlite::Result<Outcome> {
        let Archived { below, head } = &self.archived;
        let table = table(Topic::Journal, head.partition);
        let known = Archived::of(connection, head.partition)?;
        let is_known = known.as_ref().is_some_and(|known| known.below >= *below);
        if !is_known {
            let sql = format!("SELECT value FROM {table} WHERE offset = ?1");
            let value: Option<Vec<u8>> =
                connection.query_row(&sql, [head.offset.cast_signed()], |row| row.get(0)).optional()?;
            if value.is_none_or(|value| Hash::of(&value) != head.hash) {
                return Ok(Err(format!("the journal has another record at offset {}", head.offset)));
            }
            self.archived.store(connection)?;
        }
        let end = step_end(connection, &table, *below)?;
        let Some(end) = end else { return Ok(Ok(false)) };
        connection.execute(&format!("DELETE FROM {table} WHERE offset < ?1"), [end])?;
        Ok(Ok(end < below.cast_signed()))
    }
}

/// The offset after the records that one step removes; nothing where none are left below this offset.
fn step_end(connection: &Connection, table: &str, below: u64) -> rusqlite::Result<Option<i64>> {
    // The length of a value is known without reading it.
    let sql = format!(
        "SELECT offset, length(value) + length(key) FROM {table} WHERE offset < ?1 ORDER BY offset LIMIT {STEP_RECORDS}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([below.cast_signed()])?;
    let (mut end, mut bytes) = (None, 0);
    while bytes < STEP_BYTES
        && let Some(row) = rows.next()?
    {
        end = Some(row.get::<_, i64>(0)? + 1);
        bytes += row.get::<_, i64>(1)?;
    }
    Ok(end)
}

/// Whether more can be given back.
fn shrink(connection: &Connection) -> rusqlite::Result<bool> {
    let free = || connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
    let before = free()?;
    if before <= LEFT_PAGES {
        return Ok(false);
    }
    let mut statement =
        connection.prepare(&format!("PRAGMA incremental_vacuum({})", STEP_PAGES.min(before - LEFT_PAGES)))?;
    // Each step of the statement gives one page back.
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    let after = free()?;
    // A file of an older program gives nothing back.
    Ok(after < before && after > LEFT_PAGES)
}

impl Shared {
    /// Asks the writer step by step, and waits for each.
    pub(crate) fn release_archived(&self, below: u64, head: &Head) -> Result<(), Error> {
        let partition = head.partition;
        let refused = |reason: String| Error::NotReleased { partition, source: reason.into() };
        let lane = &self.lanes[self.lane_index(Topic::Journal, partition)?];
        let end = lane.range()?.end;
        if !head.log_id.is_or_becomes(&self.id) || below != head.offset + 1 || below >= end {
            let (log, next) = (&head.log_id, head.offset + 1);
            return Err(refused(format!(
                "asked for those below {below} with the head of log {log} before {next}; this is log {}, its journal ends \
                 with {end}, and its last record stays",
                self.id
            )));
        }
        let archived = Archived { below, head: head.clone() };
        for step in [Step::Remove, Step::Shrink] {
            loop {
                let (told, outcome) = mpsc::sync_channel(1);
                let release = Release { archived: archived.clone(), step, told };
                self.queue.push(vec![Item::Release(release)]).map_err(|(reason, _)| refused(reason))?;
                let ended = || refused("the log has ended".to_owned());
                if !outcome.recv().map_err(|_| ended())?.map_err(refused)? {
                    break;
                }
            }
        }
        Ok(())
    }
}
