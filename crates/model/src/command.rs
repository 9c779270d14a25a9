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
mod task;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::batch::BatchCommand;
pub use self::bulk::BulkCommand;
pub use self::catalogue::CatalogueCommand;
pub use self::job::JobCommand;
pub use self::observation::ObservationCommand;
pub use self::rerun::RerunCommand;
pub use self::shard::ShardCommand;
pub use self::task::TaskCommand;
pub use self::worker::WorkerCommand;
use crate::RerunId;
use crate::pull::{MovedTask, Template, UserHistory, UserName};
use crate::rerun::{ReportedRun, RerunPlace, RunOutcome, RunsQuery, StartRun};
use crate::{
    BatchId, Calendar, CalendarName, ForeignParent, Freeze, FreezeScope, GroupId, GroupName, GroupSettings,
    Incarnation, InstanceId, JobDefinition, JobId, JobName, JobSpec, JobType, Measure, MovedJob, Nonce,
    PermitReport, Pool, PoolName, PoolUse, Priority, Program, RequestId, Reserved, ShardId, Standing,
    Subscription, ThirdPartyReport, Timestamp, Token, WorkerId, WorkerLabel,
};
use crate::{Rejection, TemplateName};

/// Who requests it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct Actor {
    /// The application key's name, or the role of the program (`worker`, `owner`).
    pub app: Arc<str>,
    /// The person, as the application names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
}

/// What an application key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRecord {
    /// Which shard decides it.
    pub shard: ShardId,
    /// Kept over the sender's retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
    /// Who waits for the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// Which worker.
    pub worker: WorkerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Which sign of life of the worker's process. No two records of a worker are alike then, so that a resume
    /// point names one of them only.
    #[serde(default, skip_serializing_if = "is_first")]
    pub number: u64,
    /// How its machine stands; absent: it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
    /// Why it can take no work at present; absent: it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unready: Option<String>,
}

fn is_first(number: &u64) -> bool {
    *number == 0
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

/// What one shard tells another, over its numbered outbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShardMessage {
    /// The group that the receiving shard works for.
    Group {
        /// Its number.
        id: GroupId,
        /// Its name.
        name: GroupName,
        /// Ed25519 public key of its workers, hex.
        worker_key: String,
        /// Its bounds.
        settings: GroupSettings,
    },
    /// A new or changed definition.
    Job {
        /// As accepted.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
    },
    /// Switched on or off.
    Switch {
        /// Which job.
        job: JobId,
        /// Whether it generates batches from now on.
        enabled: bool,
    },
    /// A calendar that jobs of the receiving shard use.
    Calendar {
        /// As accepted.
        calendar: Arc<Calendar>,
    },
    /// A calendar is gone.
    DropCalendar {
        /// Its name.
        name: CalendarName,
    },
    // ---- pools
    /// A pool that jobs of the receiving shard may use, new or changed.
    Pool {
        /// As accepted.
        pool: Arc<Pool>,
    },
    /// A pool is gone.
    DropPool {
        /// Its name.
        name: PoolName,
    },
    /// To the catalogue: what became of permits of shared pools, and how many the sender would have.
    ReportPermits {
        /// Since the last one.
        report: PermitReport,
    },
    /// From the catalogue: permits of shared pools.
    GrantPermits {
        /// All that one batch needs.
        pools: Vec<PoolUse>,
        /// How many more, each for one batch.
        permits: u32,
    },
    // ---- tasks that clients pull
    /// A template that parameters of tasks are checked against, new or changed.
    Template {
        /// As accepted.
        template: Arc<Template>,
    },
    /// A template is gone.
    DropTemplate {
        /// Its name.
        name: TemplateName,
    },
    /// The receiving shard is the home of these users from now on; they have no history.
    Users {
        /// At most 500.
        users: Vec<UserName>,
    },
    /// The user is to leave the receiving shard.
    DetachUser {
        /// Who.
        user: UserName,
    },
    /// To the catalogue: the user has left the sender.
    ReportUserDetached {
        /// Who.
        user: UserName,
        /// What the user's next pulls depend on.
        history: UserHistory,
        /// The user's own tasks.
        tasks: Vec<MovedTask>,
    },
    /// To the catalogue: the user has not left the sender.
    ReportUserDetachRejected {
        /// Who.
        user: UserName,
        /// Why not.
        reason: Rejection,
    },
    /// The receiving shard is the home of this user from now on.
    AttachUser {
        /// Who.
        user: UserName,
        /// What the user's next pulls depend on.
        history: UserHistory,
        /// The user's own tasks.
        tasks: Vec<MovedTask>,
    },
    // ---- freezes
    /// The latest logical time that may be assigned.
    Freeze {
        /// Of what.
        scope: FreezeScope,
        /// Absent: there is none any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        freeze: Option<Freeze>,
    },
    /// The definition is gone.
    Remove {
        /// Which job.
        job: JobId,
        /// Shards with jobs that name it as parent and go on waiting for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        orphaned_in: Vec<ShardId>,
    },
    /// A job that jobs of the receiving shard name as parent is deleted; their batches go on waiting for it.
    ParentDeleted {
        /// The deleted job.
        parent: JobId,
        /// As `group/name`.
        name: String,
        /// When it was deleted.
        deleted_at: Timestamp,
        /// A job that names it and comes next, from another group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        coming: Option<JobId>,
    },
    // ---- jobs that move to another group
    /// The job is to leave the receiving shard, unless something of it is unfinished.
    DetachJob {
        /// Which job.
        job: JobId,
        /// After this it stays: nobody waits for it any more.
        until: Timestamp,
    },
    /// To the catalogue: the job has left the sender.
    ReportJobDetached {
        /// Which job.
        job: JobId,
        /// What was known of it.
        moved: Arc<MovedJob>,
    },
    /// To the catalogue: the job has not left the sender.
    ReportJobDetachRejected {
        /// Which job.
        job: JobId,
        /// Why not.
        reason: Rejection,
    },
    /// The receiving shard runs the job from now on.
    AttachJob {
        /// Its definition in the group.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// What its old group knew of it.
        moved: Arc<MovedJob>,
    },

    // ---- parents in other groups
    /// Jobs of other groups that are parents here, or changed as such.
    Parents {
        /// Before any child that names them.
        parents: Vec<ForeignParent>,
    },
    /// What the sender wants to hear of a job of the receiver, from now on.
    Subscription {
        /// Which job.
        job: JobId,
        /// What.
        what: Subscription,
    },
    /// Batches of the sender wait for these logical times of a job of the receiver.
    Watch {
        /// Which job.
        job: JobId,
        /// Its logical times.
        times: Vec<Timestamp>,
    },
    /// Nothing of the sender waits for these any more.
    Unwatch {
        /// Which job.
        job: JobId,
        /// Its logical times.
        times: Vec<Timestamp>,
    },
    /// How logical times that the receiver watches stand now.
    Stands {
        /// Which job.
        job: JobId,
        /// Time by time.
        standings: Vec<Standing>,
    },
    /// Batches of a job that the receiver follows were generated.
    Generated {
        /// Which job.
        job: JobId,
        /// For which logical times, in this order.
        times: Vec<Timestamp>,
        /// How many more there were before these, which came while the receiver could not be told.
        #[serde(default, skip_serializing_if = "is_first")]
        left_out: u64,
    },
    /// The newest logical times of a job that the receiver has begun to follow.
    Known {
        /// Which job.
        job: JobId,
        /// Its logical times, oldest first.
        times: Vec<Timestamp>,
    },

    /// Which of these jobs have unfinished batches?
    QueryUnfinished {
        /// The catalogue's number for it.
        question: u64,
        /// All of the receiving shard.
        jobs: Vec<JobId>,
    },
    /// The answer.
    ReportUnfinished {
        /// To which question.
        question: u64,
        /// Those that have some; the others had none when this was written.
        jobs: Vec<UnfinishedJob>,
    },
    /// What third parties have reported of codes that jobs of the receiving shard name.
    ThirdParty {
        /// At most 200.
        reports: Vec<ThirdPartyReport>,
    },
    /// Paths are to be probed at once.
    ProbeNow {
        /// Who wants it.
        by: Actor,
    },
    /// What is unfinished of a removed job is to be ended.
    Cancel {
        /// Which job.
        job: JobId,
        /// Who wants it.
        by: Actor,
    },

    // ---- reruns and cold starts
    /// What is there for these logical times?
    QueryRuns {
        /// For which rerun.
        rerun: RerunId,
        /// The question's number in it.
        part: u32,
        /// All of the receiving shard.
        asked: Vec<RunsQuery>,
    },
    /// The answer.
    ReportRuns {
        /// For which rerun.
        rerun: RerunId,
        /// To which question.
        part: u32,
        /// What there is.
        runs: Vec<ReportedRun>,
    },
    /// A batch of a plan is to be started.
    StartRun(StartRun),
    /// It has ended, or was not started.
    ReportRunFinished {
        /// Which.
        #[serde(flatten)]
        place: RerunPlace,
        /// How.
        end: RunOutcome,
    },
    /// It is to be ended, if it has not yet.
    KillRun {
        /// Which.
        #[serde(flatten)]
        place: RerunPlace,
        /// Who wants it.
        by: Actor,
    },
}

/// A job that has unfinished batches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnfinishedJob {
    /// Which.
    pub job: JobId,
    /// How many of its logical times.
    pub batches: u32,
    /// One of them, for the newest logical time.
    pub newest: BatchId,
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

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Command {
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

macro_rules! commands {
    ($($aggregate:ident($command:ident)),+) => {
        $(impl From<$command> for Command {
            fn from(command: $command) -> Self {
                Self::$aggregate(command)
            }
        })+
    };
}

commands!(
    Catalogue(CatalogueCommand),
    Job(JobCommand),
    Rerun(RerunCommand),
    Bulk(BulkCommand),
    Task(TaskCommand),
    Batch(BatchCommand),
    Observation(ObservationCommand),
    Worker(WorkerCommand),
    Shard(ShardCommand)
);
