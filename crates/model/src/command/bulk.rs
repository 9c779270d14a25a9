//! One action for many batches or jobs. To the catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BulkAction, BulkId, BulkOutcome};

/// One action for many batches or jobs. To the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkCommand {
    /// One action for many batches or jobs, as one operation (BYD-3).
    Request {
        /// What to do.
        action: BulkAction,
        /// The ids of the batches or jobs, at most 5,000.
        items: Vec<i64>,
        /// Why, 1 to 500 characters.
        reason: String,
    },
    /// What came of items of an operation.
    Report {
        /// Which operation.
        bulk: BulkId,
        /// Of each item, at most 200.
        outcomes: Vec<BulkOutcome>,
    },
}
