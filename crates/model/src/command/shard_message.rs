//! What shards tell each other.

use std::sync::Arc;

use tidemill_derive::{Levelled, vocabulary};

use super::Actor;
use crate::{
    BatchId, Calendar, CalendarName, ForeignParent, Freeze, FreezeScope, GroupId, GroupName, GroupSettings,
    JobDefinition, JobId, Level, MovedJob, MovedTask, PermitReport, Pool, PoolName, PoolUse, Rejection,
    ReportedRun, RerunId, RerunPlace, RunOutcome, RunsQuery, ShardId, Standing, StartRun, Subscription,
    Template, TemplateName, ThirdPartyReport, Timestamp, UserHistory, UserName,
};

/// What one shard tells another, over its numbered outbox.
#[vocabulary(Levelled)]
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
    // ---- levels
    /// The level was raised: every registered process reads it.
    Level {
        /// The new one.
        level: Level,
    },
    // ---- freezes
    /// The latest logical time that may be assigned.
    Freeze {
        /// Of what.
        scope: FreezeScope,
        /// Absent: there is none any more.
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
        coming: Option<JobId>,
    },
    /// No definition names a deleted job of the receiving shard as parent any more.
    ReleaseParent {
        /// The deleted job.
        parent: JobId,
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
        #[serde(default, skip_serializing_if = "crate::is_default")]
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
#[vocabulary(Eq)]
pub struct UnfinishedJob {
    /// Which.
    pub job: JobId,
    /// How many of its logical times.
    pub batches: u32,
    /// One of them, for the newest logical time.
    pub newest: BatchId,
}
