//! Numbers that follow from a seed.

use serde_json::Value;

/// A small generator (SplitMix64). Streams of different names are independent, so that leaving one fault out
/// does not change what the others do.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream `name` of `seed`, its `index`-th member.
    pub(crate) fn new(seed: u64, name: &str, index: u64) -> Self {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        for byte in name.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        Self(mix(state ^ index.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// A stream of its own from here on, which takes nothing from this one.
    pub(crate) fn aside(&self, name: &str) -> Self {
        Self::new(self.0, name, 0)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From `low` up to and without `high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    pub(crate) fn below(&mut self, high: usize) -> usize {
        self.range(0, high as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.range(0, 100) < percent
    }

    /// Sets a field in `percent` of 100 cases.
    pub(crate) fn sometimes(
        &mut self,
        percent: u64,
        of: &mut Value,
        field: &str,
        value: impl FnOnce(&mut Self) -> Value,
    ) {
        if self.chance(percent) {
            of[field] = value(self);
        }
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len())) }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
