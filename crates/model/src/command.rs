//! Requests. Anyone with the right may append one; only the owner of the shard decides it.
//!
//! A command belongs to one aggregate, which has a file here; the aggregate says whose shard decides it.

mod batch;
mod bulk;
mod catalogue;
mod job;
mod observation;
mod rerun;
mod shard;
mod shard_message;
mod task;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{Word, skip_none};

pub use self::batch::BatchCommand;
pub use self::bulk::BulkCommand;
pub use self::catalogue::CatalogueCommand;
pub use self::job::JobCommand;
pub use self::observation::ObservationCommand;
pub use self::rerun::RerunCommand;
pub use self::shard::ShardCommand;
pub use self::shard_message::{ShardMessage, UnfinishedJob};
pub use self::task::TaskCommand;
pub use self::worker::WorkerCommand;
use crate::{
    GroupId, GroupName, Incarnation, InstanceId, JobId, JobName, JobSpec, JobType, Measure, Nonce, Priority,
    Program, RequestId, Reserved, ShardId, Token, WorkerId, WorkerLabel,
};

/// Who requests it.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct Actor {
    /// The application key's name, or the role of the program (`worker`, `owner`).
    pub app: Arc<str>,
    /// The person, as the application names them.
    pub user: Option<Arc<str>>,
}

impl Actor {
    /// The owner of a partition, for what the state asks for by itself.
    pub fn owner() -> Self {
        Self { app: "owner".into(), user: None }
    }
}

/// What an application key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, Word)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, submits and acts on the groups it is bound to.
    User,
    /// Everything but keys and groups.
    Administrator,
    /// Everything.
    SuperAdministrator,
}

/// One record of the commands topic.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRecord {
    /// Which shard decides it.
    pub shard: ShardId,
    /// Kept over the sender's retries.
    pub request: Option<RequestId>,
    /// Who waits for the outcome.
    pub reply_to: Option<InstanceId>,
    /// Who requests it.
    pub actor: Actor,
    /// What.
    pub command: Command,
}

/// An ad-hoc job, decided in its group's shard: no schedule, and no parents but other such jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// A worker presents itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Registration {
    /// Which worker.
    pub worker: WorkerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The group it works for.
    pub group: GroupName,
    /// Its host's name, which jobs can be pinned to.
    pub host: String,
    /// Where its logs are served, `ip:port`.
    pub address: String,
    /// Attempts at once, by job type.
    pub slots: BTreeMap<JobType, u32>,
    /// Slots that are kept for some jobs, by job type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved: BTreeMap<JobType, Reserved>,
    /// What jobs can ask for it by.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<WorkerLabel>,
    /// Attempts that still live on it.
    #[serde(default)]
    pub live: Vec<Token>,
    /// Ed25519 signature, in hex, over [`Registration::signed_text`] by the group's key.
    pub signature: String,
}

impl Registration {
    /// The text that the group's key signs.
    pub fn signed_text(group: &GroupName, worker: &WorkerId, incarnation: &Incarnation) -> String {
        format!("tidemill-registration\n{group}\n{worker}\n{incarnation}")
    }
}

/// A worker is alive. Makes no event unless something changed.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// Which worker.
    pub worker: WorkerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Which sign of life of the worker's process. No two records of a worker are alike then, so that a resume
    /// point names one of them only.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub number: u64,
    /// How its machine stands; absent: it does not say.
    pub measure: Option<Measure>,
    /// Why it can take no work at present; absent: it can.
    pub unready: Option<String>,
}

/// A worker asks whether it may start what it was assigned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartRequest {
    /// The assignment.
    pub token: Token,
    /// Who asks.
    pub worker: WorkerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Drawn for this request.
    pub nonce: Nonce,
}

/// A request to delete jobs, kept until it is known whether they have unfinished batches (JOB-9).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Deletion {
    /// Of [`Command::ApplyJobs`].
    Apply {
        /// As written.
        jobs: Vec<JobSpec>,
        /// Groups whose other jobs are deleted.
        prune: Vec<GroupName>,
    },
    /// Of [`Command::DeleteJob`].
    Delete {
        /// Which job.
        job: JobId,
    },
    /// Of [`Command::CommitApply`].
    Staged {
        /// Which staging.
        apply: RequestId,
        /// How many parts it has.
        parts: u32,
        /// Groups whose other jobs are deleted.
        prune: Vec<GroupName>,
    },
}

macro_rules! commands {
    ($($(#[doc = $doc:literal])+ $aggregate:ident($command:ident),)+) => {
        /// A request.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Command {
            $($(#[doc = $doc])+ $aggregate($command),)+
        }

        $(impl From<$command> for Command {
            fn from(command: $command) -> Self {
                Self::$aggregate(command)
            }
        })+
    };
}

commands! {
    /// What the catalogue keeps besides jobs. To the catalogue.
    Catalogue(CatalogueCommand),
    /// Definitions of jobs. To the catalogue.
    Job(JobCommand),
    /// Reruns and backfills (cold starts). To the catalogue.
    Rerun(RerunCommand),
    /// One action for many batches or jobs. To the catalogue.
    Bulk(BulkCommand),
    /// Tasks that clients pull. To the shard of the group.
    Task(TaskCommand),
    /// Batches. To the shard of the group.
    Batch(BatchCommand),
    /// What is found out outside. To the shard that waits for it.
    Observation(ObservationCommand),
    /// Workers, and what they say of attempts. To the shard of the group.
    Worker(WorkerCommand),
    /// From owner to owner.
    Shard(ShardCommand),
}
