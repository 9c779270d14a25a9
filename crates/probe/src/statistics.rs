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

macro_rules! counts {
    ($($(#[doc = $doc:literal])+ $count:ident,)+) => {
        /// Counts of one authority or kind.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
        pub struct Counts {
            $($(#[doc = $doc])+ pub $count: u64,)+
            /// How long calls took that were answered.
            pub latency: Latency,
        }

        impl Counts {
            pub(crate) fn add(&mut self, other: &Counts) {
                $(self.$count += other.$count;)+
                for (step, count) in &other.latency.0 {
                    *self.latency.0.entry(*step).or_default() += count;
                }
            }
        }

        /// The counters behind [`Counts`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $count: AtomicU64,)+
            latency: Steps,
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                let steps = self.latency.0.iter().map(read).enumerate();
                Counts {
                    $($count: read(&self.$count),)+
                    latency: Latency(steps.filter(|(_, count)| *count > 0).collect()),
                }
            }
        }
    };
}

counts! {
    /// Calls for one path.
    look_calls,
    /// Calls for a page of a listing.
    list_calls,
    /// Calls that were not answered in their time, and were abandoned (MON-6).
    hung_calls,
    /// Calls that failed.
    failed_calls,
    /// Questions answered: there.
    present,
    /// Questions answered: not there.
    absent,
    /// Questions that failed, after all tries.
    failed,
    /// Questions that hung, after all tries.
    hung,
    /// Questions not asked, since the authority was left alone.
    paused,
    /// How often an authority began to be left alone.
    pauses,
    /// How often connections were thrown away.
    renewals,
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
}

impl Statistics {
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

#[derive(Debug)]
struct Steps([AtomicU64; STEPS]);

impl Default for Steps {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; STEPS])
    }
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn took(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        count(&self.latency.0[step(us)], 1);
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
