//! The answers given in the last 24 hours of work, so that a repeated request gets the first one, from any owner.
//!
//! Work, not the calendar: a repeat may stand in the commands, undecided, for as long as everything is off. So a pause
//! between two envelopes ages an answer by an hour at most, however long it was.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::SignedDuration;
use rustc_hash::FxHashMap;
use tidemill_derive::Stored;
use tidemill_model::{Answer, Outcome, RequestId, Timestamp};

use crate::weight::{of_outcome, of_text};

const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// The most that the time between two envelopes counts as work.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);

/// An answer weighs 1, and 1 more for each job that it lists. Bytes are those of the request ids and of the
/// outcomes, about as they stand in the journal.
const MOST: Size = Size { weight: 200_000, bytes: 64 << 20 };

#[derive(Debug, Clone, Copy, Default, PartialEq, Stored)]
struct Size {
    weight: usize,
    bytes: usize,
}

impl Size {
    fn of(request: &RequestId, outcome: &Outcome) -> Self {
        let jobs =
            if let Outcome::Answered(Answer::Applied { changes, .. }) = outcome { changes.len() } else { 0 };
        Self { weight: 1 + jobs, bytes: of_text(request.as_str()) + of_outcome(outcome) }
    }
}

/// Request id → outcome, bounded by age, weight and bytes. Forgetting follows from envelopes alone, so every
/// fold forgets the same.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Answers {
    by_request: FxHashMap<RequestId, Outcome>,
    /// Which request a client's key was first used for.
    by_key: FxHashMap<Arc<str>, RequestId>,
    order: VecDeque<(SignedDuration, RequestId, Size)>,
    sum: Size,
    /// The time of the last envelope.
    seen: Option<Timestamp>,
    /// The work since the first one.
    worked: SignedDuration,
}

impl Answers {
    pub(crate) fn get(&self, request: &RequestId) -> Option<&Outcome> {
        self.by_request.get(request)
    }

    /// Whether the key of this request was used for another one.
    pub(crate) fn is_reused(&self, request: &RequestId) -> bool {
        request.key().and_then(|key| self.by_key.get(key)).is_some_and(|first| first != request)
    }

    /// An envelope of this time is folded.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        let pause = self.seen.replace(now).map_or(SignedDuration::ZERO, |seen| now.duration_since(seen));
        self.worked += pause.clamp(SignedDuration::ZERO, LONGEST_PAUSE);
    }

    pub(crate) fn keep(&mut self, request: RequestId, outcome: Outcome) {
        self.keep_within(MOST, request, outcome);
    }

    fn keep_within(&mut self, most: Size, request: RequestId, outcome: Outcome) {
        if let Some(key) = request.key() {
            self.by_key.entry(key.into()).or_insert_with(|| request.clone());
        }
        if outcome == Outcome::Deferred {
            // It stands until the answer replaces it, which may have come in this same envelope. Only so many
            // requests wait at once.
            self.by_request.entry(request).or_insert(outcome);
            return;
        }
        let size = Size::of(&request, &outcome);
        self.sum = Size { weight: self.sum.weight + size.weight, bytes: self.sum.bytes + size.bytes };
        self.order.push_back((self.worked, request.clone(), size));
        self.by_request.insert(request, outcome);
        self.forget(most);
    }

    fn forget(&mut self, most: Size) {
        while let Some((at, request, size)) = self.order.front() {
            let fits = self.sum.weight <= most.weight && self.sum.bytes <= most.bytes;
            if fits && self.worked - *at < KEPT {
                return;
            }
            self.by_request.remove(request);
            if let Some(key) = request.key().filter(|key| self.by_key.get(*key) == Some(request)) {
                self.by_key.remove(key);
            }
            self.sum = Size { weight: self.sum.weight - size.weight, bytes: self.sum.bytes - size.bytes };
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_model::{JobChange, JobChangeKind, JobId, Rejection};

    fn change(number: usize) -> JobChange {
        let name = format!("g/{number}");
        JobChange { job: JobId(1), name, change: JobChangeKind::Added, version: 1, fields: Vec::new() }
    }

    fn applied(jobs: usize, warning_bytes: usize) -> Outcome {
        let changes = (0..jobs).map(change).collect();
        Outcome::Answered(Answer::Applied { changes, warnings: vec!["w".repeat(warning_bytes)] })
    }

    fn refused(bytes: usize) -> Outcome {
        Outcome::Refused(Rejection::DeadLettered { reason: "r".repeat(bytes) })
    }

    /// However large answers are, what is kept is bounded: the oldest go first, and all after 24 hours.
    #[test]
    fn answers_are_kept_until_a_bound_is_reached() {
        const MOST: Size = Size { weight: 100, bytes: 10_000 };
        let hours = SignedDuration::from_hours;
        for (what, count, outcome, apart, kept) in [
            ("plain", 10, Outcome::Done, hours(1), 10),
            ("plain, too old", 30, Outcome::Done, hours(1), 24),
            ("plain, too many", 107, Outcome::Done, hours(0), 100),
            ("many jobs", 5, applied(25, 0), hours(0), 3),
            ("large refusals", 9, refused(2_400), hours(0), 4),
            ("large answers", 5, applied(1, 4_800), hours(0), 2),
        ] {
            let mut answers = Answers::default();
            let name = |number: usize| RequestId::new(format!("r{number}"));
            let mut now = Timestamp::UNIX_EPOCH;
            for number in 0..count {
                answers.pass(now);
                answers.keep_within(MOST, name(number), outcome.clone());
                now += apart;
            }
            let left: Vec<usize> =
                (0..count).filter(|number| answers.get(&name(*number)).is_some()).collect();
            assert_eq!(left, (count - kept..count).collect::<Vec<_>>(), "{what}");
            assert_eq!(answers.by_request.len(), answers.order.len(), "{what}");
        }
    }

    /// However long a request is put off, its repeats find it, and its answer is then kept as long as any other;
    /// also where both are of one envelope.
    #[test]
    fn what_was_put_off_is_kept_until_it_is_decided_and_its_answer_for_a_day() {
        let request = || RequestId::new("r");
        let mut answers = Answers::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let mut work_for = |answers: &mut Answers, hours: usize| {
            for _ in 0..hours {
                now += SignedDuration::from_hours(1);
                answers.pass(now);
            }
        };
        answers.keep(request(), Outcome::Deferred);
        work_for(&mut answers, 48);
        answers.keep(RequestId::new("other"), Outcome::Done);
        assert_eq!(answers.get(&request()), Some(&Outcome::Deferred));
        answers.keep(request(), Outcome::Done);
        answers.keep(request(), Outcome::Deferred);
        assert_eq!(answers.get(&request()), Some(&Outcome::Done));
        work_for(&mut answers, 24);
        answers.keep(RequestId::new("later"), Outcome::Done);
        assert_eq!((answers.get(&request()), answers.by_request.len(), answers.order.len()), (None, 1, 1));
    }

    /// A key stands for the request that it was first used for, until that one's answer is forgotten.
    #[test]
    fn key_stands_for_its_first_request() {
        let (first, other) = (RequestId::of_client("a", "k", 1), RequestId::of_client("a", "k", 2));
        let reused = |answers: &Answers| (answers.is_reused(&first), answers.is_reused(&other));
        let mut answers = Answers::default();
        assert_eq!(reused(&answers), (false, false));
        answers.keep(first.clone(), Outcome::Deferred);
        assert_eq!(reused(&answers), (false, true), "also while it is put off");
        answers.keep(first.clone(), Outcome::Done);
        answers.keep(other.clone(), refused(1));
        assert_eq!(reused(&answers), (false, true), "a refusal takes no key");
        assert!(!answers.is_reused(&RequestId::of_client("b", "k", 2)), "each application has its own keys");
        let mut now = Timestamp::UNIX_EPOCH;
        for _ in 0..26 {
            answers.pass(now);
            now += SignedDuration::from_hours(1);
        }
        answers.keep(RequestId::new("later"), Outcome::Done);
        assert_eq!((reused(&answers), answers.by_key.len()), ((false, false), 0));
    }

    /// A repeat that waited while everything was off for days finds its answer: pauses age nothing, nor does a clock
    /// that an operator sets back.
    #[test]
    fn days_without_work_make_no_answer_older() {
        let request = || RequestId::new("r");
        let mut answers = Answers::default();
        let mut now = Timestamp::UNIX_EPOCH;
        answers.pass(now);
        answers.keep(request(), Outcome::Done);
        for (days, kept) in
            [(3, true), (-3, true), (400, true)].into_iter().chain([(1, true); 21]).chain([(1, false)])
        {
            now += SignedDuration::from_hours(24 * days);
            answers.pass(now);
            answers.keep(RequestId::new(now.to_string()), Outcome::Done);
            assert_eq!(answers.get(&request()).is_some(), kept, "{now}");
        }
    }
}
