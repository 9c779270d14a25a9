//! What workers say of assignments and attempts. A word about a token that is not theirs, or not live any
//! more, changes nothing and is on record as refused.

use tidemill_model::{
    AttemptEvent, AttemptOutcome, AttemptResult, BatchId, BatchResult, Event, Nonce, Rejection, ReturnReason,
    StartRequest, Timestamp, Token, Usage, WorkMessage, WorkerId,
};

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::attempts::{rejected, returned};
use crate::group::batches::batch::{Batch, Phase};
use crate::group::batches::values::bound;

pub(in crate::group) const MAX_NONCE_BYTES: usize = 255;
pub(in crate::group) const GRANTED_TO_ANOTHER: &str = "it was granted to another question";
pub(in crate::group) const NEVER_GRANTED: &str = "its start was never granted";

impl GroupShard {
    /// DSP-5, EXE-8: only the assigned worker, in its present life, and only while the assignment stands.
    pub(crate) fn request_start(&self, request: &StartRequest) -> Decision {
        if let Some(decision) = self.request_final(request) {
            return decision;
        }
        let StartRequest { token, worker, incarnation, nonce } = request;
        let refused = |reason: &str| Decision::refused(worker, *token, reason);
        let (id, batch) = match self.holding(*token, worker) {
            Ok(found) => found,
            Err(reason) => return refused(&reason),
        };
        if nonce.as_str().len() > MAX_NONCE_BYTES {
            return refused("its nonce is longer than 255 bytes");
        }
        let known = self.workers.get(worker);
        if !known.is_some_and(|known| known.incarnation == *incarnation && !known.lost && !known.expired) {
            return refused("this life of the worker is not registered, or lost");
        }
        let granted = || {
            Event::Attempt(AttemptEvent::StartGranted {
                batch: id,
                token: *token,
                worker: worker.clone(),
                incarnation: incarnation.clone(),
                nonce: nonce.clone(),
            })
        };
        match &batch.phase {
            Phase::Assigned { .. } if self.workers.is_of_earlier_life(worker, *token) => {
                refused("an earlier life of the worker had it; it is taken back")
            }
            Phase::Assigned { .. } if !batch.may_run() || self.lacks_a_failure(batch) => {
                let reason = "something that it waits for was withdrawn";
                Decision::of(rejected(id, (*token, worker), reason))
            }
            Phase::Assigned { .. } => match self.run_spec(id, batch, *token) {
                Ok(_) => Decision::of(granted()),
                Err(message) => {
                    let reason = "its templates cannot be resolved".to_owned();
                    Decision::of(self.batches.batch_end(id, BatchResult::Failed, None, message))
                        .telling(worker, WorkMessage::Refused { token: *token, reason })
                }
            },
            Phase::Granted(_) if planted!(DoubleGrant) => Decision::of(granted()),
            Phase::Granted(grant) if grant.incarnation == *incarnation && grant.nonce == *nonce => {
                Decision::repeated(worker, self.granted_message(*token))
            }
            Phase::Granted(_) => refused(GRANTED_TO_ANOTHER),
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => refused("it was taken back"),
        }
    }

    pub(crate) fn reject_assignment(
        &self,
        token: Token,
        (worker, nonce): (&WorkerId, Option<&Nonce>),
        reason: &str,
        now: Timestamp,
    ) -> Decision {
        if let Some(decision) = self.final_commands.reject_final(token, (worker, nonce), reason) {
            return decision;
        }
        // It may be asked again by one that has not heard that it was taken back.
        let stale = |reason: &str| Decision::refused(worker, token, reason);
        let (id, batch) = match self.holding(token, worker) {
            Ok(found) => found,
            Err(reason) => return stale(&reason),
        };
        // The worker that was granted it may still say that it has not begun, and never will.
        match batch.grant() {
            // The worker has asked again since it said this, and may run what it was granted.
            Some(grant) if nonce != Some(&grant.nonce) && !planted!(OverdueRejectionAccepted) => {
                return Rejection::stale(token, GRANTED_TO_ANOTHER).into();
            }
            Some(grant) if grant.started => {
                return stale("it was started; its end must be reported");
            }
            // It is to be ended, and so it has: no other worker gets it.
            Some(grant) if grant.kill.is_some() => {
                let message = reason.chars().take(500).collect();
                let result = AttemptResult::Killed;
                let outcome = AttemptOutcome { message, ..AttemptOutcome::bare(result) };
                return Decision::events(self.batches.end_attempt(id, token, outcome, None, now));
            }
            Some(_) | None => {}
        }
        let reason: String = reason.chars().take(500).collect();
        Decision::of(rejected(id, (token, worker), reason))
    }

    pub(crate) fn report_started(&self, token: Token, worker: &WorkerId) -> Result<Decision, Rejection> {
        if self.final_commands.is_granted(token) {
            return Ok(Decision::nothing());
        }
        let (id, batch) = self.holding(token, worker).map_err(|reason| Rejection::stale(token, reason))?;
        match batch.grant() {
            Some(grant) if grant.started => Ok(Decision::nothing()),
            Some(_) => Ok(Decision::of(AttemptEvent::Started { batch: id, token })),
            None => Err(Rejection::stale(token, NEVER_GRANTED)),
        }
    }

    pub(crate) fn report_finished(
        &self,
        token: Token,
        worker: &WorkerId,
        outcome: &AttemptOutcome,
        usage: Option<&Usage>,
        now: Timestamp,
    ) -> Decision {
        let recorded = WorkMessage::Recorded { token };
        if let Some(decision) = self.final_commands.final_finished(token, worker, outcome) {
            return decision;
        }
        let (id, batch) = match self.holding(token, worker) {
            Ok(found) => found,
            Err(reason) => {
                planted!(LateFinishAccepted => if let Some(late) = self.late_finish(token, outcome, now) { return late });
                return Decision::from(Rejection::stale(token, reason)).telling(worker, recorded);
            }
        };
        if batch.grant().is_some() {
            let mut outcome = outcome.clone();
            outcome.message = outcome.message.chars().take(500).collect();
            bound(&mut outcome);
            self.judge_by_code(batch, &mut outcome);
            return Decision::events(self.batches.end_attempt(id, token, outcome, usage.cloned(), now));
        }
        if outcome.result == AttemptResult::Lost || outcome.result == AttemptResult::Killed {
            return Decision::of(returned(id, (token, worker), ReturnReason::WorkerRestarted));
        }
        Rejection::stale(token, NEVER_GRANTED).into()
    }

    /// The end of an attempt that is over, taken for that of its batch's present one.
    #[cfg(feature = "planted")]
    fn late_finish(&self, token: Token, outcome: &AttemptOutcome, now: Timestamp) -> Option<Decision> {
        let id = BatchId(tidemill_planted::noted(token.0)?);
        self.batches.get(&id)?.grant()?;
        Some(Decision::events(self.batches.end_attempt(id, token, outcome.clone(), None, now)))
    }

    /// The batch that `worker` holds under `token`.
    pub(crate) fn holding(&self, token: Token, worker: &WorkerId) -> Result<(BatchId, &Batch), String> {
        let id = self.batches.of_token(token).ok_or("it has ended, or was never issued")?;
        let batch = self.batches.get(&id).ok_or("its batch has ended")?;
        match batch.holder() {
            Some((held, holder))
                if held == token && (holder == worker || planted!(ForeignFinishAccepted)) =>
            {
                Ok((id, batch))
            }
            Some(_) | None => Err("another worker has it".to_owned()),
        }
    }
}
