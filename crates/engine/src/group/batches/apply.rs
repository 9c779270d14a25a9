//! What the facts about a batch do, and which of them a worker must hear of.

use crate::group::batches::batch::{PauseAfter, Phase};
use crate::group::dependencies::blocked::Blocker;
use crate::group::{GroupShard, Timer};
use tidemill_model::{BatchEvent, BatchId, Event, Origin, Timestamp, WorkMessage, WorkerId};

/// The pause after an attempt is over.
pub(in crate::group) fn retry_due(batch: BatchId) -> Event {
    Event::Batch(BatchEvent::RetryDue { batch })
}

/// The earliest time at which a batch may start is reached.
pub(crate) fn start_due(batch: BatchId) -> Event {
    Event::Batch(BatchEvent::StartDue { batch })
}

impl GroupShard {
    pub(crate) fn work_of_batch(&self, event: &BatchEvent) -> Option<(WorkerId, WorkMessage)> {
        match event {
            BatchEvent::Assigned { batch, token, worker, .. } => {
                let batch = self.batches.get(batch)?;
                Some((worker.clone(), self.assigned_message(batch, worker, *token)))
            }
            BatchEvent::AssignedWithRight { token, worker, .. } => {
                Some((worker.clone(), self.assigned_with_right(*token)?))
            }
            BatchEvent::DependencyRevoked { batch, .. } => self.asked_back(batch),
            BatchEvent::AssignmentReturned { token, worker, .. } => {
                let reason = "it was taken back".to_owned();
                Some((worker.clone(), WorkMessage::Refused { token: *token, reason }))
            }
            BatchEvent::StartDue { .. }
            | BatchEvent::Generated { .. }
            | BatchEvent::DependencySatisfied { .. }
            | BatchEvent::RetryScheduled { .. }
            | BatchEvent::RetryDue { .. }
            | BatchEvent::Finished { .. }
            | BatchEvent::ResultOverridden { .. }
            | BatchEvent::Blocked { .. }
            | BatchEvent::Unblocked { .. }
            | BatchEvent::TimeoutReached { .. }
            | BatchEvent::DependencyOverridden { .. }
            | BatchEvent::QualityRequested { .. }
            | BatchEvent::QualitySent { .. }
            | BatchEvent::QualityAnswered { .. } => None,
        }
    }

    pub(in crate::group) fn apply_batch(&mut self, now: Timestamp, event: &BatchEvent) {
        match event {
            BatchEvent::Generated { job, logical_time, origin, .. } => {
                let before = self.jobs.skips_before(*job);
                let came = !matches!(origin, Origin::Schedule | Origin::Parent)
                    && self.jobs.get(job).is_some_and(|job| !job.has_batch_for(*logical_time));
                self.batch_generated(now, event);
                self.skips_changed(*job, before);
                if came {
                    self.time_came(*job, *logical_time);
                }
            }
            BatchEvent::DependencySatisfied { batch, parent, logical_time, .. } => {
                self.dependency_changed(now, *batch, *parent, *logical_time, true);
            }
            BatchEvent::DependencyRevoked { batch, parent, logical_time, .. } => {
                self.dependency_changed(now, *batch, *parent, *logical_time, false);
            }
            BatchEvent::Assigned { batch, token, worker, start_by, .. } => {
                self.batch_assigned(now, *batch, (*token, worker), *start_by, None);
                self.timers.set(*start_by, Timer::StartBy(*token));
            }
            BatchEvent::AssignedWithRight { .. } => self.batch_assigned_with_right(now, event),
            BatchEvent::AssignmentReturned { batch, token, worker, reason } => {
                self.release(*token);
                self.assignment_returned(now, *batch, worker, reason);
            }
            BatchEvent::RetryScheduled { batch, at, .. } => {
                if let Some(known) = self.batches.get_mut(batch) {
                    known.phase = Phase::Pausing { until: *at, after: PauseAfter::Attempt };
                    known.since = now;
                    self.timers.set(*at, Timer::Retry(*batch));
                }
                self.reconsider(*batch);
            }
            BatchEvent::RetryDue { batch } => self.retry_due(now, *batch),
            BatchEvent::StartDue { batch } => self.start_due(now, *batch),
            BatchEvent::Finished { batch, result, final_command, .. } => {
                self.batch_finished(now, *batch, (*result, *final_command));
            }
            BatchEvent::ResultOverridden { .. } => self.batch_result_overridden(event),
            BatchEvent::Blocked { batch, parent, logical_time, since } => {
                let (parent, logical_time, since) = (*parent, *logical_time, *since);
                self.blocker_changed(*batch, Some(Blocker { parent, logical_time, since }));
            }
            BatchEvent::Unblocked { batch } => self.blocker_changed(*batch, None),
            BatchEvent::TimeoutReached { batch, kind, .. } => self.timeout_reached(*batch, *kind),
            BatchEvent::DependencyOverridden { .. } => self.dependency_overridden(now, event),
            BatchEvent::QualityRequested { batch, number, again_at } => {
                self.quality_requested(now, *batch, *number, *again_at);
            }
            BatchEvent::QualitySent { batch, by, .. } => self.quality_sent(*batch, by),
            BatchEvent::QualityAnswered { batch, allowed, reason, .. } => {
                self.quality_answered(now, *batch, *allowed, reason);
            }
        }
    }
}
