//! Jobs of other groups that a shard wants to hear of, and no more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::Aggregate;

use crate::{JobId, ShardId, Subscription, Timestamp};

/// Jobs of other groups that a shard wants to hear of, and no more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Aggregate)]
#[serde(rename_all = "snake_case")]
#[event(subject = "job/{job}")]
pub enum SubscriptionEvent {
    /// Another shard wants to hear of a job of this one.
    #[event(kind = "parent.subscribed", internal = "Subscription")]
    ParentSubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// What it wants to hear from now on.
        what: Subscription,
    },
    /// Batches of another shard wait for logical times of a job of this one.
    #[event(kind = "parent.times_subscribed", internal = "Subscription")]
    ParentTimesSubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// Its logical times.
        times: Vec<Timestamp>,
    },
    /// Nothing of another shard waits for these any more.
    #[event(kind = "parent.times_unsubscribed", internal = "Subscription")]
    ParentTimesUnsubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// Its logical times.
        times: Vec<Timestamp>,
    },
}
