//! Runs of schedules for which there is no batch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{Aggregate, skip_none};

use crate::{Fire, JobId, SkipReason, Timestamp};

/// Runs of schedules for which there is no batch.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Aggregate)]
#[serde(rename_all = "snake_case")]
#[event(subject = "job/{job}")]
pub enum ScheduleEvent {
    /// Fires that make no batch.
    #[event(
        kind = "schedule.skipped",
        public = "The scheduler skips runs of a job's schedule, for which no batch is generated."
    )]
    Skipped {
        /// Whose.
        job: JobId,
        /// The first one's logical time.
        from: Timestamp,
        /// The last one's.
        to: Timestamp,
        /// How many.
        count: u64,
        /// Why.
        reason: SkipReason,
        /// The next fire.
        next: Option<Fire>,
    },
    /// The calendar of a job has changed: this is its next fire now.
    #[event(
        kind = "schedule.rescheduled",
        public = "The next run of a job's schedule changes, because the job's calendar changed."
    )]
    Rescheduled {
        /// Whose.
        job: JobId,
        /// The next fire.
        next: Option<Fire>,
    },
    /// What a fire asks for could not be decided; the timer of the job is suspended when it has failed for the
    /// fourth time.
    #[event(
        kind = "generation.failed",
        public = "The scheduler fails to generate a batch for a run of a job's schedule."
    )]
    GenerationFailed {
        /// Whose.
        job: JobId,
        /// For which logical time.
        logical_time: Timestamp,
        /// How often it has failed, from 1.
        failures: u32,
        /// Why.
        reason: String,
        /// When it is tried again.
        retry_at: Option<Timestamp>,
    },
}
