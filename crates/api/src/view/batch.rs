use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{BatchResult, BatchState};
use tidemill_store::rows::{BatchDependencyRow, BatchRow};

use super::{
    AttemptView, BatchView, ExternalDependencyView, OutputView, OverrideView, QualityView, ReturnView,
    UserCodeView, View,
};

/// A batch with what it waits for and what became of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BatchDetail {
    #[serde(flatten)]
    pub(crate) batch: BatchView,
    /// The parents' logical times that it waits for, or waited for.
    pub(crate) dependencies: Vec<DependencyView>,
    /// The external dependencies that it waits for, or waited for.
    pub(crate) external_dependencies: Vec<ExternalDependencyView>,
    /// The paths that it makes.
    pub(crate) outputs: Vec<OutputView>,
    /// How the quality service stands to it; null: it is not asked.
    pub(crate) quality: Option<QualityView>,
    /// What people let it run without, the oldest first.
    pub(crate) dependency_overrides: Vec<OverrideView>,
    /// Its attempts, the oldest first.
    pub(crate) attempts: Vec<AttemptView>,
    /// Assignments that ended without an attempt, the oldest first.
    pub(crate) returned: Vec<ReturnView>,
    /// Codes that its programs reported, the oldest first.
    pub(crate) user_codes: Vec<UserCodeView>,
}

/// A logical time of a parent that a batch waits for, or waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DependencyView {
    #[serde(flatten)]
    pub(crate) row: View<BatchDependencyRow>,
    /// The parent's name, `group/name`.
    pub(crate) parent_name: Option<String>,
}

/// The state of the batch of a row; one that somebody wrote by hand is shown as finished.
pub(crate) fn batch_state(row: &BatchRow) -> BatchState {
    let state = BatchState::ALL.into_iter().find(|state| i64::from(state.number()) == row.state);
    state.unwrap_or(BatchState::Finished)
}

/// How the batch of a row ended, where it has.
pub(crate) fn batch_result(row: &BatchRow) -> Option<BatchResult> {
    BatchResult::ALL.into_iter().find(|result| row.result.as_deref() == Some(result.as_str()))
}
