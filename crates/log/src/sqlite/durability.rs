//! What of the log outlives a power cut, and when.
//!
//! ```text
//!  commands   events    journal    commands         a second
//!  ──────────────────────────────▲──────────────────────────▲──
//!                             synced                     synced
//! ```
//! All of the log goes through one write-ahead log: a power cut may take its end, but nothing from its middle. So a
//! group is synced before anybody sees it only where somebody may act on it without a later one: on a journal's record, and
//! with it all that it rests on, for that was written before. A command that is lost was not decided, and its sender not
//! answered.
//!
//! Somebody acts on what is read, too: on records of a process that was killed before it synced them. So what lies there is
//! written and synced anew before it is read ([`Directory::sync_left`](super::directory::Directory::sync_left)).
//!
//! The system reports a failed sync once, and then may take what was lost for written. So every sync is one whose failure
//! ends the log: SQLite makes no checkpoint by itself, for it would keep that failure to itself.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::Topic;

/// The longest that anything waits to be synced.
const SYNCED_WITHIN: Duration = Duration::from_secs(1);

/// Whether somebody may act on any record of this topic before anything else is written. Of other topics one may say so for
/// itself ([`NewRecord::acted_on`](crate::NewRecord)).
pub(crate) const fn is_synced(topic: Topic) -> bool {
    match topic {
        Topic::Journal | Topic::DeadLetters => true,
        Topic::Commands | Topic::Events | Topic::Work | Topic::Replies => false,
    }
}

pub(crate) struct Durability {
    /// Open for as long as the log is: a descriptor that is opened later does not hear of an earlier failure.
    write_ahead_log: File,
    /// Whether the connection syncs what it commits.
    syncs: bool,
    /// When the oldest commit was made that is not synced; none: all is synced.
    unsynced_since: Option<Instant>,
    /// About how many pages the write-ahead log has grown by since it was last written back.
    grown: usize,
    /// At how many it is.
    checkpoint_pages: usize,
}

impl Durability {
    /// For a connection that syncs, for so it is set up.
    pub(crate) const fn new(write_ahead_log: File, checkpoint_pages: usize) -> Self {
        Self { write_ahead_log, syncs: true, unsynced_since: None, grown: 0, checkpoint_pages }
    }

    /// When [`sync`](Self::sync) is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.unsynced_since.map(|since| since + SYNCED_WITHIN)
    }

    /// Before a transaction begins, for SQLite does not change the level within one.
    pub(crate) fn begin(&mut self, connection: &Connection, acted_on: bool) -> rusqlite::Result<()> {
        let syncs = acted_on || self.due().is_some_and(|due| due <= Instant::now());
        let syncs = syncs && !planted!(JournalNotSynced);
        if syncs != self.syncs {
            // Not a cached statement: SQLite applies this pragma when it prepares it.
            connection.pragma_update(None, "synchronous", if syncs { "FULL" } else { "NORMAL" })?;
            self.syncs = syncs;
        }
        Ok(())
    }

    /// A transaction that changed about so many pages is committed.
    pub(crate) fn committed(&mut self, pages: usize) {
        self.grown += pages;
        self.unsynced_since = match self.unsynced_since {
            _ if self.syncs => None,
            Some(since) => Some(since),
            None => Some(Instant::now()),
        };
    }

    pub(crate) fn sync(&mut self) -> io::Result<()> {
        planted!(IdleNotSynced => return Ok(()));
        if self.unsynced_since.is_some() {
            self.write_ahead_log.sync_data()?;
            self.unsynced_since = None;
        }
        Ok(())
    }

    /// Writes the write-ahead log back into the file, once it is long, as far as no reader needs it.
    pub(crate) fn checkpoint(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.grown < self.checkpoint_pages {
            return Ok(());
        }
        self.grown = 0;
        match checkpoint(connection) {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                tracing::warn!(%error, "the write-ahead log cannot be written back");
                Ok(())
            }
            ended => ended,
        }
    }
}

/// Syncs the write-ahead log and writes it back. That readers keep some of it there is no error.
pub(crate) fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}
