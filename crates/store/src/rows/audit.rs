//! Who asked for which change and when, and the directory as it stands.

use std::sync::Arc;

use crate::Kind::{Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// A change that a person or a program asked for, or calls that were refused.
    AuditRow in "audit", key (at: i64, journal_partition: i64, journal_offset: i64, event_index: i64),
    fixed (app, person, kind, object, group_name, request, times, detail),
    indexes [[app, at], [person, at], [kind, at], [object, at], [group_name, at]] {
        /// When it was decided.
        at: i64 = Time,
        /// Partition of the journal that holds the fact.
        journal_partition: i64 = Int => Hidden,
        /// Its offset there.
        journal_offset: i64 = Int => Hidden,
        /// Its place in that record, from 0.
        event_index: i64 = Int => Hidden,
        /// The application whose key asked for it; `operator`: the operator's secret, or somebody at the command line of the host;
        /// `first-start`: the program itself, when it began. Of refused calls, the name that they showed; empty: none.
        app: Arc<str> = Name(64),
        /// The person, as the application names them.
        person: Option<Arc<str>> = Name(200),
        /// The kind of event, as in `job.defined`; `access.refused` for refused calls.
        kind: Arc<str> = Name(64),
        /// What it is about, as in `job/4096`; of refused calls the call.
        object: Arc<str> = Name(300),
        /// The group that the object is of; empty: the whole site.
        group_name: Arc<str> = Name(64) => As("group"),
        /// The id of the request, where it had one.
        request: Option<Arc<str>> = Text,
        /// How many it stands for: calls that were refused alike within a minute, users, items.
        times: i64 = Int => As("count"),
        /// What is known of it, at most 16 KiB: `before` and `after` have what changed as it was and as it is, `fields` names the fields
        /// that differ, and others say why and how. `cut`: it was longer, and the longest parts are left out.
        detail: Arc<str> = Json,
    }
}

row! {
    /// A person or a department of the directory, as the catalogue accepted it. Gone when it is removed.
    DirectoryEntryRow in "directory_entries", key (kind: Arc<str>, name: Arc<str>),
    fixed (), indexes [] {
        /// `person` or `department`.
        kind: Arc<str> = Name(16),
        /// The name.
        name: Arc<str> = Name(200),
        /// The whole entry as written.
        definition: Arc<str> = Json,
        /// When it was last changed.
        changed_at: i64 = Time,
    }
}
