//! A set of logical times that stays small: times at equal distances are one entry, however many they are.
//!
//! ```text
//!   00:00 01:00 02:00 03:00      07:00 08:00      09:17
//!   [00:00, every hour, 4 times] [07:00, every hour, twice] [09:17]
//! ```
//!
//! A job that runs every hour takes one entry for each span without a gap; what is between two spans was never
//! run, and is not in the set.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::Timestamp;

/// Times in no particular order of arrival.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Times(
    /// By the first time of each; they do not overlap.
    BTreeMap<Timestamp, Steps>,
);

/// `count` times, from the first on, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Stored)]
struct Steps {
    step: SignedDuration,
    count: u32,
}

const ALONE: Steps = Steps { step: SignedDuration::ZERO, count: 1 };

impl Steps {
    /// The `index`-th time after `first`.
    fn nth(self, first: Timestamp, index: u32) -> Timestamp {
        let distance = self.step.checked_mul(i32::try_from(index).unwrap_or(i32::MAX));
        distance.and_then(|distance| first.checked_add(distance).ok()).unwrap_or(Timestamp::MAX)
    }

    fn last(self, first: Timestamp) -> Timestamp {
        self.nth(first, self.count - 1)
    }

    /// Which of its times is the last one that is not after `time`, which is not before the first.
    fn passed(self, first: Timestamp, time: Timestamp) -> u32 {
        let last = self.count - 1;
        if last == 0 {
            return 0;
        }
        let passed = time.duration_since(first).as_nanos() / self.step.as_nanos();
        u32::try_from(passed).unwrap_or(u32::MAX).min(last)
    }

    fn position(self, first: Timestamp, time: Timestamp) -> Option<u32> {
        let distance = time.duration_since(first);
        if distance.is_zero() {
            return Some(0);
        }
        if self.count == 1 || distance.is_negative() || distance.as_nanos() % self.step.as_nanos() != 0 {
            return None;
        }
        let index = distance.as_nanos() / self.step.as_nanos();
        u32::try_from(index).ok().filter(|index| *index < self.count)
    }
}

impl Times {
    pub(crate) fn contains(&self, time: Timestamp) -> bool {
        self.at_or_before(time).is_some_and(|(first, steps)| steps.position(first, time).is_some())
    }

    pub(crate) fn newest_upto(&self, time: Timestamp) -> Option<Timestamp> {
        let (first, steps) = self.at_or_before(time)?;
        Some(steps.nth(first, steps.passed(first, time)))
    }

    pub(crate) fn first_after(&self, time: Timestamp) -> Option<Timestamp> {
        if let Some((first, steps)) = self.at_or_before(time)
            && time < steps.last(first)
        {
            return Some(steps.nth(first, steps.passed(first, time) + 1));
        }
        self.0.range((Bound::Excluded(time), Bound::Unbounded)).next().map(|(first, _)| *first)
    }

    pub(crate) fn remove(&mut self, time: Timestamp) {
        let Some((first, steps)) = self.at_or_before(time) else { return };
        let Some(position) = steps.position(first, time) else { return };
        self.0.remove(&first);
        if position > 0 {
            self.0.insert(first, Steps { count: position, ..steps });
        }
        let after = steps.count - 1 - position;
        if after > 0 {
            self.0.insert(steps.nth(first, position + 1), Steps { count: after, ..steps });
        }
    }

    pub(crate) fn insert(&mut self, time: Timestamp) {
        let Some((first, steps)) = self.at_or_before(time) else {
            self.0.insert(time, ALONE);
            return;
        };
        if steps.position(first, time).is_some() {
            return;
        }
        let last = steps.last(first);
        let distance = time.duration_since(last);
        let has_room = steps.count < i32::MAX as u32;
        if time > last && (steps.count == 1 || distance == steps.step) && has_room {
            self.0.insert(first, Steps { step: distance, count: steps.count + 1 });
            return;
        }
        if time < last {
            // Two entries: those before the time, and those after it.
            let before = (steps.passed(first, time) + 1).min(steps.count - 1);
            self.0.insert(first, Steps { count: before, ..steps });
            self.0.insert(steps.nth(first, before), Steps { count: steps.count - before, ..steps });
        }
        self.0.insert(time, ALONE);
    }

    fn at_or_before(&self, time: Timestamp) -> Option<(Timestamp, Steps)> {
        self.0.range(..=time).next_back().map(|(first, steps)| (*first, *steps))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Whatever comes and goes in whatever order, exactly what is left is in it.
    #[test]
    fn it_holds_what_was_put_in_and_nothing_else() {
        let mut seed = 7_u64;
        let mut draw = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..500 {
            let (mut times, mut plain) = (Times::default(), BTreeSet::new());
            let stride = 1 + draw(4);
            let mut next = 0;
            for _ in 0..60 {
                // Mostly onward in equal steps, with gaps, and now and then one anywhere.
                next += stride * if draw(6) == 0 { 3 } else { 1 };
                let time = at(if draw(5) == 0 { draw(next + 10) } else { next } as i64);
                times.insert(time);
                plain.insert(time);
                if draw(8) == 0 {
                    let time = at(draw(next + 10) as i64);
                    times.remove(time);
                    plain.remove(&time);
                }
                for second in -1..(next as i64 + 12) {
                    let time = at(second);
                    assert_eq!(times.contains(time), plain.contains(&time), "{plain:?}");
                    assert_eq!(
                        times.newest_upto(time),
                        plain.range(..=time).next_back().copied(),
                        "{plain:?}"
                    );
                    let after = plain.range((Bound::Excluded(time), Bound::Unbounded)).next();
                    assert_eq!(times.first_after(time), after.copied(), "{plain:?}");
                }
            }
        }
    }

    /// Ten years of hours with one gap are two entries.
    #[test]
    fn equal_distances_take_one_entry() {
        let mut times = Times::default();
        for hour in (0..87_600).filter(|hour| *hour != 5_000) {
            times.insert(at(hour * 3_600));
        }
        assert_eq!(times.0.len(), 2);
        assert!(!times.contains(at(5_000 * 3_600)));
    }
}
