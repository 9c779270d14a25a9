//! Finds a client that fetches no more though its partition goes on: after a broker was fenced and came back, librdkafka can wait
//! for ever for the check of its leader's epoch (its issue 4492).
//!
//! A reader that is being polled begins anew within 3 s of a record that does not come, however often the partition has one,
//! where the broker answers in 0.1 s:
//!
//! ```text
//!  record ─┬─ at most QUIET + LOOK ─► the end is asked for ─┬─ answer, QUIET + LOOK ─► asked for again ─┬─ answer ─► begins anew
//!          └─ 0.9 s                                         └─ 1.1 s                                   └─ 0.2 s
//! ```
//! The second answer proves that the broker is there. The records below the first answer's end have [`QUIET`] and three times what
//! the second answer took to come, so a slow broker has longer. A client that has read nothing yet may still be connecting: it has
//! [`CONNECT`], and twice as long each time that the reader replaces it. [`Log::stalled_readers`](crate::Log::stalled_readers) counts
//! the replaced clients by topic.

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
/// As [`QUIET`], for a client that has read nothing yet.
const CONNECT: Duration = Duration::from_secs(3);
/// The most that a client is given.
const LONGEST: Duration = Duration::from_secs(20);

/// What the broker said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// Where the partition ends.
    pub(crate) offset: u64,
    /// How long the answer took.
    pub(crate) took: Duration,
}

pub(crate) struct Watch {
    topic: Topic,
    stalls: Arc<Stalls>,
    /// How long what the broker named has to come.
    patience: Duration,
    /// Where the partition ended at an answer, and when that was.
    told: Option<(u64, Instant)>,
    step: Step,
}

enum Step {
    /// The broker is asked then.
    Until(Instant),
    Asked(Receiver<End>),
}

impl Watch {
    pub(crate) fn new(topic: Topic, stalls: Arc<Stalls>) -> Self {
        let step = Step::Until(Instant::now() + QUIET);
        Self { topic, stalls, patience: CONNECT, told: None, step }
    }

    /// Something came.
    pub(crate) fn read(&mut self, now: Instant) {
        (self.patience, self.told, self.step) = (QUIET, None, Step::Until(now + QUIET));
    }

    /// Whether what the broker had a while ago has still not come, which is counted. `ask` asks for the partition's end.
    pub(crate) fn is_stalled(
        &mut self,
        now: Instant,
        next: u64,
        ask: impl FnOnce() -> Receiver<End>,
    ) -> bool {
        match &self.step {
            Step::Until(at) if now < *at => false,
            Step::Until(_) => {
                self.step = Step::Asked(ask());
                false
            }
            Step::Asked(answer) => match answer.try_recv() {
                Err(TryRecvError::Empty) => false,
                Err(TryRecvError::Disconnected) => {
                    self.step = Step::Until(now + QUIET);
                    false
                }
                Ok(end) => self.judge(now, next, end),
            },
        }
    }

    fn judge(&mut self, now: Instant, next: u64, end: End) -> bool {
        let Some((_, since)) = self.told.filter(|(told, _)| next < *told) else {
            self.told = Some((end.offset, now));
            self.step = Step::Until(now + if next < end.offset { self.patience } else { QUIET });
            return false;
        };
        let due = since + self.patience + 3 * end.took;
        if now < due {
            self.step = Step::Until(due);
            return false;
        }
        self.stalls.count(self.topic);
        self.patience = (2 * self.patience).clamp(CONNECT, LONGEST);
        (self.told, self.step) = (None, Step::Until(now + QUIET));
        true
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

    use super::super::ends::GATHER;
    use super::*;

    /// One that has read something.
    fn watch(since: Instant) -> Watch {
        let mut watch = Watch::new(Topic::Journal, Arc::default());
        watch.read(since);
        watch
    }

    /// The answer to a question; none where the broker gives none.
    fn answer(offset: Option<u64>) -> Receiver<End> {
        let (sender, answer) = sync_channel(1);
        if let Some(offset) = offset {
            sender.send(End { offset, took: Duration::ZERO }).unwrap();
        }
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
            // A broker that does not answer tells nothing.
            (8, None, false, 0),
            (8, Some(9), true, 1),
            (8, Some(9), false, 1),
            (9, Some(9), false, 1),
            (9, Some(10), false, 1),
            (9, Some(12), true, 2),
        ] {
            now += 2 * LONGEST;
            assert!(!watch.is_stalled(now, next, || answer(end)), "it is asked");
            assert_eq!(watch.is_stalled(now, next, || unreachable!()), stalled, "{next}");
            let expected = (count > 0).then_some((Topic::Journal, count));
            assert_eq!(watch.stalls.counts(), expected.into_iter().collect(), "{next}");
        }
    }

    /// Plays a client that reads nothing, and gives the time from the append until it is found. `took` gives how long the broker
    /// takes for a question by when it is asked; every other question also waits for the answer to the one before.
    fn found(
        mut watch: Watch,
        begin: Instant,
        appended: Duration,
        took: impl Fn(Duration) -> Duration,
    ) -> Duration {
        let mut now = begin;
        let mut under_way: Option<(Instant, End, SyncSender<End>)> = None;
        for turn in 0..10_000 {
            let look = now + LOOK;
            now = under_way.as_ref().map_or(look, |(at, ..)| look.min(*at));
            if let Some((_, end, sender)) = under_way.take_if(|(at, ..)| *at <= now) {
                sender.send(end).unwrap();
            }
            let ask = || {
                let (sender, receiver) = sync_channel(1);
                let took = took(now - begin);
                let before = if turn % 2 == 0 { took } else { Duration::ZERO };
                let offset = if now >= begin + appended { 9 } else { 7 };
                under_way = Some((now + before + GATHER + took, End { offset, took }, sender));
                receiver
            };
            if watch.is_stalled(now, 7, ask) {
                return now - begin - appended;
            }
        }
        panic!("a client that fetches no more is found")
    }

    /// A record that does not come, whenever it was appended, is noticed within 3 s where the broker answers in 0.1 s.
    #[test]
    fn stalled_client_is_found_within_three_seconds() {
        for appended_ms in (0..4_000).step_by(50) {
            let begin = Instant::now();
            let appended = Duration::from_millis(appended_ms);
            let after = found(watch(begin), begin, appended, |_| Duration::from_millis(100));
            assert!(after < Duration::from_secs(3), "{appended_ms} ms: {after:?}");
        }
    }

    /// A broker that answers after 3 s may need as long for a record; one that was away for 9 s and is as fast as ever does not.
    #[test]
    fn slow_broker_is_given_longer() {
        let begin = Instant::now();
        let (fast, slow, away) = (Duration::from_millis(10), Duration::from_secs(3), Duration::from_secs(9));
        assert!(found(watch(begin), begin, Duration::ZERO, |_| slow) > 3 * slow);
        let after = found(watch(begin), begin, Duration::ZERO, |at| away.saturating_sub(at).max(fast));
        // It may have waited for the answer to others first.
        assert!(after < 2 * away + Duration::from_secs(2), "{after:?}");
    }

    /// One that was only just made has the time to connect, and twice as long each time.
    #[test]
    fn new_client_is_given_longer_each_time() {
        let mut watch = Watch::new(Topic::Journal, Arc::default());
        let mut now = Instant::now();
        let mut times = Vec::new();
        for _ in 0..6 {
            let since = now;
            while !watch.is_stalled(now, 7, || answer(Some(9))) {
                now += LOOK;
            }
            times.push((now - since).as_secs());
        }
        assert!(times[0] >= CONNECT.as_secs(), "{times:?}");
        assert!(times.windows(2).all(|two| two[0] <= two[1]), "{times:?}");
        assert!(LONGEST.as_secs() <= times[5] && times[5] < LONGEST.as_secs() + 3, "{times:?}");
    }

    /// A client that has read to the partition's end is left alone.
    #[test]
    fn client_that_has_everything_is_not_stalled() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        for look in 1..40 {
            assert!(!watch.is_stalled(begin + look * QUIET, 9, || answer(Some(9))), "{look}");
        }
    }
}
