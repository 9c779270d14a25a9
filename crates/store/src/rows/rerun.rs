//! Reruns and cold starts, their jobs, and their plans.

use std::sync::Arc;

use crate::Kind::{Int, Json, Name, Numbers, Text, Texts, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// A rerun or a cold start.
    RerunRow in "reruns", key (id: i64),
    fixed (kind, spec, groups, reason, concurrency, jobs, requested_by, requested_at), indexes [[requested_at]] {
        /// Its id.
        id: i64 = Int,
        /// `rerun` or `cold_start`.
        kind: Arc<str> = Name(16),
        /// `planning`, `planned`, `running`, `paused`, `cancelling`; once over `done`, `done_with_failures`, `cancelled` or `refused`.
        state: Arc<str> = Name(32),
        /// What was requested.
        spec: Arc<str> = Json,
        /// The groups that it concerns.
        groups: Arc<str> = Texts,
        /// Why, for people.
        reason: Arc<str> = Text,
        /// Batches that are started and have not ended, at most.
        concurrency: i64 = Int,
        /// Jobs that it concerns.
        jobs: i64 = Int,
        /// Jobs that it leaves out.
        jobs_skipped: i64 = Int,
        /// Jobs downstream that are none of it: the key that requested it does not reach their groups, or they come only
        /// after such a job.
        jobs_left_out: i64 = Int,
        /// Batches that are planned.
        planned: i64 = Int,
        /// Batches that shards were told to start.
        started: i64 = Int,
        /// Of those, the ones that ended well.
        succeeded: i64 = Int,
        /// The ones that ended otherwise.
        failed: i64 = Int,
        /// The ones that were not started, each with its reason in the list of batches.
        skipped: i64 = Int,
        /// Batches that are not started, for one before them has not ended well.
        blocked: i64 = Int,
        /// For people: why it was refused.
        message: Arc<str> = Text,
        /// Who requested it: application, or application/person.
        requested_by: Arc<str> = Text,
        /// When.
        requested_at: i64 = Time,
        /// When its plan was whole.
        planned_at: Option<i64> = Time,
        /// Who approved it.
        approved_by: Option<Arc<str>> = Text,
        /// When.
        approved_at: Option<i64> = Time,
        /// Who paused, resumed or cancelled it last.
        changed_by: Option<Arc<str>> = Text,
        /// When.
        changed_at: Option<i64> = Time,
        /// When it was over.
        ended_at: Option<i64> = Time,
    }
}

row! {
    /// A job of a rerun or cold start.
    RerunJobRow in "rerun_jobs", key (rerun_id: i64, position: i64),
    fixed (job_id, job_version, touches), indexes [] {
        /// The rerun.
        rerun_id: i64 = Int => Hidden,
        /// Its place in the plan, from 1: after those that it waits for.
        position: i64 = Int => Hidden,
        /// The job.
        job_id: i64 = Int => As("job"),
        /// Its version when the plan was requested.
        job_version: i64 = Int => As("version"),
        /// Jobs of the plan that come after it, directly or not.
        touches: i64 = Int,
    }
}

row! {
    /// A job that a rerun or cold start leaves out, whole or from a logical time on.
    RerunSkipRow in "rerun_skips", key (rerun_id: i64, job_id: i64),
    fixed (reason, batch_id, logical_time, skipped_at), indexes [] {
        /// The rerun.
        rerun_id: i64 = Int => Hidden,
        /// The job.
        job_id: i64 = Int => As("job"),
        /// `disabled` or `unfinished`: the whole job. `beyond_reach` or `own_past`: only what depends on rerun batches from
        /// `logical_time` on, for that is later than the cascade reaches, or depends on the job's own past only.
        reason: Arc<str> = Name(16),
        /// The unfinished batch.
        batch_id: Option<i64> = Int => As("batch"),
        /// Its logical time; or the first that is left out.
        logical_time: Option<i64> = Time,
        /// When it was left out.
        skipped_at: i64 = Time,
    }
}

row! {
    /// A batch of a rerun's or cold start's plan.
    RerunBatchRow in "rerun_batches", key (rerun_id: i64, number: i64),
    fixed (job_id, job_name, group_name, logical_time, run, after_numbers), indexes [] {
        /// The rerun.
        rerun_id: i64 = Int => Hidden,
        /// Its place in the plan, from 1.
        number: i64 = Int,
        /// Its job.
        job_id: i64 = Int => As("job"),
        /// Its job's name.
        job_name: Arc<str> = Name(200),
        /// Its job's group.
        group_name: Arc<str> = Name(64) => As("group"),
        /// For which logical time.
        logical_time: i64 = Time,
        /// The run that it will be, as far as was known; null: the first.
        run: Option<i64> = Int,
        /// The numbers of those that must have ended well before.
        after_numbers: Arc<str> = Numbers => As("after"),
        /// `planned`, `started`, `success`, `failed`, `killed`, `skipped` or `blocked`. `skipped` without a reason: a
        /// person said so of the batch.
        state: Arc<str> = Name(16),
        /// The batch, once it has ended.
        batch_id: Option<i64> = Int => As("batch"),
        /// Why it was skipped: `unfinished`, `not_wanted`, `disabled`, `unknown_job`, `unknown_definition`, `unknown_parameters` or `other_account`.
        reason: Option<Arc<str>> = Name(32),
        /// When its shard was told to start it.
        started_at: Option<i64> = Time,
        /// When it ended, was skipped or was blocked.
        settled_at: Option<i64> = Time,
    }
}
