//! What can fail, one variant per operation.

use thiserror::Error;

/// A projection that could not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal cannot be followed.
    #[error(transparent)]
    Journal(#[from] tidemill_journal::Error),
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
    /// A thread could not be started.
    #[error("cannot start a thread for partition {partition}")]
    Thread {
        /// For which partition.
        partition: u32,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The tables cannot be rebuilt from this time.
    #[error("--from: {at}: {rule}; {remedy}")]
    Since {
        /// Which time.
        at: tidemill_model::Timestamp,
        /// What has to hold, and does not.
        rule: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A journal gives no records though there are more.
    #[error(
        "partition {partition} of the journal gives nothing from record {offset} on, though there is more"
    )]
    NoRecords {
        /// Which partition.
        partition: u32,
        /// Where it goes on.
        offset: u64,
    },
    /// It was told to stop before it was done. Started again, it goes on where it was.
    #[error("stopped before the end; start it again to go on")]
    Interrupted,
}

impl Error {
    pub(crate) fn journal(partition: u32) -> impl FnOnce(tidemill_log::Error) -> Self {
        let read = tidemill_journal::Error::read(partition);
        move |source| Self::Journal(read(source))
    }

    pub(crate) fn tables(what: &'static str) -> impl FnOnce(tidemill_store::Error) -> Self {
        move |source| Self::Tables { what, source }
    }

    /// What a person does about a record that cannot be read; absent: that is not what failed.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Journal(error) => error.remedy(),
            _ => None,
        }
    }

    /// Whether trying again later may help: a broker or a database that is away.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Journal(error) => error.is_outage(),
            Self::Tables { source, .. } | Self::Hints { source, .. } => source.is_outage(),
            Self::Publish { source, .. } => !matches!(source, tidemill_log::AppendError::TooLarge),
            Self::StoredPosition { .. }
            | Self::ForeignFeed { .. }
            | Self::Thread { .. }
            | Self::Scratch { .. }
            | Self::Since { .. }
            | Self::Interrupted => false,
            Self::NoRecords { .. } => true,
        }
    }
}
