//! Users: who pulls.

use std::sync::Arc;

use tidemill_derive::vocabulary;

use super::{Ledger, PulledGrant, TaskSpec};
use crate::{GrantId, TaskId, Timestamp, UserName};

/// The grant that a user completed last. Its start is where the user's window begins.
#[vocabulary(Eq)]
pub struct LastCompleted {
    /// Which grant.
    pub grant: GrantId,
    /// Of which task.
    pub task: TaskId,
    /// Of which occurrence.
    pub start: Timestamp,
    /// SHA-256 of the result, hex.
    pub result_hash: String,
    /// When.
    pub completed_at: Timestamp,
}

/// What a user's next pulls depend on, as it goes from group to group with the user.
#[vocabulary(Eq, Default)]
pub struct UserHistory {
    /// What the user completed last.
    pub last: Option<LastCompleted>,
    /// The tasks that the user has completed with exactly that start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<TaskId>,
    /// The user's window does not begin before.
    pub not_before: Option<Timestamp>,
}

impl UserHistory {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An occurrence of a task that goes with its user.
#[vocabulary(Copy, Eq)]
pub struct MovedOccurrence {
    /// Its start.
    pub start: Timestamp,
    /// Its grants.
    #[serde(flatten)]
    pub ledger: Ledger,
    /// The start of the task's occurrence behind it.
    pub next: Option<Timestamp>,
}

/// A task that goes with its user.
#[vocabulary(Eq)]
pub struct MovedTask {
    /// Which.
    pub task: TaskId,
    /// Its version.
    pub version: u32,
    /// As written.
    pub spec: Arc<TaskSpec>,
    /// Over all its occurrences.
    pub totals: Ledger,
    /// Occurrences that were given and could be given again, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub occurrences: Vec<MovedOccurrence>,
}

/// An occurrence that a user will get, or can get now.
#[vocabulary(Copy, Eq)]
pub struct NextDue {
    /// Of which task.
    pub task: TaskId,
    /// Its start.
    pub start: Timestamp,
}

/// How it stands with a user, as the owner of its home group knows it.
#[vocabulary(Eq)]
pub struct UserStanding {
    /// Who.
    pub user: UserName,
    /// What the user has and has not completed.
    pub live: Option<PulledGrant>,
    /// What the user completed last.
    pub last: Option<LastCompleted>,
    /// Where the user's window begins.
    pub window_from: Timestamp,
    /// What a pull gives, once its start has come; absent: nothing until the window's end.
    pub next: Option<NextDue>,
}
