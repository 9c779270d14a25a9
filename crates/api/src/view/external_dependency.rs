use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::Timestamp;
use tidemill_store::rows::{BatchExternalDependencyRow, ExternalDependencyRow};

use super::{View, time};

/// An external dependency that a batch waits for, or waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExternalDependencyView {
    #[serde(flatten)]
    pub(crate) row: View<ExternalDependencyRow>,
    /// When a person let this batch run without it.
    pub(crate) overridden_at: Option<Timestamp>,
}

impl ExternalDependencyView {
    pub(crate) fn new(of_batch: &BatchExternalDependencyRow, row: ExternalDependencyRow) -> Self {
        Self { row: View(row), overridden_at: of_batch.overridden_at.map(time) }
    }
}
