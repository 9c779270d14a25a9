//! What can fail, one variant per operation, and why a snapshot is not used.

use thiserror::Error;
use tidemill_log::Source;

/// Why a snapshot is not used. An older one is, or none: nothing depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It is not in the store any more.
    #[error("it is not there")]
    Missing,
    /// It cannot be read from the store.
    #[error("the store cannot give it: {0}")]
    Store(String),
    /// It is not what was written.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// It was written by a program whose state has another form.
    #[error("it has the form {0}, which this version does not read")]
    OtherForm(String),
    /// It is of another log or partition.
    #[error("it is of partition {partition} of log {log_id}")]
    Foreign {
        /// Of which log.
        log_id: String,
        /// Of which partition.
        partition: u32,
    },
    /// The journal has another record at its offset, or none.
    #[error("the journal does not have its record at offset {0}")]
    OtherRecord(u64),
    /// No record that is reached by reading on from it names it.
    #[error("no accepted record names it")]
    NotNamed,
    /// The journal cannot be read on from it.
    #[error("the journal cannot be read on from it: {0}")]
    Unreadable(String),
}

/// An operation on snapshots that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be used.
    #[error("cannot open the place of snapshots (snapshots.place)")]
    Open(#[source] tidemill_archive::Error),
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
    /// What was written cannot be read.
    #[error("cannot read back {object}")]
    ReadBack {
        /// The snapshot's whole name.
        object: String,
        /// Why not.
        #[source]
        source: Refusal,
    },
    /// The log could not be read.
    #[error("the journal of partition {partition} cannot be read for a snapshot")]
    Log {
        /// Which journal.
        partition: u32,
        /// Why not.
        #[source]
        source: Refusal,
    },
    /// A record means nothing to this version.
    #[error("record {offset} of the journal of partition {partition} cannot be read")]
    Record {
        /// Which journal.
        partition: u32,
        /// Where.
        offset: u64,
        /// Why not.
        #[source]
        source: tidemill_model::ReadError,
    },
    /// The record that it was to be taken of is not the one that the owner named.
    #[error(
        "the journal of partition {partition} does not have the record that its owner named at offset {offset}"
    )]
    OtherRecord {
        /// Which journal.
        partition: u32,
        /// Where.
        offset: u64,
    },
    /// What was written is not what the fold gave, or two folds differ.
    #[error(
        "SNAPSHOT DIFFERS: {object} is not the fold of its journal: {reason}. It is deleted and not used; what is decided comes \
         from the journal alone. Report this, with a copy of the journal (`tidemill journal export`)"
    )]
    Differs {
        /// The snapshot's whole name.
        object: String,
        /// In what.
        reason: String,
    },
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn store(what: &'static str, object: impl ToString, source: Source) -> Self {
        Self::Store { what, object: object.to_string(), source }
    }

    pub(crate) fn log(partition: u32) -> impl Fn(Refusal) -> Self {
        move |source| Self::Log { partition, source }
    }
}
