//! What concerns the log and the access to it, rather than jobs.

use std::sync::Arc;

use crate::Kind::{Bool, Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// A shard that knows its group.
    ShardRow in "shards", key (id: i64),
    fixed (), indexes [] {
        /// Its number.
        id: i64 = Int,
        /// Its group's number.
        group_id: i64 = Int,
        /// Its group's name.
        group_name: Arc<str> = Name(64),
        /// Since when it knows these bounds of its group.
        received_at: i64 = Time,
        /// What of its pull tasks started before is given to nobody any more.
        pull_horizon: Option<i64> = Time,
    }
}

row! {
    /// An application key; its secret is known to nobody but its holder. Gone when it is revoked.
    AppKeyRow in "app_keys", key (app: Arc<str>),
    fixed (), indexes [] {
        /// Its name.
        app: Arc<str> = Name(512),
        /// SHA-256 of the secret, hexadecimal.
        hash: Arc<str> = Text => Hidden,
        /// `viewer`, `user`, `administrator` or `super_administrator`.
        role: Arc<str> = Name(32),
        /// The groups that it is bound to; an empty list: all.
        groups: Arc<str> = Json,
        /// The accounts that jobs may run as which it applies.
        accounts: Arc<str> = Json => As("run_as"),
        /// When it was defined, the last time.
        defined_at: i64 = Time,
    }
}

row! {
    /// A dead letter: a command that could not be decoded or decided, or what a timer belongs to that could not be
    /// decided.
    DeadLetterRow in "dead_letters", key (journal_partition: i64, kind: Arc<str>, subject: Arc<str>),
    fixed (), indexes [[journal_partition, journal_offset, event_index], [is_open]] {
        /// Partition of the journal that holds the fact.
        journal_partition: i64 = Int => As("partition"),
        /// `command` or `timer`.
        kind: Arc<str> = Name(16),
        /// The command's offset in the commands, or what the timer belongs to, as `job/4096`.
        subject: Arc<str> = Name(200),
        /// Offset of the newest such fact in the journal.
        journal_offset: i64 = Int => Hidden,
        /// Its place in that record, from 0.
        event_index: i64 = Int => Hidden,
        /// Why.
        reason: Arc<str> = Text,
        /// When.
        recorded_at: i64 = Time,
        /// Whether nothing has become of it yet: the command was not sent again, or the timer does not run.
        is_open: bool = Bool => As("open"),
        /// Since when it is not open any more.
        closed_at: Option<i64> = Time,
        /// Who sent the command again: application, or application/person.
        redriven_by: Option<Arc<str>> = Text,
        /// What came of that: `done`, or why it was refused.
        redrive_outcome: Option<Arc<str>> = Text,
    }
}
