//! EXE-12: a person vouches that nothing of one attempt runs any more.
//!
//! ```text
//!  its worker is lost             │ its end was requested, and is not reported
//!  a group that holds waits ···   │ ··· a process that cannot be killed, a worker that does not answer
//!                                 │ or it waits for the end of external work of earlier attempts (EXE-13)
//!                                 ▼
//!         AttemptEndVouched, AttemptFinished(lost), and what follows from that
//! ```
//! The worker is asked to kill it all the same: it hears of that once it speaks again.
//!
//! What is only assigned and carries no right goes back by itself. A worker that is heard of ends what runs when it is asked to.

use tidemill_model::{
    Actor, AttemptEvent, AttemptOutcome, AttemptResult, BatchId, Event, Rejection, ReturnReason, Timestamp,
    Token,
};

use crate::decision::Decision;
use crate::group::{GroupShard, reason};

/// What is wanted of a person who vouches for an end.
pub(in crate::group) const SAY_HOW: &str = "say how you know";

impl GroupShard {
    pub(crate) fn vouch_attempt_ended(
        &self,
        (id, token): (BatchId, Token),
        reason: &str,
        by: &Actor,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        let reason = reason::checked(reason, SAY_HOW)?;
        let batch = self.unfinished(id)?;
        let refused = |rule: String| Err(Rejection::field("attempt", token, rule));
        let Some((held, kill)) = batch.running_as() else {
            return refused(format!("does not run: batch {id} has no attempt that may"));
        };
        if held != token {
            return refused(format!("has ended, or is of another batch; that of batch {id} is {held} now"));
        }
        let Some((_, worker)) = batch.holder() else { return Ok(Decision::nothing()) };
        // EXE-13: nothing of it has begun, and it cannot begin by itself: the word is about what earlier ones have left.
        let waits_for_earlier =
            batch.grant().is_some_and(|grant| !grant.started) && !self.batches.unconfirmed(&id).is_empty();
        let is_lost = self.workers.get(worker).is_none_or(|known| known.lost);
        if !is_lost && kill.is_none() && !waits_for_earlier && !planted!(VouchedWithoutKill) {
            return refused(format!(
                "runs on worker {worker}, which is heard of: end it with `tidemill batch kill {id}`; if that does not help, \
                 vouch for it then"
            ));
        }
        let vouched = AttemptEvent::EndVouched {
            batch: id,
            token,
            worker: worker.clone(),
            by: by.clone(),
            reason: reason.clone(),
        };
        let follows = match batch.grant() {
            Some(_) => {
                let message = format!("a person vouches that nothing of it runs any more: {reason}");
                let outcome = AttemptOutcome { message, ..AttemptOutcome::bare(AttemptResult::Lost) };
                self.end_attempt(id, token, outcome, None, now)
            }
            None => self.not_begun(id, batch, ReturnReason::WorkerLost),
        };
        Ok(Decision::events(std::iter::once(Event::Attempt(vouched)).chain(follows).collect()))
    }
}
