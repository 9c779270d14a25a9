//! What a batch does when a parent failed for good (BYD-18).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of a batch when the newest run of a parent's time that it waits for ended without success, and so
/// what it waits for cannot come any more unless somebody runs that parent again or marks it. The own previous batch
/// is waited for in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnParentFailure {
    /// It waits on.
    #[default]
    Wait,
    /// It has failed.
    Fail,
    /// It is skipped.
    Skip,
    /// It runs: parents must have ended, however.
    Run,
}

impl OnParentFailure {
    /// Whether it is what a job has that says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When a batch runs, once its parents have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunIf {
    /// When they succeeded, or as `on_parent_failure` says.
    #[default]
    Success,
    /// When one of them ended without success; when all succeeded, it is skipped.
    Failure,
}

impl RunIf {
    /// Whether it is what a job has that says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
