use schemars::JsonSchema;
use serde::Serialize;
use tidemill_store::rows::{RerunJobRow, RerunRow, RerunSkipRow};

use super::View;

/// The groups that a rerun concerns.
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
