//! The next attempt of a batch, and the pause before it.

use jiff::SignedDuration;
use tidemill_model::{AttemptResult, BatchId, Timestamp};

use super::super::Shard;
use super::super::batch::Phase;
use super::super::retries::{Means, pause};
use crate::Invariant;
use crate::at::At;

/// How long what every worker gave back waits before it is offered again.
const REJECTION_PAUSE: SignedDuration = SignedDuration::from_secs(10);

impl Shard {
    /// `retry_interval_kept`
    pub(super) fn retry_scheduled(&mut self, at: &At<'_>, id: BatchId, attempt: u32, until: Timestamp) {
        let Some(batch) = self.batches.get(&id) else { return };
        if let Some(kill) = batch.kill {
            let why = format!("batch {id} was to be ended, and gets attempt {attempt}");
            at.contradicts(Invariant::KilledStaysKilled, why, &[kill]);
            return self.step(id, Phase::Pausing { until });
        }
        let Phase::Ended { result, at: ended, .. } = batch.phase else {
            return self.not_allowed(at, id, "gets another attempt");
        };
        if result == AttemptResult::Success {
            return self.not_allowed(at, id, "gets another attempt after a successful one");
        }
        if batch.exit_means() != Means::Nothing {
            self.exit_code_means_otherwise(at, id, "gets another attempt");
        }
        let due = batch.of.as_ref().and_then(|of| pause(of, batch.attempts, ended));
        if let Some((first, last)) = due.filter(|(first, last)| !(*first..=*last).contains(&until)) {
            let why = format!(
                "batch {id} is to be tried again at {until}, and its interval is over from {first} to {last}"
            );
            at.contradicts(Invariant::RetryIntervalKept, why, &[batch.said]);
        }
        self.attempt_numbers_without_gaps(at, id, attempt);
        self.step(id, Phase::Pausing { until });
    }

    pub(super) fn retry_due(&mut self, at: &At<'_>, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let until = match batch.phase {
            Phase::Pausing { until } => Some(until),
            // Given back by a worker that had it before, it waits a while before it is offered again.
            Phase::Waiting => batch.rejected.take().map(|at| at + REJECTION_PAUSE),
            _ => None,
        };
        let Some(until) = until else {
            return self.not_allowed(at, id, "the end of its pause is said");
        };
        if at.now < until {
            let why = format!("the pause of batch {id} ends at {}, not at {until}", at.now);
            at.contradicts(Invariant::RetryIntervalKept, why, &[batch.said]);
        }
        self.step(id, Phase::Waiting);
    }
}
