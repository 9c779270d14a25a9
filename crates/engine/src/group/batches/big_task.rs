//! An attempt that runs far longer than its job's attempts usually do: people are told, once (ALM-5).

use jiff::SignedDuration;
use tidemill_model::{AlarmEvent, AlarmKind, BatchId, Event, JobDefinition, Severity, Timestamp};

use crate::group::batches::batch::{Batch, Phase};
use crate::group::{GroupShard, Timer};

/// How often the usual duration it may take.
const FACTOR: u32 = 2;
/// Nobody wants to hear of less, seconds.
const AT_LEAST_S: u32 = 600;

/// When an attempt that was granted at `since` has run for too long.
fn too_long_at(definition: &JobDefinition, since: Timestamp) -> Option<Timestamp> {
    let expected_s = definition.spec.expected_duration_s?;
    let after = SignedDuration::from_secs(expected_s.saturating_mul(FACTOR).max(AT_LEAST_S).into());
    Some(since.saturating_add(after).unwrap_or(Timestamp::MAX))
}

impl GroupShard {
    pub(in crate::group) fn apply_alarm(&mut self, event: &AlarmEvent) {
        let AlarmEvent::Raised { kind, batch, .. } = event;
        if let (AlarmKind::BigTask, Some(batch)) = (kind, batch) {
            self.unwatch_duration(*batch);
        }
    }

    /// From its grant on.
    pub(crate) fn watch_duration(&mut self, id: BatchId) {
        let at = self.batches.get(&id).and_then(|batch| too_long_at(&batch.definition, batch.since));
        self.timers.set(at, Timer::BigTask(id));
    }

    /// Its attempt is over, or people have been told.
    pub(crate) fn unwatch_duration(&mut self, id: BatchId) {
        let granted = |batch: &&Batch| matches!(batch.phase, Phase::Granted(_));
        let batch = self.batches.get(&id).filter(granted);
        if let Some(at) = batch.and_then(|batch| too_long_at(&batch.definition, batch.since)) {
            self.timers.cancel(at, Timer::BigTask(id));
        }
    }

    pub(crate) fn runs_too_long(&self, id: BatchId) -> Vec<Event> {
        let Some(batch) = self.batches.get(&id) else { return Vec::new() };
        let Some(grant) = batch.grant() else { return Vec::new() };
        let message = format!(
            "batch {id} of {} for {} runs on {} since {}, and usually takes {} s",
            batch.definition.full_name(),
            batch.logical_time,
            grant.worker,
            batch.since,
            batch.definition.spec.expected_duration_s.unwrap_or(0),
        );
        vec![Event::Alarm(AlarmEvent::Raised {
            kind: AlarmKind::BigTask,
            severity: Severity::Notice,
            job: Some(batch.definition.id),
            batch: Some(id),
            worker: Some(grant.worker.clone()),
            message,
        })]
    }
}
