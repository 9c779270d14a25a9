//! What a client gets when it pulls, how often a task was given, and what became of it (BYD-10).

use tidemill_derive::vocabulary;

use super::{Parameters, TaskSpec};
use crate::{GrantId, TaskId, Timestamp};

/// The grants of a task or of one occurrence. `taken` = `live` + `completed` + `returned` + `expired`, always.
#[vocabulary(Copy, Eq, Default)]
pub struct Ledger {
    /// Grants that were ever given.
    pub taken: u64,
    /// Those that somebody has.
    pub live: u64,
    /// Those that were completed.
    pub completed: u64,
    /// Those that were given back.
    pub returned: u64,
    /// Those whose lease ran out.
    pub expired: u64,
}

impl Ledger {
    /// Whether it adds up.
    pub fn balances(&self) -> bool {
        self.taken == self.live + self.completed + self.returned + self.expired
    }

    /// What of `dispatch_times` is used: the grants that did not come back.
    pub fn used(&self) -> u64 {
        self.live + self.completed
    }
}

/// The ledger of one occurrence.
#[vocabulary(Copy, Eq)]
pub struct OccurrenceLedger {
    /// Its start.
    pub start: Timestamp,
    /// Its grants.
    #[serde(flatten)]
    pub ledger: Ledger,
    /// How often it can still be given.
    pub stock: u64,
}

/// A task and its ledger, as its owner knows them.
#[vocabulary]
pub struct TaskLedger {
    /// Which task.
    pub task: TaskId,
    /// Its version.
    pub version: u32,
    /// As written.
    pub spec: TaskSpec,
    /// When it was deleted; absent: it was not.
    pub deleted_at: Option<Timestamp>,
    /// Over all its occurrences, those included that are no longer kept.
    pub totals: Ledger,
    /// Occurrences that were given and are kept, newest first.
    pub occurrences: Vec<OccurrenceLedger>,
    /// There are older ones behind the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A task that was given to a user, as it was when it was given.
#[vocabulary(Eq)]
pub struct PulledGrant {
    /// What a completion names.
    pub grant: GrantId,
    /// Which task.
    pub task: TaskId,
    /// The version of it.
    pub version: u32,
    /// Its name for people.
    pub name: Option<String>,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// Which occurrence.
    pub start: Timestamp,
    /// Since when the user has it.
    pub granted_at: Timestamp,
    /// PUL-13: when it expires; absent: never.
    pub expires_at: Option<Timestamp>,
    /// The user had it already and has not completed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redo: bool,
}
