//! What a failed attempt leads to, by its exit code and number: the next one, and the pause before it.

use jiff::SignedDuration;
use tidemill_model::{AttemptResult, BatchId, JobSpec, Timestamp};

use super::super::Shard;
use super::super::batch::{Batch, Phase};
use crate::{At, Invariant};

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
        let counted = batch.attempts.saturating_sub(batch.interrupted);
        let due = batch.of.as_ref().and_then(|of| match batch.was_interrupted {
            true => Some((ended, ended)),
            false => pause(of.spec(), counted, ended),
        });
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

/// What an exit code means beyond that the attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    Nothing,
    NoRetry,
    Skip,
}

impl Batch {
    /// What the exit code of the attempt that has just ended means.
    pub(super) fn exit_means(&self) -> Means {
        let Phase::Ended { result: AttemptResult::Failed, exit_code: Some(code), .. } = self.phase else {
            return Means::Nothing;
        };
        let codes = self.of.as_ref().and_then(|of| of.spec().exit_codes.as_ref());
        let stands = |list: &[u8]| list.iter().any(|known| i32::from(*known) == code);
        match codes {
            Some(codes) if stands(&codes.skip) => Means::Skip,
            Some(codes) if stands(&codes.no_retry) => Means::NoRetry,
            Some(_) | None => Means::Nothing,
        }
    }
}

impl Shard {
    /// `exit_codes_keep_their_meaning`: whatever follows is not what it says.
    pub(super) fn exit_code_means_otherwise(&self, at: &At<'_>, id: BatchId, what: &str) {
        let Some(batch) = self.batches.get(&id) else { return };
        let why = format!("batch {id} {what}, and its exit code means {:?}", batch.exit_means());
        at.contradicts(Invariant::ExitCodesKeepTheirMeaning, why, &[batch.said]);
    }
}

/// The first and the last moment at which the attempt after number `ended` may be due.
pub(super) fn pause(of: &JobSpec, ended: u32, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let interval_ms = u64::from(of.retry_interval_s) * 1_000;
    let longest = match &of.retry_backoff {
        None => return after(at, interval_ms).map(|due| (due, due)),
        Some(backoff) => {
            let grown =
                interval_ms as f64 * f64::from(backoff.factor).powi(ended.saturating_sub(1).min(200) as i32);
            grown.min(f64::from(backoff.max_interval_s) * 1_000.0)
        }
    };
    let jitter = of.retry_backoff.as_ref().is_some_and(|backoff| backoff.jitter);
    let shortest = if jitter { longest / 2.0 } else { longest };
    // Rounding of each step may cost a little.
    after(at, (shortest - 100.0).max(0.0) as u64).zip(after(at, longest as u64 + 1))
}

fn after(at: Timestamp, ms: u64) -> Option<Timestamp> {
    at.checked_add(SignedDuration::from_millis(i64::try_from(ms).ok()?)).ok()
}
