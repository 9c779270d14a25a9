use std::collections::BTreeMap;

use tidemill_derive::{Levelled, vocabulary};

use crate::{
    BatchId, GroupId, GroupName, Incarnation, JobId, JobName, JobType, OverriddenResult, Priority, Program,
    RecordedBatch, Timestamp, Token, Waiver,
};

/// Batches. To the shard of the group.
#[vocabulary(Levelled)]
pub enum BatchCommand {
    /// Runs a job once, at once.
    SubmitJob(Box<Submission>),
    /// One batch of a defined job by hand.
    RunJob {
        /// Which job.
        job: JobId,
        /// For which logical time; absent: the current period's.
        logical_time: Option<Timestamp>,
        /// Parameters over those of the definition.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        parameters: BTreeMap<String, String>,
        /// Run even when batches of other logical times of the job are unfinished.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        concurrent: bool,
    },
    /// Ends the newest unfinished batch of a job.
    KillJob {
        /// Which job.
        job: JobId,
    },
    /// The same logical time again, run + 1.
    Rerun {
        /// Which batch.
        batch: BatchId,
        /// Its job, as the asker knows it.
        job: JobId,
        /// Its logical time, as the asker knows it.
        logical_time: Timestamp,
        /// What else the asker knows of it. Absent: the newest run of the logical time is meant.
        recorded: Option<Box<RecordedBatch>>,
    },
    /// Ends a batch.
    Kill {
        /// Which.
        batch: BatchId,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// A person lets a stray be the attempt of a batch of its logical time (EXE-10).
    #[level(3)]
    Adopt {
        /// Of which batch, which no worker has.
        batch: BatchId,
        /// Which stray.
        token: Token,
        /// Why, for people.
        reason: String,
    },
    /// A person vouches that nothing of an attempt runs any more (EXE-12).
    #[level(3)]
    VouchEnded {
        /// Of which batch.
        batch: BatchId,
        /// Which attempt, so that none that began since is meant.
        token: Token,
        /// How they know, for people.
        reason: String,
    },
    /// Says how a batch ended; what runs of it is ended first.
    OverrideResult {
        /// Which.
        batch: BatchId,
        /// Its job, as the asker knows it.
        job: JobId,
        /// Its logical time, as the asker knows it.
        logical_time: Timestamp,
        /// How.
        result: OverriddenResult,
        /// Why.
        reason: String,
        /// Which run of its logical time it is, as the asker knows it. Absent: unknown.
        run: Option<u32>,
    },
    /// A person lets a batch run without a condition (DEP-7).
    OverrideDependency {
        /// Which.
        batch: BatchId,
        /// Without what.
        what: Waiver,
        /// Why.
        reason: String,
    },
    /// Before the quality service is asked: who asks, so that nobody else does.
    SendQuality {
        /// About which batch.
        batch: BatchId,
        /// The number of the question.
        number: u32,
        /// Who.
        by: Incarnation,
    },
    /// The quality service's word (DQ-2).
    AnswerQuality {
        /// About which batch.
        batch: BatchId,
        /// Whether it may run.
        allowed: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
}

/// An ad-hoc job, decided in its group's shard: no schedule, and no parents but other such jobs.
#[vocabulary]
pub struct Submission {
    /// Its name; need not be unique.
    pub name: JobName,
    /// The group that runs it.
    pub group: GroupName,
    /// That group's number.
    pub group_id: GroupId,
    /// Application that submits it.
    pub app_name: String,
    /// Who answers for it.
    pub owner: String,
    /// What kind of program it is.
    #[serde(rename = "type")]
    pub job_type: JobType,
    /// What to run.
    pub program: Program,
    /// Parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Who goes first.
    pub priority: Priority,
    /// Jobs of this shard whose newest batch must succeed first. For one that has never had a batch it waits for
    /// the first: only without dependencies it runs at once (API-1).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<JobId>,
    /// Further attempts after a failed one.
    #[serde(default)]
    pub retries: u32,
    /// Seconds from the end of an attempt to the next.
    #[serde(default)]
    pub retry_interval_s: u32,
}
