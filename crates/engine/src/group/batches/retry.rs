//! BYD-19: how long a failed batch pauses before its next attempt, and exit codes that say more than *failed*.
//!
//! ```text
//!  pause n = retry interval × factor ^ (n − 1), at most the maximum; with jitter 50 to 100 % of that
//! ```

use jiff::SignedDuration;
use tidemill_model::{AttemptOutcome, AttemptResult, BatchId, JobDefinition};

/// What the exit code of a failed attempt means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It failed.
    Failed,
    /// It failed, and so would another attempt.
    NoRetry,
    /// There was nothing to do.
    Skip,
}

pub(crate) fn meaning(definition: &JobDefinition, outcome: &AttemptOutcome) -> Meaning {
    let codes = definition.spec.exit_codes.as_ref().filter(|_| outcome.result == AttemptResult::Failed);
    match codes.zip(outcome.exit_code) {
        Some((codes, code)) if codes.means_skip(code) => Meaning::Skip,
        Some((codes, code)) if codes.forbids_retry(code) => Meaning::NoRetry,
        Some(_) | None => Meaning::Failed,
    }
}

/// The pause after attempt number `ended`.
pub(crate) fn pause(definition: &JobDefinition, batch: BatchId, ended: u32) -> SignedDuration {
    let interval = u128::from(definition.spec.retry_interval_s) * 1_000;
    let Some(backoff) = &definition.spec.retry_backoff else { return milliseconds(interval) };
    let (factor, most) = (u128::from(backoff.factor.percent()), u128::from(backoff.max_interval_s) * 1_000);
    // In hundred-thousandths, so that rounding does not hold a small factor up; what is at the maximum stays.
    let fine = 1_000;
    let mut grown = interval * fine;
    for _ in 1..ended {
        if grown >= most * fine {
            break;
        }
        grown = grown * factor / 100;
    }
    let pause = (grown / fine).min(most);
    if !backoff.jitter {
        return milliseconds(pause);
    }
    milliseconds(pause * (500 + u128::from(scattered(batch, ended) % 501)) / 1_000)
}

fn milliseconds(ms: u128) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// A number that looks drawn, and is the same for ever for one attempt of one batch (splitmix64's last step).
fn scattered(batch: BatchId, attempt: u32) -> u64 {
    let seed = (batch.0 as u64).wrapping_add(u64::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
