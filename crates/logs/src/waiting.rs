//! Bytes that wait in memory: they come at the end, and go at the front.

use std::ops::Deref;

/// Whoever drops a part of it moves the rest only where that is at most twice as long as what was dropped since the last time:
/// however much waits, a byte is moved twice on average, and dropped bytes take a third of the memory at most.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bytes: Vec<u8>,
    dropped: usize,
}

impl Waiting {
    pub(crate) fn push(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
    }

    /// The first so many go.
    pub(crate) fn drop_front(&mut self, length: usize) {
        self.dropped += length;
        if self.dropped >= self.bytes.len() / 3 {
            // The memory goes, too, and not only what is in it.
            self.bytes = self.bytes.split_off(self.dropped);
            self.dropped = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Deref for Waiting {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.dropped..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-1: what is left is what came after what was dropped, in whatever steps; and what was dropped does not stay in memory.
    #[test]
    fn bytes_go_in_the_order_in_which_they_came() {
        let all: Vec<u8> = (0..10_000_u32).map(|number| (number % 251) as u8).collect();
        for (step, drop) in [(1, 1), (7, 5), (100, 99), (64, 64), (999, 1)] {
            let (mut waiting, mut begin, mut end) = (Waiting::default(), 0, 0);
            while end < all.len() {
                let next = (end + step).min(all.len());
                waiting.push(&all[end..next]);
                end = next;
                let length = drop.min(waiting.len());
                waiting.drop_front(length);
                begin += length;
                assert_eq!(&*waiting, &all[begin..end], "{step} {drop}");
                assert!(
                    waiting.dropped * 2 <= waiting.len() + 2,
                    "{} stay of {}",
                    waiting.dropped,
                    waiting.len()
                );
            }
            waiting.clear();
            assert_eq!((waiting.len(), waiting.bytes.capacity()), (0, 0));
        }
    }
}
