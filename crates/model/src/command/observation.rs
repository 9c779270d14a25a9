//! What is found out outside. To the shard that waits for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::skip_none;

use crate::{BatchId, ExternalDependencyId, PathAnswer, Token, WorkerId};

/// What is found out outside. To the shard that waits for it.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObservationCommand {
    /// What probers found, to the shard that waits for it; at most 500 answers.
    ReportPaths {
        /// Those that change nothing are ignored.
        answers: Vec<PathAnswer>,
    },
    /// A worker did not find, before start, what the batch needs: it is gone for all that wait for it, and the
    /// batch waits again (DEP-6).
    RecheckFailed {
        /// The assignment.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// What is not there.
        external_dependencies: Vec<ExternalDependencyId>,
    },
    /// Probe at once (DEP-9): what one batch waits for, to its shard; everything, to the catalogue.
    ProbeNow {
        /// Which; absent: everything.
        batch: Option<BatchId>,
    },
}
