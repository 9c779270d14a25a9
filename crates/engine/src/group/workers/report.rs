//! What workers say of assignments and attempts. A word about a token that is not theirs, or not live any
//! more, changes nothing and is on record as refused.
//!
//! EXE-4: there are programs that say themselves whether they have succeeded, by a code.

use std::num::NonZeroI32;

use tidemill_model::{
    AttemptEvent, AttemptOutcome, AttemptResult, BatchId, BatchResult, Event, ExternalEnd, Level,
    MAX_VALUES_BYTES, Nonce, Rejection, ReturnReason, StartRequest, Timestamp, Token, Usage, WorkMessage,
    WorkerId,
};

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::attempts::rejected;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::batches::finish::follow_with;

/// Codes that one attempt can report.
const MAX_CODES: u8 = 100;
pub(in crate::group) const MAX_NONCE_BYTES: usize = 255;
pub(in crate::group) const GRANTED_TO_ANOTHER: &str = "it was granted to another question";
const NEVER_GRANTED: &str = "its start was never granted";

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
        // What a restore holds counts as granted to the empty one.
        if nonce.as_str().is_empty() {
            return refused("its nonce is empty");
        }
        let right = batch.right();
        let stands =
            right.is_some_and(|right| right.of.incarnation == *incarnation && self.stands(*token, worker));
        if !self.workers.lives(worker, incarnation) && !stands {
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
            // Whatever has changed: it may run by now.
            Phase::Assigned { .. } if stands && !planted!(QuestionUnderRightRefused) => {
                Decision::of(granted())
            }
            Phase::Assigned { .. }
                if self.workers.is_of_earlier_life(worker, *token)
                    || right.is_some_and(|right| right.of.incarnation != *incarnation) =>
            {
                refused("an earlier life of the worker had it; it is taken back")
            }
            Phase::Assigned { .. } if self.withheld(batch).is_some() => {
                Decision::of(rejected(id, (*token, worker), self.withheld(batch).unwrap_or_default()))
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

    /// Why what was assigned may not start any more.
    fn withheld(&self, batch: &Batch) -> Option<&'static str> {
        if self.strays.hold(batch.definition.id, batch.logical_time) {
            return Some("a stray of its logical time runs");
        }
        (!batch.may_run() || self.lacks_a_failure(batch))
            .then_some("something that it waits for was withdrawn")
    }

    pub(crate) fn reject_assignment(
        &self,
        token: Token,
        (worker, nonce): (&WorkerId, Option<&Nonce>),
        (reason, lacks_resources): (&str, bool),
        now: Timestamp,
    ) -> Decision {
        if let Some(decision) = self.final_commands.reject_final(token, (worker, nonce), reason) {
            return decision;
        }
        // Of what it was granted, a worker says no other; one without a question was said in a life that is lost.
        let of_stray = nonce.and_then(|_| self.stray_finished(token, worker, (None, None)));
        if let Some(decision) = of_stray {
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
                return Decision::events(self.end_attempt(id, token, outcome, None, now));
            }
            Some(_) | None => {}
        }
        // Asked back for what became of its question or its life, it is not unwilling.
        let reason = match batch.right() {
            Some(right) if self.is_in_doubt(worker, right) => ReturnReason::WorkerRestarted,
            Some(_) | None if self.workers.is_leaving(worker) => ReturnReason::WorkerLeaving,
            Some(_) | None if lacks_resources && self.records_departures() => {
                ReturnReason::LacksResources(reason.chars().take(500).collect())
            }
            Some(_) | None => ReturnReason::Rejected(reason.chars().take(500).collect()),
        };
        Decision::events(self.not_begun(id, batch, reason))
    }

    pub(crate) fn report_started(&self, token: Token, worker: &WorkerId) -> Result<Decision, Rejection> {
        if self.final_commands.is_granted(token) {
            return Ok(Decision::nothing());
        }
        if let Some(decision) = self.stray_started(token, worker) {
            return Ok(decision);
        }
        let (id, batch) = self.holding(token, worker).map_err(|reason| Rejection::stale(token, reason))?;
        match batch.grant() {
            Some(grant) if grant.started => Ok(Decision::nothing()),
            Some(_) => Ok(Decision::of(AttemptEvent::Started { batch: id, token })),
            None => {
                let granted = self.implied_grant(id, batch);
                let granted = granted.ok_or_else(|| Rejection::stale(token, NEVER_GRANTED))?;
                Ok(Decision::events(vec![granted, AttemptEvent::Started { batch: id, token }.into()]))
            }
        }
    }

    pub(crate) fn report_finished(
        &self,
        token: Token,
        worker: &WorkerId,
        outcome: &AttemptOutcome,
        (usage, interrupted): (Option<&Usage>, bool),
        external: Option<&ExternalEnd>,
        now: Timestamp,
    ) -> Decision {
        let recorded = WorkMessage::Recorded { token };
        let of_final = || self.final_commands.final_finished(token, worker, outcome);
        if let Some(decision) =
            self.stray_finished(token, worker, (Some(outcome), external)).or_else(of_final)
        {
            return decision;
        }
        let (id, batch) = match self.holding(token, worker) {
            Ok(found) => found,
            Err(reason) => {
                planted!(LateFinishAccepted => if let Some(late) = self.late_finish(token, outcome, now) { return late });
                return Decision::from(Rejection::stale(token, reason)).telling(worker, recorded);
            }
        };
        let nothing_ran = matches!(outcome.result, AttemptResult::Lost | AttemptResult::Killed)
            && !Self::tells_of_a_process(batch, usage.is_some());
        let implied = if nothing_ran { None } else { self.implied_grant(id, batch) };
        if batch.grant().is_some() || implied.is_some() {
            let mut outcome = outcome.clone();
            outcome.message = outcome.message.chars().take(500).collect();
            // The last resort against a worker that passes on more than it may: nothing of it counts.
            if outcome.values_bytes() > MAX_VALUES_BYTES {
                outcome.values.clear();
                outcome.message =
                    format!("its values took more than {MAX_VALUES_BYTES} bytes and are left out");
            }
            if !self.level().allows(Level::LIMITS) {
                outcome.excess = None;
            }
            self.judge_by_code(batch, &mut outcome);
            let interruption = self.interruption((id, token), worker, (interrupted, &outcome));
            let counts = interruption.is_none();
            // A worker that was there, and cannot tell what runs elsewhere, has judged that it is lost.
            let is_judged = usage.is_some() && external.is_some_and(|external| external.unconfirmed);
            let looks = counts && !is_judged;
            let queried = looks.then(|| self.output_queried((id, token), &outcome, true, now)).flatten();
            let mut ended =
                self.batches.attempt_ended(id, token, (outcome, counts), usage.cloned().map(Box::new), now);
            follow_with(&mut ended, queried);
            let external = self.external_work_at_end(id, token, external);
            let before = implied.into_iter().chain(external).chain(interruption);
            return Decision::events(before.chain(ended).collect());
        }
        if nothing_ran {
            return Decision::events(self.not_begun(id, batch, ReturnReason::WorkerRestarted));
        }
        Rejection::stale(token, NEVER_GRANTED).into()
    }

    /// While the attempt runs; after its 0 nothing more is to be said.
    pub(crate) fn report_user_code(&self, token: Token, code: i32) -> Result<Decision, Rejection> {
        let stale = |reason: &str| Rejection::stale(token, reason);
        let id = self.batches.of_token(token).ok_or_else(|| stale("it has ended, or was never issued"))?;
        let batch = self.batches.get(&id).ok_or_else(|| stale("its batch has ended"))?;
        let grant = batch.grant().ok_or_else(|| stale(NEVER_GRANTED))?;
        if !batch.ends_by_code() {
            let rule = "has no effect: the job's success_check is not user_code";
            return Err(Rejection::field("code", code, rule));
        }
        if grant.codes == MAX_CODES {
            let what = format!("the number of codes that attempt {token} has reported");
            return Err(Rejection::limit(what, u64::from(MAX_CODES)));
        }
        if grant.zero {
            return Err(Rejection::AlreadyThere { what: format!("code 0 of attempt {token}") });
        }
        // The same again is no other fact.
        let said = NonZeroI32::new(code).is_some_and(|code| grant.code == Some(code));
        let event = Event::Attempt(AttemptEvent::UserCodeReported { batch: id, token, code });
        Ok(Decision::events(if said { Vec::new() } else { vec![event] }))
    }

    /// The end of an attempt that is over, taken for that of its batch's present one.
    #[cfg(feature = "planted")]
    fn late_finish(&self, token: Token, outcome: &AttemptOutcome, now: Timestamp) -> Option<Decision> {
        let id = BatchId(tidemill_planted::noted(token.0)?);
        self.batches.get(&id)?.grant()?;
        Some(Decision::events(self.end_attempt(id, token, outcome.clone(), None, now)))
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
