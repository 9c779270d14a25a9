//! Bytes that wait in memory: they come at the end, and go at the front, once they are in a segment.

use std::ops::Range;

use bytes::{Buf as _, Bytes, BytesMut};

use crate::segment::{count_lines, first_error};

/// What was taken for a segment is shared with it, and not copied; it waits on until it is there.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    taken: Bytes,
    rest: BytesMut,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.taken.len() + self.rest.len()
    }

    pub(crate) fn push(&mut self, more: &[u8]) {
        self.rest.extend_from_slice(more);
    }

    /// The first so many, which stay.
    pub(crate) fn take(&mut self, length: usize) -> Bytes {
        if self.taken.is_empty() {
            self.taken = self.rest.split_to(length).freeze();
        } else if length > self.taken.len() {
            // They were taken before, and did not get there.
            let more = self.rest.split_to(length - self.taken.len());
            self.taken = [&*self.taken, &*more].concat().into();
        }
        self.taken.slice(..length)
    }

    /// The first so many go.
    pub(crate) fn drop_front(&mut self, length: usize) {
        let of_taken = length.min(self.taken.len());
        self.taken.advance(of_taken);
        self.rest.advance(length - of_taken);
        if self.taken.is_empty() {
            // Its memory goes, too.
            self.taken = Bytes::new();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A copy of some.
    pub(crate) fn copy(&self, range: Range<usize>) -> Bytes {
        let [taken, rest] = self.pieces(range);
        if taken.is_empty() { Bytes::copy_from_slice(rest) } else { [taken, rest].concat().into() }
    }

    /// Ends of lines in the first so many.
    pub(crate) fn lines_in(&self, length: usize) -> u64 {
        self.pieces(0..length).into_iter().map(count_lines).sum()
    }

    /// Where a line ends, by its number from 0.
    pub(crate) fn line_end(&self, number: usize) -> Option<usize> {
        let ends = memchr::memchr_iter(b'\n', &self.taken);
        let of_rest = memchr::memchr_iter(b'\n', &self.rest).map(|end| self.taken.len() + end);
        ends.chain(of_rest).nth(number)
    }

    /// Where the last line ends.
    pub(crate) fn last_line_end(&self) -> Option<usize> {
        let of_rest = memchr::memrchr(b'\n', &self.rest).map(|end| self.taken.len() + end);
        of_rest.or_else(|| memchr::memrchr(b'\n', &self.taken))
    }

    /// Where the first line begins that looks like an error.
    pub(crate) fn first_error(&self) -> Option<usize> {
        let of_rest = || Some(self.taken.len() + first_error(&self.rest)?);
        first_error(&self.taken).or_else(of_rest)
    }

    fn pieces(&self, Range { start, end }: Range<usize>) -> [&[u8]; 2] {
        let border = self.taken.len();
        let of_rest = start.max(border) - border..end.max(border) - border;
        [&self.taken[start.min(border)..end.min(border)], &self.rest[of_rest]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-1: what is left is what came after what was dropped, in whatever steps, and however much was taken before.
    #[test]
    fn bytes_go_in_the_order_in_which_they_came() {
        let all: Vec<u8> = (0..10_000_u32).map(|number| (number % 251) as u8).collect();
        for (step, take, drop) in [(1, 1, 1), (7, 6, 5), (100, 120, 99), (64, 64, 64), (999, 500, 1)] {
            let (mut waiting, mut begin, mut end) = (Waiting::default(), 0, 0);
            while end < all.len() {
                let next = (end + step).min(all.len());
                waiting.push(&all[end..next]);
                end = next;
                for take in [take / 2, take] {
                    let take = take.min(waiting.len());
                    assert_eq!(waiting.take(take), all[begin..begin + take], "{step} {take}");
                    assert_eq!(waiting.copy(0..waiting.len()), all[begin..end], "{step} {take}");
                }
                let length = drop.min(waiting.len());
                waiting.drop_front(length);
                begin += length;
                let (from, to) = (waiting.len() / 3, waiting.len() / 2);
                assert_eq!(waiting.copy(from..to), all[begin + from..begin + to], "{step} {drop}");
                assert_eq!(waiting.lines_in(to), count_lines(&all[begin..begin + to]), "{step} {drop}");
            }
            waiting.clear();
            assert_eq!(waiting.len(), 0);
        }
    }

    /// LOG-2: lines and errors are found on both sides of what was taken.
    #[test]
    fn lines_are_found_wherever_they_are() {
        for taken in [0, 4, 8, 17] {
            let mut waiting = Waiting::default();
            waiting.push(b"one\ntwo\nERROR x\nend");
            waiting.take(taken);
            let ends: Vec<_> = (0..4).map(|number| waiting.line_end(number)).collect();
            assert_eq!(ends, [Some(3), Some(7), Some(15), None], "{taken}");
            assert_eq!(waiting.last_line_end(), Some(15), "{taken}");
            assert_eq!(waiting.first_error(), Some(8), "{taken}");
        }
    }
}
