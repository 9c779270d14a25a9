//! Attempts that run far longer than their job's usually do.

use jiff::SignedDuration;
use tidemill_model::{BatchId, JobDefinition, Timestamp};

use super::Shard;
use crate::Invariant;
use crate::at::At;

/// How long an attempt may run before people are told: twice as long as usual, and ten minutes at least.
pub(super) fn bound(definition: &JobDefinition) -> Option<SignedDuration> {
    let seconds = definition.spec.expected_duration_s?;
    Some(SignedDuration::from_secs((i64::from(seconds) * 2).max(600)))
}

impl Shard {
    /// `long_attempts_told_once`: from the grant on.
    pub(super) fn watch_duration(&mut self, at: &At<'_>, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let bound = batch.of.as_ref().and_then(|of| of.long_after);
        batch.long_at = bound.and_then(|bound| at.now.checked_add(bound).ok());
    }

    /// `long_attempts_told_once`
    pub(super) fn told_of_duration(&mut self, at: &At<'_>, id: Option<BatchId>) {
        let rule = Invariant::LongAttemptsToldOnce;
        let batch = id.and_then(|id| self.batches.get_mut(&id));
        let due: Option<Timestamp> = batch.and_then(|batch| batch.long_at.take());
        if due.is_none_or(|due| at.now < due) {
            let why =
                format!("people are told that batch {id:?} runs long, at {}, and it is due {due:?}", at.now);
            at.breaks(rule, why);
        }
    }

    /// `long_attempts_told_once`, at quiescence.
    pub(super) fn none_runs_long_untold(&self, at: &At<'_>) {
        let due = self.batches.iter().filter(|(_, batch)| !batch.suspended);
        let due = due.filter_map(|(id, batch)| Some((id, batch.long_at?, batch.said)));
        for (id, due, said) in due.filter(|(_, due, _)| *due < at.now) {
            let why = format!("batch {id} has run long since {due}, and nobody was told");
            at.contradicts(Invariant::LongAttemptsToldOnce, why, &[said]);
        }
    }
}
