//! The bounds of what waits for an outcome.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::bounds::within;

/// How long to wait, and how much may wait at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long the outcome of a command is waited for where the caller names no time, milliseconds.
    /// Default 10,000; 100 to 60,000.
    pub deadline_ms: u64,
    /// After how long without an outcome the same request is appended again, milliseconds. Default 2,000;
    /// 10 to 60,000, and less than `deadline_ms` and `max_lag_ms`.
    pub resend_after_ms: u64,
    /// Commands that wait for their outcome at once; more are refused as overload. Default 10,000;
    /// 1 to 1,000,000.
    pub max_in_flight: usize,
    /// Bytes of those commands; more are refused as overload. Default 64 MiB;
    /// 1 byte to 1 TiB.
    pub max_in_flight_bytes: usize,
    /// When the oldest command to a partition has waited longer than this, new ones to it are refused as
    /// overload, milliseconds. Default 5,000; 10 to 600,000.
    pub max_lag_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            deadline_ms: 10_000,
            resend_after_ms: 2_000,
            max_in_flight: 10_000,
            max_in_flight_bytes: 64 << 20,
            max_lag_ms: 5_000,
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field outside its range, with the rule.
    pub fn check(&self) -> Result<(), String> {
        within("deadline_ms", self.deadline_ms, 100, 60_000)?;
        within("resend_after_ms", self.resend_after_ms, 10, 60_000)?;
        within("max_in_flight", self.max_in_flight as u64, 1, 1_000_000)?;
        within("max_in_flight_bytes", self.max_in_flight_bytes as u64, 1, 1 << 40)?;
        within("max_lag_ms", self.max_lag_ms, 10, 600_000)?;
        // An outcome that was lost on its way comes with the second answer, within the time of both.
        let least = self.deadline_ms.min(self.max_lag_ms);
        if self.resend_after_ms >= least {
            return Err(format!(
                "resend_after_ms is {}; it must be less than deadline_ms and max_lag_ms, so less than {least}",
                self.resend_after_ms
            ));
        }
        Ok(())
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }

    pub(crate) fn append_again(&self) -> Duration {
        Duration::from_millis(self.resend_after_ms)
    }

    pub(crate) fn max_lag(&self) -> Duration {
        Duration::from_millis(self.max_lag_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_answer_comes_within_the_time_of_the_first() {
        assert_eq!(Config::default().check(), Ok(()));
        for config in [
            Config { resend_after_ms: 5_000, ..Config::default() },
            Config { deadline_ms: 2_000, ..Config::default() },
        ] {
            assert!(config.check().is_err_and(|error| error.contains("resend_after_ms")));
        }
    }
}
