//! Starting under a right, before the question is answered (rule 8 of the log protocol).
//!
//! ```text
//!  heartbeat n sent          assigned        question in the log
//!   |──────────────────── window ─────────────────|── ·
//!                               |─ asked ────────►| starts, if all of this was within the window and in one life
//! ```
//! A no-op starts as soon as it has asked: nothing of it runs. After the window, and in another life, what was asked waits
//! for its answer as without a right.
//!
//! *Invariant:* what was spoken of (given back, reported as ended or killed) does not start any more under a right. No right
//! that was given before that lasts longer than [`START_WINDOW_MS`], so for so long it is remembered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidemill_model::bounds::START_WINDOW_MS;
use tidemill_model::{Incarnation, Nonce, RunSpec, StartRight, Token};

use super::Worker;
use super::attempt::{Attempt, Repeat};
use crate::types;

/// Heartbeats of the present life whose sending is remembered.
const MAX_SENT: usize = 1_024;
/// Assignments that are remembered as spoken of. Where that is not enough, those with lower tokens count as spoken of, too.
const MAX_SPOKEN: usize = 65_536;
/// An owner that has not read a question for so long has long lost this life.
const UNCONFIRMED_MS: u64 = 60_000;

/// The right under which a question was asked.
#[derive(Debug)]
pub(super) struct Right {
    /// The heartbeat that it counts from.
    pub(super) heartbeat: u64,
    /// Its number, by which the log's outcome names it.
    pub(super) question: u64,
    /// Not from this moment on.
    until_ms: u64,
    /// What to run.
    pub(super) spec: Box<RunSpec>,
}

/// When the heartbeats of the present life were sent, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Sent {
    at_ms: BTreeMap<u64, u64>,
    /// Of the newest that was acknowledged.
    #[cfg(feature = "planted")]
    acknowledged_at_ms: u64,
}

impl Sent {
    pub(super) fn note(&mut self, number: u64, now_ms: u64) {
        self.at_ms.insert(number, now_ms);
        while self.at_ms.len() > MAX_SENT {
            self.at_ms.pop_first();
        }
    }

    pub(super) fn clear(&mut self) {
        self.at_ms.clear();
    }

    #[cfg(feature = "planted")]
    pub(super) fn acknowledged(&mut self, now_ms: u64) {
        self.acknowledged_at_ms = now_ms;
    }

    /// Until when the right lasts; nothing: its heartbeat was not sent in this life, or long ago.
    fn end_of(&self, right: &StartRight) -> Option<u64> {
        let sent_ms = *self.at_ms.get(&right.heartbeat)?;
        planted!(RightRenewed => {
            return self.at_ms.values().max().map(|newest| newest + right.window_ms);
        });
        planted!(RightFromAcknowledgement => {
            return Some(sent_ms.max(self.acknowledged_at_ms) + right.window_ms);
        });
        Some(sent_ms.saturating_add(right.window_ms.min(START_WINDOW_MS)))
    }
}

/// Assignments that were spoken of and may not start under a right any more.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    tokens: BTreeSet<Token>,
    /// Until when each is remembered, the oldest first.
    until_ms: VecDeque<(u64, Token)>,
    /// This one and all lower ones count as spoken of.
    floor: Option<Token>,
}

impl Spoken {
    pub(super) fn note(&mut self, token: Token, now_ms: u64) {
        planted!(WordForgotten => return);
        while self.until_ms.front().is_some_and(|(until, _)| *until <= now_ms) {
            self.forget_oldest();
        }
        if self.tokens.insert(token) {
            self.until_ms.push_back((now_ms.saturating_add(START_WINDOW_MS), token));
        }
        if self.tokens.len() > MAX_SPOKEN {
            self.floor = self.floor.max(self.forget_oldest());
        }
    }

    fn forget_oldest(&mut self) -> Option<Token> {
        let (_, token) = self.until_ms.pop_front()?;
        self.tokens.remove(&token);
        Some(token)
    }

    fn has(&self, token: Token) -> bool {
        self.tokens.contains(&token) || self.floor.is_some_and(|floor| token <= floor)
    }
}

/// What was begun under a right and is not confirmed yet. An owner's list may be older than its question, so that it is missing there
/// says nothing, for a while.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    since_ms: BTreeMap<Token, u64>,
}

impl Unconfirmed {
    fn note(&mut self, token: Token, now_ms: u64) {
        while self.since_ms.first_key_value().is_some_and(|(_, since)| since + UNCONFIRMED_MS <= now_ms) {
            self.since_ms.pop_first();
        }
        self.since_ms.insert(token, now_ms);
    }

    pub(super) fn is_known(&mut self, token: Token) {
        self.since_ms.remove(&token);
    }

    pub(super) fn has(&self, token: Token, now_ms: u64) -> bool {
        self.since_ms.get(&token).is_some_and(|since| now_ms < since + UNCONFIRMED_MS)
    }
}

impl Worker {
    pub(super) fn assigned_with_right(&mut self, right: &StartRight, spec: Box<RunSpec>) {
        let token = spec.token;
        let is_own = right.incarnation == self.incarnation || planted!(RightOutlivesLife);
        if !is_own || self.spoken.has(token) || !self.takes(token, &spec.job_type) {
            return;
        }
        // Where it is over, or its heartbeat unknown, the answer decides, which does not say again what to run.
        let until_ms = self.sent.end_of(right).unwrap_or(0);
        let is_over = until_ms <= self.now_ms || self.sealing.is_in_doubt(right.heartbeat);
        if types::is_noop(&spec.job_type) && !is_over {
            self.ask_to_start(token);
            self.unconfirmed.note(token, self.now_ms);
            return self.begin_asked(token, spec);
        }
        let (heartbeat, question) = (right.heartbeat, self.nonces + 1);
        self.ask_under(token, Some(Box::new(Right { heartbeat, question, until_ms, spec })));
        planted!(BegunBeforeAcknowledgement => self.question_is_in_log(token, self.nonces));
    }

    /// The log has a question that was asked under a right: the process starts, if the right is not over.
    pub(super) fn question_is_in_log(&mut self, token: Token, question: u64) {
        let Some(Attempt::Requested { right: Some(right), .. }) = self.attempts.get(token) else {
            return;
        };
        if right.question != question || right.is_over(self.now_ms) {
            return;
        }
        let spec = right.spec.clone();
        self.unconfirmed.note(token, self.now_ms);
        self.begin_asked(token, spec);
    }

    /// The answer to a question that was asked under a right.
    pub(super) fn confirmed(&mut self, incarnation: &Incarnation, nonce: &Nonce, token: Token) {
        if *incarnation != self.incarnation {
            return;
        }
        self.unconfirmed.is_known(token);
        match self.attempts.get(token) {
            Some(Attempt::Requested { nonce: asked, right: Some(right), .. }) if asked == nonce => {
                let spec = right.spec.clone();
                self.begin_asked(token, spec);
            }
            // It has begun, or ended, or was given back.
            Some(
                Attempt::Starting { .. }
                | Attempt::Running { .. }
                | Attempt::Ended(_)
                | Attempt::GivenBack { .. },
            ) => {}
            Some(Attempt::Looking { .. } | Attempt::Requested { .. }) | None => self.granted_to_nobody(token),
        }
    }

    /// What was not begun goes back, and does not begin any more.
    pub(super) fn asked_back(&mut self, token: Token) {
        let reason = "it was asked back".to_owned();
        let nonce = match self.attempts.get(token) {
            Some(Attempt::Starting { .. } | Attempt::Running { .. } | Attempt::GivenBack { .. }) => return,
            Some(Attempt::Ended(_)) => return self.report_finished(token),
            Some(Attempt::Requested { nonce, .. }) => Some(nonce.clone()),
            Some(Attempt::Looking { .. }) | None => None,
        };
        self.give_back_asked(token, nonce, reason, Repeat::first(self.now_ms));
    }
}

impl Right {
    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms <= now_ms
    }
}
