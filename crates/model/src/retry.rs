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

/// How the pause before an attempt grows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// Each pause is so many times the one before it, 1 to 10, with at most two decimals.
    pub factor: Factor,
    /// No pause is longer, seconds; default 3600.
    #[serde(default = "hour")]
    #[schemars(range(min = 1, max = bounds::RETRY_INTERVAL_S))]
    pub max_interval_s: u32,
    /// Shorten each pause by up to a half, differently for every batch and attempt, so that not all try at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jitter: bool,
}

/// 1 to 10, with at most two decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(with = "f64", extend("minimum" = 1, "maximum" = 10))]
pub struct Factor {
    percent: u16,
}

impl Factor {
    /// In hundredths, 100 to 1,000.
    pub fn percent(self) -> u16 {
        self.percent
    }
}

impl TryFrom<f64> for Factor {
    type Error = &'static str;
    fn try_from(factor: f64) -> Result<Self, Self::Error> {
        let percent = (factor * 100.0).round();
        let is_exact = (percent / 100.0 - factor).abs() < 1e-9;
        if !(100.0..=1000.0).contains(&percent) || !is_exact {
            return Err("must be 1 to 10, with at most two decimals");
        }
        Ok(Self { percent: percent as u16 })
    }
}

impl From<Factor> for f64 {
    fn from(factor: Factor) -> f64 {
        f64::from(factor.percent) / 100.0
    }
}
