//! Alarms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{Aggregate, skip_none};

use crate::{AlarmKind, BatchId, JobId, Severity, WorkerId};

/// Alarms.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Aggregate)]
#[serde(rename_all = "snake_case")]
pub enum AlarmEvent {
    /// People are to be told, once per cause.
    #[event(
        kind = "alarm.raised",
        subject = "{concerned(*batch, *job, worker.as_ref())}",
        public = "The scheduler raises an alarm, once for each cause."
    )]
    Raised {
        /// Of what.
        kind: AlarmKind,
        /// How urgent it is.
        severity: Severity,
        /// The job concerned.
        job: Option<JobId>,
        /// The batch concerned.
        batch: Option<BatchId>,
        /// The worker concerned.
        worker: Option<WorkerId>,
        /// For people.
        message: String,
    },
}

fn concerned(batch: Option<BatchId>, job: Option<JobId>, worker: Option<&WorkerId>) -> String {
    match (batch, job, worker) {
        (Some(batch), _, _) => format!("batch/{batch}"),
        (None, Some(job), _) => format!("job/{job}"),
        (None, None, Some(worker)) => format!("worker/{worker}"),
        (None, None, None) => "partition".to_owned(),
    }
}
