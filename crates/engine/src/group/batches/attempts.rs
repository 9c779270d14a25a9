//! Assignments and attempts of a batch.

use crate::group::batches::batch::{Batch, Grant, PauseAfter, Phase};
use crate::group::batches::right::Right;
use crate::group::timers::Timers;
use crate::group::workers::Demand;
use crate::group::{GroupShard, Timer};
use jiff::SignedDuration;
use std::num::NonZeroI32;
use std::sync::Arc;
use tidemill_model::{
    AttemptEvent, BatchEvent, BatchId, Event, Incarnation, Nonce, ReturnReason, TimeoutKind, Timestamp,
    Token, WorkMessage, WorkerId,
};

/// How long a batch that all workers gave back is offered to none.
const REJECTION_PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// An assignment comes back, and another worker may get it.
pub(in crate::group) fn returned(
    batch: BatchId,
    (token, worker): (Token, &WorkerId),
    reason: ReturnReason,
) -> Event {
    Event::Batch(BatchEvent::AssignmentReturned { batch, token, worker: worker.clone(), reason })
}

/// The same, for the worker gave it back or may not have it any more.
pub(in crate::group) fn rejected(
    batch: BatchId,
    holder: (Token, &WorkerId),
    why: impl Into<String>,
) -> Event {
    returned(batch, holder, ReturnReason::Rejected(why.into()))
}

impl GroupShard {
    pub(in crate::group) fn apply_attempt(&mut self, now: Timestamp, event: &AttemptEvent) {
        match event {
            AttemptEvent::StartGranted { batch, token, worker, incarnation, nonce } => {
                self.start_granted(now, *batch, *token, worker, incarnation, nonce);
            }
            AttemptEvent::Adopted { batch, token, worker, incarnation, .. } => {
                self.stray_adopted(now, *batch, (*token, worker, incarnation));
            }
            AttemptEvent::Started { batch, .. } => {
                self.batches.earlier_external_work_ended(*batch);
                if let Some(Phase::Granted(grant)) = self.batches.get_mut(batch).map(|b| &mut b.phase) {
                    grant.started = true;
                }
            }
            AttemptEvent::UserCodeReported { batch, code, .. } => {
                if let Some(Phase::Granted(grant)) = self.batches.get_mut(batch).map(|b| &mut b.phase) {
                    grant.codes = grant.codes.saturating_add(1);
                    match NonZeroI32::new(*code) {
                        None => grant.zero = true,
                        Some(code) => grant.code = Some(code),
                    }
                }
            }
            AttemptEvent::OverLimit { batch, excess, spares_retry, .. } => {
                self.went_over_limit(*batch, *excess, *spares_retry);
            }
            AttemptEvent::ExternalWorkFound { batch, ids, .. } => {
                self.batches.external_work_found(*batch, ids);
            }
            AttemptEvent::ExternalWorkUnconfirmed { batch, token, .. } => {
                self.batches.external_work_unconfirmed(*batch, *token);
            }
            AttemptEvent::OutputQueried { .. } => self.lost_output_queried(now, event),
            AttemptEvent::OutputAnswered { batch, .. } => self.lost_output_answered(*batch),
            AttemptEvent::Interrupted { batch, .. } => {
                if let Some(known) = self.batches.get_mut(batch) {
                    known.interrupted += 1;
                }
            }
            AttemptEvent::Finished { batch, token, attempt, outcome, .. } => {
                if let Some(known) = self.batches.get(batch) {
                    self.final_commands.note(*batch, known, outcome);
                }
                self.values_passed(*batch, outcome);
                self.batches.attempt_leaves_no_external_work(*batch);
                // The slot is free again; what follows (retry or result) is the next event's to say.
                self.release(*token);
                if let Some(known) = self.batches.get_mut(batch) {
                    known.attempts = *attempt;
                    known.since = now;
                }
            }
            // What follows it ends the attempt.
            AttemptEvent::EndVouched { batch, .. } => self.batches.forget_external_work(*batch),
            AttemptEvent::KillRequested { batch, by, .. } => {
                self.batches.cancelling.remove(batch);
                match self.batches.get_mut(batch).map(|b| &mut b.phase) {
                    Some(Phase::Granted(grant)) => grant.kill = Some(by.clone()),
                    Some(Phase::Assigned { right: Some(right), .. }) => right.kill = Some(by.clone()),
                    Some(_) | None => {}
                }
            }
        }
    }

    pub(crate) fn work_of_attempt(&self, event: &AttemptEvent) -> Option<(WorkerId, WorkMessage)> {
        match event {
            // To an earlier life, under its right: the present one tells that it does not have it, or never did.
            AttemptEvent::StartGranted { worker, incarnation, .. }
                if !self.workers.is_present_life(worker, incarnation) =>
            {
                Some((worker.clone(), self.registered_message(worker)?))
            }
            AttemptEvent::StartGranted { token, worker, .. } => {
                Some((worker.clone(), self.granted_message(*token)?))
            }
            AttemptEvent::Finished { token, worker, .. } => {
                Some((worker.clone(), WorkMessage::Recorded { token: *token }))
            }
            AttemptEvent::KillRequested { batch, token, .. } => {
                let worker = self.batches.get(batch)?.holder()?.1.clone();
                Some((worker, WorkMessage::Kill { token: *token, grace_ms: self.settings().kill_grace_ms }))
            }
            // Whoever vouched may be wrong.
            AttemptEvent::EndVouched { token, worker, .. } => Some((
                worker.clone(),
                WorkMessage::Kill { token: *token, grace_ms: self.settings().kill_grace_ms },
            )),
            // It runs, and goes on.
            AttemptEvent::Adopted { .. }
            | AttemptEvent::Started { .. }
            | AttemptEvent::UserCodeReported { .. }
            | AttemptEvent::OverLimit { .. }
            | AttemptEvent::ExternalWorkFound { .. }
            | AttemptEvent::ExternalWorkUnconfirmed { .. }
            | AttemptEvent::Interrupted { .. }
            | AttemptEvent::OutputQueried { .. }
            | AttemptEvent::OutputAnswered { .. } => None,
        }
    }

    pub(in crate::group) fn batch_assigned(
        &mut self,
        now: Timestamp,
        id: BatchId,
        (token, worker): (Token, &WorkerId),
        start_by: Timestamp,
        right: Option<Box<Right>>,
    ) {
        self.batches.note_token();
        self.held_by(now, id, (token, worker), start_by, right);
    }

    /// A worker has the batch under a token that was minted before.
    pub(in crate::group) fn held_by(
        &mut self,
        now: Timestamp,
        id: BatchId,
        (token, worker): (Token, &WorkerId),
        start_by: Timestamp,
        right: Option<Box<Right>>,
    ) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let definition = Arc::clone(&batch.definition);
        let assigned = Phase::Assigned { token, worker: worker.clone(), start_by, right };
        let before = std::mem::replace(&mut batch.phase, assigned);
        batch.since = now;
        if let Some(job) = self.jobs.get_mut(&definition.id) {
            job.limit.active += 1;
        }
        if let Phase::Ready { key } = before {
            let was_queued = self.placement.start(&definition, key);
            self.left_queue(&definition, key, was_queued);
        }
        self.batches.by_token.insert(token, id);
        self.workers.count(worker, &Demand::of(&definition), token, true);
        self.placement.pools_mut().take(token, id, &definition.spec.pools, now);
        self.each_deadline(id, &[TimeoutKind::Dependency], Timers::cancel);
    }

    /// The token is nobody's any more: its slot and its place in the limit are free.
    pub(in crate::group) fn release(&mut self, token: Token) {
        let Some(id) = self.batches.by_token.remove(&token) else { return };
        self.batches.rights.remove(&token);
        planted!(LateFinishAccepted => tidemill_planted::note(token.0, id.0));
        self.unwatch_duration(id);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let definition = Arc::clone(&batch.definition);
        let phase = std::mem::replace(&mut batch.phase, Phase::Waiting);
        let worker = match phase {
            Phase::Assigned { worker, start_by, .. } => {
                self.timers.cancel(start_by, Timer::StartBy(token));
                worker
            }
            Phase::Granted(grant) => grant.worker,
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => return,
        };
        self.workers.count(&worker, &Demand::of(&definition), token, false);
        self.placement.pools_mut().give_back(token);
        if self.workers.next_unsettled().is_some() {
            self.go_on_settling(&worker);
        }
        if let Some(job) = self.jobs.get_mut(&definition.id) {
            job.limit.active = job.limit.active.saturating_sub(1);
        }
        self.promote(definition.id);
    }

    /// Another worker gets it. If one gives it back that had it before, all have had it: it pauses, so that
    /// unwilling workers do not pass it round for ever.
    pub(in crate::group) fn assignment_returned(
        &mut self,
        now: Timestamp,
        id: BatchId,
        worker: &WorkerId,
        reason: &ReturnReason,
    ) {
        self.each_deadline(id, &[TimeoutKind::Dependency], Timers::set);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        batch.phase = Phase::Waiting;
        batch.since = now;
        let may_run = batch.may_run();
        let again = may_run && batch.excluded.contains(worker);
        // The next life of a worker that leaves may have it.
        let is_unwilling = *reason != ReturnReason::WorkerLeaving;
        if may_run && !again && is_unwilling {
            batch.excluded.push(worker.clone());
        }
        // What a machine lacks now it will lack in a moment: unless another worker can have it, it waits.
        let pauses = match reason {
            ReturnReason::Rejected(_) => again,
            ReturnReason::LacksResources(_) => may_run && (again || self.all_have_had_it(id)),
            ReturnReason::NotStarted
            | ReturnReason::WorkerLost
            | ReturnReason::WorkerRestarted
            | ReturnReason::WorkerLeaving => false,
        };
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if pauses {
            let until = now.saturating_add(REJECTION_PAUSE).unwrap_or(Timestamp::MAX);
            batch.phase = Phase::Pausing { until, after: PauseAfter::Rejection };
            self.timers.set(until, Timer::Retry(id));
        } else {
            self.make_ready(now, id);
        }
        self.reconsider(id);
    }

    pub(in crate::group) fn start_granted(
        &mut self,
        now: Timestamp,
        id: BatchId,
        token: Token,
        worker: &WorkerId,
        incarnation: &Incarnation,
        nonce: &Nonce,
    ) {
        let right = self.batches.get(&id).and_then(Batch::right);
        let (under_right, kill) = (right.is_some(), right.and_then(|right| right.kill.clone()));
        let values = right.map_or_else(|| self.fixed_values(&id), |right| right.values.clone());
        self.batches.rights.remove(&token);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if let Phase::Assigned { start_by, .. } = batch.phase {
            self.timers.cancel(start_by, Timer::StartBy(token));
        }
        batch.since = now;
        if let Some(deadlines) = &mut batch.deadlines {
            deadlines[TimeoutKind::Dependency as usize] = None;
        }
        let grant = Grant {
            token,
            worker: worker.clone(),
            incarnation: incarnation.clone(),
            nonce: nonce.clone(),
            started: false,
            zero: false,
            codes: 0,
            code: None,
            kill,
            values,
            under_right,
            over: 0,
        };
        batch.phase = Phase::Granted(Box::new(grant));
        self.watch_duration(id);
    }

    pub(in crate::group) fn retry_due(&mut self, now: Timestamp, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if let Phase::Pausing { until, .. } = batch.phase {
            self.timers.cancel(until, Timer::Retry(id));
            batch.phase = Phase::Waiting;
            batch.since = now;
        }
        self.make_ready(now, id);
    }
}
