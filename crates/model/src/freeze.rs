//! The latest logical time whose batches may be assigned (BYD-17, DSP-1).

use tidemill_derive::vocabulary;

use crate::{Actor, Timestamp};

/// Batches for later logical times are generated, and not assigned.
#[vocabulary]
pub struct Freeze {
    /// The latest logical time that may be assigned.
    pub latest: Timestamp,
    /// Who wants it.
    pub by: Actor,
    /// Why.
    pub reason: String,
}

/// What a freeze concerns, as a group's shard hears of it.
#[vocabulary(Copy, Eq)]
pub enum FreezeScope {
    /// Every group.
    Everything,
    /// This one.
    Group,
}
