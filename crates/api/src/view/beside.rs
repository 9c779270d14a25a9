//! Rows with what is found beside them: of batches, bulk operations, reruns and freezes.

use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{BatchResult, BatchState, Timestamp};
use tidemill_store::rows::{
    BatchDependencyRow, BatchExternalDependencyRow, BatchRow, BulkRow, ExternalDependencyRow, FreezeRow,
    RerunJobRow, RerunRow, RerunSkipRow,
};

use super::{
    AttemptView, BatchView, OutputView, OverrideView, QualityView, ReturnView, UserCodeView, View, time,
};

/// A batch with what it waits for and what became of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BatchDetail {
    #[serde(flatten)]
    pub(crate) batch: BatchView,
    /// The parents' logical times that it waits for, or waited for.
    pub(crate) dependencies: Vec<DependencyView>,
    /// How many others there are, of parents that the caller may not see, nor depend on.
    pub(crate) hidden_dependencies: u64,
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

pub(crate) fn groups_of(row: &RerunRow) -> Vec<String> {
    serde_json::from_str(&row.groups).unwrap_or_default()
}

/// The jobs of a rerun or cold start.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RerunJobs {
    /// Its jobs, each after those that it waits for.
    pub(crate) plan: Vec<RerunJobView>,
    /// What it leaves out, and why: jobs, or their logical times from one on.
    pub(crate) left_out: Vec<RerunSkipView>,
}

/// A job of a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RerunJobView {
    #[serde(flatten)]
    pub(crate) row: View<RerunJobRow>,
    /// Its name, `group/name`, where it is still there.
    pub(crate) job_name: Option<String>,
}

/// A job that a plan leaves out, whole or from a logical time on.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RerunSkipView {
    #[serde(flatten)]
    pub(crate) row: View<RerunSkipRow>,
    /// Its name, `group/name`, where it is still there.
    pub(crate) job_name: Option<String>,
}

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
