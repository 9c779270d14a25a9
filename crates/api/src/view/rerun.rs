use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_model::Timestamp;
use tidemill_store::rows::{RerunBatchRow, RerunJobRow, RerunRow, RerunSkipRow};

use super::{json, string, time};

/// A rerun or a cold start.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RerunView {
    /// Its id.
    pub(crate) id: i64,
    /// `rerun` or `cold_start`.
    pub(crate) kind: String,
    /// `planning`, `planned`, `running`, `paused`, `cancelling`; once over `done`, `done_with_failures`, `cancelled`
    /// or `refused`.
    pub(crate) state: String,
    /// What was requested.
    pub(crate) spec: Value,
    /// The groups that it concerns.
    pub(crate) groups: Vec<String>,
    /// Why, for people.
    pub(crate) reason: String,
    /// Batches that are started and have not ended, at most.
    pub(crate) concurrency: i64,
    /// Jobs that it concerns.
    pub(crate) jobs: i64,
    /// Jobs that it leaves out.
    pub(crate) jobs_skipped: i64,
    /// Jobs downstream that are none of it: the key that requested it does not reach their groups, or they come only
    /// after such a job.
    pub(crate) jobs_left_out: i64,
    /// Batches that are planned.
    pub(crate) planned: i64,
    /// Batches that shards were told to start.
    pub(crate) started: i64,
    /// Of those, the ones that ended well.
    pub(crate) succeeded: i64,
    /// The ones that ended otherwise.
    pub(crate) failed: i64,
    /// The ones that were not started, each with its reason in the list of batches.
    pub(crate) skipped: i64,
    /// Batches that are not started, for one before them has not ended well.
    pub(crate) blocked: i64,
    /// For people: why it was refused.
    pub(crate) message: String,
    /// Who requested it.
    pub(crate) requested_by: String,
    /// When.
    pub(crate) requested_at: Timestamp,
    /// When its plan was whole.
    pub(crate) planned_at: Option<Timestamp>,
    /// Who approved it.
    pub(crate) approved_by: Option<String>,
    /// When.
    pub(crate) approved_at: Option<Timestamp>,
    /// Who paused, resumed or cancelled it last.
    pub(crate) changed_by: Option<String>,
    /// When.
    pub(crate) changed_at: Option<Timestamp>,
    /// When it was over.
    pub(crate) ended_at: Option<Timestamp>,
}

impl From<RerunRow> for RerunView {
    fn from(row: RerunRow) -> Self {
        Self {
            id: row.id,
            kind: row.kind.to_string(),
            state: row.state.to_string(),
            spec: json(&row.spec),
            groups: groups_of(&row),
            reason: row.reason.to_string(),
            concurrency: row.concurrency,
            jobs: row.jobs,
            jobs_skipped: row.jobs_skipped,
            jobs_left_out: row.jobs_left_out,
            planned: row.planned,
            started: row.started,
            succeeded: row.succeeded,
            failed: row.failed,
            skipped: row.skipped,
            blocked: row.blocked,
            message: row.message.to_string(),
            requested_by: row.requested_by.to_string(),
            requested_at: time(row.requested_at),
            planned_at: row.planned_at.map(time),
            approved_by: string(row.approved_by),
            approved_at: row.approved_at.map(time),
            changed_by: string(row.changed_by),
            changed_at: row.changed_at.map(time),
            ended_at: row.ended_at.map(time),
        }
    }
}

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
    /// The job.
    pub(crate) job: i64,
    /// Its name, `group/name`, where it is still there.
    pub(crate) job_name: Option<String>,
    /// Its version when the plan was requested.
    pub(crate) version: i64,
    /// Jobs of the plan that come after it, directly or not.
    pub(crate) touches: i64,
}

impl RerunJobView {
    pub(crate) fn new(row: &RerunJobRow, job_name: Option<String>) -> Self {
        Self { job: row.job_id, job_name, version: row.job_version, touches: row.touches }
    }
}

/// A job that a plan leaves out, whole or from a logical time on.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RerunSkipView {
    /// The job.
    pub(crate) job: i64,
    /// Its name, `group/name`, where it is still there.
    pub(crate) job_name: Option<String>,
    /// `disabled` or `unfinished`: the whole job. `beyond_reach` or `own_past`: only what depends on rerun batches from
    /// `logical_time` on, for that is later than the cascade reaches, or depends on the job's own past only.
    pub(crate) reason: String,
    /// The unfinished batch.
    pub(crate) batch: Option<i64>,
    /// Its logical time; or the first that is left out.
    pub(crate) logical_time: Option<Timestamp>,
    /// When it was left out.
    pub(crate) skipped_at: Timestamp,
}

impl RerunSkipView {
    pub(crate) fn new(row: &RerunSkipRow, job_name: Option<String>) -> Self {
        Self {
            job: row.job_id,
            job_name,
            reason: row.reason.to_string(),
            batch: row.batch_id,
            logical_time: row.logical_time.map(time),
            skipped_at: time(row.skipped_at),
        }
    }
}

/// A batch of a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RerunBatchView {
    /// Its place in the plan, from 1.
    pub(crate) number: i64,
    /// Its job.
    pub(crate) job: i64,
    /// Its job's name.
    pub(crate) job_name: String,
    /// Its job's group.
    pub(crate) group: String,
    /// For which logical time.
    pub(crate) logical_time: Timestamp,
    /// The run that it will be, as far as was known; absent: the first.
    pub(crate) run: Option<i64>,
    /// The numbers of those that must have ended well before.
    pub(crate) after: Vec<u32>,
    /// `planned`, `started`, `success`, `failed`, `killed`, `skipped` or `blocked`. `skipped` without a reason: a
    /// person said so of the batch.
    pub(crate) state: String,
    /// The batch, once it has ended.
    pub(crate) batch: Option<i64>,
    /// Why it was not started.
    pub(crate) reason: Option<String>,
    /// When its shard was told to start it.
    pub(crate) started_at: Option<Timestamp>,
    /// When it ended, was skipped or was blocked.
    pub(crate) settled_at: Option<Timestamp>,
}

impl From<RerunBatchRow> for RerunBatchView {
    fn from(row: RerunBatchRow) -> Self {
        Self {
            number: row.number,
            job: row.job_id,
            job_name: row.job_name.to_string(),
            group: row.group_name.to_string(),
            logical_time: time(row.logical_time),
            run: row.run,
            after: serde_json::from_str(&row.after_numbers).unwrap_or_default(),
            state: row.state.to_string(),
            batch: row.batch_id,
            reason: string(row.reason),
            started_at: row.started_at.map(time),
            settled_at: row.settled_at.map(time),
        }
    }
}
