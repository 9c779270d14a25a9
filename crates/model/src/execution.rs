//! How attempts of a job are executed, beyond what they run.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{Word, skip_none};

use crate::{Account, BatchResult};

/// What decides whether an attempt that ended by itself has succeeded (EXE-4).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuccessCheck {
    /// Exit code 0.
    #[default]
    ExitCode,
    /// This path exists when the program has ended, whatever its exit code. May hold templates.
    OutputPath(
        #[schemars(length(max = crate::MAX_PATH_BYTES), regex(pattern = crate::bounds::PATH_PATTERN))] String,
    ),
    /// The program has reported code 0 through the API, whatever its exit code.
    UserCode,
}

/// The accounts that jobs of a group may run as. They stand under `*`; which job may run as which of them is for the keys
/// that apply the jobs. Records of old name owners in its place, who have no right by that.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// The batch's result.
    pub result: BatchResult,
    /// How many attempts it had.
    pub attempts: u32,
    /// The exit code of the last one, where there was one.
    pub exit_code: Option<i32>,
}

/// How a final command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Word)]
#[serde(rename_all = "snake_case")]
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
