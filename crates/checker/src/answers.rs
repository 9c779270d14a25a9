//! What shards tell the catalogue: each answer or report is heard once, in order, as it was told.

use std::collections::BTreeMap;

use tidemill_model::ShardId;

use crate::Invariant;
use crate::findings::{At, Findings, Place};

/// A kind of answers or reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) rule: Invariant,
    /// What each is, for people: `answer`.
    pub(crate) what: &'static str,
    /// What they are on, for people: `a user`.
    pub(crate) on: &'static str,
}

#[derive(Debug, Default)]
pub(crate) struct Answers {
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
    /// The shard says this, as a fingerprint that is equal on both sides.
    pub(crate) fn told(&mut self, at: &At<'_>, kind: Kind, shard: ShardId, says: u64) {
        let of = self.of.entry(shard).or_default();
        of.told += 1;
        of.pair(at, kind, shard, (of.told, says));
    }

    /// The catalogue hears this of the shard.
    pub(crate) fn heard(&mut self, at: &At<'_>, kind: Kind, shard: ShardId, says: u64) {
        let of = self.of.entry(shard).or_default();
        of.heard += 1;
        of.pair(at, kind, shard, (of.heard, says));
    }

    /// `at_rest`: nothing is on its way any more.
    pub(crate) fn finish(&self, Kind { rule, what, on }: Kind, at_rest: bool, found: &Findings) {
        for (shard, of) in &self.of {
            let Some((number, (_, place))) = of.open.first_key_value() else { continue };
            let became = match of.heard > of.told {
                true => "heard and never told",
                false if at_rest => "never heard",
                false => continue,
            };
            found.breaks(rule, *place, format!("{what} {number} of shard {shard} on {on} was {became}"));
        }
    }
}

impl OfShard {
    fn pair(
        &mut self,
        at: &At<'_>,
        Kind { rule, what, on }: Kind,
        shard: ShardId,
        (number, says): (u64, u64),
    ) {
        match self.open.remove(&number) {
            None => {
                self.open.insert(number, (says, at.place()));
            }
            Some((other, (partition, offset, event))) if other != says => {
                let why = format!(
                    "{what} {number} of shard {shard} on {on} differs from what stands at {partition}:{offset} event {event}"
                );
                at.breaks(rule, why);
            }
            Some(_) => {}
        }
    }
}
