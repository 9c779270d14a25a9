use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{
    Actor, GroupName, JobId, OrderedRun, PlannedBatch, PlannedJob, ReportedRun, RerunId, RerunPlace,
    RerunResult, RerunSpec, RunOutcome, RunSkip, RunsQuery, ShardId, SkippedJob, SkippedTimes, Timestamp,
};

/// Reruns and backfills (cold starts), from the request to the end.
#[vocabulary(Aggregate)]
#[event(subject = "rerun/{rerun}")]
pub enum RerunEvent {
    /// A client requests a rerun or a backfill (cold start), and its planning begins.
    #[event(kind = "rerun.requested", public)]
    Requested {
        /// Its id.
        rerun: RerunId,
        /// As requested.
        spec: Arc<RerunSpec>,
        /// Who requests it.
        by: Actor,
        /// The jobs that it concerns, each after those that it waits for.
        jobs: Vec<PlannedJob>,
        /// Their groups.
        groups: Vec<GroupName>,
        /// Jobs downstream that are left out, because the key that requests it does not reach their groups, or because
        /// they come only after such a job.
        #[serde(default, skip_serializing_if = "crate::is_default")]
        jobs_left_out: u32,
    },
    /// A shard is asked what it has for logical times of the plan.
    #[event(kind = "runs.queried", internal = "BetweenShards")]
    RunsQueried {
        /// For which rerun.
        rerun: RerunId,
        /// The question's number in it, from 1.
        part: u32,
        /// Which shard.
        shard: ShardId,
        /// About what; nothing: the jobs have no logical time in the span.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        asked: Vec<RunsQuery>,
        /// How many of the plan's jobs have been asked about in full.
        upto: u32,
    },
    /// The catalogue was told what there is for logical times of a plan.
    #[event(kind = "runs.reported", internal = "BetweenShards")]
    RunsReported {
        /// For which rerun.
        rerun: RerunId,
        /// To which question.
        part: u32,
        /// What there is; logical times that are not there never had a batch.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs: Vec<ReportedRun>,
    },
    /// A shard has answered.
    #[event(kind = "runs.received", internal = "BetweenShards")]
    RunsReceived {
        /// For which rerun.
        rerun: RerunId,
        /// To which question.
        part: u32,
        /// Which shard.
        from: ShardId,
        /// What it has; logical times that are not there never had a batch.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs: Vec<ReportedRun>,
    },
    /// The plan of a rerun leaves out jobs or logical times.
    #[event(kind = "jobs.skipped", public)]
    JobsSkipped {
        /// Of which rerun.
        rerun: RerunId,
        /// Which, and why.
        jobs: Vec<SkippedJob>,
        /// Logical times that a cascade does not follow, by job.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        times: Vec<SkippedTimes>,
    },
    /// The catalogue adds batches to the plan of a rerun.
    #[event(kind = "batches.planned", public)]
    BatchesPlanned {
        /// Of which rerun.
        rerun: RerunId,
        /// The number of the first of them.
        first: u32,
        /// In the order in which they start, where nothing keeps them.
        batches: Vec<PlannedBatch>,
    },
    /// The plan of a rerun is complete and waits for approval.
    #[event(kind = "rerun.planned", public)]
    Planned {
        /// Which rerun.
        rerun: RerunId,
        /// How many batches it has.
        batches: u32,
    },
    /// A client approves the plan of a rerun, or the request approved it in advance.
    #[event(kind = "rerun.approved", public)]
    Approved {
        /// Which.
        rerun: RerunId,
        /// Who says so.
        by: Actor,
    },
    /// Shards are told to start batches of the plan.
    #[event(kind = "runs.requested", internal = "BetweenShards")]
    RunsRequested {
        /// Of which rerun.
        rerun: RerunId,
        /// Which.
        runs: Vec<OrderedRun>,
    },
    /// A group's shard does not start a planned batch of a rerun.
    #[event(kind = "run.skipped", subject = "rerun/{place.rerun}", public)]
    RunSkipped {
        /// Which.
        #[serde(flatten)]
        place: RerunPlace,
        /// Its job.
        job: JobId,
        /// Its logical time.
        logical_time: Timestamp,
        /// Why.
        reason: RunSkip,
    },
    /// A planned batch of a rerun ends, or it turns out that it is not started.
    #[event(kind = "run.finished", subject = "rerun/{place.rerun}", public)]
    RunFinished {
        /// Which.
        #[serde(flatten)]
        place: RerunPlace,
        /// How.
        end: RunOutcome,
    },
    /// Planned batches of a rerun will not start, because a batch that they wait for did not succeed.
    #[event(kind = "runs.blocked", public)]
    RunsBlocked {
        /// Of which rerun.
        rerun: RerunId,
        /// Their numbers.
        numbers: Vec<u32>,
    },
    /// A client pauses a rerun, which starts no more batches for now.
    #[event(kind = "rerun.paused", public)]
    Paused {
        /// Which.
        rerun: RerunId,
        /// Who wants it.
        by: Actor,
    },
    /// A client resumes a paused rerun.
    #[event(kind = "rerun.resumed", public)]
    Resumed {
        /// Which.
        rerun: RerunId,
        /// Who wants it.
        by: Actor,
    },
    /// A client cancels a rerun, which starts no more batches.
    #[event(kind = "rerun.cancelled", public)]
    Cancelled {
        /// Which.
        rerun: RerunId,
        /// Who wants it.
        by: Actor,
        /// What runs of it is ended, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kill: bool,
    },
    /// A rerun ends: none of its batches is running or will be started.
    #[event(kind = "rerun.finished", public)]
    Finished {
        /// Which.
        rerun: RerunId,
        /// How.
        result: RerunResult,
        /// For people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
    },
}
