//! What shards answer the catalogue when it asks them to let something go: each answer is heard once, in order, as it
//! was told.

use std::collections::BTreeMap;

use tidemill_model::ShardId;

use crate::Invariant;
use crate::at::At;
use crate::findings::{Findings, Place};

/// The answers of all shards on one kind of question.
#[derive(Debug)]
pub(crate) struct Answers {
    rule: Invariant,
    /// What they are on, for people: `a user`.
    on: &'static str,
    of: BTreeMap<ShardId, OfShard>,
}

#[derive(Debug, Default)]
struct OfShard {
    told: u64,
    heard: u64,
    /// Those of which only one side has been seen.
    open: BTreeMap<u64, (u64, Place)>,
}

impl Answers {
    pub(crate) fn new(rule: Invariant, on: &'static str) -> Self {
        Self { rule, on, of: BTreeMap::new() }
    }

    /// The shard says this, as a fingerprint that is equal on both sides.
    pub(crate) fn told(&mut self, at: &At<'_>, shard: ShardId, says: u64) {
        let of = self.of.entry(shard).or_default();
        of.told += 1;
        let number = of.told;
        self.pair(at, shard, (number, says));
    }

    /// The catalogue hears this of the shard.
    pub(crate) fn heard(&mut self, at: &At<'_>, shard: ShardId, says: u64) {
        let of = self.of.entry(shard).or_default();
        of.heard += 1;
        let number = of.heard;
        self.pair(at, shard, (number, says));
    }

    fn pair(&mut self, at: &At<'_>, shard: ShardId, (number, says): (u64, u64)) {
        let (rule, on, open) = (self.rule, self.on, &mut self.of.entry(shard).or_default().open);
        match open.remove(&number) {
            None => {
                open.insert(number, (says, at.place()));
            }
            Some((other, (partition, offset, event))) if other != says => {
                let why = format!(
                    "answer {number} of shard {shard} on {on} differs from what stands at {partition}:{offset} event {event}"
                );
                at.breaks(rule, why);
            }
            Some(_) => {}
        }
    }

    /// `at_rest`: nothing is on its way any more.
    pub(crate) fn finish(&self, at_rest: bool, found: &Findings) {
        let (rule, on) = (self.rule, self.on);
        for (shard, of) in &self.of {
            let Some((number, (_, place))) = of.open.first_key_value() else { continue };
            if of.heard > of.told {
                let why = format!("answer {number} of shard {shard} on {on} was heard and never told");
                found.breaks(rule, *place, why);
            } else if at_rest {
                let why = format!("answer {number} of shard {shard} on {on} was never heard");
                found.breaks(rule, *place, why);
            }
        }
    }
}
