//! What can fail, one variant per operation.

use thiserror::Error;

/// A projection that could not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal cannot be read.
    #[error("cannot follow the journal of partition {partition}")]
    Journal {
        /// Which journal.
        partition: u32,
        /// Why not.
        #[source]
        source: tidemill_log::Error,
    },
    /// The tables cannot be read or written.
    #[error("cannot {what}")]
    Tables {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        #[source]
        source: tidemill_store::Error,
    },
    /// The hints of pulls cannot be read.
    #[error("cannot compare the hints of partition {partition}")]
    Hints {
        /// Of which partition.
        partition: u32,
        /// Why not.
        #[source]
        source: tidemill_store::Error,
    },
    /// There is no place for what is put aside meanwhile.
    #[error("cannot use the directory {} for rows that are put aside", path.display())]
    Scratch {
        /// Which directory.
        path: std::path::PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
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
    /// A position in the tables that is no position.
    #[error("the position of partition {partition} in the tables cannot be read; run `tidemill rebuild`")]
    StoredPosition {
        /// Which partition.
        partition: u32,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// A record of the feed's topic that is none of this feed's.
    #[error(
        "record {offset} of the feed's topic, partition {partition}, is not one that this program wrote: {reason}"
    )]
    ForeignFeed {
        /// Which partition.
        partition: u32,
        /// Where.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The feed's topic takes no records.
    #[error("cannot publish to partition {partition} of the feed")]
    Publish {
        /// Which partition.
        partition: u32,
        /// Why not.
        #[source]
        source: tidemill_log::AppendError,
    },
    /// The cursor was not given out by this feed.
    #[error("the cursor {cursor:?} is not one of this feed: {reason}")]
    BadCursor {
        /// As given.
        cursor: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for partition {partition}")]
    Thread {
        /// For which partition.
        partition: u32,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It was told to stop before it was done. Started again, it goes on where it was.
    #[error("stopped before the end; start it again to go on")]
    Interrupted,
}

impl Error {
    pub(crate) fn journal(partition: u32) -> impl FnOnce(tidemill_log::Error) -> Self {
        move |source| Self::Journal { partition, source }
    }

    pub(crate) fn tables(what: &'static str) -> impl FnOnce(tidemill_store::Error) -> Self {
        move |source| Self::Tables { what, source }
    }

    /// What a person does about a record that cannot be read; absent: that is not what failed.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        use tidemill_log::Error as Log;
        match self {
            Self::Journal { source: Log::Damaged { .. } | Log::Gap { .. }, .. } => Some(
                "stop the processes that use the log, put a copy of the log back that is whole, or repair what stores it, \
                 and start again",
            ),
            Self::Body { .. } => Some("use the version that wrote it, or a newer one"),
            _ => None,
        }
    }

    /// Whether trying again later may help: a broker or a database that is away.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        use tidemill_log::Error as Log;
        match self {
            Self::Tables { source, .. } | Self::Hints { source, .. } => source.is_outage(),
            Self::Journal { source, .. } => {
                matches!(source, Log::Open { .. } | Log::Read { .. } | Log::Range { .. })
            }
            Self::Publish { source, .. } => !matches!(source, tidemill_log::AppendError::TooLarge),
            Self::PositionMismatch { .. }
            | Self::Body { .. }
            | Self::StoredPosition { .. }
            | Self::ForeignFeed { .. }
            | Self::BadCursor { .. }
            | Self::Thread { .. }
            | Self::Scratch { .. }
            | Self::Interrupted => false,
        }
    }
}

/// An error and everything below it, for a log line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(below) = source {
        text.push_str(": ");
        text.push_str(&below.to_string());
        source = below.source();
    }
    text
}
