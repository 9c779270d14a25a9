//! Numbers that follow from a seed.

/// A small generator (SplitMix64). Streams of different names are independent: what a client draws does not
/// change what the nemesis does.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream `name` of `seed`.
    #[must_use]
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        Self(name.bytes().fold(mix(seed), |state, byte| mix(state ^ u64::from(byte))))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From `low` up to and without `high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % high.saturating_sub(low).max(1)
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.range(0, 100) < percent
    }

    /// One of them; none where there is none.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(usize::try_from(self.range(0, items.len() as u64)).unwrap_or(0))
    }

    /// In another order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.range(0, last as u64 + 1);
            items.swap(last, usize::try_from(other).unwrap_or(0));
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
