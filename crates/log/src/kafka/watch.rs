//! Finds a client that fetches no more though its partition goes on: after a broker was fenced and came back, librdkafka can wait
//! for ever for the check of its leader's epoch (its issue 4492).
//!
//! A reader that is being polled begins anew within 2 s of a record that does not come, however often the partition has one,
//! where the broker answers in 0.1 s:
//!
//! ```text
//!  record ─┬─ at most QUIET + LOOK ─► the end is asked for ─┬─ the answer, then twice its time and QUIET ─► begins anew
//!          └─ 0.9 s                                         └─ 0.1 s, 0.8 s
//! ```
//! A slow broker is given longer by what its answer took, and a client that was made anew and has read nothing since, twice as
//! long as the one before. What a broker that is away does not answer tells nothing; the time counts from its first answer.
//! How often it happened is counted by topic ([`Log::stalled_readers`](crate::Log::stalled_readers)).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use crate::Topic;

/// After this long without a record the broker is asked whether there is none, and what it named has as long to come.
const QUIET: Duration = Duration::from_millis(600);
/// How late that is noticed at most.
pub(crate) const LOOK: Duration = Duration::from_millis(300);
/// The longest that a client is given.
const LONGEST: Duration = Duration::from_secs(20);

pub(crate) struct Watch {
    topic: Topic,
    stalls: Arc<Stalls>,
    /// How long what the broker named has to come.
    patience: Duration,
    step: Step,
}

enum Step {
    /// Nothing was read since.
    Quiet(Instant),
    Asked(Instant, Receiver<u64>),
    /// What is below the end has come by `due`, or does not come.
    Told {
        end: u64,
        due: Instant,
    },
}

impl Watch {
    pub(crate) fn new(topic: Topic, stalls: Arc<Stalls>) -> Self {
        Self { topic, stalls, patience: QUIET, step: Step::Quiet(Instant::now()) }
    }

    /// Something came.
    pub(crate) fn read(&mut self, now: Instant) {
        (self.patience, self.step) = (QUIET, Step::Quiet(now));
    }

    /// Whether what the broker had a while ago has still not come, which is counted. `ask` asks for the partition's end.
    pub(crate) fn is_stalled(
        &mut self,
        now: Instant,
        next: u64,
        ask: impl FnOnce() -> Receiver<u64>,
    ) -> bool {
        match &self.step {
            Step::Quiet(since) if now.saturating_duration_since(*since) < QUIET => {}
            Step::Told { due, .. } if now < *due => {}
            Step::Asked(since, answer) => match answer.try_recv() {
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.step = Step::Quiet(now),
                Ok(end) => {
                    let took = now.saturating_duration_since(*since);
                    self.step = Step::Told { end, due: now + self.patience + 2 * took };
                }
            },
            Step::Told { end, .. } if next < *end => {
                self.stalls.count(self.topic);
                self.patience = (2 * self.patience).min(LONGEST);
                self.step = Step::Quiet(now);
                return true;
            }
            Step::Quiet(_) | Step::Told { .. } => self.step = Step::Asked(now, ask()),
        }
        false
    }
}

/// A count for each topic.
#[derive(Debug, Default)]
pub(crate) struct Stalls([AtomicU64; Topic::ALL.len()]);

impl Stalls {
    fn count(&self, topic: Topic) {
        self.0[topic.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Those of topics that have any.
    pub(crate) fn counts(&self) -> BTreeMap<Topic, u64> {
        let counts = Topic::ALL.map(|topic| (topic, self.0[topic.index()].load(Ordering::Relaxed)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;

    fn watch(since: Instant) -> Watch {
        Watch { step: Step::Quiet(since), ..Watch::new(Topic::Journal, Arc::default()) }
    }

    /// The answer to a question; none where the broker gives none.
    fn answer(end: Option<u64>) -> Receiver<u64> {
        let (sender, answer) = sync_channel(1);
        end.map(|end| sender.send(end).unwrap());
        answer
    }

    /// What has only just been appended is given the time to come. Each client that is found is counted, once, for its topic.
    #[test]
    fn reader_is_stalled_when_what_was_there_before_does_not_come() {
        let mut now = Instant::now();
        let mut watch = watch(now);
        assert!(!watch.is_stalled(now, 7, || unreachable!()), "nothing is asked before it has been quiet");
        for (next, end, stalled, count) in [
            (7, Some(7), false, 0),
            (7, Some(9), false, 0),
            (8, None, true, 1),
            // A broker that does not answer tells nothing.
            (8, None, false, 1),
            (8, Some(9), false, 1),
            (9, Some(9), false, 1),
            (9, Some(10), false, 1),
            (9, None, true, 2),
        ] {
            now += LONGEST;
            let is_stalled = watch.is_stalled(now, next, || answer(end));
            assert_eq!(is_stalled, stalled, "{next}");
            // The answer is heard at once.
            assert!(is_stalled || !watch.is_stalled(now, next, || unreachable!()), "{next}");
            let expected = (count > 0).then_some((Topic::Journal, count));
            assert_eq!(watch.stalls.counts(), expected.into_iter().collect(), "{next}");
        }
    }

    /// When a client that reads nothing of what is there is found, by the times from one to the next.
    fn found(answer_ms: u64, appended: Duration, next: u64, times: usize) -> Vec<Duration> {
        let (begin, answer) = (Instant::now(), Duration::from_millis(answer_ms));
        let (mut watch, mut now, mut found) = (watch(begin), begin, Vec::new());
        let mut under_way: Option<(Instant, u64, SyncSender<u64>)> = None;
        let mut last = begin + appended;
        for _ in 0..1_000 {
            let look = now + LOOK;
            now = under_way.as_ref().map_or(look, |(at, ..)| look.min(*at));
            if let Some((_, end, sender)) = under_way.take_if(|(at, ..)| *at <= now) {
                sender.send(end).unwrap();
            }
            let ask = || {
                let (sender, receiver) = sync_channel(1);
                under_way = Some((now + answer, if now >= begin + appended { 9 } else { 7 }, sender));
                receiver
            };
            if watch.is_stalled(now, next, ask) {
                found.push(now - last);
                last = now;
                if found.len() == times {
                    break;
                }
            }
        }
        found
    }

    /// A record that does not come, whenever it was appended, is noticed within 2 s where the broker answers in 0.1 s; a client
    /// that has everything is left alone.
    #[test]
    fn stalled_client_is_found_within_two_seconds() {
        for appended_ms in (0..4_000).step_by(50) {
            let appended = Duration::from_millis(appended_ms);
            let found_after = found(100, appended, 7, 1);
            assert!(found_after[0] < Duration::from_secs(2), "{appended_ms} ms: {found_after:?}");
            assert_eq!(found(100, appended, 9, 1), []);
        }
    }

    /// A broker that answers after 3 s may need as long for a record; and a client that was made anew has longer than the one
    /// before, up to a bound.
    #[test]
    fn slow_broker_is_given_longer() {
        assert!(found(3_000, Duration::ZERO, 7, 1)[0] > Duration::from_secs(9));
        let times = found(10, Duration::ZERO, 7, 9);
        assert!(times.windows(2).all(|two| two[0] <= two[1]), "{times:?}");
        assert!(times[4] > Duration::from_secs(9), "{times:?}");
        assert!(times[8] < LONGEST + Duration::from_secs(2), "{times:?}");
    }

    /// What came while nobody asked was not missed: the end of a moment ago is what counts.
    #[test]
    fn client_that_reads_on_is_not_stalled() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        for look in 1..20_u32 {
            let end = u64::from(look) * 10;
            assert!(!watch.is_stalled(begin + look * QUIET, end, || answer(Some(end + 10))), "{look}");
        }
    }
}
