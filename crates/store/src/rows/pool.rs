//! Pools, as the catalogue has them.

use std::sync::Arc;

use crate::Kind::{Int, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

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
