use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_model::Timestamp;
use tidemill_store::rows::{
    AssignmentReturnRow, AttemptRow, BatchDependencyRow, BatchOutputRow, BatchRow, UserCodeRow,
};

use super::{ExternalDependencyView, OverrideView, QualityView, json, string, time};

/// A batch: one run of a job for one logical time.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BatchView {
    /// Its id.
    pub(crate) id: i64,
    /// Its job.
    pub(crate) job: i64,
    /// The version of the definition that it keeps.
    pub(crate) job_version: i64,
    /// The version of the calendar that its job keeps to, when it was generated.
    pub(crate) calendar_version: Option<i64>,
    /// Its job's name when it was generated.
    pub(crate) job_name: String,
    /// Its job's group.
    pub(crate) group: String,
    /// What kind of program it is.
    #[serde(rename = "type")]
    pub(crate) job_type: String,
    /// For which logical time.
    pub(crate) logical_time: Timestamp,
    /// 0 for the first, then + 1.
    pub(crate) run: i64,
    /// `schedule`, `parent`, `manual`, `rerun`, `cold_start` or `submission`.
    pub(crate) origin: String,
    /// The rerun or cold start whose plan it belongs to.
    pub(crate) rerun: Option<i64>,
    /// Its number in that plan.
    pub(crate) rerun_number: Option<i64>,
    /// Parameters over those of the definition.
    pub(crate) parameters: Value,
    /// `waiting`, `assigned`, `running` or `finished`.
    pub(crate) state: String,
    /// Once finished: `success`, `failed`, `killed` or `skipped`.
    pub(crate) result: Option<String>,
    /// Parents' dependencies that are not met.
    pub(crate) unmet: i64,
    /// Parents at its own logical time that are not among its dependencies, for they are many: those of its job.
    pub(crate) counted_parents: i64,
    /// Number of the newest attempt, from 1; 0: it was never assigned.
    pub(crate) attempt: i64,
    /// How many attempts were granted.
    pub(crate) attempt_count: i64,
    /// How many assignments came back without an attempt.
    pub(crate) return_count: i64,
    /// The worker that has it, or had it last.
    pub(crate) worker: Option<String>,
    /// The assignment that counts, while assigned or running.
    pub(crate) token: Option<i64>,
    /// For people: why it ended as it did, or why it came back.
    pub(crate) message: String,
    /// Who ended it, or wants it ended.
    pub(crate) killed_by: Option<String>,
    /// When it came into being.
    pub(crate) generated_at: Timestamp,
    /// When its last parent's dependency was met.
    pub(crate) ready_at: Option<Timestamp>,
    /// When it was assigned, the last time.
    pub(crate) assigned_at: Option<Timestamp>,
    /// When the worker must have asked to start.
    pub(crate) start_by: Option<Timestamp>,
    /// When the process of its first attempt was reported to run.
    pub(crate) started_at: Option<Timestamp>,
    /// No further attempt before.
    pub(crate) retry_at: Option<Timestamp>,
    /// When somebody asked for its end.
    pub(crate) kill_requested_at: Option<Timestamp>,
    /// When it ended.
    pub(crate) finished_at: Option<Timestamp>,
    /// It is not assigned before.
    pub(crate) earliest_start_at: Option<Timestamp>,
    /// When it was marked for still waiting, its dependency timeout past.
    pub(crate) dependency_timeout_at: Option<Timestamp>,
    /// When it was marked for not having succeeded, its output timeout past.
    pub(crate) output_timeout_at: Option<Timestamp>,
    /// When it was marked for not having succeeded by its time of day.
    pub(crate) not_successful_by_at: Option<Timestamp>,
    /// Since when a failed parent blocks it: what it waits for comes only if somebody acts.
    pub(crate) blocked_since: Option<Timestamp>,
    /// The parent that failed, or is blocked itself.
    pub(crate) blocked_by: Option<i64>,
    /// For this logical time.
    pub(crate) blocked_by_time: Option<Timestamp>,
    /// How a person says that it ended: `success`, `failed` or `skipped`.
    pub(crate) overridden_result: Option<String>,
    /// When they said so.
    pub(crate) result_overridden_at: Option<Timestamp>,
    /// Who: application, or application/person.
    pub(crate) result_overridden_by: Option<String>,
    /// Why.
    pub(crate) result_override_reason: Option<String>,
    /// The token of its final command, while a worker has it and after.
    pub(crate) final_token: Option<i64>,
    /// How that ended: `success`, `failed`, `timed_out`, `lost` or `not_run`.
    pub(crate) final_result: Option<String>,
    /// For people: why it ended as it did.
    pub(crate) final_message: Option<String>,
    /// When its end was recorded.
    pub(crate) final_ended_at: Option<Timestamp>,
}

/// The word for a state's number.
fn state_word(number: i64) -> &'static str {
    match number {
        0 => "waiting",
        1 => "assigned",
        2 => "running",
        _ => "finished",
    }
}

impl From<BatchRow> for BatchView {
    fn from(row: BatchRow) -> Self {
        Self {
            id: row.id,
            job: row.job_id,
            job_version: row.job_version,
            calendar_version: row.calendar_version,
            job_name: row.job_name.to_string(),
            group: row.group_name.to_string(),
            job_type: row.job_type.to_string(),
            logical_time: time(row.logical_time),
            run: row.run,
            origin: row.origin.to_string(),
            rerun: row.rerun_id,
            rerun_number: row.rerun_number,
            parameters: json(&row.parameters),
            state: state_word(row.state).to_owned(),
            result: string(row.result),
            unmet: row.unmet,
            counted_parents: row.counted_parents,
            attempt: row.attempt,
            attempt_count: row.attempts,
            return_count: row.returned,
            worker: string(row.worker_id),
            token: row.token,
            message: row.message.to_string(),
            killed_by: string(row.killed_by),
            generated_at: time(row.generated_at),
            ready_at: row.ready_at.map(time),
            assigned_at: row.assigned_at.map(time),
            start_by: row.start_by.map(time),
            started_at: row.started_at.map(time),
            retry_at: row.retry_at.map(time),
            kill_requested_at: row.kill_requested_at.map(time),
            finished_at: row.finished_at.map(time),
            earliest_start_at: row.earliest_start_at.map(time),
            dependency_timeout_at: row.dependency_timeout_at.map(time),
            output_timeout_at: row.output_timeout_at.map(time),
            not_successful_by_at: row.not_successful_by_at.map(time),
            blocked_since: row.blocked_since.map(time),
            blocked_by: row.blocked_by,
            blocked_by_time: row.blocked_by_time.map(time),
            overridden_result: string(row.overridden_result),
            result_overridden_at: row.result_overridden_at.map(time),
            result_overridden_by: string(row.result_overridden_by),
            result_override_reason: string(row.result_override_reason),
            final_token: row.final_token,
            final_result: string(row.final_result),
            final_message: string(row.final_message),
            final_ended_at: row.final_ended_at.map(time),
        }
    }
}

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

/// A code that the program of an attempt reported.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UserCodeView {
    /// The attempt's number, from 1.
    pub(crate) attempt: i64,
    /// 0: success; anything else: failure.
    pub(crate) code: i64,
    /// The code that counted for the attempt from this report on.
    pub(crate) effective_code: i64,
    /// When.
    pub(crate) reported_at: Timestamp,
}

impl From<UserCodeRow> for UserCodeView {
    fn from(row: UserCodeRow) -> Self {
        Self {
            attempt: row.attempt,
            code: row.code,
            effective_code: row.effective_code,
            reported_at: time(row.reported_at),
        }
    }
}

/// A logical time of a parent that a batch waits for, or waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DependencyView {
    /// The job waited for.
    pub(crate) parent: i64,
    /// Its name, `group/name`.
    pub(crate) parent_name: Option<String>,
    /// Its logical time.
    pub(crate) logical_time: Timestamp,
    /// The mappings that gave this time.
    pub(crate) mapping: String,
    /// Whether it holds.
    pub(crate) met: bool,
    /// Since when.
    pub(crate) met_at: Option<Timestamp>,
}

impl DependencyView {
    pub(crate) fn new(row: &BatchDependencyRow, parent_name: Option<String>) -> Self {
        Self {
            parent: row.parent_id,
            parent_name,
            logical_time: time(row.logical_time),
            mapping: row.mapping.to_string(),
            met: row.met,
            met_at: row.met_at.map(time),
        }
    }
}

/// An attempt: one granted execution of a batch on one worker.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AttemptView {
    /// The token that fences it.
    pub(crate) id: i64,
    /// Its batch.
    pub(crate) batch: i64,
    /// Its job.
    pub(crate) job: i64,
    /// Its number, from 1.
    pub(crate) attempt: i64,
    /// On which worker.
    pub(crate) worker: String,
    /// When the worker was allowed to start.
    pub(crate) granted_at: Timestamp,
    /// When the process was reported to run.
    pub(crate) started_at: Option<Timestamp>,
    /// When its end was recorded.
    pub(crate) finished_at: Option<Timestamp>,
    /// `success`, `failed`, `killed`, `lost` or `timed_out`.
    pub(crate) result: Option<String>,
    /// Exit code, where there was one.
    pub(crate) exit_code: Option<i64>,
    /// Signal, where one ended it.
    pub(crate) signal: Option<i64>,
    /// The code that its program reported: 0 if it ever did, else the last one.
    pub(crate) user_code: Option<i64>,
    /// For people.
    pub(crate) message: String,
    /// Small values that it passed on to children.
    pub(crate) values: Value,
    /// From exec to the end of the process tree, milliseconds.
    pub(crate) duration_ms: Option<i64>,
    /// User and system time, milliseconds.
    pub(crate) cpu_ms: Option<i64>,
    /// Largest resident set, KiB.
    pub(crate) peak_memory_kib: Option<i64>,
}

impl From<AttemptRow> for AttemptView {
    fn from(row: AttemptRow) -> Self {
        Self {
            id: row.id,
            batch: row.batch_id,
            job: row.job_id,
            attempt: row.attempt,
            worker: row.worker_id.to_string(),
            granted_at: time(row.granted_at),
            started_at: row.started_at.map(time),
            finished_at: row.finished_at.map(time),
            result: string(row.result),
            exit_code: row.exit_code,
            signal: row.signal_number,
            user_code: row.user_code,
            message: row.message.to_string(),
            values: json(&row.passed_values),
            duration_ms: row.duration_ms,
            cpu_ms: row.cpu_ms,
            peak_memory_kib: row.peak_memory_kib,
        }
    }
}

/// An assignment that ended without an attempt.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReturnView {
    /// The assignment.
    pub(crate) token: i64,
    /// The attempt that it would have been.
    pub(crate) attempt: i64,
    /// Who had it.
    pub(crate) worker: String,
    /// Since when.
    pub(crate) assigned_at: Option<Timestamp>,
    /// Until when.
    pub(crate) returned_at: Timestamp,
    /// `rejected`, `not_started`, `worker_lost` or `worker_restarted`.
    pub(crate) reason: String,
    /// What the worker said.
    pub(crate) message: String,
}

impl From<AssignmentReturnRow> for ReturnView {
    fn from(row: AssignmentReturnRow) -> Self {
        Self {
            token: row.token,
            attempt: row.attempt,
            worker: row.worker_id.to_string(),
            assigned_at: row.assigned_at.map(time),
            returned_at: time(row.returned_at),
            reason: row.reason.to_string(),
            message: row.message.to_string(),
        }
    }
}

/// A path that a batch makes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutputView {
    /// The path, templates resolved for the batch's logical time.
    pub(crate) path: String,
    /// Name of the file in it that says that it is complete.
    pub(crate) mark: Option<String>,
}

impl From<BatchOutputRow> for OutputView {
    fn from(row: BatchOutputRow) -> Self {
        Self { path: row.path.to_string(), mark: string(row.mark) }
    }
}
