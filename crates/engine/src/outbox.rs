//! Messages between shards: numbered per pair, kept until the receiver has applied them, sent again by
//! every new owner. The receiver applies exactly the next number, so each arrives once and in order.

use std::collections::{BTreeMap, VecDeque};

use tidemill_derive::Stored;
use tidemill_model::{Command, Event, PartitionEvent, Rejection, ShardCommand, ShardId, ShardMessage};

use crate::decision::{Decision, Ruled};
use crate::effect::Effect;

/// Messages of one outbox that are on their way at once. Between groups no more than these wait: what there is to
/// say beyond them stays a difference between the state and what was said, until acknowledgements make room.
pub(crate) const MAX_ON_THEIR_WAY: usize = 256;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Mailbox {
    outgoing: BTreeMap<ShardId, Outbox>,
    received: BTreeMap<ShardId, u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Stored)]
struct Outbox {
    last: u64,
    waiting: VecDeque<(u64, ShardMessage)>,
}

impl Mailbox {
    pub(crate) fn send(&mut self, to: ShardId, message: ShardMessage) {
        let outbox = self.outgoing.entry(to).or_default();
        outbox.last += 1;
        outbox.waiting.push_back((outbox.last, message));
    }

    /// Number of the last message ever put in for this shard.
    pub(crate) fn sent(&self, to: ShardId) -> u64 {
        self.outgoing.get(&to).map_or(0, |outbox| outbox.last)
    }

    /// Number of the last message that this shard is known to have received.
    pub(crate) fn acknowledged(&self, to: ShardId) -> u64 {
        self.outgoing.get(&to).map_or(0, |outbox| outbox.last - outbox.waiting.len() as u64)
    }

    pub(crate) fn acknowledge(&mut self, to: ShardId, upto: u64) {
        let Some(outbox) = self.outgoing.get_mut(&to) else { return };
        while outbox.waiting.front().is_some_and(|(number, _)| *number <= upto) {
            outbox.waiting.pop_front();
        }
    }

    /// How many more messages may wait for this shard's acknowledgement, for those who can tell it later.
    pub(crate) fn room(&self, to: ShardId) -> usize {
        let waiting = self.outgoing.get(&to).map_or(0, |outbox| outbox.waiting.len());
        MAX_ON_THEIR_WAY.saturating_sub(waiting)
    }

    /// Whether an acknowledgement of `upto` would free something, and nothing that was never sent.
    pub(crate) fn is_news(&self, to: ShardId, upto: u64) -> bool {
        self.outgoing.get(&to).is_some_and(|outbox| {
            upto <= outbox.last && outbox.waiting.front().is_some_and(|(number, _)| *number <= upto)
        })
    }

    pub(crate) fn received(&self, from: ShardId) -> u64 {
        self.received.get(&from).copied().unwrap_or(0)
    }

    /// What comes of message `number` of a shard: the next one is noted, with what it tells; an earlier one changes
    /// nothing, a later one is refused. `own`: whose mailbox this is.
    pub(crate) fn deliver(
        &self,
        own: ShardId,
        (from, number): (ShardId, u64),
        learn: impl FnOnce(&mut Vec<Event>) -> Result<(), Rejection>,
    ) -> Ruled {
        let expected = self.received(from) + 1;
        if number < expected {
            // The acknowledgement may have been lost.
            let command = Command::Shard(ShardCommand::Acknowledge { from: own, upto: expected - 1 });
            let notices = vec![Effect::Send { shard: from, command }];
            return Ok(Decision { notices, ..Decision::nothing() });
        }
        if number > expected && !planted!(OutboxGapSkipped) {
            return Err(Rejection::OutOfOrder { from: from.0, number, expected });
        }
        let mut events = vec![Event::Partition(PartitionEvent::MessageReceived { from, number })];
        learn(&mut events)?;
        Ok(Decision::events(events))
    }

    pub(crate) fn receive(&mut self, from: ShardId, number: u64) {
        self.received.insert(from, number);
    }

    /// Everything that has not been acknowledged, in order per receiver, at most `limit` each.
    pub(crate) fn waiting(&self, limit: usize) -> impl Iterator<Item = (ShardId, u64, &ShardMessage)> + '_ {
        self.outgoing.iter().flat_map(move |(to, outbox)| {
            outbox.waiting.iter().take(limit).map(move |(number, message)| (*to, *number, message))
        })
    }
}
