//! What is frozen.

use std::sync::Arc;

use crate::Kind::{Name, Text, Time};
use crate::Shown::Hidden;
use crate::table::row;

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
