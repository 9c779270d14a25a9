//! What an `apply` is given and gives, and its bounds.

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{ApplyPlan, FieldError, GroupName, JobSpec, PlannedChange};

use crate::Problem;
use crate::position::JournalPosition;
use crate::propagation::Late;

/// Jobs that one `apply` may name.
pub(super) const MAX_JOBS: usize = 40_000;

/// Jobs to be added and changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyRequest {
    /// As written; at most 40,000.
    pub(super) jobs: Vec<JobSpec>,
    /// Also delete the jobs of these groups that are not named.
    #[serde(default)]
    pub(super) prune: Vec<GroupName>,
    /// End what is unfinished of jobs that are deleted. Otherwise nothing of this is applied while one of them
    /// has an unfinished batch.
    #[serde(default)]
    pub(super) cancel: bool,
    /// Delete jobs that others name as parent, too: these keep their definitions, and their batches go on waiting.
    #[serde(default)]
    pub(super) orphan_children: bool,
    /// Take jobs of types that neither the configuration nor any worker knows, whose batches wait until a worker
    /// does. Otherwise they are refused.
    #[serde(default)]
    pub(super) allow_unknown_type: bool,
}

/// What `apply` did, or would do.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Applied {
    /// Job by job, in the order given, unchanged ones too; then the deleted ones.
    pub(super) changes: Vec<PlannedChange>,
    /// For people.
    pub(super) warnings: Vec<String>,
    /// Give this as `at_least` to reads that must show it. Absent for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<String>,
    /// How far it is.
    #[serde(flatten)]
    pub(super) late: Late,
}

impl Applied {
    pub(super) fn of(plan: ApplyPlan, position: Option<JournalPosition>) -> Self {
        let position = position.map(|position| position.to_string());
        Self { changes: plan.changes, warnings: plan.warnings, position, late: Late::default() }
    }
}

pub(super) fn too_large(value: impl ToString, rule: String) -> Problem {
    let mut problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", rule.as_str());
    problem.errors = vec![FieldError::new("jobs", value, rule)];
    problem
}
