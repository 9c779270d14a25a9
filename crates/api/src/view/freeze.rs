use schemars::JsonSchema;
use serde::Serialize;
use tidemill_store::rows::FreezeRow;

use super::View;

/// A freeze.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FreezeView {
    /// Name of the group; null: every group.
    pub(crate) group: Option<String>,
    #[serde(flatten)]
    pub(crate) row: View<FreezeRow>,
}

impl From<FreezeRow> for FreezeView {
    fn from(row: FreezeRow) -> Self {
        Self { group: (&*row.scope != "*").then(|| row.scope.to_string()), row: View(row) }
    }
}
