//! What a client gets when it pulls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::skip_none;

use super::Parameters;
use crate::{GrantId, TaskId, Timestamp};

/// A task that was given to a user, as it was when it was given.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PulledGrant {
    /// What a completion names.
    pub grant: GrantId,
    /// Which task.
    pub task: TaskId,
    /// The version of it.
    pub version: u32,
    /// Its name for people.
    pub name: Option<String>,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// Which occurrence.
    pub start: Timestamp,
    /// Since when the user has it.
    pub granted_at: Timestamp,
    /// PUL-13: when it expires; absent: never.
    pub expires_at: Option<Timestamp>,
    /// The user had it already and has not completed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redo: bool,
}
