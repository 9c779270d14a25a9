//! The latest logical time whose batches may be assigned (BYD-17, DSP-1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Actor, Timestamp};

/// Batches for later logical times are generated, and not assigned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Freeze {
    /// The latest logical time that may be assigned.
    pub latest: Timestamp,
    /// Who wants it.
    pub by: Actor,
    /// Why.
    pub reason: String,
}

/// What a freeze concerns, as a group's shard hears of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FreezeScope {
    /// Every group.
    Everything,
    /// This one.
    Group,
}
