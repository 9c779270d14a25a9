//! The sessions with the stores that ask: while a partition moves from one store to another, both do.

use tidemill_model::{ShipFrame, ShipRequest};

use super::session::Session;
use super::spool::Spool;

/// Stores with which there is a session at once. Of more, the one that was not heard of for longest begins anew.
pub(super) const MAX_SESSIONS: usize = 2;

/// What came of a look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    Nothing,
    Answer(Vec<ShipFrame>),
    /// Another request of the same store came after this one.
    Overtaken,
}

/// The spool, and who was told what of it.
pub(super) struct Shipping<S> {
    pub(super) spool: S,
    sessions: Vec<Session>,
    /// Of the last request.
    number: u64,
}

impl<S: Spool> Shipping<S> {
    pub(super) fn new(spool: S) -> Self {
        Self { spool, sessions: Vec::new(), number: 0 }
    }

    /// Takes a request, and gives the number to look under.
    pub(super) fn begin(&mut self, request: &ShipRequest, now_ms: u64) -> u64 {
        self.number += 1;
        let at = self.sessions.iter().position(|session| session.store == request.store);
        let at = at.unwrap_or_else(|| {
            self.sessions.sort_unstable_by_key(|session| std::cmp::Reverse(session.number));
            self.sessions.truncate(MAX_SESSIONS - 1);
            self.sessions.push(Session::new(request.store.clone()));
            self.sessions.len() - 1
        });
        self.sessions[at].begin(&mut self.spool, request, self.number, now_ms);
        self.number
    }

    /// What there is to say. The last look of a request gives an answer, if an empty one.
    pub(super) fn look(&mut self, number: u64, is_last: bool, now_ms: u64) -> Looked {
        let Some(session) = self.sessions.iter_mut().find(|session| session.number == number) else {
            return Looked::Overtaken;
        };
        let frames = session.look(&mut self.spool, now_ms);
        if frames.is_empty() && !is_last {
            return Looked::Nothing;
        }
        session.has_answered();
        Looked::Answer(frames)
    }
}
