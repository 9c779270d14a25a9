use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_model::{DataPath, JobDefinition, Mapping, Program, Timestamp};
use tidemill_store::rows::JobRow;

use super::{BatchView, json, string, time};
use crate::Problem;

/// A job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobView {
    /// Its id, for ever.
    pub(crate) id: i64,
    /// Its group, whose workers run it.
    pub(crate) group: String,
    /// That group's number.
    pub(crate) group_id: i64,
    /// Its name.
    pub(crate) name: String,
    /// What kind of program it is.
    #[serde(rename = "type")]
    pub(crate) job_type: String,
    /// Counts the accepted changes, from 1.
    pub(crate) version: i64,
    /// Whether it generates batches.
    pub(crate) enabled: bool,
    /// Whether it was submitted to run once.
    pub(crate) submitted: bool,
    /// Whether it is known by its id only.
    pub(crate) unnamed: bool,
    /// Who answers for it.
    pub(crate) owner: String,
    /// Application that defined it.
    pub(crate) app_name: String,
    /// What to run.
    pub(crate) program: Value,
    /// Parameters of every batch.
    pub(crate) parameters: Value,
    /// 0 (highest) to 9.
    pub(crate) priority: i64,
    /// `hour`, `day`, `week` or `month`.
    pub(crate) period: Option<String>,
    /// Quartz cron expression.
    pub(crate) cron: Option<String>,
    /// IANA zone in which the schedule is read.
    pub(crate) zone: Option<String>,
    /// How many parents it has.
    pub(crate) parent_count: i64,
    /// Batches assigned or running at once.
    pub(crate) max_concurrent: i64,
    /// Further attempts after a failed one.
    pub(crate) retries: i64,
    /// From the end of one attempt to the next, milliseconds.
    pub(crate) retry_interval_ms: i64,
    /// Runs only on the worker of this host.
    pub(crate) host: Option<String>,
    /// Memory of a worker that each batch has for itself, MiB.
    pub(crate) memory_mb: Option<u64>,
    /// Pools of which each batch takes slots; null: none.
    pub(crate) pools: Value,
    /// `all`, `latest` or `none`.
    pub(crate) missed_runs: String,
    /// What becomes of a batch when a parent failed for good: `wait`, `fail`, `skip` or `run`.
    pub(crate) on_parent_failure: String,
    /// When a batch runs, once its parents have ended: on `success` or on `failure`.
    pub(crate) run_if: String,
    /// How the pause between attempts grows; null: it does not.
    pub(crate) retry_backoff: Value,
    /// Exit codes that mean more than *failed*; null: none does.
    pub(crate) exit_codes: Value,
    /// Overlap, validity, lateness and calendar; null: its schedule is followed in the plain way.
    pub(crate) firing: Value,
    /// From the base time of a batch's period to its earliest start, milliseconds; null: it may start at once.
    pub(crate) earliest_start_ms: Value,
    /// By when its batches should have got somewhere; null: there is no such time.
    pub(crate) timeouts: Value,
    /// What it needs from outside, and what it makes there; null: nothing.
    pub(crate) data: Value,
    /// How attempts are executed: account, worker label, success check, final command; null: as is usual.
    pub(crate) execution: Value,
    /// Free classification.
    pub(crate) business_type: String,
    /// Free text.
    pub(crate) comment: String,
    /// When version 1 was accepted.
    pub(crate) defined_at: Timestamp,
    /// When it was last changed, switched on or off.
    pub(crate) changed_at: Timestamp,
    /// Who did that: application, or application/person; null: that is not on record.
    pub(crate) changed_by: Option<String>,
    /// Since when it is switched off.
    pub(crate) disabled_at: Option<Timestamp>,
    /// Who switched it off.
    pub(crate) disabled_by: Option<String>,
    /// When it was deleted.
    pub(crate) deleted_at: Option<Timestamp>,
}

impl From<JobRow> for JobView {
    fn from(row: JobRow) -> Self {
        Self {
            id: row.id,
            group: row.group_name.to_string(),
            group_id: row.group_id,
            name: row.name.to_string(),
            job_type: row.job_type.to_string(),
            version: row.version,
            enabled: row.enabled,
            submitted: row.submitted,
            unnamed: row.unnamed,
            owner: row.owner.to_string(),
            app_name: row.app_name.to_string(),
            program: json(&row.program),
            parameters: json(&row.parameters),
            priority: row.priority,
            period: string(row.period),
            cron: string(row.cron),
            zone: string(row.time_zone),
            parent_count: row.parent_count,
            max_concurrent: row.max_concurrent,
            retries: row.retries,
            retry_interval_ms: row.retry_interval_ms,
            host: string(row.pinned_host),
            memory_mb: json(&row.definition)["memory_mb"].as_u64(),
            pools: json(&row.definition)["pools"].clone(),
            missed_runs: row.missed_runs.to_string(),
            on_parent_failure: json(&row.definition)["on_parent_failure"]
                .as_str()
                .unwrap_or("wait")
                .to_owned(),
            run_if: json(&row.definition)["run_if"].as_str().unwrap_or("success").to_owned(),
            retry_backoff: json(&row.definition)["retry_backoff"].clone(),
            exit_codes: json(&row.definition)["exit_codes"].clone(),
            firing: json(&row.definition)["firing"].clone(),
            earliest_start_ms: json(&row.definition)["earliest_start_ms"].clone(),
            timeouts: json(&row.definition)["timeouts"].clone(),
            data: json(&row.definition)["data"].clone(),
            execution: json(&row.definition)["execution"].clone(),
            business_type: row.business_type.to_string(),
            comment: row.comment.to_string(),
            defined_at: time(row.defined_at),
            changed_at: time(row.changed_at),
            changed_by: string(row.changed_by),
            disabled_at: row.disabled_at.map(time),
            disabled_by: string(row.disabled_by),
            deleted_at: row.deleted_at.map(time),
        }
    }
}

/// A job with its parents, its next fire and its newest batch.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobDetail {
    #[serde(flatten)]
    pub(crate) job: JobView,
    /// The jobs that must have succeeded first.
    pub(crate) parents: Vec<ParentView>,
    /// When its schedule fires next, as its shard has stored it.
    pub(crate) next_fire_at: Option<Timestamp>,
    /// For which logical time that will be.
    pub(crate) next_logical_time: Option<Timestamp>,
    /// Its newest batch.
    pub(crate) newest_batch: Option<BatchView>,
}

/// A parent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ParentView {
    /// Which job.
    pub(crate) job: i64,
    /// Its name, `group/name`.
    pub(crate) name: Option<String>,
    /// For which of its logical times.
    pub(crate) mapping: Mapping,
}

/// What a job will run, and when.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PreviewView {
    /// IANA zone in which times are written: that of its schedule, or of the one that it follows; else UTC.
    pub(crate) zone: String,
    /// The calendar that the schedule keeps to, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calendar: Option<String>,
    /// The nearest ancestor with a schedule, `group/name`, for a job without one: it has that one's logical times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) follows: Option<String>,
    /// The next fires, or the one logical time that was asked for. Where no schedule is followed and no time was asked
    /// for, what a run by hand at the present time would run.
    pub(crate) fires: Vec<PreviewRun>,
}

/// What is run for one logical time, all templates resolved. What only a batch has is that of batch 0, run 0 and
/// attempt 1; values that parents pass on stay as they are written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PreviewRun {
    /// When it is due, on the clock of the zone; null where no schedule of its own makes it due.
    pub(crate) at: Option<String>,
    /// For which logical time, on the clock of the zone.
    pub(crate) logical_time: String,
    /// The command as it will run; absent for a job that runs a program or nothing.
    pub(crate) command: Option<String>,
    /// What it will run, with its arguments.
    pub(crate) program: Program,
    /// Its parameters.
    pub(crate) parameters: BTreeMap<String, String>,
    /// The variables that its process has in its environment, but those that its worker adds.
    pub(crate) environment: BTreeMap<String, String>,
    /// The path that exists if it has succeeded; null: something else decides.
    pub(crate) output_path: Option<String>,
    /// What runs at its end.
    pub(crate) final_command: Option<String>,
    /// The paths that it waits for.
    pub(crate) inputs: Vec<DataPath>,
    /// The paths that it makes.
    pub(crate) outputs: Vec<DataPath>,
}

/// The definition that a row holds.
pub(crate) fn definition_of(row: &JobRow) -> Result<JobDefinition, Problem> {
    serde_json::from_str(&row.definition).map_err(|error| {
        tracing::error!(job = row.id, %error, "the definition in the row of a job cannot be read");
        Problem::internal("the definition of the job cannot be read")
    })
}
