//! What follows a failed attempt (BYD-19).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// Exit codes that mean more than that an attempt failed. 0 is success, and is in neither list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitCodes {
    /// Another attempt would fail as well: the batch has failed, whatever retries are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::EXIT_CODES), inner(range(min = 1)))]
    pub no_retry: Vec<u8>,
    /// There was nothing to do: the batch is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::EXIT_CODES), inner(range(min = 1)))]
    pub skip: Vec<u8>,
}

impl ExitCodes {
    /// Whether it means that another attempt would fail as well.
    pub fn forbids_retry(&self, exit_code: i32) -> bool {
        self.no_retry.iter().any(|code| i32::from(*code) == exit_code)
    }

    /// Whether it means that there was nothing to do.
    pub fn means_skip(&self, exit_code: i32) -> bool {
        self.skip.iter().any(|code| i32::from(*code) == exit_code)
    }
}

fn hour() -> u32 {
    3_600
}

/// How the pause before an attempt grows, as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackoffInput {
    /// Each pause is so many times the one before it, 1 to 10, with at most two decimals.
    #[schemars(range(min = 1, max = 10))]
    pub factor: f64,
    /// No pause is longer, seconds; default 3600.
    #[serde(default = "hour")]
    #[schemars(range(min = 1, max = bounds::RETRY_INTERVAL_S))]
    pub max_interval_s: u32,
    /// Shorten each pause by up to a half, differently for every batch and attempt, so that not all try at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jitter: bool,
}

/// How the pause before an attempt grows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Backoff {
    /// Each pause is so many hundredths of the one before it.
    pub factor_percent: u32,
    /// No pause is longer, milliseconds.
    pub max_interval_ms: u64,
    /// Each pause is shortened by up to a half.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jitter: bool,
}

impl From<&Backoff> for BackoffInput {
    fn from(backoff: &Backoff) -> Self {
        Self {
            factor: f64::from(backoff.factor_percent) / 100.0,
            max_interval_s: u32::try_from(backoff.max_interval_ms / 1_000).unwrap_or(u32::MAX),
            jitter: backoff.jitter,
        }
    }
}
