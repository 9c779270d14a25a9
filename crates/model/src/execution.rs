//! How attempts of a job are executed, beyond what they run, and what follows a failed one (BYD-19).

use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::{Word, vocabulary};

use crate::{Account, BatchResult, bounds};

/// What decides whether an attempt that ended by itself has succeeded (EXE-4).
#[vocabulary(Eq, Default)]
pub enum SuccessCheck {
    /// Exit code 0.
    #[default]
    ExitCode,
    /// This path exists when the program has ended, whatever its exit code. May hold templates.
    OutputPath(
        #[schemars(length(max = crate::MAX_PATH_BYTES), regex(pattern = bounds::PATH_PATTERN))] String,
    ),
    /// The program has reported code 0 through the API, whatever its exit code.
    UserCode,
}

/// The accounts that jobs of a group may run as. They stand under `*`; which job may run as which of them is for the keys
/// that apply the jobs. Records of old name owners in its place, who have no right by that.
#[vocabulary(Eq, Default)]
#[serde(transparent)]
pub struct AllowedAccounts(pub BTreeMap<String, BTreeSet<Account>>);

impl AllowedAccounts {
    /// Whether jobs may run as this account.
    pub fn allow(&self, account: &Account) -> bool {
        self.0.values().any(|accounts| accounts.contains(account))
    }

    /// Somebody other than `*` whom it names.
    pub fn owner(&self) -> Option<&str> {
        self.0.keys().map(String::as_str).find(|owner| *owner != "*")
    }
}

/// How a batch ended, as its final command is told (JOB-8).
#[vocabulary(Eq)]
pub struct Ending {
    /// The batch's result.
    pub result: BatchResult,
    /// How many attempts it had.
    pub attempts: u32,
    /// The exit code of the last one, where there was one.
    pub exit_code: Option<i32>,
}

/// How a final command ended.
#[vocabulary(Copy, Eq, Word)]
pub enum FinalResult {
    /// Exit code 0.
    Success,
    /// Another exit code, a signal, or it could not be started.
    Failed,
    /// It ran too long, and was ended.
    TimedOut,
    /// It may have begun; its worker was lost, or came back without it. It is not run again.
    Lost,
    /// It was never started, and never will be.
    NotRun,
}

/// Exit codes that mean more than that an attempt failed. 0 is success, and is in neither list.
#[vocabulary(Eq, Default)]
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
#[vocabulary(Eq)]
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
#[vocabulary(Copy, Eq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_allowed_whoever_they_stand_under() {
        let allowed: AllowedAccounts = serde_json::from_str(r#"{"ann": ["etl"], "*": ["nobody"]}"#).unwrap();
        let may = |account: &str| allowed.allow(&account.try_into().unwrap());
        assert!(may("etl") && may("nobody") && !may("root"));
        assert_eq!(allowed.owner(), Some("ann"));
    }

    #[test]
    fn success_checks_are_written_short() {
        for (text, check) in [
            (r#""exit_code""#, SuccessCheck::ExitCode),
            (r#""user_code""#, SuccessCheck::UserCode),
            (r#"{"output_path":"/a/${yyyyMMdd}"}"#, SuccessCheck::OutputPath("/a/${yyyyMMdd}".to_owned())),
        ] {
            assert_eq!(serde_json::from_str::<SuccessCheck>(text).unwrap(), check);
            assert_eq!(serde_json::to_string(&check).unwrap(), text);
        }
    }
}
