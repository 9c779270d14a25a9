//! What concerns the log rather than jobs.

use std::sync::Arc;

use crate::Kind::{Bool, Int, Name, Text, Time};
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
