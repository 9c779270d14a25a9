//! What can fail, one variant per operation.

use thiserror::Error;

/// A place's own error.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A sink that could not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal cannot be read, or does not continue the position.
    #[error("the journal does not feed the sink")]
    Journal(#[source] tidemill_journal::Error),
    /// The read tables cannot be read.
    #[error("cannot {what}")]
    Tables {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        #[source]
        source: tidemill_store::Error,
    },
    /// The read tables lag, so that what was read of the journal cannot be looked up yet.
    #[error(
        "the read tables do not show record {offset} of partition {partition} yet: does the projector run?"
    )]
    TablesBehind {
        /// Which partition.
        partition: u32,
        /// Where.
        offset: u64,
    },
    /// The read tables lack what the journal has.
    #[error("the read tables lack {what} {id} of partition {partition}; run `tidemill rebuild`")]
    NotInTables {
        /// Which partition.
        partition: u32,
        /// A grant or a task.
        what: &'static str,
        /// Its id.
        id: i64,
    },
    /// A stored position is none.
    #[error("the position of partition {partition} in {place} cannot be read")]
    StoredPosition {
        /// Which partition.
        partition: u32,
        /// Where.
        place: String,
        /// Why not.
        #[source]
        source: Cause,
    },
    /// Somebody else writes there.
    #[error("partition {partition} in {place} was moved by another sink; run one only")]
    Overtaken {
        /// Which partition.
        partition: u32,
        /// Where.
        place: String,
    },
    /// The place does not answer, or says that it cannot at the moment.
    #[error("cannot {what} at {place}")]
    Outage {
        /// What was to be done.
        what: &'static str,
        /// Where; never a password.
        place: String,
        /// Why not.
        #[source]
        source: Cause,
    },
    /// The place does not take it, and will not later.
    #[error("{place} refuses to {what}")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// Where; never a password.
        place: String,
        /// Why not.
        #[source]
        source: Cause,
    },
    /// A setting names what this program cannot do.
    #[error("{setting} is set, and this program was built without the feature {feature}")]
    NotBuilt {
        /// Which setting.
        setting: &'static str,
        /// What it needs.
        feature: &'static str,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for sink {sink}")]
    Thread {
        /// Of which sink.
        sink: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// Whether trying again later may help without anybody changing the configuration or the data.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Journal(source) => source.is_outage(),
            Self::Tables { source, .. } => {
                source.is_outage()
                    || matches!(
                        source,
                        tidemill_store::Error::NoGeneration
                            | tidemill_store::Error::Building { .. }
                            | tidemill_store::Error::UnknownGeneration { .. }
                    )
            }
            Self::TablesBehind { .. } | Self::Overtaken { .. } | Self::Outage { .. } => true,
            Self::NotInTables { .. }
            | Self::StoredPosition { .. }
            | Self::Refused { .. }
            | Self::NotBuilt { .. }
            | Self::Thread { .. } => false,
        }
    }
}
