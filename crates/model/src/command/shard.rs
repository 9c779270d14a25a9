//! From owner to owner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ShardMessage;
use crate::{ShardId, Timestamp};

/// From owner to owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShardCommand {
    /// A numbered message from another shard.
    Deliver {
        /// Which shard sends.
        from: ShardId,
        /// Its number in the outbox for this shard, from 1.
        number: u64,
        /// What it says.
        message: ShardMessage,
    },
    /// Another shard has applied this shard's messages up to a number.
    Acknowledge {
        /// The shard that received.
        from: ShardId,
        /// The last number applied.
        upto: u64,
    },
    /// Repairs a `now` that got ahead.
    SetTime {
        /// The time from which on the shard's clock counts again.
        now: Timestamp,
    },
    /// Panics while it is decided. Exists so that dead letters can be shown.
    #[doc(hidden)]
    #[schemars(skip)]
    PlantedPanic {},
}
