//! What happens to a batch between generation and result.

mod attempt;
pub(super) mod excess;
pub(super) mod external;
pub(super) mod lost_output;
mod result;
mod retry;

use tidemill_model::{BatchEvent, BatchId, Event, ReturnReason, Timestamp};

pub(super) use self::attempt::{asks, gives_back};
use super::Shard;
use super::batch::Phase;
use super::placement::Wanted;
use super::rights::HeldRight;
use crate::{At, Invariant};

impl Shard {
    pub(super) fn batch_event(&mut self, at: &At<'_>, event: &Event) {
        let id = match event {
            // Its first event comes another way.
            Event::Batch(BatchEvent::Generated { .. }) => return,
            Event::Batch(event) => event.batch(),
            Event::Attempt(event) => event.batch(),
            _ => return,
        };
        if let Event::Batch(BatchEvent::TimeoutReached { kind, deadline, .. }) = event
            && self.late_marked(at, id, (*kind, *deadline))
        {
            return;
        }
        if matches!(event, Event::Batch(event) if self.marked(at, event))
            || !self.is_unfinished(at, id, event)
        {
            return;
        }
        match event {
            Event::Batch(event) => self.step_of_batch(at, id, event),
            Event::Attempt(event) => self.step_of_attempt(at, id, event),
            _ => {}
        }
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.said = at.offset;
        }
    }

    fn step_of_batch(&mut self, at: &At<'_>, id: BatchId, event: &BatchEvent) {
        match event {
            // Its first event comes another way.
            BatchEvent::Generated { .. } => {}
            BatchEvent::DependencySatisfied { parent, logical_time, unmet, .. } => {
                self.dependency_changed(at, id, (*parent, *logical_time), (true, *unmet));
            }
            BatchEvent::DependencyRevoked { parent, logical_time, unmet, .. } => {
                self.dependency_changed(at, id, (*parent, *logical_time), (false, *unmet));
            }
            BatchEvent::Assigned { attempt, token, worker, start_by, .. } => {
                let (start_by, right) = (*start_by, None);
                let wanted = Wanted { attempt: *attempt, token: *token, worker, start_by, right };
                self.assigned(at, id, &wanted);
            }
            BatchEvent::AssignedWithRight { attempt, token, worker, right, over_after_ms, .. } => {
                let right = Some(Box::new(HeldRight::new(at, right, *over_after_ms)));
                let wanted =
                    Wanted { attempt: *attempt, token: *token, worker, start_by: Timestamp::MAX, right };
                self.assigned(at, id, &wanted);
            }
            BatchEvent::AssignmentReturned { token, reason, .. } => self.returned(at, id, *token, reason),
            BatchEvent::RetryScheduled { attempt, at: until, .. } => {
                self.none_is_lost_unlooked_for(at, id);
                self.retry_scheduled(at, id, *attempt, *until);
            }
            BatchEvent::RetryDue { .. } => self.retry_due(at, id),
            BatchEvent::Finished { result, by, final_command, .. } => {
                self.none_is_lost_unlooked_for(at, id);
                self.batch_finished(at, id, (*result, by.is_some(), *final_command));
            }
            BatchEvent::ResultOverridden { .. } => {}
            BatchEvent::StartDue { .. } => self.start_due(at, id),
            BatchEvent::TimeoutReached { kind, deadline, .. } => {
                self.timeout_reached(at, id, (*kind, *deadline));
            }
            BatchEvent::Blocked { parent, logical_time, since, .. } => {
                self.block_recorded(at, id, Some((*parent, *logical_time, *since)));
            }
            BatchEvent::Unblocked { .. } => self.block_recorded(at, id, None),
            BatchEvent::DependencyOverridden { .. } => self.overridden(at, id, event),
            BatchEvent::QualityRequested { number, again_at, .. } => {
                self.quality_requested(at, id, (*number, *again_at));
            }
            BatchEvent::QualitySent { number, .. } => self.quality_sent(at, id, *number),
            BatchEvent::QualityAnswered { allowed, .. } => self.quality_answered(at, id, *allowed),
        }
    }

    /// `finished_is_final`, and `events_per_batch_bounded`
    fn is_unfinished(&mut self, at: &At<'_>, id: BatchId, event: &Event) -> bool {
        let bound = self.bounds.events_per_batch;
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.events = batch.events.saturating_add(1);
            if batch.events == bound.saturating_add(1) {
                let why = format!("batch {id} has more than {bound} events");
                at.contradicts(Invariant::EventsPerBatchBounded, why, &[batch.said]);
            }
            return true;
        }
        // Ids grow and unfinished batches are kept, so one that was minted and is not here has finished.
        if id.shard() == self.id && id.0 <= self.last_batch {
            let why = format!("{} of batch {id}, which has finished", event.kind());
            at.breaks(Invariant::FinishedIsFinal, why);
        } else {
            let why = format!("{} of batch {id}, which was never generated", event.kind());
            at.breaks(Invariant::OnlyAllowedTransitions, why);
        }
        false
    }

    /// `only_allowed_transitions`
    fn not_allowed(&self, at: &At<'_>, id: BatchId, what: &str) {
        let Some(batch) = self.batches.get(&id) else { return };
        let why = format!("batch {id} is {}, and {what}", batch.phase.word());
        at.contradicts(Invariant::OnlyAllowedTransitions, why, &[batch.said]);
    }

    /// Moves a batch on, and its place in the limits with it.
    fn step(&mut self, id: BatchId, to: Phase) {
        self.occupy(id, -1);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let may_live = match &batch.phase {
            Phase::Granted { .. } => true,
            Phase::Assigned(held) => held.right.is_some(),
            Phase::Waiting | Phase::Ended { .. } | Phase::Pausing { .. } => false,
        };
        if may_live {
            let run = (batch.job, batch.time);
            if self.live.get(&run) == Some(&id) {
                self.live.remove(&run);
            }
        }
        batch.long_at = None;
        batch.phase = to;
    }

    /// At the end of an envelope, every attempt that ended in it has led to a retry or a result, and the directory is whole.
    pub(crate) fn settle(&mut self, at: &At<'_>) {
        self.credentials.settle(at);
        self.directory.settle(at);
        for id in std::mem::take(&mut self.unsettled) {
            let left = self.batches.get(&id).is_some_and(|batch| matches!(batch.phase, Phase::Ended { .. }));
            self.none_is_excused_alone(at, id);
            if left {
                self.not_allowed(at, id, "the envelope ends with neither retry nor result");
            }
        }
    }

    /// When the pause or start time of the batch at hand was over, for the rule that timers wait for commands.
    pub(crate) fn timer_due(&self, event: &Event) -> Option<Timestamp> {
        let phase = |id: &BatchId| self.batches.get(id).map(|batch| &batch.phase);
        match event {
            Event::Batch(BatchEvent::RetryDue { batch }) => match phase(batch)? {
                Phase::Pausing { until } => Some(*until),
                Phase::Waiting | Phase::Assigned(_) | Phase::Granted { .. } | Phase::Ended { .. } => None,
            },
            Event::Batch(BatchEvent::StartDue { batch }) => self.batches.get(batch)?.earliest,
            Event::Batch(BatchEvent::AssignmentReturned {
                batch, reason: ReturnReason::NotStarted, ..
            }) => phase(batch)?.assignment().filter(|held| held.right.is_none()).map(|held| held.start_by),
            event => self.grant_due(event),
        }
    }
}
