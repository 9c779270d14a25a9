//! ZMB-1: whether a lost attempt has done its work, by the output path of its job.

use std::sync::Arc;

use tidemill_derive::vocabulary;

use crate::{BatchId, Timestamp, Token};

/// How long a batch waits to hear of the output of its lost attempt, milliseconds.
pub const OUTPUT_WITHIN_MS: i64 = 60_000;
/// Answers that one report of outputs may hold: all that follows from them fits into one decision.
pub const MAX_OUTPUT_ANSWERS: usize = 64;
/// Outputs that one shard has looked for at once; further ones wait for their turn, or until their time is over.
pub const MAX_WANTED_OUTPUTS: usize = 500;

/// What was found of an output path.
#[vocabulary(Eq)]
pub enum OutputFound {
    /// It is there, and last changed then, by the clock of whoever keeps it.
    Changed {
        /// When.
        at: Timestamp,
    },
    /// Nothing is there.
    Absent,
    /// Nobody can tell.
    Unknown {
        /// Why, for people.
        reason: String,
    },
}

impl OutputFound {
    /// Whether this shows that an attempt which began at `since` has done its work.
    #[must_use]
    pub fn proves_success(&self, since: Timestamp) -> bool {
        matches!(self, OutputFound::Changed { at } if is_newer(*at, since))
    }
}

/// Whether what changed at `at` did so after `since`. Many stores tell only in which second something changed: then any time of
/// that second counts.
#[must_use]
pub fn is_newer(at: Timestamp, since: Timestamp) -> bool {
    if at.as_millisecond() % 1_000 == 0 { at.as_second() >= since.as_second() } else { at >= since }
}

/// An output that a prober has to look for.
#[vocabulary(Eq)]
pub struct WantedOutput {
    /// Of which batch.
    pub batch: BatchId,
    /// Of which attempt.
    pub token: Token,
    /// Its path, templates resolved.
    pub path: Arc<str>,
}

/// A prober's answer about one output. It is sealed as it is written: see `tidemill-seal` before you add a field.
#[vocabulary(Eq)]
pub struct OutputAnswer {
    /// Of which batch.
    pub batch: BatchId,
    /// Of which attempt.
    pub token: Token,
    /// What was found.
    pub found: OutputFound,
}
