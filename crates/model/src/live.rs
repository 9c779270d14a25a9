//! Questions about the present that only an owner's state can answer, and their answers. Lists come from
//! the read tables; this is for *why* and for what the tables do not hold yet.

use serde::{Deserialize, Serialize};
use tidemill_derive::{Word, vocabulary};

use crate::{
    Actor, BatchId, BatchResult, CalendarName, DirectoryChange, ExternalDependencyId, GroupName, JobChange,
    JobId, JobSpec, LevelState, PoolHolder, PoolName, QualityQuestion, Rejection, ShardId, TaskId,
    TaskLedger, Timestamp, UserName, UserStanding, WantedExternalDependency, WantedOutput, WorkerId,
    WorkerPresent,
};

/// The state of a batch; its result is another thing.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Word)]
pub enum BatchState {
    /// 0: waits for conditions, for a retry's time, or for a worker.
    Waiting,
    /// 1: a worker has it and has not started it.
    Assigned,
    /// 2: granted or running.
    Running,
    /// 3: ended.
    Finished,
}

impl BatchState {
    /// Every state, by number.
    pub const ALL: [BatchState; 4] =
        [BatchState::Waiting, BatchState::Assigned, BatchState::Running, BatchState::Finished];

    /// The number that tables and the job calls use.
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// A question to the owner of a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveQuery {
    /// Why is this batch not running?
    Why {
        /// Which.
        batch: BatchId,
    },
    /// The newest batch of a job.
    NewestBatch {
        /// Which job.
        job: JobId,
    },
    /// Which paths are to be probed? In order of their ids.
    WantedExternalDependencies {
        /// Behind this one; absent: from the first.
        after: Option<ExternalDependencyId>,
        /// At most so many, 1,000 in any case.
        limit: u32,
    },
    /// What is the quality service to be asked? In order of the batches' ids.
    WantedQuality {
        /// Behind this one; absent: from the first.
        after: Option<BatchId>,
        /// At most so many, 1,000 in any case.
        limit: u32,
    },
    /// Who holds slots of a pool? To the catalogue's owner for groups' shares of one that they share, to a
    /// group's owner for its batches.
    Pool {
        /// Its name.
        name: PoolName,
    },
    /// How often a task was given, and what became of it (BYD-10). To the owner of its group.
    TaskLedger {
        /// Which task.
        task: TaskId,
        /// Only occurrences that start before; absent: from the newest.
        before: Option<Timestamp>,
        /// At most so many of them, 1,000 in any case.
        limit: u32,
    },
    /// How it stands with a user. To the owner of its home group.
    User {
        /// Who.
        user: UserName,
        /// The present, as the asker knows it.
        at: Timestamp,
    },
    /// What an `apply` of these jobs would change. To the catalogue's owner.
    PlanApply {
        /// As written.
        jobs: Vec<JobSpec>,
        /// Groups whose other jobs would be deleted.
        prune: Vec<GroupName>,
        /// Who would apply them; absent: somebody who has all accounts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
        /// Jobs that others name as parent would be deleted, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
    },
    /// Whether the catalogue would accept these changes of the directory together, however many they are. To the catalogue's
    /// owner.
    CheckDirectory {
        /// The directory's revision that they are planned against.
        revision: u64,
        /// What would change.
        changes: Vec<DirectoryChange>,
    },
    // What a change in the catalogue has reached.
    /// Whom the catalogue told of it. To the catalogue's owner.
    Notified {
        /// Whom it concerns.
        concerned: Concerned,
        /// Offset of the record that made it; an owner that has not read so far does not answer.
        at_least: u64,
    },
    /// How does it stand with a worker? To the owner of its group.
    Worker {
        /// Which.
        worker: WorkerId,
    },
    /// Which level stands, and who reads how much? To the catalogue's owner.
    Level,
    /// How far messages between the shard and others are. To the shard's owner.
    Mailboxes {
        /// Which others.
        with: Vec<ShardId>,
    },
}

impl LiveQuery {
    /// The journal's offset up to which an owner must have read to answer.
    pub fn at_least(&self) -> Option<u64> {
        match self {
            LiveQuery::Notified { at_least, .. } => Some(*at_least),
            _ => None,
        }
    }

    /// The shard whose owner knows.
    pub fn shard(&self, of_job: Option<ShardId>) -> ShardId {
        match self {
            LiveQuery::Why { batch } => batch.shard(),
            LiveQuery::NewestBatch { job } => of_job.unwrap_or(job.shard()),
            LiveQuery::WantedExternalDependencies { after, .. } => {
                of_job.or(after.map(ExternalDependencyId::shard)).unwrap_or(ShardId::CATALOGUE)
            }
            LiveQuery::WantedQuality { after, .. } => {
                of_job.or(after.map(BatchId::shard)).unwrap_or(ShardId::CATALOGUE)
            }
            LiveQuery::TaskLedger { task, .. } => of_job.unwrap_or(task.shard()),
            LiveQuery::Pool { .. }
            | LiveQuery::User { .. }
            | LiveQuery::Worker { .. }
            | LiveQuery::Mailboxes { .. } => of_job.unwrap_or(ShardId::CATALOGUE),
            LiveQuery::PlanApply { .. }
            | LiveQuery::CheckDirectory { .. }
            | LiveQuery::Notified { .. }
            | LiveQuery::Level => ShardId::CATALOGUE,
        }
    }
}

/// What the owner knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveAnswer {
    /// To [`LiveQuery::Why`].
    Why(Why),
    /// To [`LiveQuery::NewestBatch`].
    NewestBatch {
        /// Its id; absent: the job has none on record.
        batch: Option<BatchId>,
        /// Its state.
        state: Option<BatchState>,
    },
    /// To [`LiveQuery::WantedExternalDependencies`].
    Wanted {
        /// In order of their ids.
        external_dependencies: Vec<WantedExternalDependency>,
        /// There are more behind the last one.
        more: bool,
        /// Outputs of lost attempts to look for, the longest wanted first; on the first page alone. Probers of earlier versions pass
        /// over them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<WantedOutput>,
    },
    /// To [`LiveQuery::WantedQuality`].
    WantedQuality {
        /// In order of the batches' ids.
        asks: Vec<QualityQuestion>,
        /// There are more behind the last one.
        more: bool,
    },
    /// To [`LiveQuery::Pool`].
    Pool {
        /// At most 1,000, those with most slots first.
        holders: Vec<PoolHolder>,
    },
    /// To [`LiveQuery::TaskLedger`].
    TaskLedger(Box<TaskLedger>),
    /// To [`LiveQuery::User`].
    User(Box<UserStanding>),
    /// To [`LiveQuery::PlanApply`], when it would be accepted.
    Planned(Box<ApplyPlan>),
    /// To [`LiveQuery::CheckDirectory`], when they would be accepted.
    Acceptable,
    /// To [`LiveQuery::PlanApply`] and [`LiveQuery::CheckDirectory`], when it would be refused.
    Refused(Rejection),
    /// To [`LiveQuery::Notified`].
    Notified {
        /// In order of their numbers.
        shards: Vec<NotifiedShard>,
    },
    /// To [`LiveQuery::Worker`].
    Worker(Box<WorkerPresent>),
    /// To [`LiveQuery::Level`].
    Level(Box<LevelState>),
    /// To [`LiveQuery::Mailboxes`], in the order of the question.
    Mailboxes {
        /// Each of the others.
        with: Vec<MailboxState>,
    },
    /// The state does not hold it (any more); the read tables may.
    NotFound,
}

/// Whom a change in the catalogue concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concerned {
    /// Whoever runs these jobs, or children of them.
    Definitions {
        /// Which.
        jobs: Vec<JobId>,
        /// Groups that are concerned in any case: those of deleted jobs.
        groups: Vec<GroupName>,
    },
    /// One group.
    Group(GroupName),
    /// Every group.
    Everyone,
    /// Whoever has jobs that go by this calendar.
    Calendar(CalendarName),
}

/// A shard that the catalogue told something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifiedShard {
    /// Which.
    pub shard: ShardId,
    /// The number of the last message to it.
    pub upto: u64,
    /// The shards of the parents in other groups that it follows for them.
    pub parents: Vec<ShardId>,
}

/// How far messages between two shards are, as one of them knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxState {
    /// The other shard.
    pub shard: ShardId,
    /// The number of its last message that is recorded here.
    pub received: u64,
    /// The number of the last message that was recorded here for it.
    pub sent: u64,
    /// Something about definitions is still to be put into a message to it, once there is room.
    pub unsaid: bool,
}

/// What an `apply` would change.
#[vocabulary]
pub struct ApplyPlan {
    /// Counts the changes of definitions that the plan was made on.
    pub revision: u64,
    /// Job by job, in the order given, unchanged ones too; then the deleted ones.
    pub changes: Vec<PlannedChange>,
    /// For people.
    pub warnings: Vec<String>,
}

/// What an `apply` would do to one job.
#[vocabulary]
pub struct PlannedChange {
    /// Which job, and what.
    #[serde(flatten)]
    pub change: JobChange,
    /// The fields that differ, for a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diff: Vec<FieldDiff>,
}

/// A field that differs.
#[vocabulary(Eq)]
pub struct FieldDiff {
    /// Its name in the definition.
    pub field: String,
    /// As it is, cut to 200 characters; empty where there is nothing.
    pub old: String,
    /// As it would be.
    pub new: String,
}

/// Every unmet condition of a batch.
#[vocabulary]
pub struct Why {
    /// Which batch.
    pub batch: BatchId,
    /// Its state.
    pub state: BatchState,
    /// Its result, once it has one.
    pub result: Option<BatchResult>,
    /// What keeps it from running; empty for a running or finished one.
    pub conditions: Vec<Condition>,
    /// Times of parents that it does not wait for, because the parent skipped them; at most 50 of each parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// It is blocked by a failed parent: nothing comes of what it waits for unless somebody acts. Since when, by which
    /// parent's time, and in the message by what that one is blocked in turn.
    pub blocked: Option<Condition>,
}

/// A parent's logical time that a batch does not wait for.
#[vocabulary(Eq)]
pub struct LeftOut {
    /// The parent.
    pub job: JobId,
    /// Its logical time.
    pub logical_time: Timestamp,
    /// For people, naming both.
    pub message: String,
}

/// One unmet condition.
#[vocabulary]
pub struct Condition {
    /// In one word: `dependency`, `disabled`, `retry_interval`, `concurrency`, `no_worker`, `no_slot`,
    /// `no_memory`, `worker_overloaded`, `pinned_host`, `worker_label`, `drained`, `unready`, `frozen`,
    /// `parent_deleted`, `earliest_start`, `not_started`, `path`, `third_party`, `quality_gate`, `pool`, `rate_limit`,
    /// `stray`.
    pub kind: String,
    /// For people, naming job, worker, limit.
    pub message: String,
    /// Since when it holds.
    pub since: Option<Timestamp>,
    /// The job waited for, if it is one.
    pub job: Option<JobId>,
    /// Its logical time.
    pub logical_time: Option<Timestamp>,
    /// The pools waited for, if it is some that groups share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolName>,
}

impl Condition {
    /// One that names neither a job nor a pool.
    pub fn new(kind: &str, message: String, since: Option<Timestamp>) -> Self {
        Self { kind: kind.to_owned(), message, since, job: None, logical_time: None, pools: Vec::new() }
    }
}
