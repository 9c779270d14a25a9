//! How attempts of a job are executed, beyond what they run.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Account, BatchResult, WorkerLabel};

/// What decides whether an attempt that ended by itself has succeeded (EXE-4).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuccessCheck {
    /// Exit code 0.
    #[default]
    ExitCode,
    /// This path exists when the program has ended, whatever its exit code. May hold templates.
    OutputPath(String),
    /// The program has reported code 0 through the API, whatever its exit code.
    UserCode,
}

impl SuccessCheck {
    /// The exit code decides.
    pub fn is_exit_code(&self) -> bool {
        *self == SuccessCheck::ExitCode
    }
}

/// How attempts of a job are executed: all that is rarely given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// JOB-1: only workers of the group that have this label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_group: Option<WorkerLabel>,
    /// DSP-2, EXE-2: as this account of the worker's host; absent: as the worker itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<Account>,
    /// How `TIDEMILL_LOGICAL_TIME` and `${logical_time}` are written: a time pattern; absent: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_time_format: Option<String>,
    /// EXE-4: what success is.
    #[serde(default, skip_serializing_if = "SuccessCheck::is_exit_code")]
    pub success_check: SuccessCheck,
    /// JOB-8: text of a shell script that runs when a batch with at least one attempt has ended for good. May hold
    /// templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_command: Option<String>,
    /// How long an attempt usually runs, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_ms: Option<u64>,
}

impl Execution {
    /// The texts that may hold templates, each with the field it stands in.
    pub fn templates(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let path = match &self.success_check {
            SuccessCheck::OutputPath(path) => Some(path.as_str()),
            SuccessCheck::ExitCode | SuccessCheck::UserCode => None,
        };
        let path = path.map(|path| ("success_check", path));
        path.into_iter().chain(self.final_command.as_deref().map(|text| ("final_command", text)))
    }
}

/// Which accounts jobs may run as, by their owner; `*` stands for every owner. Who is not named may use none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AllowedAccounts(pub BTreeMap<String, BTreeSet<Account>>);

impl AllowedAccounts {
    /// Whether jobs of this owner may run as this account.
    pub fn allow(&self, owner: &str, account: &Account) -> bool {
        [owner, "*"].into_iter().any(|owner| self.0.get(owner).is_some_and(|own| own.contains(account)))
    }
}

/// How a batch ended, as its final command is told (JOB-8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// The batch's result.
    pub result: BatchResult,
    /// How many attempts it had.
    pub attempts: u32,
    /// The exit code of the last one, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// How a final command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

impl FinalResult {
    /// The word that tables, JSON and people use.
    pub fn as_str(self) -> &'static str {
        match self {
            FinalResult::Success => "success",
            FinalResult::Failed => "failed",
            FinalResult::TimedOut => "timed_out",
            FinalResult::Lost => "lost",
            FinalResult::NotRun => "not_run",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_allowed_by_owner_or_for_all() {
        let allowed: AllowedAccounts = serde_json::from_str(r#"{"ann": ["etl"], "*": ["nobody"]}"#).unwrap();
        let may = |owner, account: &str| allowed.allow(owner, &account.try_into().unwrap());
        assert!(may("ann", "etl") && may("ann", "nobody") && may("bob", "nobody"));
        assert!(!may("bob", "etl") && !may("", "etl") && !may("ann", "root"));
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
