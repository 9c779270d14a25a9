//! EXE-7: what attempts that run want too much of, reported with each heartbeat until they have ended.

use std::collections::BTreeSet;

use tidemill_model::{Excess, ExcessKind, RunningExcess, Token, bounds};

/// What is reported, in the order in which it was noticed.
#[derive(Debug, Default)]
pub(super) struct Excesses {
    all: Vec<RunningExcess>,
    known: BTreeSet<(Token, ExcessKind)>,
}

impl Excesses {
    /// Each kind of an attempt once. Beyond what a heartbeat holds, nothing is noted: the attempt's end says it.
    pub(super) fn note(&mut self, token: Token, excess: Excess) {
        if self.all.len() < bounds::EXCESSES && self.known.insert((token, excess.kind)) {
            self.all.push(RunningExcess { token, excess });
        }
    }

    /// The attempt has ended.
    pub(super) fn forget(&mut self, token: Token) {
        if self.known.range((token, ExcessKind::Memory)..).next().is_some_and(|(of, _)| *of == token) {
            self.all.retain(|of| of.token != token);
            self.known.retain(|(of, _)| *of != token);
        }
    }

    pub(super) fn all(&self) -> Vec<RunningExcess> {
        self.all.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excess(kind: ExcessKind) -> Excess {
        Excess { kind, limit: None, seen: None }
    }

    /// EXE-7: each kind of an attempt is reported once a heartbeat, and nothing of one that has ended.
    #[test]
    fn each_kind_is_noted_until_its_attempt_has_ended() {
        let mut excesses = Excesses::default();
        for kind in [ExcessKind::Output, ExcessKind::MemoryAlarm, ExcessKind::Output] {
            excesses.note(Token(1), excess(kind));
        }
        excesses.note(Token(2), excess(ExcessKind::Output));
        assert_eq!(excesses.all().len(), 3);
        excesses.forget(Token(3));
        excesses.forget(Token(1));
        assert_eq!(excesses.all(), [RunningExcess { token: Token(2), excess: excess(ExcessKind::Output) }]);
        excesses.note(Token(1), excess(ExcessKind::Output));
        assert_eq!(excesses.all().len(), 2);
    }

    /// EXE-7: a heartbeat stays small, however many attempts want too much.
    #[test]
    fn a_heartbeat_names_so_many_and_no_more() {
        let mut excesses = Excesses::default();
        for token in 0..200 {
            excesses.note(Token(token), excess(ExcessKind::Processes));
        }
        assert_eq!(excesses.all().len(), bounds::EXCESSES);
    }
}
