//! Reruns and backfills (cold starts). To the catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RerunId;
use crate::rerun::RerunSpec;

/// Reruns and backfills (cold starts). To the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RerunCommand {
    /// Plans a rerun or a cold start.
    Plan(Box<RerunSpec>),
    /// Lets a planned one run.
    Approve {
        /// Which.
        rerun: RerunId,
    },
    /// Starts no more of it for now.
    Pause {
        /// Which.
        rerun: RerunId,
    },
    /// Goes on with it.
    Resume {
        /// Which.
        rerun: RerunId,
    },
    /// Starts no more of it.
    Cancel {
        /// Which.
        rerun: RerunId,
        /// Also end what runs of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kill: bool,
    },
}
