//! What can fail, one variant per operation. Each names the object, for somebody has to look at it.

use thiserror::Error;
use tidemill_log::Source;

/// An operation on the archive that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No client or directory could be opened for the archive.
    #[error("cannot open the archive {place}")]
    Open {
        /// As configured.
        place: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// The store did not do what it was asked for.
    #[error("cannot {what} {object}")]
    Store {
        /// What it was asked for.
        what: &'static str,
        /// The object's whole name.
        object: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// No segment has the record.
    #[error(
        "the archive {place} has no segment of log {log_id} with record {offset} of the journal of partition {partition}; put \
         the segment back, or name the place that has it (archive.place)"
    )]
    Missing {
        /// The archive.
        place: String,
        /// The log.
        log_id: String,
        /// Which journal.
        partition: u32,
        /// The record.
        offset: u64,
    },
    /// A segment is not what was written.
    #[error("{object} is damaged: {reason}; put a copy of it back that is whole")]
    Damaged {
        /// Its whole name.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// A segment says of itself that it is another one.
    #[error("{object} does not belong there: {reason}")]
    Foreign {
        /// Its whole name.
        object: String,
        /// What it says.
        reason: String,
    },
    /// The log and a segment do not have the same record.
    #[error("{object} and the log differ in record {offset}: {reason}; nothing was released")]
    Differs {
        /// The segment's whole name.
        object: String,
        /// The record.
        offset: u64,
        /// In what.
        reason: String,
    },
    /// The log could not be read, or did not release.
    #[error("the journal of partition {partition} cannot be archived")]
    Log {
        /// Which journal.
        partition: u32,
        /// Why not.
        #[source]
        source: tidemill_log::Error,
    },
    /// Which log the archive is of is not clear.
    #[error("the archive {place} {what}; each log has a place of its own (archive.place)")]
    WhichLog {
        /// The archive.
        place: String,
        /// What was found.
        what: String,
    },
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn store(what: &'static str, object: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Store { what, object: object.into(), source: source.into() }
    }

    pub(crate) fn log(partition: u32) -> impl Fn(tidemill_log::Error) -> Self {
        move |source| Self::Log { partition, source }
    }

    /// As the log's readers tell it.
    pub(crate) fn of_reader(self, partition: u32) -> tidemill_log::Error {
        match self {
            Self::Log { source, .. } => source,
            // A store that is away is tried again, as a broker is; what is missing or damaged is for a person.
            Self::Store { .. } => tidemill_log::Error::Read {
                topic: tidemill_log::Topic::Journal,
                partition,
                source: self.into(),
            },
            other => tidemill_log::Error::Archive { partition, source: other.into() },
        }
    }
}
