//! Reruns and cold starts: one request for many batches, planned before it runs (GEN-6, GEN-7, GEN-8, BYD-3).

use std::collections::BTreeMap;

use tidemill_derive::{AsStr, Word, vocabulary};

use crate::{BatchId, BatchResult, GroupName, JobId, Period, RerunId, Timestamp};

/// What somebody wants to be run, for which span, and how.
#[vocabulary(Eq)]
pub struct RerunSpec {
    /// Which jobs.
    pub scope: RerunScope,
    /// The first logical time.
    pub from: Timestamp,
    /// The last logical time; not after now.
    pub to: Timestamp,
    /// The last logical time of what comes after those jobs, cut to now. Asked for without it, a cascade reaches up to now;
    /// on record without it, as before that was so, up to `to`.
    pub reach: Option<Timestamp>,
    /// Which of the batches in it.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub only: RerunOnly,
    /// Which logical times go first.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub order: RerunOrder,
    /// Batches that are started and have not ended, over all groups.
    pub concurrency: u32,
    /// Which definition the batches get.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub definition: RerunDefinition,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// It is approved as soon as it is planned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

/// Which jobs are run.
#[vocabulary(Eq, AsStr)]
pub enum RerunScope {
    /// GEN-6: these, and those that come after them.
    Rerun {
        /// Where it begins.
        jobs: Vec<JobId>,
        /// How far it reaches.
        cascade: Cascade,
    },
    /// GEN-8: enabled jobs of one period.
    ColdStart {
        /// Which of them.
        of: ColdStartOf,
        /// Their period.
        period: Period,
    },
}

/// How far a rerun reaches.
#[vocabulary(Eq, Default)]
pub enum Cascade {
    /// The named jobs and no others.
    #[default]
    Job,
    /// Also all jobs that name them as parents, and so on, in every group.
    Logic,
    /// Also all batches that read a path that theirs write, and so on, in every group.
    Data,
    /// Also these jobs.
    Subset(Vec<JobId>),
}

/// The jobs of a cold start.
#[vocabulary(Eq)]
pub enum ColdStartOf {
    /// All.
    All,
    /// Those of a group.
    Group(GroupName),
    /// These.
    Jobs(Vec<JobId>),
}

/// Which logical times are run.
#[vocabulary(Copy, Eq, Default)]
pub enum RerunOnly {
    /// Every one.
    #[default]
    All,
    /// Those that never had a batch.
    Missing,
    /// Those whose newest run has ended without success.
    Failed,
}

/// Which logical times go first, where nothing else says so.
#[vocabulary(Copy, Eq, Default)]
pub enum RerunOrder {
    /// From the oldest on.
    #[default]
    Oldest,
    /// From the newest back.
    Newest,
}

/// Which definition the batches get.
#[vocabulary(Copy, Eq, Default)]
pub enum RerunDefinition {
    /// The job's, as it is when the batch is started.
    #[default]
    Today,
    /// That of the logical time's newest run.
    Recorded,
}

/// A job of a plan.
#[vocabulary(Eq)]
pub struct PlannedJob {
    /// Which.
    pub job: JobId,
    /// Its version when the plan was made.
    pub version: u32,
    /// Jobs of the plan that come after it, directly or not.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub touches: u32,
}

/// Logical times of a job whose runs are asked for.
#[vocabulary(Eq)]
pub struct RunsQuery {
    /// Which job.
    pub job: JobId,
    /// Oldest first.
    pub times: Vec<Timestamp>,
}

/// The newest run of a logical time, as its group's shard knows it.
#[vocabulary(Eq)]
pub struct ReportedRun {
    /// Which job.
    pub job: JobId,
    /// Which logical time.
    pub logical_time: Timestamp,
    /// Its number.
    pub run: u32,
    /// Its batch, where that is still known.
    pub batch: Option<BatchId>,
    /// How it ended; absent: it has not.
    pub result: Option<BatchResult>,
    /// The definition's version, where that definition is still known.
    pub version: Option<u32>,
}

/// A job that a plan leaves out.
#[vocabulary(Eq)]
pub struct SkippedJob {
    /// Which.
    pub job: JobId,
    /// Why.
    pub reason: JobSkip,
}

/// Why a plan leaves a job out.
#[vocabulary(Copy, Eq, AsStr)]
pub enum JobSkip {
    /// It is switched off.
    Disabled,
    /// GEN-8: something of it is unfinished in the span.
    Unfinished {
        /// The batch.
        batch: BatchId,
        /// Its logical time.
        logical_time: Timestamp,
    },
}

/// Logical times of a job that a cascade does not follow, though they depend on batches that are rerun.
#[vocabulary(Copy, Eq)]
pub struct SkippedTimes {
    /// The job.
    pub job: JobId,
    /// The first of them.
    pub from: Timestamp,
    /// Why.
    pub reason: TimesSkip,
}

/// Why a cascade does not follow logical times.
#[vocabulary(Copy, Eq, AsStr)]
pub enum TimesSkip {
    /// They are later than it reaches: than now, or than the request allows.
    BeyondReach,
    /// They depend on the job's own past only.
    OwnPast,
}

/// A batch of a plan. Its number is its place, from 1.
#[vocabulary(Eq)]
pub struct PlannedBatch {
    /// Which job.
    pub job: JobId,
    /// Which logical time.
    pub logical_time: Timestamp,
    /// The run that it will be, as far as is known; absent: the first.
    pub run: Option<u32>,
    /// The numbers of those that must have ended well before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
}

/// A batch of a plan that is to be started.
#[vocabulary(Eq)]
pub struct OrderedRun {
    /// Its number in the plan.
    pub number: u32,
    /// Which job.
    pub job: JobId,
    /// Which logical time.
    pub logical_time: Timestamp,
}

/// Which batch of which plan.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash)]
pub struct RerunPlace {
    /// The rerun.
    pub rerun: RerunId,
    /// The batch's number in its plan, from 1.
    pub number: u32,
}

/// What became of a planned batch whose turn came.
#[vocabulary(Eq)]
pub enum RunOutcome {
    /// It ran.
    Finished {
        /// The batch.
        batch: BatchId,
        /// How it ended.
        result: BatchResult,
    },
    /// It was not started.
    Skipped(RunSkip),
}

impl RunOutcome {
    /// Whether those that wait for it may start.
    pub fn is_well(&self) -> bool {
        matches!(self, RunOutcome::Finished { result, .. } if result.satisfies())
    }
}

/// Why a planned batch was not started.
#[vocabulary(Copy, Eq, AsStr)]
pub enum RunSkip {
    /// The logical time has an unfinished batch.
    Unfinished {
        /// Which.
        batch: BatchId,
    },
    /// It is not missing, or has not failed, any more.
    NotWanted,
    /// The job is switched off.
    Disabled,
    /// The job is gone.
    UnknownJob,
    /// The definition of its newest run is not known any more.
    UnknownDefinition,
    /// The parameters of its newest run are not known any more; a rerun of that batch alone brings them along.
    UnknownParameters,
    /// The parameters of its newest run were given when the job did not run as the account that it runs as now, or it is not
    /// known any more as which; a rerun of that batch alone, by a key with the account, decides anew (DSP-2).
    OtherAccount,
}

/// What the read tables say of a batch, for a shard that may not hold it any more. It never changes.
#[vocabulary(Eq)]
pub struct RecordedBatch {
    /// Which run of its logical time it is.
    pub run: u32,
    /// Its parameters over those of the definition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// What a shard is to start.
#[vocabulary(Eq)]
pub struct StartRun {
    /// Of which plan.
    #[serde(flatten)]
    pub place: RerunPlace,
    /// Which job.
    pub job: JobId,
    /// Which logical time.
    pub logical_time: Timestamp,
    /// Only if that is still so.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub only: RerunOnly,
    /// Which definition it gets.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub definition: RerunDefinition,
    /// Of a cold start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold_start: bool,
}

/// How a rerun ended.
#[vocabulary(Copy, Eq, Word)]
pub enum RerunResult {
    /// Every planned batch ended well.
    Done,
    /// Some did not end well, or were skipped, or blocked by such.
    DoneWithFailures,
    /// Somebody ended it.
    Cancelled,
    /// It could not be planned, or not be approved as it was requested.
    Refused,
}
