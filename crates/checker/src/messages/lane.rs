//! One direction between two shards: what was sent is what is received, in the same order.

use std::collections::BTreeMap;

use crate::Invariant;
use crate::at::At;
use crate::findings::Place;

/// One direction between two shards.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) acknowledged: u64,
    pub(super) acknowledged_in: Option<Place>,
    /// Number → what was sent and where, until it is received; or the other way round.
    pub(super) open: BTreeMap<u64, Half>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Half {
    /// What it says; `None`: the receiver had nothing to note.
    pub(super) says: Option<u64>,
    pub(super) place: Place,
}

impl Lane {
    /// The second of the two halves of a message must say what the first said.
    pub(super) fn pair(&mut self, number: u64, half: Half, at: &At<'_>) {
        match self.open.remove(&number) {
            None => {
                self.open.insert(number, half);
            }
            Some(other) => {
                if let (Some(one), Some(two)) = (half.says, other.says)
                    && one != two
                {
                    let (partition, offset, event) = other.place;
                    let why = format!(
                        "message {number} differs from what stands at {partition}:{offset} event {event}"
                    );
                    at.breaks(Invariant::MessagesBetweenShardsOnceInOrder, why);
                }
            }
        }
    }
}
