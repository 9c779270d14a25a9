//! Which rows of a list are wanted.

use super::reach::Reach;

/// Which jobs. Deleted ones are never listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Of this group.
    pub group: Option<String>,
    /// Of exactly this name.
    pub name: Option<String>,
    /// Of this type.
    pub job_type: Option<String>,
    /// Switched on, or off.
    pub enabled: Option<bool>,
    /// Defined in the catalogue (`false`) or submitted to run once (`true`).
    pub submitted: Option<bool>,
    /// Only what this reader may see; absent: who may see all.
    pub reach: Option<Reach>,
}

/// Which batches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchFilter {
    /// Of this job.
    pub job: Option<i64>,
    /// Of this group.
    pub group: Option<String>,
    /// In this state, 0 to 3.
    pub state: Option<i64>,
    /// With this result.
    pub result: Option<String>,
    /// Only those that a failed parent blocks.
    pub blocked: bool,
    /// Asked for by exactly these: application, or application/person.
    pub triggered_by: Option<String>,
    /// Logical time at or after, milliseconds.
    pub from: Option<i64>,
    /// Logical time before, milliseconds.
    pub to: Option<i64>,
    /// Only what this reader may see; absent: who may see all.
    pub reach: Option<Reach>,
}

/// Which attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttemptFilter {
    /// Of this batch.
    pub batch: Option<i64>,
    /// Of this job.
    pub job: Option<i64>,
    /// On this worker.
    pub worker: Option<String>,
    /// Only what this reader may see; absent: who may see all.
    pub reach: Option<Reach>,
}

/// Which reruns and cold starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RerunFilter {
    /// `rerun` or `cold_start`.
    pub kind: Option<String>,
    /// In this state.
    pub state: Option<String>,
}

/// Which workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerFilter {
    /// Of this group.
    pub group: Option<String>,
    /// `live`, `lost` or `gone`.
    pub state: Option<String>,
    /// Only what this reader may see; absent: who may see all.
    pub reach: Option<Reach>,
}

/// What was set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// `command` or `timer`.
    pub kind: Option<String>,
    /// Whether nothing has become of it yet.
    pub is_open: Option<bool>,
}
