//! What clients pull: templates and users as the catalogue has them, tasks, ledgers and grants as the users' home
//! shards have them.

use std::sync::Arc;

use crate::Kind::{Bool, Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// A template that parameters of pull tasks are checked against. Gone when it is removed.
    TaskTemplateRow in "task_templates", key (name: Arc<str>),
    fixed (), indexes [] {
        /// Its name.
        name: Arc<str> = Name(64),
        /// Numbers its content; every change of any template gets the next one.
        version: i64 = Int,
        /// The parameters that there may be.
        fields: Arc<str> = Json,
        /// Free text.
        comment: Arc<str> = Text,
        /// When it was last changed.
        changed_at: i64 = Time,
    }
}

row! {
    /// A user who pulls tasks and has a home group.
    PullUserRow in "pull_users", key (user_name: Arc<str>),
    fixed (), indexes [[group_name]] {
        /// The user's name.
        user_name: Arc<str> = Name(128) => As("user"),
        /// Its home group.
        group_name: Arc<str> = Name(64) => As("group"),
        /// The group's shard.
        shard: i64 = Int => Hidden,
        /// Whether the group's shard is asked to let it go.
        moving: bool = Bool,
        /// Where it is to go; null: it stays, or is to be removed.
        moving_to: Option<Arc<str>> = Name(64),
        /// Why the last move was refused.
        refusal: Arc<str> = Text,
        /// Since when it has a home group.
        assigned_at: i64 = Time,
        /// Since when it has this one.
        changed_at: i64 = Time,
    }
}

row! {
    /// A task that clients pull. One that went to another shard with its user has a row of either.
    PullTaskRow in "pull_tasks", key (id: i64, shard: i64),
    fixed (group_name, executor_kind, executor),
    indexes [[rotating, executor, start_at], [rotating, group_name, start_at], [rotating, start_at]] {
        /// Its id.
        id: i64 = Int,
        /// The shard that gives it out, or gave it out.
        shard: i64 = Int => Hidden,
        /// The group whose shard gives it out: the executor, or the home group of it.
        group_name: Arc<str> = Name(64) => As("group"),
        /// `group` or `user`.
        executor_kind: Arc<str> = Name(16) => Hidden,
        /// Name of the group or the user.
        executor: Arc<str> = Name(128) => Hidden,
        /// For people.
        name: Option<Arc<str>> = Text => Hidden,
        /// The template that its parameters were checked against.
        template: Option<Arc<str>> = Name(64) => Hidden,
        /// Whether it has an occurrence every so many minutes or days, and not a single one.
        rotating: bool = Bool => Hidden,
        /// The start of its only occurrence, or from when on it has any.
        start_at: i64 = Time => Hidden,
        /// How often each occurrence may be given out.
        dispatch_times: i64 = Int => Hidden,
        /// Rises with every change.
        version: i64 = Int,
        /// `valid`, `deleted`, or `released`: it left the group with its user.
        state: Arc<str> = Name(16),
        /// As it could have been written.
        definition: Arc<str> = Json => As("task"),
        /// Grants that were ever given: `live` + `completed` + `returned` + `expired`.
        taken: i64 = Int => Hidden,
        /// Those that somebody has.
        live: i64 = Int => Hidden,
        /// Those that were completed.
        completed: i64 = Int => Hidden,
        /// Those that were given back.
        returned: i64 = Int => Hidden,
        /// Those whose lease ran out.
        expired: i64 = Int => Hidden,
        /// When it was created, or came to the group with its user.
        received_at: i64 = Time,
        /// When it was changed.
        changed_at: Option<i64> = Time,
        /// When it was deleted, or left the group with its user.
        ended_at: Option<i64> = Time,
        /// What of it started before can no longer be pulled: its shard has forgotten it.
        purged_before: Option<i64> = Time,
    }
}

row! {
    /// A version of a task that clients pull, as grants name it. The same in every shard that the task was in.
    PullTaskVersionRow in "pull_task_versions", key (id: i64, version: i64, shard: i64),
    fixed (definition), indexes [[recorded_at]] {
        /// The task.
        id: i64 = Int,
        /// Its version.
        version: i64 = Int,
        /// A shard that gives it out, or gave it out.
        shard: i64 = Int,
        /// As written.
        definition: Arc<str> = Json,
        /// When the shard heard of it.
        recorded_at: i64 = Time,
    }
}

row! {
    /// The ledger of an occurrence that was given out. A task's ledger is the sum over its occurrences.
    PullLedgerRow in "pull_ledger", key (task_id: i64, start_at: i64, shard: i64),
    fixed (), indexes [[start_at]] {
        /// The task.
        task_id: i64 = Int,
        /// The start of the occurrence.
        start_at: i64 = Time,
        /// The shard that gives it out, or gave it out.
        shard: i64 = Int,
        /// Grants that were ever given: `live` + `completed` + `returned` + `expired`.
        taken: i64 = Int,
        /// Those that somebody has.
        live: i64 = Int,
        /// Those that were completed.
        completed: i64 = Int,
        /// Those that were given back.
        returned: i64 = Int,
        /// Those whose lease ran out.
        expired: i64 = Int,
        /// When that was last so.
        changed_at: i64 = Time,
    }
}

row! {
    /// An occurrence of a task that was given to a user.
    PullGrantRow in "pull_grants", key (id: i64),
    fixed (shard, group_name, task_id, task_version, task_name, start_at, user_name, granted_at, expires_at),
    indexes [[user_name], [task_id], [state], [group_name], [granted_at]] {
        /// Its id; grows with every grant of its shard.
        id: i64 = Int,
        /// The shard that gave it.
        shard: i64 = Int => Hidden,
        /// The group whose shard gave it.
        group_name: Arc<str> = Name(64) => As("group"),
        /// The task.
        task_id: i64 = Int => As("task"),
        /// The version of it that the user got.
        task_version: i64 = Int => As("version"),
        /// The task's name for people, as it was then.
        task_name: Option<Arc<str>> = Text => As("name"),
        /// The start of the occurrence.
        start_at: i64 = Time => As("start"),
        /// Who got it.
        user_name: Arc<str> = Name(128) => As("user"),
        /// `live`, `completed`, `returned` or `expired`.
        state: Arc<str> = Name(16),
        /// When it was given.
        granted_at: i64 = Time,
        /// When it goes back to stock by itself; null: never.
        expires_at: Option<i64> = Time,
        /// When it was completed or returned, or expired.
        ended_at: Option<i64> = Time,
        /// As the client said when it completed it.
        result: Option<Arc<str>> = Text,
        /// Who gave it back: application, or application/person.
        returned_by: Option<Arc<str>> = Text,
        /// Why.
        reason: Option<Arc<str>> = Text,
    }
}
