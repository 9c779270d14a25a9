//! What was asked, and how it went.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::{Authority, FailureKind, Kind, Outcome};

/// Four steps to a doubling, from 1 µs to beyond an hour.
const STEPS: usize = 136;

/// All that a prober did since it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// By authority, those that were asked last; `max_authorities` of them at most.
    pub authorities: BTreeMap<String, Counts>,
    /// By kind, complete.
    pub kinds: BTreeMap<Kind, Counts>,
}

/// Counts of one authority or kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls for one path.
    pub look_calls: u64,
    /// Calls for a page of a listing.
    pub list_calls: u64,
    /// Calls that were not answered in their time, and were abandoned (MON-6).
    pub hung_calls: u64,
    /// Calls that failed.
    pub failed_calls: u64,
    /// Questions answered: there.
    pub present: u64,
    /// Questions answered: not there.
    pub absent: u64,
    /// Questions that failed, after all tries.
    pub failed: u64,
    /// Questions that hung, after all tries.
    pub hung: u64,
    /// Questions not asked, since the authority was left alone.
    pub paused: u64,
    /// How often an authority began to be left alone.
    pub pauses: u64,
    /// How often connections were thrown away.
    pub renewals: u64,
    /// How long calls took that were answered.
    pub latency: Latency,
}

/// How long calls took: numbers of calls by step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Latency(BTreeMap<usize, u64>);

impl Latency {
    /// The time within which this part of the calls, 0.0 to 1.0, was answered; a fifth too long at most. None
    /// before the first call.
    #[must_use]
    pub fn within(&self, part: f64) -> Option<Duration> {
        let all: u64 = self.0.values().sum();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
        #[expect(clippy::cast_precision_loss, reason = "to a call in a million")]
        let wanted = ((all as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|(step, count)| {
            seen += count;
            (seen >= wanted).then(|| Duration::from_micros(upper_us(*step)))
        })
    }
}

impl Counts {
    /// Calls of all kinds.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.look_calls + self.list_calls
    }

    fn add(&mut self, other: &Counts) {
        self.look_calls += other.look_calls;
        self.list_calls += other.list_calls;
        self.hung_calls += other.hung_calls;
        self.failed_calls += other.failed_calls;
        self.present += other.present;
        self.absent += other.absent;
        self.failed += other.failed;
        self.hung += other.hung;
        self.paused += other.paused;
        self.pauses += other.pauses;
        self.renewals += other.renewals;
        for (step, count) in &other.latency.0 {
            *self.latency.0.entry(*step).or_default() += count;
        }
    }
}

impl Statistics {
    pub(crate) fn new(retired: BTreeMap<Kind, Counts>) -> Self {
        Self { authorities: BTreeMap::new(), kinds: retired }
    }

    pub(crate) fn add(&mut self, authority: &Authority, counts: Counts) {
        self.kinds.entry(authority.kind()).or_default().add(&counts);
        self.authorities.insert(authority.to_string(), counts);
    }

    /// Counts of one kind; zeros where it was never asked.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Counts {
        self.kinds.get(&kind).cloned().unwrap_or_default()
    }
}

/// The counters behind [`Counts`].
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) look_calls: AtomicU64,
    pub(crate) list_calls: AtomicU64,
    pub(crate) hung_calls: AtomicU64,
    pub(crate) failed_calls: AtomicU64,
    pub(crate) pauses: AtomicU64,
    pub(crate) renewals: AtomicU64,
    present: AtomicU64,
    absent: AtomicU64,
    failed: AtomicU64,
    hung: AtomicU64,
    paused: AtomicU64,
    latency: [AtomicU64; STEPS],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            look_calls: AtomicU64::default(),
            list_calls: AtomicU64::default(),
            hung_calls: AtomicU64::default(),
            failed_calls: AtomicU64::default(),
            pauses: AtomicU64::default(),
            renewals: AtomicU64::default(),
            present: AtomicU64::default(),
            absent: AtomicU64::default(),
            failed: AtomicU64::default(),
            hung: AtomicU64::default(),
            paused: AtomicU64::default(),
            latency: [const { AtomicU64::new(0) }; STEPS],
        }
    }
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn took(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        count(&self.latency[step(us)], 1);
    }

    pub(crate) fn outcome(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Present => &self.present,
            Outcome::Absent => &self.absent,
            Outcome::Hung { .. } => &self.hung,
            Outcome::Failed(failure) => match failure.kind {
                FailureKind::Refused | FailureKind::Unavailable => &self.failed,
                FailureKind::Paused { .. } => &self.paused,
            },
        };
        count(counter, 1);
    }

    pub(crate) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let latency = self.latency.iter().map(read).enumerate().filter(|(_, count)| *count > 0).collect();
        Counts {
            look_calls: read(&self.look_calls),
            list_calls: read(&self.list_calls),
            hung_calls: read(&self.hung_calls),
            failed_calls: read(&self.failed_calls),
            present: read(&self.present),
            absent: read(&self.absent),
            failed: read(&self.failed),
            hung: read(&self.hung),
            paused: read(&self.paused),
            pauses: read(&self.pauses),
            renewals: read(&self.renewals),
            latency: Latency(latency),
        }
    }
}

/// The step of a time: the place of its highest bit, and the next two bits.
fn step(us: u64) -> usize {
    let us = us.max(4);
    let bit = us.ilog2();
    let part = (us >> (bit - 2)) & 3;
    ((bit - 2) as usize * 4 + part as usize).min(STEPS - 1)
}

/// The end of a step.
fn upper_us(step: usize) -> u64 {
    (4 + (step as u64 % 4) + 1) << (step / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other_and_hold_their_times() {
        let mut before = 0;
        for us in 0..2_000_000 {
            let at = step(us);
            assert!(at == before || at == before + 1, "{us}");
            assert!(us < upper_us(at) && upper_us(at) <= us.max(4) * 5 / 4 + 1, "{us}: {}", upper_us(at));
            before = at;
        }
        assert_eq!(step(u64::MAX), STEPS - 1);
    }

    #[test]
    fn part_of_the_calls_was_answered_within_its_time() {
        let counters = Counters::default();
        assert_eq!(counters.read().latency.within(0.5), None);
        (1..=100).for_each(|ms| counters.took(Duration::from_millis(ms)));
        let latency = counters.read().latency;
        for (part, ms) in [(0.5, 50), (0.99, 99), (1.0, 100)] {
            let within = latency.within(part).unwrap().as_millis();
            assert!((ms..=ms * 5 / 4).contains(&within), "{part}: {within}");
        }
    }
}
