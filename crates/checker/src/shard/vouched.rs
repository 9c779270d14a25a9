//! EXE-12: a person vouches that nothing of an attempt runs any more.

use tidemill_model::{
    Actor, AttemptEvent, BatchCommand, BatchEvent, BatchId, Command, Event, Token, WorkerId,
};

use super::Shard;
use super::batch::{Assignment, Phase};
use crate::Invariant;
use crate::findings::{Asked, At};

const RULE: Invariant = Invariant::NoAttemptBeforeLeaseOver;

/// For whose end a person has just vouched, and in which record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vouched {
    batch: BatchId,
    token: Token,
    offset: u64,
}

impl Shard {
    /// `no_attempt_before_lease_over`: by a person's own command, and only of what its worker cannot be asked about: it is lost, or
    /// was asked to end it; or of what has not begun, since external work of earlier attempts has to end before.
    pub(super) fn attempt_end_vouched(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, worker, by): (Token, &WorkerId, &Actor),
    ) {
        let asked = match at.asked {
            Asked::Command(Some(record)) => is_word(&record.command, id, token) && record.actor == *by,
            Asked::Command(None) => true,
            Asked::Owner | Asked::Unknown => false,
        };
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let waits_for_earlier =
            batch.external.is_left() && matches!(batch.phase, Phase::Granted { started: false, .. });
        batch.external.earlier_has_ended();
        let runs = match &batch.phase {
            Phase::Granted { to, .. } => is_it(to, token, worker),
            Phase::Assigned(held) => held.right.is_some() && is_it(held, token, worker),
            Phase::Waiting | Phase::Ended { .. } | Phase::Pausing { .. } => false,
        };
        let is_lost = self.workers.get(worker).is_none_or(|known| known.lost.is_some());
        let why = match (asked, runs) {
            (false, _) => "and nobody gave it",
            (true, false) => "and it does not run",
            (true, true) if !is_lost && batch.kill.is_none() && !waits_for_earlier => {
                "and its worker is not lost, nor was its end requested"
            }
            (true, true) => "",
        };
        if !why.is_empty() {
            let why = format!("attempt {token} of batch {id} is over by a person's word, {why}");
            at.contradicts(RULE, why, &[batch.said]);
        }
        self.vouched = Some(Vouched { batch: id, token, offset: at.offset });
    }

    /// Whether a person has just vouched for the end of this attempt.
    pub(super) fn is_vouched(&self, token: Token) -> bool {
        self.vouched.as_ref().is_some_and(|vouched| vouched.token == token)
    }

    /// `no_attempt_before_lease_over`: the end follows at once.
    pub(super) fn vouched_end_follows(&mut self, at: &At<'_>, event: &Event) {
        let Some(Vouched { batch: id, token, offset }) = self.vouched else { return };
        let ends = match event {
            Event::Attempt(AttemptEvent::Finished { token: of, .. })
            | Event::Batch(BatchEvent::AssignmentReturned { token: of, .. }) => *of == token,
            Event::Batch(BatchEvent::Finished { batch, .. }) => *batch == id,
            _ => false,
        };
        if !ends || at.offset != offset {
            let why = format!("a person vouched for the end of attempt {token}, and it does not follow");
            at.breaks(RULE, why);
            self.vouched = None;
        }
    }
}

fn is_it(held: &Assignment, token: Token, worker: &WorkerId) -> bool {
    held.token == token && held.worker == *worker
}

/// Whether a command vouches for this attempt's end.
fn is_word(command: &Command, id: BatchId, token: Token) -> bool {
    matches!(command, Command::Batch(BatchCommand::VouchEnded { batch, token: of, .. }) if (*batch, *of) == (id, token))
}
