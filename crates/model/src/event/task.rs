use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{Actor, GrantId, TaskId, TaskSpec, Timestamp, UserName};

/// Tasks that clients pull, in the shard of the home group.
#[vocabulary(Aggregate)]
pub enum TaskEvent {
    /// A client creates a pull task.
    ///
    /// It has version 1.
    #[event(kind = "task.created", subject = "task/{task}", public)]
    Created {
        /// Which.
        task: TaskId,
        /// As accepted.
        spec: Arc<TaskSpec>,
    },
    /// A client changes a pull task, which gets a new version.
    #[event(kind = "task.changed", subject = "task/{task}", public)]
    Changed {
        /// Which.
        task: TaskId,
        /// Its version now.
        version: u32,
        /// As accepted.
        spec: Arc<TaskSpec>,
    },
    /// A client deletes a pull task, which is granted to nobody any more.
    #[event(kind = "task.deleted", subject = "task/{task}", public)]
    Deleted {
        /// Which.
        task: TaskId,
    },
    /// A user pulls, and the group's shard grants an occurrence of a task.
    ///
    /// PUL-5: the occurrence has one less in stock.
    #[event(kind = "task.granted", subject = "grant/{grant}", public)]
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
    /// A client reports that a user completed a granted task.
    ///
    /// See PUL-7.
    #[event(kind = "task.completed", subject = "grant/{grant}", public)]
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
    /// A client returns a grant, and its occurrence goes back to stock.
    #[event(kind = "grant.returned", subject = "grant/{grant}", public)]
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
    /// The lease of a grant expires, and its occurrence goes back to stock.
    ///
    /// See PUL-13.
    #[event(kind = "grant.expired", subject = "grant/{grant}", public)]
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
    /// The group's shard removes old occurrences of pull tasks, which can no longer be pulled.
    ///
    /// PUL-14: those with an earlier start and without a live grant, and those tasks of which nothing is left to be given.
    /// No user's window begins earlier any more.
    #[event(kind = "tasks.purged", subject = "tasks", public)]
    Purged {
        /// Starts before.
        before: Timestamp,
        /// At most 500.
        tasks: Vec<TaskId>,
    },
}
