//! Request ids and their outcomes, as long as a repeat may get the stored one.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::SignedDuration;
use tidemill_model::{
    Answer, Command, Json as _, LevelCommand, Outcome, Rejection, RequestId, TaskCommand, Timestamp,
};

use crate::{At, Invariant};

const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// The most that the time between two envelopes counts, so that nothing is forgotten while everything is off.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);
/// Below the bounds of the owners' own memory, so that what is known here is known there: answers, with the jobs that they
/// list, and bytes.
const MOST: usize = 100_000;
const MOST_BYTES: usize = 16 << 20;

/// A short stand-in for a value, the same in every process.
pub(crate) fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Whether the outcome of a command is kept for its repeats. Those of pulls and completions are not: they are what the
/// state says, whenever they are asked.
pub(crate) fn is_kept(command: Option<&Command>, outcome: &Outcome) -> bool {
    match command {
        Some(command) => !matches!(
            command,
            Command::Task(TaskCommand::Pull { .. } | TaskCommand::Complete { .. })
                | Command::Level(LevelCommand::RegisterProcess { .. })
        ),
        None => !matches!(
            outcome,
            Outcome::Answered(
                Answer::Pulled(_)
                    | Answer::NothingDue { .. }
                    | Answer::Completed { .. }
                    | Answer::Level { .. },
            ) | Outcome::Refused(
                Rejection::UserUnknown { .. }
                    | Rejection::UserMoving { .. }
                    | Rejection::GrantOver { .. }
                    | Rejection::AlreadyCompleted { .. }
                    | Rejection::TooOld { .. },
            )
        ),
    }
}

/// One request, as it was decided.
#[derive(Debug, Clone, Copy)]
struct Decided {
    request: u64,
    key: Option<u64>,
    /// The work done until then.
    worked: SignedDuration,
    weight: usize,
    bytes: usize,
}

/// What an outcome takes of the bounds: itself and the jobs that it lists, and its bytes with the request's.
fn size(request: &RequestId, outcome: &Outcome) -> (usize, usize) {
    let weight = match outcome {
        Outcome::Answered(Answer::Applied { changes, .. }) => 1 + changes.len(),
        _ => 1,
    };
    let bytes = match outcome {
        Outcome::Done | Outcome::Repeated | Outcome::Deferred => 0,
        Outcome::Answered(_) | Outcome::Refused(_) => outcome.to_json().len(),
    };
    (weight, request.as_str().len() + bytes)
}

#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Where each was decided.
    decided: HashMap<u64, u64>,
    /// Which of them a client's key was first used for.
    keys: HashMap<u64, u64>,
    /// The same, oldest first.
    order: VecDeque<Decided>,
    /// What they take of the bounds together.
    weight: usize,
    bytes: usize,
    /// The time of the last envelope.
    seen: Option<Timestamp>,
    /// The work since the first one.
    worked: SignedDuration,
    /// Something was forgotten, so an unknown request may have been decided long ago.
    forgot: bool,
}

impl Requests {
    /// An envelope of this time is checked: what is too old by now is forgotten.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        let pause = self.seen.replace(now).map_or(SignedDuration::ZERO, |seen| now.duration_since(seen));
        self.worked += pause.clamp(SignedDuration::ZERO, LONGEST_PAUSE);
        while let Some(oldest) = self.order.front().copied()
            && (self.weight > MOST || self.bytes > MOST_BYTES || self.worked - oldest.worked >= KEPT)
        {
            self.decided.remove(&oldest.request);
            if let Some(key) = oldest.key.filter(|key| self.keys.get(key) == Some(&oldest.request)) {
                self.keys.remove(&key);
            }
            self.order.pop_front();
            self.weight -= oldest.weight;
            self.bytes -= oldest.bytes;
            self.forgot = true;
        }
    }

    /// `one_outcome_per_request`
    pub(crate) fn one_outcome_per_request(&mut self, at: &At<'_>, request: &RequestId, outcome: &Outcome) {
        let rule = Invariant::OneOutcomePerRequest;
        let number = fingerprint(request);
        let before = self.decided.get(&number).copied();
        let key = request.key().map(|key| fingerprint(&key));
        let first = key.and_then(|key| self.keys.get(&key)).filter(|first| **first != number);
        let first = first.and_then(|first| self.decided.get(first)).copied();
        let is_refused = matches!(outcome, Outcome::Refused(Rejection::RequestKeyReused {}));
        match first {
            Some(first) if !is_refused && before.is_none() => {
                let why = format!("request {request} is decided, whose key was used for another one");
                at.contradicts(rule, why, &[first]);
            }
            None if is_refused && !self.forgot => {
                at.breaks(rule, format!("request {request} is refused, whose key was used for no other one"));
            }
            Some(_) | None => {}
        }
        match (outcome, before) {
            (Outcome::Repeated, Some(_)) => {}
            (Outcome::Repeated, None) if self.forgot => {}
            (Outcome::Repeated, None) => {
                at.breaks(rule, format!("request {request} is answered as a repeat of nothing"));
            }
            (_, Some(offset)) => {
                at.contradicts(rule, format!("request {request} is decided again"), &[offset]);
            }
            (_, None) => {
                self.decided.insert(number, at.offset);
                // A refused one takes no key: the first one may be forgotten here, and still be known to the owner.
                if let Some(key) = key.filter(|_| !is_refused) {
                    self.keys.entry(key).or_insert(number);
                }
                let (weight, bytes) = size(request, outcome);
                self.weight += weight;
                self.bytes += bytes;
                self.order.push_back(Decided { request: number, key, worked: self.worked, weight, bytes });
            }
        }
    }
}
