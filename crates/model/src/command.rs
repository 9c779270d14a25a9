//! Requests. Anyone with the right may append one; only the owner of the shard decides it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pull::{MovedTask, TaskSpec, Template, TemplateSpec, UserHistory, UserName};
use crate::rerun::{RecordedBatch, ReportedRun, RerunPlace, RerunSpec, RunOutcome, RunsQuery, StartRun};
use crate::{
    Account, AttemptOutcome, BatchId, Calendar, CalendarName, CalendarSpec, ExternalDependencyId,
    ForeignParent, Freeze, FreezeScope, GroupId, GroupName, GroupSettings, Incarnation, InstanceId,
    JobDefinition, JobId, JobName, JobSpec, JobType, Measure, MovedJob, Nonce, OverriddenResult, PathAnswer,
    PermitReport, Pool, PoolName, PoolSpec, PoolUse, Priority, ProbeReport, Program, RequestId, Reserved,
    ShardId, Standing, Subscription, ThirdPartyReport, Timestamp, Token, Usage, Waiver, WorkerId,
    WorkerLabel,
};
use crate::{BulkAction, BulkId, BulkOutcome, RerunId};
use crate::{GrantId, Rejection, TaskId, TemplateName};

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
    /// From the end of one attempt to the next, milliseconds.
    #[serde(default)]
    pub retry_interval_ms: u64,
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
    // ---- catalogue
    /// Creates a group, or changes its key and bounds.
    DefineGroup {
        /// Its name.
        name: GroupName,
        /// Ed25519 public key of its workers, hex.
        worker_key: String,
        /// Its bounds.
        settings: GroupSettings,
    },
    /// Creates or replaces an application key.
    DefineKey {
        /// Its name.
        app: String,
        /// SHA-256 of the secret, hex.
        hash: String,
        /// What it allows.
        role: Role,
        /// The groups it is bound to; empty: all.
        groups: Vec<GroupName>,
        /// DSP-2: the accounts that jobs may run as which it applies.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        run_as: BTreeSet<Account>,
        /// Only if no key exists yet: the first start's own key.
        #[serde(default)]
        first_only: bool,
    },
    /// Ends an application key.
    RevokeKey {
        /// Its name.
        app: String,
    },
    /// Adds and changes jobs, all or none.
    ApplyJobs {
        /// As written.
        jobs: Vec<JobSpec>,
        /// Also delete the jobs of these groups that are not named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prune: Vec<GroupName>,
        /// End what is unfinished of deleted jobs; else they are not deleted while something is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel: bool,
        /// Delete jobs that others name as parent, too: these keep their definitions, and their batches go on waiting.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
    },
    /// Jobs of a request that is too large for one [`Command::ApplyJobs`]; without effect until its
    /// [`Command::CommitApply`].
    StageJobs {
        /// Which request; drawn by its sender.
        apply: RequestId,
        /// The part's number, from 0.
        part: u32,
        /// As written, in any order.
        jobs: Vec<JobSpec>,
    },
    /// Adds and changes the staged jobs, all or none.
    CommitApply {
        /// Which request.
        apply: RequestId,
        /// How many parts it has.
        parts: u32,
        /// Also delete the jobs of these groups that are not named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prune: Vec<GroupName>,
        /// End what is unfinished of deleted jobs; else they are not deleted while something is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel: bool,
        /// Delete jobs that others name as parent, too: these keep their definitions, and their batches go on waiting.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
        /// Only if the catalogue's definitions are still those of this revision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        if_revision: Option<u64>,
    },
    /// A job with a schedule or parents, known by its id; its name need not be unique.
    DefineJob {
        /// As written.
        job: Box<JobSpec>,
        /// Its parents, by id.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parents: Vec<JobId>,
    },
    /// One action for many batches or jobs, as one operation (BYD-3).
    RequestBulk {
        /// What to do.
        action: BulkAction,
        /// The ids of the batches or jobs, at most 5,000.
        items: Vec<i64>,
        /// Why, 1 to 500 characters.
        reason: String,
    },
    /// What came of items of an operation.
    ReportBulk {
        /// Which operation.
        bulk: BulkId,
        /// Of each item, at most 200.
        outcomes: Vec<BulkOutcome>,
    },
    /// Gives a job another name in its group (JOB-9).
    RenameJob {
        /// Which job.
        job: JobId,
        /// Its new name.
        name: JobName,
    },
    /// Gives a job to another group (JOB-9), unless something of it is unfinished.
    MoveJob {
        /// Which job.
        job: JobId,
        /// The group that runs it from then on.
        to: GroupName,
    },
    /// Switches generation on or off.
    SwitchJob {
        /// Which job.
        job: JobId,
        /// Whether it generates batches.
        enabled: bool,
    },
    /// Removes a definition.
    DeleteJob {
        /// Which job.
        job: JobId,
        /// End what is unfinished of it; else it is not deleted while something is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel: bool,
        /// Delete it though other jobs name it as parent: these keep their definitions, and their batches go on waiting.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
    },

    /// Adds or changes a calendar; the fires of jobs that use it are computed anew.
    DefineCalendar {
        /// As written.
        calendar: Box<CalendarSpec>,
    },
    /// Removes a calendar that no job uses.
    DeleteCalendar {
        /// Its name.
        name: CalendarName,
    },
    // ---- pools
    /// Adds or changes a pool. What runs goes on, also where it takes more than there is now.
    DefinePool {
        /// As written.
        pool: Box<PoolSpec>,
    },
    /// Removes a pool that no job uses.
    DeletePool {
        /// Its name.
        name: PoolName,
    },
    // ---- freezes
    /// Lets no batch beyond a logical time be assigned.
    Freeze {
        /// Of this group; absent: of every group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<GroupName>,
        /// The latest logical time that may be assigned; absent: the time of the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latest: Option<Timestamp>,
        /// Why.
        reason: String,
    },
    /// Ends a freeze.
    LiftFreeze {
        /// Of this group; absent: of every group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<GroupName>,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },

    // ---- reruns and cold starts, in the catalogue
    /// Plans a rerun or a cold start.
    PlanRerun(Box<RerunSpec>),
    /// Lets a planned one run.
    ApproveRerun {
        /// Which.
        rerun: RerunId,
    },
    /// Starts no more of it for now.
    PauseRerun {
        /// Which.
        rerun: RerunId,
    },
    /// Goes on with it.
    ResumeRerun {
        /// Which.
        rerun: RerunId,
    },
    /// Starts no more of it.
    CancelRerun {
        /// Which.
        rerun: RerunId,
        /// Also end what runs of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kill: bool,
    },

    // ---- tasks that clients pull, to the catalogue
    /// Adds or changes a template for the parameters of tasks (PUL-1).
    DefineTemplate {
        /// As written.
        template: TemplateSpec,
    },
    /// Removes a template; tasks that were checked against it stay.
    DeleteTemplate {
        /// Its name.
        name: TemplateName,
    },
    /// Gives users their home group (PUL-5). Those who have it already stay as they are.
    AssignUsers {
        /// Which group.
        group: GroupName,
        /// 1 to 500.
        users: Vec<UserName>,
    },
    /// Moves a user with its history and its own tasks to another group; not while it has a live grant.
    MoveUser {
        /// Who.
        user: UserName,
        /// To which group.
        to: GroupName,
    },
    /// Takes a user out of its group, its own tasks too; not while it has a live grant.
    DeleteUser {
        /// Who.
        user: UserName,
    },

    // ---- tasks that clients pull, to the group's shard
    /// A new task (PUL-2, PUL-3).
    CreateTask {
        /// As written.
        spec: TaskSpec,
    },
    /// Changes a task. Live grants keep what they were given.
    ChangeTask {
        /// Which.
        task: TaskId,
        /// As written; the executor stays.
        spec: TaskSpec,
    },
    /// Deletes a task. Its live grants can still be completed.
    DeleteTask {
        /// Which.
        task: TaskId,
    },
    /// A client asks for work (PUL-5): the live grant again, or the earliest task that is due for the user.
    Pull {
        /// Who.
        user: UserName,
    },
    /// A client has done it (PUL-7).
    CompleteTask {
        /// Who.
        user: UserName,
        /// The live grant.
        grant: GrantId,
        /// 1 to 4,096 bytes.
        result: String,
    },
    /// A client, or somebody for it, gives a grant back.
    ReturnGrant {
        /// Who has it.
        user: UserName,
        /// The live grant.
        grant: GrantId,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },

    // ---- group shards, from people
    /// Runs a job once, at once.
    SubmitJob(Box<Submission>),
    /// One batch of a defined job by hand.
    RunJob {
        /// Which job.
        job: JobId,
        /// For which logical time; absent: the current period's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        logical_time: Option<Timestamp>,
        /// Parameters over those of the definition.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        parameters: BTreeMap<String, String>,
        /// Run even when batches of other logical times of the job are unfinished.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        concurrent: bool,
    },
    /// The same logical time again, run + 1.
    RerunBatch {
        /// Which batch.
        batch: BatchId,
        /// Its job, as the asker knows it.
        job: JobId,
        /// Its logical time, as the asker knows it.
        logical_time: Timestamp,
        /// What else the asker knows of it. Absent: the newest run of the logical time is meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recorded: Option<Box<RecordedBatch>>,
    },
    /// Ends a batch.
    KillBatch {
        /// Which.
        batch: BatchId,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Says how a batch ended; what runs of it is ended first.
    OverrideBatchResult {
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<u32>,
    },
    /// Ends the newest unfinished batch of a job.
    KillJob {
        /// Which job.
        job: JobId,
    },
    /// The worker takes no new work.
    DrainWorker {
        /// Which.
        worker: WorkerId,
    },
    /// The worker takes work again.
    ResumeWorker {
        /// Which.
        worker: WorkerId,
    },

    // ---- external dependencies waited for
    /// What probers found, to the shard that waits for it; at most 500 answers.
    ReportPaths {
        /// Those that change nothing are ignored.
        answers: Vec<PathAnswer>,
    },
    /// What a third party says, to the catalogue, which keeps it and tells the groups that wait for such.
    ReportThirdParty(ThirdPartyReport),
    /// A worker did not find, before start, what the batch needs: it is gone for all that wait for it, and the
    /// batch waits again (DEP-6).
    RecheckFailed {
        /// The assignment.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// What is not there.
        external_dependencies: Vec<ExternalDependencyId>,
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
    /// Probe at once (DEP-9): what one batch waits for, to its shard; everything, to the catalogue.
    ProbeNow {
        /// Which; absent: everything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<BatchId>,
    },
    /// How checks of paths go, to the catalogue. Only what is late or fails, every minute, and once when that is
    /// over (DEP-5).
    ReportProbes(ProbeReport),
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

    // ---- group shards, from workers
    /// A worker presents itself.
    RegisterWorker(Box<Registration>),
    /// A worker is alive.
    Heartbeat(Heartbeat),
    /// A worker asks to start an assignment.
    RequestStart(StartRequest),
    /// A worker gives an assignment back.
    RejectAssignment {
        /// Which.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// The question, asked in the worker's present life, on whose grant nothing was begun and nothing will
        /// be. Absent: nothing was asked when this was said; that gives back no grant, whoever asked later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nonce: Option<Nonce>,
        /// Why.
        reason: String,
    },
    /// The process runs.
    ReportStarted {
        /// Which attempt.
        token: Token,
        /// On which worker.
        worker: WorkerId,
    },
    /// EXE-4: the program of an attempt reports a code.
    ReportUserCode {
        /// Which attempt.
        token: Token,
        /// 0: success.
        code: i32,
    },
    /// The attempt's whole process tree is gone.
    ReportFinished {
        /// Which attempt.
        token: Token,
        /// On which worker.
        worker: WorkerId,
        /// How it ended.
        outcome: AttemptOutcome,
        /// What it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },

    // ---- owners
    /// An owner has not heard of a worker for its limit, by its own monotonic clock.
    DeclareLost {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The lease of a silent worker is over, by the owner's own monotonic clock.
    ExpireLease {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// A numbered message from another shard.
    Deliver {
        /// Which shard sends.
        from: ShardId,
        /// Its number in the outbox for this shard, from 1.
        number: u64,
        /// What it says.
        message: ShardMessage,
    },
    /// Another shard has applied this shard's messages up to a number.
    Acknowledge {
        /// The shard that received.
        from: ShardId,
        /// The last number applied.
        upto: u64,
    },
    /// Repairs a `now` that got ahead.
    SetTime {
        /// The time from which on the shard's clock counts again.
        now: Timestamp,
    },
    /// Panics while it is decided. Exists so that dead letters can be shown.
    #[doc(hidden)]
    #[schemars(skip)]
    PlantedPanic {},
}
