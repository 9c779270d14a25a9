//! What can go wrong for an owner, one variant per operation that failed.

use tidemill_log::AppendError;
use tidemill_model::{Level, ReadError, too_new};

/// Why a dispatcher, or the ownership of one partition, ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log could not be opened for reading or writing.
    #[error("partition {partition}: {operation} failed")]
    Log {
        /// Which partition.
        partition: u32,
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        source: tidemill_log::Error,
    },
    /// The suggestion of owners cannot be had.
    #[error("the suggestion of owners cannot be had")]
    Membership(#[source] tidemill_log::Error),
    /// A body of the journal means nothing to this version.
    #[error(
        "partition {partition}: this version cannot read the journal's record at offset {offset}; use a newer one"
    )]
    Unreadable {
        /// Which partition.
        partition: u32,
        /// Where.
        offset: u64,
        /// Why not.
        source: serde_json::Error,
    },
    /// The journal or the commands go on with a level that this process does not read.
    #[error("partition {partition}, record {offset} of the {log}: {}", too_new(*.level, *.reads))]
    TooNew {
        /// Which partition.
        partition: u32,
        /// Of what: `journal` or `commands`.
        log: &'static str,
        /// Where.
        offset: u64,
        /// The level that it goes on with.
        level: Level,
        /// The highest one that this process reads.
        reads: Level,
    },
    /// What the log has stored is not what was written.
    #[error(
        "partition {partition}: {damage}. Nothing can be decided there before the log is whole again: stop this process, put \
         a copy of the log back that is whole, or repair what stores it, and start again; the other partitions go on"
    )]
    Damaged {
        /// Which partition.
        partition: u32,
        /// What is wrong, and where.
        damage: tidemill_log::Error,
    },
    /// The journal was made for another number of partitions.
    #[error("partition {partition}: the journal was made for {journal} partitions, the log has {log}")]
    PartitionCount {
        /// Which partition.
        partition: u32,
        /// As the genesis has it.
        journal: u32,
        /// As the log has it.
        log: u32,
    },
    /// The commands topic is not the one that the journal's resume point belongs to.
    #[error(
        "partition {partition}: the command at offset {offset} is not the one that the journal says was done last: \
         the topic was lost, recreated or restored; bring it back as it was and start the dispatcher again, or go \
         on without what is lost with `tidemill partition accept-loss --partition {partition} --reason …`"
    )]
    CommandsLost {
        /// Which partition.
        partition: u32,
        /// The resume point.
        offset: u64,
    },
    /// The clock cannot be trusted.
    #[error(
        "partition {partition}: the wall clock is off by {off_ms} ms against {against}; set the clock right"
    )]
    Clock {
        /// Which partition.
        partition: u32,
        /// By how much.
        off_ms: i64,
        /// Against what.
        against: &'static str,
    },
    /// The rules failed, or the log refused what it must take.
    #[error("partition {partition}: stopped: {reason}")]
    Stopped {
        /// Which partition.
        partition: u32,
        /// Why.
        reason: String,
    },
    /// An envelope cannot be appended at all.
    #[error("partition {partition}: an envelope cannot be appended")]
    Append {
        /// Which partition.
        partition: u32,
        /// Why.
        source: AppendError,
    },
    /// A thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
}

impl Error {
    pub(crate) fn log(partition: u32, operation: &'static str) -> impl FnOnce(tidemill_log::Error) -> Self {
        move |source| Self::Log { partition, operation, source }
    }

    pub(crate) fn too_new(partition: u32, offset: u64, level: Level, reads: Level) -> Self {
        Self::TooNew { partition, log: "journal", offset, level, reads }
    }

    pub(crate) fn too_new_command(partition: u32, offset: u64, level: Level, reads: Level) -> Self {
        Self::TooNew { partition, log: "commands", offset, level, reads }
    }

    pub(crate) fn envelope(partition: u32, offset: u64, error: ReadError) -> Self {
        match error {
            ReadError::TooNew { level, reads } => Self::too_new(partition, offset, level, reads),
            ReadError::Malformed(source) => Self::Unreadable { partition, offset, source },
        }
    }

    pub(crate) fn stopped(partition: u32, reason: impl ToString) -> Self {
        Self::Stopped { partition, reason: reason.to_string() }
    }
}
