use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::Timestamp;
use tidemill_store::rows::{BulkItemRow, BulkRow};

use super::{string, time};

/// One action for many batches or jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkView {
    /// Its id.
    pub(crate) id: i64,
    /// `kill`, `mark`, `clear`, `enable` or `disable`.
    pub(crate) action: String,
    /// Of `mark`: the result that the batches get.
    pub(crate) result: Option<String>,
    /// Why, for people.
    pub(crate) reason: String,
    /// Batches or jobs that it concerns.
    pub(crate) items: i64,
    /// Of those, the ones for which it was done.
    pub(crate) done: i64,
    /// The ones for which it was refused; the list of items says why.
    pub(crate) refused: i64,
    /// The ones that have not been decided.
    pub(crate) left: i64,
    /// Who requested it.
    pub(crate) requested_by: String,
    /// When.
    pub(crate) requested_at: Timestamp,
    /// When its last item was decided.
    pub(crate) ended_at: Option<Timestamp>,
}

impl From<BulkRow> for BulkView {
    fn from(row: BulkRow) -> Self {
        Self {
            id: row.id,
            action: row.action.to_string(),
            result: string(row.result),
            reason: row.reason.to_string(),
            items: row.items,
            done: row.done,
            refused: row.refused,
            left: row.items - row.done - row.refused,
            requested_by: row.requested_by.to_string(),
            requested_at: time(row.requested_at),
            ended_at: row.ended_at.map(time),
        }
    }
}

/// What came of one batch or job of an operation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkItemView {
    /// The batch; of `enable` and `disable` the job.
    pub(crate) id: i64,
    /// `left`: it has not been decided; then `done` or `refused`.
    pub(crate) outcome: String,
    /// Why it was refused.
    pub(crate) reason: String,
    /// Of `clear`: the rerun that was planned for it.
    pub(crate) rerun: Option<i64>,
    /// When that was recorded.
    pub(crate) recorded_at: Option<Timestamp>,
}

impl From<BulkItemRow> for BulkItemView {
    fn from(row: BulkItemRow) -> Self {
        Self {
            id: row.item_id,
            outcome: row.outcome.to_string(),
            reason: row.reason.to_string(),
            rerun: row.rerun_id,
            recorded_at: row.recorded_at.map(time),
        }
    }
}
