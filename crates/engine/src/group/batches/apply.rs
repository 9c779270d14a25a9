//! What the facts about a batch do, one arm each.

use crate::group::batches::batch::{PauseAfter, Phase};
use crate::group::dependencies::blocked::Blocker;
use crate::group::{GroupShard, Timer};
use tidemill_model::{BatchEvent, Origin, Timestamp};

impl GroupShard {
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
                self.batch_assigned(now, *batch, *token, worker, *start_by);
            }
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
