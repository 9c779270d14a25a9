//! What can fail, one variant per operation.

use thiserror::Error;
use tidemill_log::LogId;
use tidemill_model::{Level, ReadError, too_new};

/// A journal that cannot be followed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal cannot be read.
    #[error("cannot follow the journal of partition {partition}")]
    Read {
        /// Which journal.
        partition: u32,
        /// Why not.
        #[source]
        source: tidemill_log::Error,
    },
    /// A stored position does not fit the journal: it was lost, restored or rebuilt, or the position is of
    /// another log.
    #[error(
        "{holder} stand at record {offset} of partition {partition}, but {found}; \
         if the log was replaced on purpose, make them anew (`tidemill rebuild`, an empty topic, or an empty place for task logs)"
    )]
    PositionMismatch {
        /// What stands there: the tables, the feed, a cursor.
        holder: &'static str,
        /// Which journal.
        partition: u32,
        /// Where the position is.
        offset: u64,
        /// What the journal has there instead.
        found: String,
    },
    /// A stored position is of a life of the log that was lost: the log was restored from a state before it.
    #[error(
        "{holder} stand at record {offset} of partition {partition} of log {of}, and that log was restored as {log_id} from a \
         state before it: what it had from record {from} on is lost. Make them anew: `tidemill rebuild` for tables, an empty \
         place for task logs; who follows the feed drops what it took from log {of} of records from {from} on, and \
         begins again at a time before the restore"
    )]
    AheadOfRestore {
        /// What stands there: the tables, the feed, a cursor.
        holder: &'static str,
        /// Which journal.
        partition: u32,
        /// Where the position is.
        offset: u64,
        /// The log that it is of.
        of: LogId,
        /// The first record that is another one now.
        from: u64,
        /// What that log became.
        log_id: LogId,
    },
    /// An accepted record that this version does not understand. It is never skipped.
    #[error("record {offset} of the journal of partition {partition} is not understood by this version")]
    Body {
        /// Which journal.
        partition: u32,
        /// Where.
        offset: u64,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// The journal goes on with a level that this process does not read (rule 13).
    #[error("record {offset} of the journal of partition {partition}: {}", too_new(*.level, *.reads))]
    TooNew {
        /// Which journal.
        partition: u32,
        /// Where.
        offset: u64,
        /// The level that it goes on with.
        level: Level,
        /// The highest one that this process reads.
        reads: Level,
    },
    /// The cursor was not given out by this feed.
    #[error("the cursor {cursor:?} is not one of this feed: {reason}")]
    BadCursor {
        /// As given.
        cursor: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// What the log says of this journal.
    pub fn read(partition: u32) -> impl FnOnce(tidemill_log::Error) -> Self {
        move |source| Self::Read { partition, source }
    }

    /// Why the record at `offset` is not read.
    pub fn envelope(partition: u32, offset: u64) -> impl FnOnce(ReadError) -> Self {
        move |error| match error {
            ReadError::TooNew { level, reads } => {
                let error = Self::TooNew { partition, offset, level, reads };
                crate::reads::meets(&error);
                error
            }
            ReadError::Malformed(source) => Self::Body { partition, offset, source },
        }
    }

    /// What a person does about a record that cannot be read; absent: that is not what failed.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        use tidemill_log::Error as Log;
        match self {
            Self::Read { source: Log::Damaged { .. } | Log::Gap { .. }, .. } => Some(
                "stop the processes that use the log, put a copy of the log back that is whole, or repair what stores it, \
                 and start again",
            ),
            Self::Read { source: Log::Archive { .. }, .. } => Some(
                "put the segment back; `tidemill archive verify` names every one that is missing or damaged",
            ),
            Self::Read { source: Log::JournalBeginsLater { .. }, .. } => Some("set archive.place"),
            Self::TooNew { .. } => Some("start a version of the program that reads that level"),
            Self::Body { .. } => Some("use the version that wrote it, or a newer one"),
            Self::Read { .. }
            | Self::PositionMismatch { .. }
            | Self::AheadOfRestore { .. }
            | Self::BadCursor { .. } => None,
        }
    }

    /// Whether trying again later may help: a broker that is away.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        use tidemill_log::Error as Log;
        match self {
            Self::Read { source, .. } => {
                matches!(source, Log::Open { .. } | Log::Read { .. } | Log::Range { .. })
            }
            Self::PositionMismatch { .. }
            | Self::AheadOfRestore { .. }
            | Self::Body { .. }
            | Self::TooNew { .. }
            | Self::BadCursor { .. } => false,
        }
    }
}
