//! How far a shard's messages to and from others are.

use tidemill_model::{LiveAnswer, PostWith, ShardId};

use super::GroupShard;

impl GroupShard {
    /// What it has heard of others, and said to them.
    pub(crate) fn post_with(&self, others: &[ShardId]) -> LiveAnswer {
        let with = others.iter().map(|shard| PostWith {
            shard: *shard,
            received: self.post.received(*shard),
            sent: self.post.sent(*shard),
            unsaid: self.foreign.is_behind(*shard) || self.followers.is_behind(*shard),
        });
        LiveAnswer::Post { with: with.collect() }
    }
}
