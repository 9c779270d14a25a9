//! What a failed attempt leads to, by its exit code and number.

use jiff::SignedDuration;
use tidemill_model::{AttemptResult, BatchId, Timestamp};

use super::Shard;
use super::batch::{Batch, Phase};
use super::job::Version;
use crate::Invariant;
use crate::at::At;

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
        let codes = self.of.as_ref().and_then(|of| of.exit_codes.as_ref());
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
pub(super) fn pause(of: &Version, ended: u32, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let interval_ms = u64::from(of.retry_interval_s) * 1_000;
    let longest = match &of.backoff {
        None => return after(at, interval_ms).map(|due| (due, due)),
        Some(backoff) => {
            let grown =
                interval_ms as f64 * f64::from(backoff.factor).powi(ended.saturating_sub(1).min(200) as i32);
            grown.min(f64::from(backoff.max_interval_s) * 1_000.0)
        }
    };
    let jitter = of.backoff.as_ref().is_some_and(|backoff| backoff.jitter);
    let shortest = if jitter { longest / 2.0 } else { longest };
    // Rounding of each step may cost a little.
    after(at, (shortest - 100.0).max(0.0) as u64).zip(after(at, longest as u64 + 1))
}

fn after(at: Timestamp, ms: u64) -> Option<Timestamp> {
    at.checked_add(SignedDuration::from_millis(i64::try_from(ms).ok()?)).ok()
}
