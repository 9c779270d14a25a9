//! What can fail, one variant per operation.

use thiserror::Error;
use tidemill_model::Timestamp;

/// The source of an error, whatever back end it comes from.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// An operation on the tables that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The database could not be opened or connected to.
    #[error("cannot open the tables at {place}")]
    Open {
        /// File, or server and database; never a password.
        place: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// The database refused a statement, or could not be reached.
    #[error("cannot {what}")]
    Database {
        /// What was to be done.
        what: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// A column does not hold what its definition says.
    #[error(
        "column {column} of {table} is missing or of another kind; `tidemill rebuild` rebuilds the tables"
    )]
    Column {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
    },
    /// No set of tables is active yet.
    #[error("there are no tables yet: the projector has not run")]
    NoGeneration,
    /// The set of tables is gone.
    #[error("generation {generation} of the tables is not there")]
    UnknownGeneration {
        /// Which.
        generation: u32,
    },
    /// The active set of tables cannot be dropped.
    #[error("generation {generation} is in use; activate another one first")]
    GenerationActive {
        /// Which.
        generation: u32,
    },
    /// The set of tables shows a part of the journal already, so that nothing can be put under it.
    #[error("generation {generation} is filled already")]
    GenerationFilled {
        /// Which.
        generation: u32,
    },
    /// Somebody else rebuilds the tables of this form.
    #[error(
        "{holder} rebuilds these tables since {begun_at}, and was seen {unseen_s} s ago: wait until it is done, or stop it; \
         one that was killed may be replaced in {wait_s} s"
    )]
    RebuildGoesOn {
        /// Who.
        holder: String,
        /// Since when, by the database's clock.
        begun_at: Timestamp,
        /// How long ago it was seen, seconds.
        unseen_s: u64,
        /// When it counts as gone if it is not seen again, seconds from now.
        wait_s: u64,
    },
    /// This rebuild was not seen for so long that somebody else took its place.
    #[error("this rebuild is given up: {holder} rebuilds these tables in its place, since {begun_at}")]
    RebuildReplaced {
        /// Who.
        holder: String,
        /// Since when, by the database's clock.
        begun_at: Timestamp,
    },
    /// Tables of this program's form are being built; those of another version are there.
    #[error(
        "the read tables of this version are being built beside those of another one: {folded} of {records} records so far"
    )]
    Building {
        /// Journal records in them so far.
        folded: u64,
        /// Journal records in those of the other version.
        records: u64,
    },
    /// The tables were made by a version whose columns differ.
    #[error("the tables have form {found:x}, this program has form {wanted:x}")]
    Format {
        /// Of the tables.
        found: i64,
        /// Of this program.
        wanted: i64,
    },
    /// Somebody else has moved the position meanwhile.
    #[error(
        "partition {partition} stands at {found}, not at {expected}: another projector writes these tables"
    )]
    PositionConflict {
        /// Which partition.
        partition: u32,
        /// Where the batch begins.
        expected: String,
        /// Where the tables stand.
        found: String,
    },
    /// What spares empty answers cannot be used at the moment; without it the owner is asked.
    #[error("cannot {what} at {place}")]
    Hints {
        /// What was to be done.
        what: &'static str,
        /// Which server; never a password.
        place: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// The set of tables has not folded as much as the one in use.
    #[error("generation {generation} is behind the one in use on partition {partition}")]
    Behind {
        /// Which generation.
        generation: u32,
        /// On which partition.
        partition: u32,
    },
    /// The cursor is not one that was given out for this list.
    #[error("the cursor {cursor:?} is not one of this list")]
    BadCursor {
        /// As given.
        cursor: String,
    },
}

impl Error {
    pub(crate) fn database(what: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Database { what: what.into(), source: source.into() }
    }

    /// Whether a table or a column is not there, or not as its definition says: not so where the database is away.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Column { .. } => true,
            Self::Database { source, .. } => {
                #[cfg(feature = "mysql")]
                if crate::mysql::is_missing(self) {
                    return true;
                }
                source.downcast_ref::<rusqlite::Error>().is_some_and(crate::sqlite::is_missing)
            }
            _ => false,
        }
    }

    /// Whether the same call may succeed later without anybody doing anything but mending the database.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Database { .. } | Self::Hints { .. })
    }
}
