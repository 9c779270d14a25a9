//! What the catalogue keeps besides jobs: calendars, pools, freezes and keys.

use std::sync::Arc;

use crate::Kind::{Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// A calendar that jobs can keep to. Gone when it is removed.
    CalendarRow in "calendars", key (name: Arc<str>),
    fixed (), indexes [] {
        /// Its name.
        name: Arc<str> = Name(64),
        /// Numbers its content; every change of any calendar gets the next one.
        version: i64 = Int,
        /// IANA zone in which its days begin and end; null: the zone of each job's schedule.
        time_zone: Option<Arc<str>> = Text => As("zone"),
        /// Free text.
        comment: Arc<str> = Text,
        /// How many dates differ from its weekly pattern.
        dates: i64 = Int => As("date_count"),
        /// The whole calendar as written.
        definition: Arc<str> = Json => Hidden,
        /// When it was last changed.
        changed_at: i64 = Time,
    }
}

row! {
    /// A version of a calendar, in use or not. Batches name the version that they were generated with.
    CalendarVersionRow in "calendar_versions", key (name: Arc<str>, version: i64),
    fixed (time_zone, comment, dates, definition, defined_at, defined_by), indexes [] {
        /// Its name.
        name: Arc<str> = Name(64) => Hidden,
        /// Numbers its content; every change of any calendar gets the next one.
        version: i64 = Int,
        /// IANA zone in which its days begin and end; null: the zone of each job's schedule.
        time_zone: Option<Arc<str>> = Text => As("zone"),
        /// Free text.
        comment: Arc<str> = Text,
        /// How many dates differ from its weekly pattern.
        dates: i64 = Int => As("date_count"),
        /// The whole calendar as written.
        definition: Arc<str> = Json => Hidden,
        /// When it was accepted.
        defined_at: i64 = Time,
        /// Who defined it: application, or application/person; null: that is not on record.
        defined_by: Option<Arc<str>> = Text,
    }
}

row! {
    /// A pool of which batches take slots while they are assigned or run. Gone when it is removed.
    PoolRow in "pools", key (name: Arc<str>),
    fixed (), indexes [] {
        /// Its name.
        name: Arc<str> = Name(64),
        /// Numbers its content; every change of any pool gets the next one.
        version: i64 = Int,
        /// Slots that batches hold at once.
        slots: i64 = Int,
        /// At most so many batches start in any `rate_interval_s`; null: as many as there is room for.
        rate_starts: Option<i64> = Int => Hidden,
        /// Seconds.
        rate_interval_s: Option<i64> = Int => Hidden,
        /// The group whose jobs may use it; null: groups share it.
        group_name: Option<Arc<str>> = Name(64) => As("group"),
        /// Free text.
        comment: Arc<str> = Text,
        /// When it was last changed.
        changed_at: i64 = Time,
    }
}

row! {
    /// A freeze: batches for later logical times are generated, and not assigned. Gone when it is lifted.
    FreezeRow in "freezes", key (scope: Arc<str>),
    fixed (), indexes [] {
        /// Name of the group, or `*` for every group.
        scope: Arc<str> = Name(64) => Hidden,
        /// The latest logical time that may be assigned.
        latest: i64 = Time,
        /// Who wants it: application, or application/person.
        frozen_by: Arc<str> = Text,
        /// Why.
        reason: Arc<str> = Text,
        /// Since when.
        frozen_at: i64 = Time,
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
        /// What it may beside what the role gives.
        may: Arc<str> = Json,
        /// The department that it belongs to, and whose jobs alone it reaches; null: of none.
        department: Option<Arc<str>> = Name(512),
        /// When it was defined, the last time.
        defined_at: i64 = Time,
    }
}
