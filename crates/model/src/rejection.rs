//! Why a command changed nothing.

use tidemill_derive::{AsStr, Levelled, vocabulary};

use crate::Token;

/// One field that cannot be accepted.
#[vocabulary(Eq, thiserror::Error)]
#[error("{field}: {value:?}: {rule}")]
pub struct FieldError {
    /// Path of the field, as in `jobs[2].schedule.cron`.
    pub field: String,
    /// What was given, cut to 200 characters.
    pub value: String,
    /// The rule it breaks, and what to do.
    pub rule: String,
}

impl FieldError {
    /// An error of `field`, whose `value` breaks `rule`.
    pub fn new(field: impl Into<String>, value: impl ToString, rule: impl Into<String>) -> Self {
        let value: String = value.to_string().chars().take(200).collect();
        Self { field: field.into(), value, rule: rule.into() }
    }

    /// The same error, seen from the object that holds the field at `prefix`.
    pub fn within(mut self, prefix: &str) -> Self {
        self.field = format!("{prefix}.{}", self.field);
        self
    }
}

/// Whether the number of a field is `low` to `high`.
///
/// # Errors
/// It is not.
pub fn check_range(field: &str, value: u64, low: u64, high: u64) -> Result<(), FieldError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(FieldError::new(field, value, format!("has to be {low} to {high}")))
}

/// Why a command changed nothing. An answer, not an error of the program.
#[vocabulary(Eq, AsStr, Levelled, thiserror::Error)]
pub enum Rejection {
    /// Fields that cannot be accepted; nothing of the command was.
    #[error("{}", fields.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// Which and why, at most 20.
        fields: Vec<FieldError>,
    },
    /// The jobs would wait for each other.
    #[error("dependency cycle: {}", path.join(" → "))]
    Cycle {
        /// The jobs, each waiting for the next; the first stands again at the end.
        path: Vec<String>,
    },
    /// There is no such thing.
    #[error("there is no {what} {id}")]
    Unknown {
        /// Kind of external dependency.
        what: String,
        /// Its id or name.
        id: String,
    },
    /// The batch has ended.
    #[error("batch {batch} has already finished ({result})")]
    BatchAlreadyFinished {
        /// Which.
        batch: i64,
        /// How.
        result: String,
    },
    /// The batch has started, or has no such condition left.
    #[error("batch {batch} waits for no such thing: {reason}")]
    NotWaitedFor {
        /// Which.
        batch: i64,
        /// What it is like.
        reason: String,
    },
    /// The job has an unfinished batch for the logical time.
    #[error("job {job} has an unfinished batch {batch} for {logical_time}; wait for it or kill it")]
    BatchUnfinished {
        /// Which job.
        job: i64,
        /// The unfinished batch.
        batch: i64,
        /// RFC 3339.
        logical_time: String,
    },
    /// A run by hand while the job has an unfinished batch of another logical time.
    #[error(
        "job {job} has an unfinished batch {batch} for {logical_time}; wait for it, kill it, or run beside it with \
         concurrent (--concurrent)"
    )]
    JobUnfinished {
        /// Which job.
        job: i64,
        /// Its newest unfinished batch.
        batch: i64,
        /// The logical time of that batch, RFC 3339.
        logical_time: String,
    },
    /// The job cannot be removed or moved while others need it.
    #[error("job {job} cannot be deleted: {reason}")]
    JobInUse {
        /// `group/name`.
        job: String,
        /// What needs it, by name.
        reason: String,
    },
    /// The job cannot go to another group now.
    #[error("job {job} cannot be moved: {reason}")]
    JobNotMoved {
        /// `group/name`.
        job: String,
        /// What keeps it, and what to do.
        reason: String,
    },
    /// The job is on its way from one group to another.
    #[error("job {job} is being moved to group {group}; try again in a moment")]
    JobMoving {
        /// `group/name`, as it was.
        job: String,
        /// Where it goes.
        group: String,
    },
    /// The calendar cannot be removed while jobs use it.
    #[error("calendar {calendar} cannot be removed: {reason}")]
    CalendarInUse {
        /// Its name.
        calendar: String,
        /// The jobs that use it, by name.
        reason: String,
    },
    /// The pool cannot be removed while jobs use it.
    #[error("pool {pool} cannot be removed: {reason}")]
    PoolInUse {
        /// Its name.
        pool: String,
        /// The jobs that use it, by name.
        reason: String,
    },
    /// The user is no member of the group.
    #[error(
        "user {user} is no member of {group}; assign the user to a group first, or try again if it is being moved"
    )]
    UserUnknown {
        /// Who.
        user: String,
        /// The group; *any group*, where none is asked in particular.
        group: String,
    },
    /// The user has another home group.
    #[error("user {user} is a member of group {group}; move the user instead")]
    UserElsewhere {
        /// Who.
        user: String,
        /// Its home group.
        group: String,
    },
    /// The user is on its way from one group to another.
    #[error("user {user} is being moved; try again in a moment")]
    UserMoving {
        /// Who.
        user: String,
    },
    /// The user cannot be moved or removed while it has something.
    #[error("user {user} has grant {grant}, which is live; it must be completed or returned first")]
    GrantLive {
        /// Who.
        user: String,
        /// What.
        grant: i64,
    },
    /// The grant is not, or no longer, that user's to complete or return.
    #[error("grant {grant} {reason}; nothing changes")]
    GrantOver {
        /// Which.
        grant: i64,
        /// What became of it.
        reason: String,
    },
    /// The grant is not, or no longer, that user's to give back.
    #[error("grant {grant} {reason}, so it cannot be returned")]
    NotReturned {
        /// Which.
        grant: i64,
        /// What became of it.
        reason: String,
    },
    /// A completion that contradicts an earlier one.
    #[error("grant {grant} is already completed with another result")]
    AlreadyCompleted {
        /// Which.
        grant: i64,
    },
    /// The task was deleted.
    #[error("task {task} is deleted")]
    TaskDeleted {
        /// Which.
        task: i64,
    },
    /// The job is switched off.
    #[error("job {job} is disabled; enable it first")]
    JobDisabled {
        /// Which.
        job: i64,
    },
    /// The token is not, or no longer, that worker's to act on.
    #[error("token {token} is not live for this worker: {reason}")]
    StaleToken {
        /// Which.
        token: i64,
        /// What became of it.
        reason: String,
    },
    /// The registration is not signed by the group's key.
    #[error("worker {worker} is not registered: {reason}")]
    BadRegistration {
        /// Which.
        worker: String,
        /// Why.
        reason: String,
    },
    /// The message is not the next one from its shard.
    #[error("message {number} from shard {from} is not the next one, {expected}")]
    OutOfOrder {
        /// Sender.
        from: u16,
        /// Given.
        number: u64,
        /// Wanted.
        expected: u64,
    },
    /// A catalogue command reached another shard, or the other way round.
    #[error("{what} is not decided by shard {shard}")]
    WrongShard {
        /// The command.
        what: String,
        /// Where it arrived.
        shard: u16,
    },
    /// A bound of the system was reached.
    #[error("{what} is at its limit of {limit}")]
    LimitReached {
        /// Which bound.
        what: String,
        /// Its value.
        limit: u64,
    },
    /// It was done before, and can be done only once.
    #[error("{what} is already there")]
    AlreadyThere {
        /// What.
        what: String,
    },
    /// The key of a request was used for another request before; nothing of this one was done.
    #[error("the Idempotency-Key was used for another request before; draw a new one for each request")]
    RequestKeyReused {},
    /// A large `apply` is being carried out; definitions can be changed when it is done, within seconds.
    #[error("apply {apply} is being carried out; try again when it is done")]
    ApplyRunning {
        /// Which request.
        apply: String,
    },
    /// Definitions have changed since the request was made.
    #[error("definitions have changed meanwhile: revision {revision} is not {expected}")]
    RevisionChanged {
        /// As requested.
        expected: u64,
        /// As it is.
        revision: u64,
    },
    /// Jobs of a plan have changed since it was made.
    #[error("the plan of rerun {rerun} is out of date, for {} changed since; plan it anew", jobs.join(", "))]
    PlanOutdated {
        /// Which rerun.
        rerun: i64,
        /// `group/name` of the first ten of them.
        jobs: Vec<String>,
    },
    /// That cannot be done to a rerun in its state.
    #[error("rerun {rerun} is {state}; {rule}")]
    RerunNotReady {
        /// Which.
        rerun: i64,
        /// Its state.
        state: String,
        /// What can be done instead, or when.
        rule: String,
    },
    /// The process cannot read what the others may write.
    #[error(
        "this process reads up to level {reads}, and level {level} stands: what the others write it could not read; start a \
         version that reads level {level}"
    )]
    TooOld {
        /// The highest level that it reads.
        reads: u32,
        /// The level that stands.
        level: u32,
    },
    /// The command was set aside: it could not be decoded, or deciding it failed.
    #[error("the command was dead-lettered: {reason}")]
    DeadLettered {
        /// Why.
        reason: String,
    },
}

impl From<FieldError> for Rejection {
    fn from(error: FieldError) -> Self {
        Rejection::Invalid { fields: vec![error] }
    }
}

impl Rejection {
    /// What is unknown where a return names a user of another group. Unlike [`Rejection::UserUnknown`] it is kept for
    /// repeats, as everything that is said of a return.
    pub const MEMBER: &'static str = "user in this group with the name";

    /// Whether the user is no member of the group that was asked: it may have moved.
    pub fn is_of_no_member(&self) -> bool {
        match self {
            Rejection::UserUnknown { .. } | Rejection::UserMoving { .. } => true,
            Rejection::Unknown { what, .. } => what == Self::MEMBER,
            _ => false,
        }
    }

    /// Nothing of that kind with that id.
    pub fn unknown(what: &str, id: impl ToString) -> Self {
        Rejection::Unknown { what: what.to_owned(), id: id.to_string() }
    }

    /// The token is not that worker's to act on.
    pub fn stale(token: Token, reason: impl Into<String>) -> Self {
        Rejection::StaleToken { token: token.0, reason: reason.into() }
    }

    /// One bad field.
    pub fn field(field: impl Into<String>, value: impl ToString, rule: impl Into<String>) -> Self {
        FieldError::new(field, value, rule).into()
    }

    /// A bound of the system was reached.
    pub fn limit(what: impl Into<String>, limit: u64) -> Self {
        Rejection::LimitReached { what: what.into(), limit }
    }

    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Rejection::RequestKeyReused {} => "idempotency_key_reused",
            other => other.as_str(),
        }
    }
}
