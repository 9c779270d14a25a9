use schemars::JsonSchema;
use serde::Serialize;
use tidemill_store::rows::BulkRow;

use super::View;

/// One action for many batches or jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkView {
    #[serde(flatten)]
    pub(crate) row: View<BulkRow>,
    /// The ones that have not been decided.
    pub(crate) left: i64,
}

impl From<BulkRow> for BulkView {
    fn from(row: BulkRow) -> Self {
        Self { left: row.items - row.done - row.refused, row: View(row) }
    }
}
