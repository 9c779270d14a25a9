//! Forgets commands that are done with and old. The journal is never trimmed; what is volatile need not be.
//!
//! ```text
//!   forgotten        kept
//!  ──────────────┬──────────┬─────────────┐
//!             from        below          next      below: everything before it is done with
//!                └ older than declared, at most BATCH at once
//! ```

use rusqlite::{Connection, OptionalExtension as _, params};

use super::Shared;
use super::file::table;
use super::queue::Item;
use crate::signal::lock;
use crate::{Error, Topic, clock};

/// The most that one transaction forgets.
const BATCH: u64 = 4_096;

/// From where on a lane is kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) from: u64,
    /// When the first of what is kept was taken, where that is known.
    oldest_ms: Option<i64>,
    /// The writer has been asked to forget.
    asked: bool,
}

impl Kept {
    /// As the file has it.
    pub(crate) fn of(connection: &Connection, topic: Topic, partition: u32) -> rusqlite::Result<Self> {
        let sql = format!("SELECT offset, at_ms FROM {} ORDER BY offset LIMIT 1", table(topic, partition));
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?));
        let oldest: Option<(u64, i64)> = connection.prepare_cached(&sql)?.query_row([], row).optional()?;
        let (from, oldest_ms) = oldest.map_or((0, None), |(from, at_ms)| (from, Some(at_ms)));
        Ok(Self { from, oldest_ms, asked: false })
    }

    /// The same lane, kept from this offset on at the earliest.
    pub(crate) fn at_least_from(self, from: u64) -> Self {
        Self { from: self.from.max(from), ..self }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Trim {
    pub(crate) lane: usize,
    from: u64,
    below: u64,
    before_ms: i64,
}

impl Trim {
    /// Within the writer's transaction: forgets a batch, and tells what is kept then.
    pub(crate) fn run(self, shared: &Shared, connection: &Connection) -> rusqlite::Result<Kept> {
        let lane = &shared.lanes[self.lane];
        let table = table(lane.topic, lane.partition);
        let most = self.below.min(self.from.saturating_add(BATCH));
        let young =
            format!("SELECT min(offset) FROM {table} WHERE offset >= ?1 AND offset < ?2 AND at_ms >= ?3");
        let bounds = params![self.from.cast_signed(), most.cast_signed(), self.before_ms];
        let young: Option<i64> = connection.prepare_cached(&young)?.query_row(bounds, |row| row.get(0))?;
        let end = young.unwrap_or(most.cast_signed());
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE offset < ?1"))?.execute([end])?;
        Kept::of(connection, lane.topic, lane.partition)
    }
}

impl Shared {
    /// Asks the writer to forget, if there is something; it does so behind what is queued.
    pub(crate) fn trim(&self, topic: Topic, partition: u32, below: u64) -> Result<(), Error> {
        let lane = self.lane_index(topic, partition)?;
        let range = self.lanes[lane].range()?;
        if topic != Topic::Commands {
            return Ok(());
        }
        let before_ms = clock::now_ms().saturating_sub_unsigned(self.keep_commands_ms);
        // The last record stays, for the next one's offset is told by it.
        let below = below.min(range.end.saturating_sub(1));
        let mut kept = lock(&self.kept[lane]);
        let nothing_old = kept.oldest_ms.is_some_and(|at_ms| at_ms >= before_ms);
        if kept.asked || nothing_old || kept.from >= below {
            return Ok(());
        }
        kept.asked = true;
        // Where the log has ended nothing is forgotten.
        let _ = self.queue.push(vec![Item::Trim(Trim { lane, from: kept.from, below, before_ms })]);
        Ok(())
    }

    /// What became of a trim: what is kept now, or nothing new.
    pub(crate) fn trimmed(&self, lane: usize, kept: Option<Kept>) {
        let mut known = lock(&self.kept[lane]);
        *known = kept.unwrap_or(Kept { asked: false, ..*known });
    }
}
