//! Many actions of one sort as one operation (BYD-3).

use tidemill_derive::{Word, vocabulary};

use crate::{OverriddenResult, RerunId};

/// Batches or jobs of one operation.
pub const MAX_BULK_ITEMS: usize = 5_000;
/// Batches of one *clear*: each becomes a rerun of its own, and few of those are live at once.
const MAX_CLEARED: usize = 50;

/// What an operation does to each of its items.
#[vocabulary(Copy, Eq, Word)]
pub enum BulkAction {
    /// Ends a batch.
    Kill,
    /// Overrides the result of a batch.
    Mark(OverriddenResult),
    /// Plans to run a batch, and what comes after it, again, and approves that.
    Clear,
    /// Switches a job on.
    Enable,
    /// Switches a job off.
    Disable,
}

impl BulkAction {
    /// So many items one operation may have.
    pub fn most(self) -> usize {
        if self == BulkAction::Clear { MAX_CLEARED } else { MAX_BULK_ITEMS }
    }

    /// The result that it gives to batches.
    pub fn result(self) -> Option<OverriddenResult> {
        match self {
            BulkAction::Mark(result) => Some(result),
            BulkAction::Kill | BulkAction::Clear | BulkAction::Enable | BulkAction::Disable => None,
        }
    }

    /// Whether its items are jobs; else they are batches.
    pub fn is_of_jobs(self) -> bool {
        match self {
            BulkAction::Enable | BulkAction::Disable => true,
            BulkAction::Kill | BulkAction::Mark(_) | BulkAction::Clear => false,
        }
    }
}

/// What came of one item of an operation.
#[vocabulary(Eq)]
pub struct BulkOutcome {
    /// The id of the batch or the job.
    pub item: i64,
    /// Why it was refused, for people; absent: it was done.
    pub refused: Option<String>,
    /// Of *clear*: the rerun that was planned.
    pub rerun: Option<RerunId>,
}
