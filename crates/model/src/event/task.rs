//! Tasks that clients pull, in the shard of the home group.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{Aggregate, skip_none};

use crate::pull::{TaskSpec, UserName};
use crate::{Actor, GrantId, TaskId, Timestamp};

/// Tasks that clients pull, in the shard of the home group.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Aggregate)]
#[serde(rename_all = "snake_case")]
pub enum TaskEvent {
    /// There is a new task, in its version 1.
    #[event(kind = "task.created", subject = "task/{task}", public = "A client creates a pull task.")]
    Created {
        /// Which.
        task: TaskId,
        /// As accepted.
        spec: Arc<TaskSpec>,
    },
    /// A task is another one from now on.
    #[event(
        kind = "task.changed",
        subject = "task/{task}",
        public = "A client changes a pull task, which gets a new version."
    )]
    Changed {
        /// Which.
        task: TaskId,
        /// Its version now.
        version: u32,
        /// As accepted.
        spec: Arc<TaskSpec>,
    },
    /// A task is not given out any more.
    #[event(
        kind = "task.deleted",
        subject = "task/{task}",
        public = "A client deletes a pull task, which is granted to nobody any more."
    )]
    Deleted {
        /// Which.
        task: TaskId,
    },
    /// A user got an occurrence of a task (PUL-5). It has one less in stock.
    #[event(
        kind = "task.granted",
        subject = "grant/{grant}",
        public = "A user pulls, and the group's shard grants an occurrence of a task."
    )]
    Granted {
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
        expires_at: Option<Timestamp>,
        /// The start of the task's occurrence behind this one; absent: there is none.
        next: Option<Timestamp>,
    },
    /// A user has done what it was given (PUL-7).
    #[event(
        kind = "task.completed",
        subject = "grant/{grant}",
        public = "A client reports that a user completed a granted task."
    )]
    Completed {
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
    #[event(
        kind = "grant.returned",
        subject = "grant/{grant}",
        public = "A client returns a grant, and its occurrence goes back to stock."
    )]
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
    #[event(
        kind = "grant.expired",
        subject = "grant/{grant}",
        public = "The lease of a grant expires, and its occurrence goes back to stock."
    )]
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
    #[event(
        kind = "tasks.purged",
        subject = "tasks",
        public = "The group's shard removes old occurrences of pull tasks, which can no longer be pulled."
    )]
    Purged {
        /// Starts before.
        before: Timestamp,
        /// At most 500.
        tasks: Vec<TaskId>,
    },
}
