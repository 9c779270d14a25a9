//! The answers given in the last 24 hours, so that a repeated request gets the first one, from any owner.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;
use tidemill_model::{Answer, Outcome, RequestId};

const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// An answer weighs 1, and 1 more for each job that it lists.
const MAX_WEIGHT: usize = 200_000;

/// Request id → outcome, bounded by age and weight. Forgetting follows from envelope times alone, so every
/// fold forgets the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answers {
    by_request: FxHashMap<RequestId, Outcome>,
    order: VecDeque<(Timestamp, RequestId, usize)>,
    weight: usize,
}

impl Answers {
    pub(crate) fn get(&self, request: &RequestId) -> Option<&Outcome> {
        self.by_request.get(request)
    }

    pub(crate) fn keep(&mut self, now: Timestamp, request: RequestId, outcome: Outcome) {
        let weight = match &outcome {
            Outcome::Answered(Answer::Applied { changes, .. }) => 1 + changes.len(),
            Outcome::Answered(_) | Outcome::Done | Outcome::Refused(_) | Outcome::Repeated => 1,
        };
        self.weight += weight;
        self.order.push_back((now, request.clone(), weight));
        self.by_request.insert(request, outcome);
        self.forget(now);
    }

    fn forget(&mut self, now: Timestamp) {
        while let Some((at, request, weight)) = self.order.front() {
            if self.weight <= MAX_WEIGHT && now.duration_since(*at) < KEPT {
                return;
            }
            self.by_request.remove(request);
            self.weight -= weight;
            self.order.pop_front();
        }
    }
}
