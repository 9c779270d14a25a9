//! Facts. The journal is a sequence of them; everything else is a fold.
//!
//! A published variant never changes meaning: another behaviour is another variant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pull::{MovedTask, TaskSpec, Template, UserHistory, UserName};
use crate::rerun::{
    OrderedRun, PlannedBatch, PlannedJob, ReportedRun, RerunPlace, RerunResult, RerunSpec, RunOutcome,
    RunSkip, RunsQuery, SkippedJob, SkippedTimes,
};
use crate::{
    Account, Actor, AlarmKind, BatchId, Calendar, CalendarName, DataPath, Deletion, ExternalDependency,
    ExternalDependencyId, FinalResult, ForeignParent, Freeze, FreezeScope, GroupId, GroupName, GroupSettings,
    Incarnation, InstanceId, JobDefinition, JobId, JobName, JobSpec, JobType, Mapping, Measure, MovedJob,
    Nonce, OrphanedChildren, Outcome, OverriddenResult, PermitReport, Pool, PoolName, PoolUse, ProbeReport,
    RequestId, Reserved, Role, Severity, ShardId, Standing, Subscription, ThirdPartyReport, TimeoutKind,
    Timestamp, Token, UnfinishedJob, WaivedParent, WorkerId, WorkerLabel,
};
use crate::{BulkAction, BulkId, BulkOutcome, RerunId};
use crate::{GrantId, Rejection, TaskId, TemplateName};

/// When a schedule fires, and for which logical time. Computed once, then stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Fire {
    /// The base or cron time.
    pub at: Timestamp,
    /// The logical time of the batch.
    pub logical_time: Timestamp,
}

/// Where a batch came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Its job's schedule.
    Schedule,
    /// The generation of a parent's batch for the same logical time.
    Parent,
    /// A person.
    Manual,
    /// A rerun of an earlier batch.
    Rerun,
    /// A cold start.
    ColdStart,
    /// Submitted with its job.
    Submission,
}

impl Origin {
    /// DSP-1: whether its batches wait while their job is disabled: those of a schedule, a parent or a cold start do; what
    /// a person asked for by name does not.
    #[must_use]
    pub fn waits_while_disabled(self) -> bool {
        match self {
            Origin::Schedule | Origin::Parent | Origin::ColdStart => true,
            Origin::Manual | Origin::Rerun | Origin::Submission => false,
        }
    }
}

/// A parent's logical times that a batch waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dependency {
    /// The parent.
    pub parent: JobId,
    /// The declared mapping that gave these times.
    pub mapping: Mapping,
    /// The parent's logical times.
    pub times: Vec<Timestamp>,
    /// Those that had succeeded when the batch was generated, or were left out because the parent makes no batch for
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub met: Vec<Timestamp>,
}

impl Dependency {
    /// Whether `met` of its times succeeded is enough.
    pub fn is_satisfied(&self, met: usize) -> bool {
        match self.mapping {
            Mapping::Any => met > 0,
            Mapping::Same | Mapping::Offset(_) | Mapping::All | Mapping::Latest => met >= self.times.len(),
        }
    }
}

/// Parents that a batch waits for and does not list: those of its definition with mapping `same` that are not among its
/// dependencies, itself left out. It waits for each of them at its own logical time. Which of them are met follows from
/// what is on record of them before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountedParents {
    /// How many they are.
    pub parents: u32,
    /// How many of them were not met when the batch was generated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unmet: u32,
}

/// Why fires made no batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The job's policy for missed runs.
    Policy,
    /// More than 7 days back.
    TooOld,
    /// More than 1,000 at once.
    TooMany,
    /// The logical time was run by hand before its base time.
    RunByHand,
    /// Later than its job allows.
    TooLate,
    /// An earlier scheduled batch was unfinished.
    Overlap,
    /// Its day is none on which its job runs.
    Calendar,
}

/// Why an assignment ended without an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReturnReason {
    /// The worker gave it back.
    Rejected(String),
    /// The worker did not start it in time.
    NotStarted,
    /// The worker was lost.
    WorkerLost,
    /// The worker came back as a new process.
    WorkerRestarted,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptResult {
    /// By its success check.
    Success,
    /// By its success check.
    Failed,
    /// Ended on request.
    Killed,
    /// Its worker was lost, or came back without it.
    Lost,
    /// It ran longer than its job allows, and was ended.
    TimedOut,
}

/// How an attempt ended, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptOutcome {
    /// In one word.
    pub result: AttemptResult,
    /// Exit code, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal, where one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Small values that it passes to children of its batch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

/// The longest file of values that an attempt may leave, and the most that names and values of one may take, bytes.
pub const MAX_VALUES_BYTES: usize = 8 * 1024;

impl AttemptOutcome {
    /// Ended well.
    pub fn success() -> Self {
        Self { exit_code: Some(0), ..Self::bare(AttemptResult::Success) }
    }

    /// Of which nothing more is known.
    pub fn bare(result: AttemptResult) -> Self {
        Self { result, exit_code: None, signal: None, message: String::new(), values: BTreeMap::new() }
    }

    /// Bytes of the names and values that it passes on.
    pub fn values_bytes(&self) -> usize {
        self.values.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

/// What an attempt used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// From exec to the end of the tree, milliseconds.
    pub duration_ms: u64,
    /// User and system time, milliseconds.
    pub cpu_ms: u64,
    /// Largest resident set, KiB.
    pub peak_memory_kib: u64,
}

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchResult {
    /// One attempt succeeded.
    Success,
    /// Its attempts are used up.
    Failed,
    /// A person ended it.
    Killed,
    /// Nothing of it had to run; whoever waits for it goes on as after a success.
    Skipped,
}

impl BatchResult {
    /// The word that tables, JSON and people use.
    pub fn as_str(self) -> &'static str {
        match self {
            BatchResult::Success => "success",
            BatchResult::Failed => "failed",
            BatchResult::Killed => "killed",
            BatchResult::Skipped => "skipped",
        }
    }

    /// Every result, in the order in which people are told of them.
    pub const ALL: [BatchResult; 4] =
        [BatchResult::Success, BatchResult::Failed, BatchResult::Killed, BatchResult::Skipped];

    /// Whether it is what batches that wait for this one wait for.
    pub fn satisfies(self) -> bool {
        match self {
            BatchResult::Success | BatchResult::Skipped => true,
            BatchResult::Failed | BatchResult::Killed => false,
        }
    }
}

pub(crate) fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_none(n: &u64) -> bool {
    *n == 0
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    // ---- catalogue
    /// A group exists, or its key or bounds changed.
    GroupDefined {
        /// Its number.
        group: GroupId,
        /// Its name.
        name: GroupName,
        /// The shard that does its work.
        shard: ShardId,
        /// Ed25519 public key of its workers, hex.
        worker_key: String,
        /// Its bounds.
        settings: GroupSettings,
    },
    /// An application key exists, or changed.
    KeyDefined {
        /// Its name.
        app: String,
        /// SHA-256 of the secret, hex.
        hash: String,
        /// What it allows.
        role: Role,
        /// The groups it is bound to; empty: all.
        groups: Vec<GroupName>,
        /// DSP-2: the accounts that jobs may run as which it applies; absent: none.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        run_as: BTreeSet<Account>,
    },
    /// An application key ended.
    KeyRevoked {
        /// Its name.
        app: String,
    },
    /// A job was added or changed.
    JobDefined {
        /// As accepted; version 1 is new.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// Known by its id only: its name is not unique.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unnamed: bool,
        /// The name that it had until now; absent: it keeps its name, or is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous_name: Option<JobName>,
    },
    /// A job generates batches from now on.
    JobEnabled {
        /// Which.
        job: JobId,
    },
    /// A job generates no more batches.
    JobDisabled {
        /// Which.
        job: JobId,
    },
    /// A definition was removed.
    JobDeleted {
        /// Which.
        job: JobId,
    },
    /// A job is deleted though others name it as parent (`orphan_children`). These keep their definitions, and their
    /// batches go on waiting for it until a new definition does not name it any more, or somebody overrides that.
    JobParentDeleted {
        /// The job that is deleted.
        parent: JobId,
        /// As `group/name`.
        name: String,
        /// Where its children are, in order of shard.
        children: Vec<OrphanedChildren>,
    },
    /// The shard of a job's group is asked to let it go to another group (JOB-9).
    JobMoveRequested {
        /// Which.
        job: JobId,
        /// The shard that is asked.
        from: ShardId,
        /// The group it is to have.
        to: GroupName,
        /// After this the job stays.
        until: Timestamp,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
        /// Who wants it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
    },
    /// The shard of a job's old group has let it go, and this is its definition now: the same in another group.
    JobMoved {
        /// As it is in its new group.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// It is known by its id only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unnamed: bool,
        /// The group that it was of.
        previous_group: GroupName,
        /// The shard that let it go.
        from: ShardId,
        /// What was known of it there.
        moved: Arc<MovedJob>,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
        /// Who wanted it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
    },
    /// The shard of a job's group did not let it go; it is as it was.
    JobMoveRejected {
        /// Which.
        job: JobId,
        /// Why not.
        reason: Rejection,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
    },

    /// Before jobs are deleted, the shards that run them are asked whether something of them is unfinished.
    UnfinishedQueried {
        /// The question's number; asked again, it is the same.
        question: u64,
        /// What is decided when all have answered.
        deletion: Arc<Deletion>,
        /// The jobs that would be deleted.
        jobs: Vec<JobId>,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
        /// Who asked for it; absent in records of versions that did not note it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
        /// Jobs that others name as parent are deleted, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
    },
    /// A shard has answered.
    UnfinishedReceived {
        /// To which question.
        question: u64,
        /// Which shard.
        from: ShardId,
        /// Its jobs that have unfinished batches.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        jobs: Vec<UnfinishedJob>,
    },
    /// What was put off until shards had answered is decided.
    DeletionDecided {
        /// The question that is settled.
        question: u64,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
        /// What came of it.
        outcome: Outcome,
        /// Who asked for it; absent in records of versions that did not note it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
    },
    /// What is unfinished of a deleted job is to be ended.
    JobCancelled {
        /// Which job.
        job: JobId,
        /// The shard that runs it.
        shard: ShardId,
        /// Who wants it.
        by: Actor,
    },

    /// Part of a large request is there; without effect until it is committed.
    JobsStaged {
        /// Which request.
        apply: RequestId,
        /// The part's number, from 0.
        part: u32,
        /// As written.
        jobs: Arc<Vec<JobSpec>>,
    },
    /// What was staged is forgotten: nobody committed it in time, or newer stagings needed its place.
    StagingDiscarded {
        /// Which request.
        apply: RequestId,
    },
    /// What was staged will be carried out, to its end; until then no other change of definitions is accepted.
    ApplyCommitted {
        /// Which request.
        apply: RequestId,
        /// The jobs that are deleted when all others are defined.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        delete: Vec<JobId>,
        /// Its jobs are defined ancestors first; absent: as they were staged, which is how it was done at first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ancestors_first: bool,
        /// Who wants what is unfinished of those ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancel: Option<Actor>,
        /// Jobs that others name as parent are deleted, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
        /// Who asked for it; absent in records of versions that did not note it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
        /// DSP-2: its key was found to have the accounts of all that it changes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        accounts_found: bool,
    },
    /// A chunk of a committed request is carried out.
    ApplyAdvanced {
        /// Which request.
        apply: RequestId,
        /// How many of its jobs and deletions are done.
        done: u32,
        /// Who asked for it; absent in records of versions that did not note it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
    },
    /// A committed request is carried out.
    ApplyFinished {
        /// Which request.
        apply: RequestId,
        /// Its request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
        /// Who asked for it; absent in records of versions that did not note it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
    },

    // ---- tasks that clients pull: templates and users, in the catalogue
    /// A template was added or changed.
    TemplateDefined {
        /// As accepted.
        template: Arc<Template>,
    },
    /// A template is gone.
    TemplateDeleted {
        /// Its name.
        name: TemplateName,
    },
    /// Users have a home group now; they had none.
    UsersAssigned {
        /// Which group.
        group: GroupName,
        /// Its shard.
        shard: ShardId,
        /// In the order given.
        users: Vec<UserName>,
    },
    /// The shard of a user's home group is asked to let it go.
    UserMoveRequested {
        /// Who.
        user: UserName,
        /// The shard that is asked.
        from: ShardId,
        /// The group it is to have; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<GroupName>,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
    },
    /// The shard of a user's old home group has let it go, and this is its home group now.
    UserMoved {
        /// Who.
        user: UserName,
        /// The shard that let it go.
        from: ShardId,
        /// Its group; absent: it has none any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<GroupName>,
        /// The group's shard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shard: Option<ShardId>,
        /// What the user's next pulls depend on.
        #[serde(default, skip_serializing_if = "UserHistory::is_empty")]
        history: UserHistory,
        /// The user's own tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<MovedTask>,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
    },
    /// The shard of a user's home group did not let it go.
    UserMoveRejected {
        /// Who.
        user: UserName,
        /// Why not.
        reason: Rejection,
        /// The request id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        /// Who waits for the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<InstanceId>,
    },

    // ---- tasks that clients pull, in the home group's shard
    /// The shard knows a template.
    TemplateReplicated {
        /// As accepted.
        template: Arc<Template>,
    },
    /// The shard forgot a template.
    TemplateDropped {
        /// Its name.
        name: TemplateName,
    },
    /// The shard is the home of these users, who have no history.
    UsersReplicated {
        /// In order.
        users: Vec<UserName>,
    },
    /// The shard let a user go, and knows nothing of it any more.
    UserDetached {
        /// Who.
        user: UserName,
        /// What the user's next pulls depend on.
        #[serde(default, skip_serializing_if = "UserHistory::is_empty")]
        history: UserHistory,
        /// The user's own tasks, which leave with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<MovedTask>,
    },
    /// The shard did not let a user go.
    UserDetachRejected {
        /// Who.
        user: UserName,
        /// Why not.
        reason: Rejection,
    },
    /// The shard is the home of a user who had another one.
    UserAttached {
        /// Who.
        user: UserName,
        /// What the user's next pulls depend on.
        #[serde(default, skip_serializing_if = "UserHistory::is_empty")]
        history: UserHistory,
        /// The user's own tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<MovedTask>,
    },
    /// There is a new task, in its version 1.
    TaskCreated {
        /// Which.
        task: TaskId,
        /// As accepted.
        spec: Arc<TaskSpec>,
    },
    /// A task is another one from now on.
    TaskChanged {
        /// Which.
        task: TaskId,
        /// Its version now.
        version: u32,
        /// As accepted.
        spec: Arc<TaskSpec>,
    },
    /// A task is not given out any more.
    TaskDeleted {
        /// Which.
        task: TaskId,
    },
    /// A user got an occurrence of a task (PUL-5). It has one less in stock.
    TaskGranted {
        /// Grows with every grant of the shard.
        grant: GrantId,
        /// Of which task.
        task: TaskId,
        /// The task's version, whose parameters the user got.
        version: u32,
        /// Which occurrence.
        start: Timestamp,
        /// Who.
        user: UserName,
        /// When it goes back to stock by itself; absent: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// The start of the task's occurrence behind this one; absent: there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Timestamp>,
    },
    /// A user has done what it was given (PUL-7).
    TaskCompleted {
        /// Which grant.
        grant: GrantId,
        /// Of which task.
        task: TaskId,
        /// Which occurrence.
        start: Timestamp,
        /// Who.
        user: UserName,
        /// As the client says.
        result: String,
    },
    /// A grant was given back; the occurrence has one more in stock.
    GrantReturned {
        /// Which grant.
        grant: GrantId,
        /// Of which task.
        task: TaskId,
        /// Which occurrence.
        start: Timestamp,
        /// Who had it.
        user: UserName,
        /// Who gave it back.
        by: Actor,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// PUL-13: a grant's lease ran out; the occurrence has one more in stock.
    GrantExpired {
        /// Which grant.
        grant: GrantId,
        /// Of which task.
        task: TaskId,
        /// Which occurrence.
        start: Timestamp,
        /// Who had it.
        user: UserName,
    },
    /// PUL-14: the shard has forgotten what is old of some tasks: their occurrences with an earlier start and without
    /// a live grant, and those tasks of which nothing is left to be given. No user's window begins earlier any more.
    TasksPurged {
        /// Starts before.
        before: Timestamp,
        /// At most 500.
        tasks: Vec<TaskId>,
    },

    // ---- pools, and permits of those that groups share
    /// A pool was added or changed.
    PoolDefined {
        /// As accepted.
        pool: Arc<Pool>,
    },
    /// A pool that no job uses is gone.
    PoolDeleted {
        /// Its name.
        name: PoolName,
    },
    /// The shard knows a pool that its jobs may use.
    PoolReplicated {
        /// As accepted.
        pool: Arc<Pool>,
    },
    /// The shard forgot a pool.
    PoolDropped {
        /// Its name.
        name: PoolName,
    },
    /// Starts that a pool's rate counted are so long ago that more batches may start.
    RateLimitReset {
        /// Whose.
        name: PoolName,
    },
    /// The group's shard has told what became of its permits, and how many it would have.
    PermitsReported {
        /// Since the last one.
        report: PermitReport,
    },
    /// The catalogue has heard that.
    PermitReportReceived {
        /// Of which shard.
        from: ShardId,
        /// As it was told.
        report: PermitReport,
    },
    /// The catalogue has given permits to a group's shard.
    PermitsGranted {
        /// Which shard.
        to: ShardId,
        /// All shared pools that one batch needs.
        pools: Vec<PoolUse>,
        /// How many more, each for one batch.
        permits: u32,
    },
    /// The group's shard has them.
    PermitsReceived {
        /// All shared pools that one batch needs.
        pools: Vec<PoolUse>,
        /// How many more, each for one batch.
        permits: u32,
    },

    // ---- calendars, and what fires of schedules come to
    /// A calendar was added or changed.
    CalendarDefined {
        /// As accepted; version 1 is new.
        calendar: Arc<Calendar>,
    },
    /// A calendar that no job uses is gone.
    CalendarDeleted {
        /// Its name.
        name: CalendarName,
    },
    /// The shard knows a calendar that its jobs use.
    CalendarReplicated {
        /// As accepted.
        calendar: Arc<Calendar>,
    },
    /// The shard forgot a calendar.
    CalendarDropped {
        /// Its name.
        name: CalendarName,
    },
    /// The calendar of a job has changed: this is its next fire now.
    ScheduleRescheduled {
        /// Whose.
        job: JobId,
        /// The next fire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Fire>,
    },
    /// What a fire asks for could not be decided; the timer of the job is suspended when it has failed for the
    /// fourth time.
    GenerationFailed {
        /// Whose.
        job: JobId,
        /// For which logical time.
        logical_time: Timestamp,
        /// How often it has failed, from 1.
        failures: u32,
        /// Why.
        reason: String,
        /// When it is tried again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    // ---- freezes
    /// No batch beyond a logical time is assigned, until it is lifted.
    FreezeSet {
        /// Of this group; absent: of every group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<GroupName>,
        /// The latest logical time that may be assigned, who wants it and why.
        freeze: Freeze,
    },
    /// A freeze ended.
    FreezeLifted {
        /// Of this group; absent: of every group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<GroupName>,
        /// Who wants it.
        by: Actor,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// The shard knows of a freeze, or of its end.
    FreezeReplicated {
        /// Of what.
        scope: FreezeScope,
        /// Absent: there is none any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        freeze: Option<Freeze>,
    },

    // ---- reruns and cold starts, in the catalogue
    /// A rerun or cold start is requested; its plan is being made.
    RerunRequested {
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
        #[serde(default, skip_serializing_if = "is_zero")]
        jobs_left_out: u32,
    },
    /// A shard is asked what it has for logical times of the plan.
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
    /// A shard has answered.
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
    /// Jobs that the plan leaves out.
    JobsSkipped {
        /// Of which rerun.
        rerun: RerunId,
        /// Which, and why.
        jobs: Vec<SkippedJob>,
        /// Logical times that a cascade does not follow, by job.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        times: Vec<SkippedTimes>,
    },
    /// Part of the plan.
    BatchesPlanned {
        /// Of which rerun.
        rerun: RerunId,
        /// The number of the first of them.
        first: u32,
        /// In the order in which they start, where nothing keeps them.
        batches: Vec<PlannedBatch>,
    },
    /// The plan is whole, and waits to be approved.
    RerunPlanned {
        /// Which rerun.
        rerun: RerunId,
        /// How many batches it has.
        batches: u32,
    },
    /// It may run.
    RerunApproved {
        /// Which.
        rerun: RerunId,
        /// Who says so.
        by: Actor,
    },
    /// Shards are told to start batches of the plan.
    RunsRequested {
        /// Of which rerun.
        rerun: RerunId,
        /// Which.
        runs: Vec<OrderedRun>,
    },
    /// A batch of the plan has ended, or was not started.
    RunFinished {
        /// Which.
        #[serde(flatten)]
        place: RerunPlace,
        /// How.
        end: RunOutcome,
    },
    /// Batches of the plan that are not started, for one that they wait for has not ended well.
    RunsBlocked {
        /// Of which rerun.
        rerun: RerunId,
        /// Their numbers.
        numbers: Vec<u32>,
    },
    /// Nothing more of it is started for now.
    RerunPaused {
        /// Which.
        rerun: RerunId,
        /// Who wants it.
        by: Actor,
    },
    /// It goes on.
    RerunResumed {
        /// Which.
        rerun: RerunId,
        /// Who wants it.
        by: Actor,
    },
    /// Nothing more of it is started.
    RerunCancelled {
        /// Which.
        rerun: RerunId,
        /// Who wants it.
        by: Actor,
        /// What runs of it is ended, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kill: bool,
    },
    /// It is over, and nothing of it is on its way any more.
    RerunFinished {
        /// Which.
        rerun: RerunId,
        /// How.
        result: RerunResult,
        /// For people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
    },

    // ---- one action for many batches or jobs
    /// An operation was accepted. Interfaces carry it on, item by item.
    BulkRequested {
        /// Its id.
        bulk: BulkId,
        /// What is done to each item.
        action: BulkAction,
        /// The ids of the batches or jobs.
        items: Vec<i64>,
        /// Why.
        reason: String,
        /// Who requested it.
        by: Actor,
    },
    /// Items of an operation have been decided.
    BulkAdvanced {
        /// Which operation.
        bulk: BulkId,
        /// What came of each.
        outcomes: Vec<BulkOutcome>,
        /// These were the last ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },

    // ---- between shards
    /// A message was applied; what it caused follows.
    MessageReceived {
        /// From which shard.
        from: ShardId,
        /// Its number.
        number: u64,
    },
    /// Messages left the outbox.
    OutboxAcknowledged {
        /// For which shard.
        to: ShardId,
        /// The last number that the receiver applied.
        upto: u64,
    },

    // ---- a group's shard: what it knows
    /// The shard knows its group.
    GroupReplicated {
        /// Its number.
        group: GroupId,
        /// Its name.
        name: GroupName,
        /// Ed25519 public key of its workers, hex.
        worker_key: String,
        /// Its bounds.
        settings: GroupSettings,
    },
    /// The shard knows a definition.
    JobReplicated {
        /// As accepted.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// The first fire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Fire>,
    },
    /// The shard switched generation on or off.
    JobSwitchReplicated {
        /// Which job.
        job: JobId,
        /// Whether it generates batches.
        enabled: bool,
        /// The first fire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Fire>,
    },
    /// The shard forgot a definition, as far as no unfinished batch needs it.
    JobDropped {
        /// Which job.
        job: JobId,
        /// Shards with jobs that name it as parent and go on waiting for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        orphaned_in: Vec<ShardId>,
    },
    /// The catalogue deleted a job that jobs of this shard name as parent: their batches go on waiting for it until a
    /// new definition does not name it any more, or somebody overrides that.
    ParentDeletionReplicated {
        /// The deleted job.
        parent: JobId,
        /// As `group/name`.
        name: String,
        /// When it was deleted.
        deleted_at: Timestamp,
        /// The jobs of this shard that name it, the first 100 by id.
        jobs: Vec<JobId>,
        /// A job that names it and comes next, from another group.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        coming: Option<JobId>,
    },
    /// The shard let a job go to another group, and decides nothing of it any more. Its batches stay.
    JobDetached {
        /// Which job.
        job: JobId,
        /// What was known of it.
        moved: Arc<MovedJob>,
    },
    /// The shard did not let a job go.
    JobDetachRejected {
        /// Which job.
        job: JobId,
        /// Why not.
        reason: Rejection,
    },
    /// The shard runs a job that another group had.
    JobAttached {
        /// As accepted.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// The fire that is to come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Fire>,
        /// What its old group knew of it.
        moved: Arc<MovedJob>,
    },
    /// The catalogue was told what is unfinished.
    UnfinishedReported {
        /// To which question.
        question: u64,
        /// The jobs that have unfinished batches.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        jobs: Vec<UnfinishedJob>,
    },
    /// The shard ends what is unfinished of a removed job.
    CancellationReplicated {
        /// Which job.
        job: JobId,
        /// Who wants it.
        by: Actor,
    },
    // ---- reruns and cold starts, in a group's shard
    /// The catalogue was told what there is for logical times of a plan.
    RunsReported {
        /// For which rerun.
        rerun: RerunId,
        /// To which question.
        part: u32,
        /// What there is; logical times that are not there never had a batch.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs: Vec<ReportedRun>,
    },
    /// A batch of a plan is not started.
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

    /// An ad-hoc job.
    JobSubmitted {
        /// As accepted.
        definition: Arc<JobDefinition>,
    },

    // ---- parents in other groups
    /// The shard knows jobs of other groups that are parents here.
    ParentsReplicated {
        /// As the catalogue told them.
        parents: Vec<ForeignParent>,
    },
    /// The shard was told how logical times of a parent in another group stand.
    ParentStatusUpdated {
        /// Which parent.
        parent: JobId,
        /// Time by time.
        standings: Vec<Standing>,
    },
    /// The shard was told that batches of a parent in another group were generated (GEN-9).
    ParentGenerationsReceived {
        /// Which parent.
        parent: JobId,
        /// For which logical times.
        times: Vec<Timestamp>,
        /// How many more were generated before these, of which this shard could not be told in time.
        #[serde(default, skip_serializing_if = "is_none")]
        left_out: u64,
    },
    /// The shard was told the newest logical times of a parent in another group.
    ParentTimesReceived {
        /// Which parent.
        parent: JobId,
        /// Oldest first.
        times: Vec<Timestamp>,
    },
    /// Another shard wants to hear of a job of this one.
    ParentSubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// What it wants to hear from now on.
        what: Subscription,
    },
    /// Batches of another shard wait for logical times of a job of this one.
    ParentTimesSubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// Its logical times.
        times: Vec<Timestamp>,
    },
    /// Nothing of another shard waits for these any more.
    ParentTimesUnsubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// Its logical times.
        times: Vec<Timestamp>,
    },

    // ---- batches
    /// A batch exists, in state waiting.
    BatchGenerated {
        /// Its id.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// The definition it keeps.
        version: u32,
        /// For which logical time.
        logical_time: Timestamp,
        /// 0 for the first, then + 1.
        #[serde(default, skip_serializing_if = "is_zero")]
        run: u32,
        /// Where it came from.
        origin: Origin,
        /// What it waits for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dependencies: Vec<Dependency>,
        /// It also waits for these, all at its own logical time; absent: there are no others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted_parents: Option<CountedParents>,
        /// The external dependencies that it waits for, too; each was told of before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        external_dependencies: Vec<ExternalDependencyId>,
        /// It also waits for the quality service's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        quality_gate: bool,
        /// It is not assigned before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        earliest_start: Option<Timestamp>,
        /// Parameters over those of the definition.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        parameters: BTreeMap<String, String>,
        /// The schedule's next fire, when the schedule made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Fire>,
        /// The version of its job's calendar, where it keeps to one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calendar: Option<u32>,
        /// The base time of its logical time, from which its timeouts count, when the generation of a parent made it:
        /// when the nearest ancestor with a schedule fired for it. Absent: the fire of its own schedule, else now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<Timestamp>,
        /// The plan that it belongs to, when a rerun or cold start made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rerun: Option<RerunPlace>,
        /// Of a run by hand, whether it was requested beside unfinished batches of its job; `false` means that the job
        /// had none. Absent for every other origin, and for runs by hand of before the flag existed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        concurrent: Option<bool>,
        /// GEN-1: the paths that it makes, templates resolved for its logical time; at most as many as its job names. Absent
        /// for batches of before they were recorded.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<DataPath>,
    },
    /// Fires that make no batch.
    ScheduleSkipped {
        /// Whose.
        job: JobId,
        /// The first one's logical time.
        from: Timestamp,
        /// The last one's.
        to: Timestamp,
        /// How many.
        count: u64,
        /// Why.
        reason: SkipReason,
        /// The next fire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Fire>,
    },
    /// The earliest start of a batch is reached.
    StartDue {
        /// Which.
        batch: BatchId,
    },
    /// One of the times that a batch waits for has succeeded, or was skipped; or ended otherwise, where its job waits
    /// for ends; or is left out, because the parent makes no batch for it.
    DependencySatisfied {
        /// The waiting batch.
        batch: BatchId,
        /// The parent.
        parent: JobId,
        /// Its logical time.
        logical_time: Timestamp,
        /// Parents' dependencies still unmet; 0: no parent keeps it back.
        unmet: u32,
        /// The parent has no batch for this time, and by its journal its schedule makes none.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        left_out: bool,
    },
    /// One of the times that a batch waits for holds no longer: its newest run has not succeeded.
    DependencyRevoked {
        /// The waiting batch.
        batch: BatchId,
        /// The parent.
        parent: JobId,
        /// Its logical time.
        logical_time: Timestamp,
        /// Parents' dependencies now unmet.
        unmet: u32,
    },
    /// A worker is to run the batch.
    BatchAssigned {
        /// Which.
        batch: BatchId,
        /// The attempt that this will be, from 1.
        attempt: u32,
        /// Fences it.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// When the worker must have asked to start.
        start_by: Timestamp,
    },
    /// An assignment ended without an attempt; the batch waits for another worker.
    AssignmentReturned {
        /// Which batch.
        batch: BatchId,
        /// The assignment.
        token: Token,
        /// Who had it.
        worker: WorkerId,
        /// Why.
        reason: ReturnReason,
    },
    /// The worker that asked may start, and no other.
    StartGranted {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Which question of it.
        nonce: Nonce,
    },
    /// The process runs.
    AttemptStarted {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
    },
    /// EXE-4: the program of an attempt has reported a code.
    UserCodeReported {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// 0: success.
        code: i32,
    },
    /// The attempt's whole process tree is gone, or its lease is over.
    AttemptFinished {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Its number, from 1.
        attempt: u32,
        /// Where it ran.
        worker: WorkerId,
        /// How it ended.
        outcome: AttemptOutcome,
        /// What it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// A failed attempt will be followed by another.
    RetryScheduled {
        /// Which batch.
        batch: BatchId,
        /// The number of the next attempt.
        attempt: u32,
        /// Not before.
        at: Timestamp,
    },
    /// The pause before the next attempt is over.
    RetryDue {
        /// Which batch.
        batch: BatchId,
    },
    /// Someone wants a running batch ended.
    KillRequested {
        /// Which batch.
        batch: BatchId,
        /// The attempt to be ended.
        token: Token,
        /// Who.
        by: Actor,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// The batch ended; nothing changes it any more.
    BatchFinished {
        /// Which.
        batch: BatchId,
        /// How.
        result: BatchResult,
        /// Who ended it, where somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
        /// For people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// Its job's final command is due, though it never had an attempt. Absent otherwise, and in records from before
        /// such batches had one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        final_command: bool,
    },
    // ---- marks by hand
    /// A person says how a batch ended. Of a finished one this is the result from now on; one that is unfinished
    /// ends with it at once, or as soon as what runs of it has ended.
    BatchResultOverridden {
        /// Which.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// Its logical time.
        logical_time: Timestamp,
        /// How.
        result: OverriddenResult,
        /// Who says so.
        by: Actor,
        /// Why.
        reason: String,
        /// The newest run of its logical time, which it is, where its shard holds the time no longer in full.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<u32>,
    },

    // ---- final commands (JOB-8): each is run at most once
    /// The worker of a finished batch's last attempt is to run its final command; of a batch that had none, a worker
    /// that has room.
    FinalCommandAssigned {
        /// Of which batch.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// Fences it.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// When the worker must have asked to start.
        start_by: Timestamp,
    },
    /// The worker that asked may start it, and no other.
    FinalCommandGranted {
        /// Of which batch.
        batch: BatchId,
        /// Which.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Which question of it.
        nonce: Nonce,
    },
    /// Nothing of it runs, and nothing of it ever will. The batch's result is what it was.
    FinalCommandFinished {
        /// Of which batch.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// Absent: it was never assigned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Token>,
        /// The worker of the batch's last attempt, or that had it.
        worker: WorkerId,
        /// How it ended.
        result: FinalResult,
        /// Exit code, where there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// For people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
    },
    /// That of a batch without an attempt was never given to a worker, and never will be.
    FinalCommandNotRun {
        /// Of which batch.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// Why, for people.
        message: String,
    },

    /// The batch waits for a parent's time that nobody brings unless somebody acts: its newest run ended without success, or
    /// is blocked itself. It is recorded once, and again only when another time blocks it instead. Its end, or
    /// `batch.unblocked`, ends it.
    BatchBlocked {
        /// Which.
        batch: BatchId,
        /// The parent that failed or is blocked.
        parent: JobId,
        /// For this logical time.
        logical_time: Timestamp,
        /// Since when the batch is blocked.
        since: Timestamp,
    },
    /// No failed parent blocks the batch any more: one was rerun or marked, or somebody lets it run without.
    BatchUnblocked {
        /// Which.
        batch: BatchId,
    },
    /// The batch has not got somewhere in time. It stays as it is, and may still succeed.
    TimeoutReached {
        /// Which.
        batch: BatchId,
        /// Which of its times has passed.
        kind: TimeoutKind,
        /// That time.
        deadline: Timestamp,
    },
    /// People are to be told, once per cause.
    AlarmRaised {
        /// Of what.
        kind: AlarmKind,
        /// How urgent it is.
        severity: Severity,
        /// The job concerned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<JobId>,
        /// The batch concerned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<BatchId>,
        /// The worker concerned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<WorkerId>,
        /// For people.
        message: String,
    },
    // ---- external dependencies waited for
    /// Something outside is waited for, or was reported, for the first time. It is not satisfied; its generation
    /// is 1.
    ExternalDependencyRegistered {
        /// Its number.
        external_dependency: ExternalDependencyId,
        /// What it is.
        what: ExternalDependency,
    },
    /// The external dependency is there. A batch that waits for it runs when nothing else keeps it back: no event says so for
    /// each of them.
    ExternalDependencySatisfied {
        /// Which.
        external_dependency: ExternalDependencyId,
        /// Its generation.
        generation: u64,
    },
    /// The external dependency is not there any more, for every batch that has not started.
    ExternalDependencyRevoked {
        /// Which.
        external_dependency: ExternalDependencyId,
        /// Its generation from now on.
        generation: u64,
        /// Who found out, where it was a worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<WorkerId>,
    },
    /// Nobody waits for these any more, and they left the state.
    ExternalDependenciesEvicted {
        /// At most 500.
        external_dependencies: Vec<ExternalDependencyId>,
    },
    /// A person lets a batch run without these.
    DependencyOverridden {
        /// Which.
        batch: BatchId,
        /// Without these external dependencies.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        external_dependencies: Vec<ExternalDependencyId>,
        /// Without the success of these.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parents: Vec<WaivedParent>,
        /// Without the success of any of those that it does not list (`counted_parents`), now and later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        counted_parents: bool,
        /// Without the quality service's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        quality: bool,
        /// Parents' dependencies that still keep it back.
        #[serde(default, skip_serializing_if = "is_zero")]
        unmet: u32,
        /// Who.
        by: Actor,
        /// Why.
        reason: String,
    },
    /// Somebody wants paths probed at once.
    ProbesRequested {
        /// Those that this batch waits for; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<BatchId>,
        /// Who.
        by: Actor,
    },
    /// All else is met: the quality service is to be asked.
    QualityRequested {
        /// About which batch.
        batch: BatchId,
        /// How often it was asked, from 1.
        number: u32,
        /// When it is asked again, unless it answers.
        again_at: Timestamp,
    },
    /// Somebody asks the quality service: the question counts as sent.
    QualitySent {
        /// About which batch.
        batch: BatchId,
        /// The number of the question.
        number: u32,
        /// Who.
        by: Incarnation,
    },
    /// The quality service has answered.
    QualityAnswered {
        /// About which batch.
        batch: BatchId,
        /// Whether it may run.
        allowed: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// Who called.
        by: Actor,
    },
    /// A third party reported something. The catalogue keeps it for batches to come.
    ThirdPartyReported {
        /// What it says.
        report: ThirdPartyReport,
        /// Who.
        by: Actor,
    },
    /// Old reports left the catalogue.
    ThirdPartyEvicted {
        /// Those that were received up to this time.
        upto: Timestamp,
        /// How many.
        count: u32,
    },
    /// Checks of paths fail, or are late.
    ProbesLate {
        /// What a prober says.
        report: ProbeReport,
    },
    /// Checks of paths are in time again.
    ProbesRecovered {
        /// Who says so.
        prober: Arc<str>,
        /// Of which authority.
        authority: Arc<str>,
    },
    /// What was known of old logical times of a job left the state.
    HistoryEvicted {
        /// Whose.
        job: JobId,
        /// Up to and with this logical time.
        upto: Timestamp,
    },

    // ---- workers
    /// A worker works for the shard.
    WorkerRegistered {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Its host's name.
        host: String,
        /// Where its logs are served.
        address: String,
        /// Attempts at once, by job type.
        slots: BTreeMap<JobType, u32>,
        /// What jobs can ask for it by.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        labels: BTreeSet<WorkerLabel>,
        /// The bounds that it is told, which it goes by until it registers again. Absent in old records: those
        /// of the group at this point.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<GroupSettings>,
        /// Slots that are kept for some jobs, by job type.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        reserved: BTreeMap<JobType, Reserved>,
    },
    /// A worker's machine stands otherwise than before, by a step worth knowing.
    WorkerMeasured {
        /// Which.
        worker: WorkerId,
        /// How it stands.
        #[serde(flatten)]
        measure: Measure,
        /// It is beyond a bound of its group, and gets no work until it has recovered.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        overloaded: bool,
    },
    /// A worker was not heard of for its limit.
    WorkerLost {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// A lost worker was heard of again, in the same life.
    WorkerRecovered {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The lease of a lost worker is over: nothing runs there any more.
    LeaseExpired {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The worker takes no new work.
    WorkerDrained {
        /// Which.
        worker: WorkerId,
    },
    /// The worker takes work again.
    WorkerResumed {
        /// Which.
        worker: WorkerId,
    },
    /// The worker says that it can take no new work.
    WorkerUnready {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Why, for people.
        reason: String,
    },
    /// The worker can take work again.
    WorkerReady {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },

    // ---- the partition itself
    /// A command could not be decoded or decided; it is set aside and changes nothing.
    CommandDeadLettered {
        /// Its offset in the commands.
        offset: u64,
        /// Why.
        reason: String,
    },
    /// A timer could not be decided; its entity stays as it is until a person acts.
    TimerSuspended {
        /// Which entity.
        entity: String,
        /// Why.
        reason: String,
    },
    /// An operator set the shard's clock.
    ClockSet {
        /// To this.
        now: Timestamp,
    },
    /// An operator let the partition go on though commands of it are lost. The envelope's resume point is the
    /// record that was written for it; the commands before that one are not decided any more.
    CommandLossAccepted {
        /// Who, as they name themselves.
        by: String,
        /// Why, for people.
        reason: String,
        /// The last command that was done with, in the topic as it was.
        done: u64,
        /// The first command that the topic still had, or would have had next.
        kept_from: u64,
        /// The record to go on after.
        resumed_at: u64,
    },
}

impl Event {
    /// The name of its kind, `noun.verb`, without version.
    pub fn kind(&self) -> &'static str {
        self.of_kind().name
    }

    /// What it is about, as `noun/id`; the CloudEvents subject.
    pub fn subject(&self) -> String {
        match self {
            Event::GroupDefined { group, .. } | Event::GroupReplicated { group, .. } => {
                format!("group/{group}")
            }
            Event::KeyDefined { app, .. } | Event::KeyRevoked { app } => format!("key/{app}"),
            Event::JobDefined { definition, .. }
            | Event::JobReplicated { definition, .. }
            | Event::JobMoved { definition, .. }
            | Event::JobAttached { definition, .. }
            | Event::JobSubmitted { definition } => format!("job/{}", definition.id),
            Event::JobEnabled { job }
            | Event::JobDisabled { job }
            | Event::JobDeleted { job }
            | Event::JobMoveRequested { job, .. }
            | Event::JobMoveRejected { job, .. }
            | Event::JobDetached { job, .. }
            | Event::JobDetachRejected { job, .. }
            | Event::JobSwitchReplicated { job, .. }
            | Event::JobDropped { job, .. }
            | Event::JobParentDeleted { parent: job, .. }
            | Event::ParentDeletionReplicated { parent: job, .. }
            | Event::JobCancelled { job, .. }
            | Event::CancellationReplicated { job, .. }
            | Event::ScheduleSkipped { job, .. }
            | Event::ScheduleRescheduled { job, .. }
            | Event::GenerationFailed { job, .. }
            | Event::HistoryEvicted { job, .. }
            | Event::ParentSubscribed { job, .. }
            | Event::ParentTimesSubscribed { job, .. }
            | Event::ParentTimesUnsubscribed { job, .. }
            | Event::ParentStatusUpdated { parent: job, .. }
            | Event::ParentGenerationsReceived { parent: job, .. }
            | Event::ParentTimesReceived { parent: job, .. } => format!("job/{job}"),
            Event::TemplateDefined { template } | Event::TemplateReplicated { template } => {
                format!("template/{}", template.spec.name)
            }
            Event::TemplateDeleted { name } | Event::TemplateDropped { name } => format!("template/{name}"),
            Event::UsersAssigned { group, .. } => format!("users/{group}"),
            Event::UsersReplicated { .. } => "users".to_owned(),
            Event::UserMoveRequested { user, .. }
            | Event::UserMoved { user, .. }
            | Event::UserMoveRejected { user, .. }
            | Event::UserDetached { user, .. }
            | Event::UserDetachRejected { user, .. }
            | Event::UserAttached { user, .. } => format!("user/{user}"),
            Event::TaskCreated { task, .. }
            | Event::TaskChanged { task, .. }
            | Event::TaskDeleted { task } => format!("task/{task}"),
            Event::TaskGranted { grant, .. }
            | Event::TaskCompleted { grant, .. }
            | Event::GrantReturned { grant, .. }
            | Event::GrantExpired { grant, .. } => format!("grant/{grant}"),
            Event::TasksPurged { .. } => "tasks".to_owned(),
            Event::PoolDefined { pool } | Event::PoolReplicated { pool } => {
                format!("pool/{}", pool.spec.name)
            }
            Event::PoolDeleted { name } | Event::PoolDropped { name } | Event::RateLimitReset { name } => {
                format!("pool/{name}")
            }
            Event::PermitsReported { report: PermitReport { pools, .. } }
            | Event::PermitReportReceived { report: PermitReport { pools, .. }, .. }
            | Event::PermitsGranted { pools, .. }
            | Event::PermitsReceived { pools, .. } => {
                format!("pool/{}", pools.first().map_or("", |of| of.name.as_str()))
            }
            Event::CalendarDefined { calendar } | Event::CalendarReplicated { calendar } => {
                format!("calendar/{}", calendar.spec.name)
            }
            Event::CalendarDeleted { name } | Event::CalendarDropped { name } => format!("calendar/{name}"),
            Event::UnfinishedQueried { question, .. }
            | Event::UnfinishedReported { question, .. }
            | Event::UnfinishedReceived { question, .. }
            | Event::DeletionDecided { question, .. } => format!("question/{question}"),
            Event::JobsStaged { apply, .. }
            | Event::StagingDiscarded { apply }
            | Event::ApplyCommitted { apply, .. }
            | Event::ApplyAdvanced { apply, .. }
            | Event::ApplyFinished { apply, .. } => format!("apply/{apply}"),
            Event::ParentsReplicated { .. } => format!("shard/{}", ShardId::CATALOGUE),
            Event::FreezeSet { group, .. } | Event::FreezeLifted { group, .. } => match group {
                Some(group) => format!("freeze/{group}"),
                None => "freeze/everything".to_owned(),
            },
            Event::FreezeReplicated { .. } => "freeze".to_owned(),
            Event::RerunRequested { rerun, .. }
            | Event::RunsQueried { rerun, .. }
            | Event::RunsReceived { rerun, .. }
            | Event::JobsSkipped { rerun, .. }
            | Event::BatchesPlanned { rerun, .. }
            | Event::RerunPlanned { rerun, .. }
            | Event::RerunApproved { rerun, .. }
            | Event::RunsRequested { rerun, .. }
            | Event::RunsBlocked { rerun, .. }
            | Event::RerunPaused { rerun, .. }
            | Event::RerunResumed { rerun, .. }
            | Event::RerunCancelled { rerun, .. }
            | Event::RerunFinished { rerun, .. }
            | Event::RunsReported { rerun, .. } => format!("rerun/{rerun}"),
            Event::BulkRequested { bulk, .. } | Event::BulkAdvanced { bulk, .. } => format!("bulk/{bulk}"),
            Event::RunFinished { place, .. } | Event::RunSkipped { place, .. } => {
                format!("rerun/{}", place.rerun)
            }
            Event::OutboxAcknowledged { to, .. } => format!("shard/{to}"),
            Event::MessageReceived { from, .. } => format!("shard/{from}"),
            Event::BatchGenerated { batch, .. }
            | Event::StartDue { batch }
            | Event::DependencySatisfied { batch, .. }
            | Event::DependencyRevoked { batch, .. }
            | Event::BatchAssigned { batch, .. }
            | Event::AssignmentReturned { batch, .. }
            | Event::StartGranted { batch, .. }
            | Event::AttemptStarted { batch, .. }
            | Event::UserCodeReported { batch, .. }
            | Event::FinalCommandAssigned { batch, .. }
            | Event::FinalCommandGranted { batch, .. }
            | Event::FinalCommandFinished { batch, .. }
            | Event::FinalCommandNotRun { batch, .. }
            | Event::AttemptFinished { batch, .. }
            | Event::RetryScheduled { batch, .. }
            | Event::RetryDue { batch }
            | Event::KillRequested { batch, .. }
            | Event::BatchResultOverridden { batch, .. }
            | Event::BatchBlocked { batch, .. }
            | Event::BatchUnblocked { batch }
            | Event::TimeoutReached { batch, .. }
            | Event::DependencyOverridden { batch, .. }
            | Event::QualityRequested { batch, .. }
            | Event::QualitySent { batch, .. }
            | Event::QualityAnswered { batch, .. }
            | Event::BatchFinished { batch, .. } => format!("batch/{batch}"),
            Event::ExternalDependencyRegistered { external_dependency, .. }
            | Event::ExternalDependencySatisfied { external_dependency, .. }
            | Event::ExternalDependencyRevoked { external_dependency, .. } => {
                format!("external_dependency/{external_dependency}")
            }
            Event::ExternalDependenciesEvicted { .. } => "external_dependencies".to_owned(),
            Event::ProbesRequested { batch: Some(batch), .. } => format!("batch/{batch}"),
            Event::ThirdPartyReported { report, .. } => format!("third_party/{}", report.code),
            Event::ThirdPartyEvicted { .. } => "third_party".to_owned(),
            Event::ProbesLate { report: ProbeReport { authority, .. } }
            | Event::ProbesRecovered { authority, .. } => format!("probes/{authority}"),
            Event::ProbesRequested { batch: None, .. } => "probes".to_owned(),
            Event::AlarmRaised { job, batch, worker, .. } => match (batch, job, worker) {
                (Some(batch), _, _) => format!("batch/{batch}"),
                (None, Some(job), _) => format!("job/{job}"),
                (None, None, Some(worker)) => format!("worker/{worker}"),
                (None, None, None) => "partition".to_owned(),
            },
            Event::WorkerRegistered { worker, .. }
            | Event::WorkerMeasured { worker, .. }
            | Event::WorkerLost { worker, .. }
            | Event::WorkerRecovered { worker, .. }
            | Event::LeaseExpired { worker, .. }
            | Event::WorkerDrained { worker }
            | Event::WorkerUnready { worker, .. }
            | Event::WorkerReady { worker, .. }
            | Event::WorkerResumed { worker } => format!("worker/{worker}"),
            Event::CommandDeadLettered { offset, .. } => format!("command/{offset}"),
            Event::TimerSuspended { entity, .. } => entity.clone(),
            Event::ClockSet { .. } | Event::CommandLossAccepted { .. } => "partition".to_owned(),
        }
    }
}
