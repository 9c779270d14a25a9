//! What a person says of a batch (BYD-16).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BatchResult;

/// How a person says that a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverriddenResult {
    /// What it was to do is done.
    Success,
    /// It is not.
    Failed,
    /// It need not be.
    Skipped,
}

impl From<OverriddenResult> for BatchResult {
    fn from(marked: OverriddenResult) -> Self {
        match marked {
            OverriddenResult::Success => BatchResult::Success,
            OverriddenResult::Failed => BatchResult::Failed,
            OverriddenResult::Skipped => BatchResult::Skipped,
        }
    }
}
