//! How far a shard's messages to and from others are.

use tidemill_model::{LiveAnswer, MailboxState, ShardId};

use crate::group::GroupShard;

impl GroupShard {
    /// What it has heard of others, and said to them.
    pub(crate) fn mailbox_state(&self, others: &[ShardId]) -> LiveAnswer {
        let with = others.iter().map(|shard| MailboxState {
            shard: *shard,
            received: self.mailbox.received(*shard),
            sent: self.mailbox.sent(*shard),
            unsaid: self.dependencies.foreign().is_behind(*shard)
                || self.dependencies.followers().is_behind(*shard),
        });
        LiveAnswer::Mailboxes { with: with.collect() }
    }
}
