//! EXE-13: what attempts that run have started elsewhere, told with the next heartbeat and, a part at a time, with later ones: an
//! owner that was not there has it from them.

use std::collections::VecDeque;

use tidemill_model::{ExternalEnd, ExternalWork, ExternalWorkId, Token, bounds};

use super::{ProcessEnd, Worker};
use crate::attempt_dir::ExternalRecord;

/// What is known, the next to be told first.
#[derive(Debug, Default)]
pub(super) struct ExternalIds(VecDeque<(Token, ExternalWorkId)>);

impl ExternalIds {
    /// Says whether there is something new among it.
    fn note(&mut self, token: Token, ids: Vec<ExternalWorkId>) -> bool {
        let known = self.0.len();
        for id in ids.into_iter().take(bounds::EXTERNAL_WORK).rev() {
            if !self.0.iter().any(|(of, other)| *of == token && *other == id) {
                self.0.push_front((token, id));
            }
        }
        self.0.len() > known
    }

    /// The attempt has ended.
    pub(super) fn forget(&mut self, token: Token) {
        self.0.retain(|(of, _)| *of != token);
    }

    /// Adds what is known of an attempt to what its end says.
    pub(super) fn complete(&self, token: Token, end: &mut ExternalEnd) {
        let known = self.0.iter().filter(|(of, _)| *of == token).map(|(_, id)| id.clone());
        add(end, known.collect());
    }

    /// What one heartbeat says of it; the next says what follows.
    pub(super) fn next(&mut self) -> Vec<ExternalWork> {
        let count = self.0.len().min(bounds::EXTERNAL_WORK_IN_HEARTBEAT);
        let mut told: Vec<ExternalWork> = Vec::new();
        for (token, id) in self.0.iter().take(count) {
            match told.iter_mut().find(|work| work.token == *token) {
                Some(work) => work.ids.push(id.clone()),
                None => told.push(ExternalWork { token: *token, ids: vec![id.clone()] }),
            }
        }
        self.0.rotate_left(count);
        told
    }
}

/// As many as a report may hold.
fn add(end: &mut ExternalEnd, ids: Vec<ExternalWorkId>) {
    for id in ids {
        if end.ids.len() < bounds::EXTERNAL_WORK && !end.ids.contains(&id) {
            end.ids.push(id);
        }
    }
}

impl Worker {
    pub(super) fn external_work_found(&mut self, token: Token, ids: Vec<ExternalWorkId>) {
        // Of one of an earlier life, whose shim was killed.
        if let Some(external) = self.attempts.unconfirmed_end(token) {
            return add(external, ids);
        }
        let runs = self.attempts.get(token).is_some_and(super::Attempt::has_process);
        if runs && self.external_ids.note(token, ids) && self.membership.was_ever_known {
            self.heartbeat();
        }
    }
}

/// What is known of external work where an attempt ended so.
pub(super) fn known_of(end: &ProcessEnd) -> Option<ExternalEnd> {
    let of_record = |record: &ExternalRecord| {
        let ids = record.work.keys().take(bounds::EXTERNAL_WORK).cloned().collect();
        ExternalEnd { ids, unconfirmed: record.unconfirmed }
    };
    match (end.record(), end) {
        (Some(record), _) => record.external.as_ref().map(of_record),
        (None, ProcessEnd::Judged { .. } | ProcessEnd::Vanished) => Some(ExternalEnd::unknown()),
        (None, _) => None,
    }
    .filter(|end| *end != ExternalEnd::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ExternalWorkId {
        ExternalWorkId::try_from(format!("application_{number}").as_str()).unwrap()
    }

    /// EXE-13: a heartbeat names so many and no more, what is new first, and later ones what it left out.
    #[test]
    fn heartbeats_name_all_in_turn() {
        let mut ids = ExternalIds::default();
        assert!(ids.note(Token(1), (0..100).map(id).collect()));
        assert!(!ids.note(Token(1), vec![id(7)]), "it is known");
        assert!(ids.note(Token(2), vec![id(7)]), "it is another attempt");
        let told = ids.next();
        assert_eq!((told[0].token, told[0].ids.len(), told[1].ids.len()), (Token(2), 1, 99));
        let told = ids.next();
        assert_eq!((told[0].token, &told[0].ids[0]), (Token(1), &id(99)));
        ids.forget(Token(1));
        assert_eq!(ids.next(), [ExternalWork { token: Token(2), ids: vec![id(7)] }]);
        ids.forget(Token(2));
        assert_eq!(ids.next(), []);
    }
}
