//! Operations on many batches or jobs, and their items.

use std::sync::Arc;

use crate::Kind::{Int, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// One action for many batches or jobs.
    BulkRow in "bulk_operations", key (id: i64),
    fixed (action, result, reason, items, requested_by, requested_at), indexes [[ended_at]] {
        /// Its id.
        id: i64 = Int,
        /// `kill`, `mark`, `clear`, `enable` or `disable`.
        action: Arc<str> = Name(16),
        /// Of `mark`: the result that the batches get.
        result: Option<Arc<str>> = Name(16),
        /// Why, for people.
        reason: Arc<str> = Text,
        /// Batches or jobs that it concerns.
        items: i64 = Int,
        /// Of those, the ones for which it was done.
        done: i64 = Int,
        /// The ones for which it was refused; each item says why.
        refused: i64 = Int,
        /// Who requested it: application, or application/person.
        requested_by: Arc<str> = Text,
        /// When.
        requested_at: i64 = Time,
        /// When its last item was decided.
        ended_at: Option<i64> = Time,
    }
}

row! {
    /// What came of one batch or job of such an operation.
    BulkItemRow in "bulk_items", key (bulk_id: i64, item_id: i64),
    fixed (), indexes [[bulk_id, outcome]] {
        /// The operation.
        bulk_id: i64 = Int => Hidden,
        /// The batch; of `enable` and `disable` the job.
        item_id: i64 = Int => As("id"),
        /// `left`: it has not been decided; then `done` or `refused`.
        outcome: Arc<str> = Name(16),
        /// Why it was refused.
        reason: Arc<str> = Text,
        /// Of `clear`: the rerun that was planned for it.
        rerun_id: Option<i64> = Int => As("rerun"),
        /// When that was recorded.
        recorded_at: Option<i64> = Time,
    }
}
