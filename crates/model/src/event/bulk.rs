//! One action for many batches or jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::Aggregate;

use crate::{Actor, BulkAction, BulkId, BulkOutcome};

/// One action for many batches or jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Aggregate)]
#[serde(rename_all = "snake_case")]
#[event(subject = "bulk/{bulk}")]
pub enum BulkEvent {
    /// An operation was accepted. Interfaces carry it on, item by item.
    #[event(kind = "bulk.requested", public = "A client requests one action for many batches or jobs.")]
    Requested {
        /// Its id.
        bulk: BulkId,
        /// What is done to each item.
        action: BulkAction,
        /// The ids of the batches or jobs.
        items: Vec<i64>,
        /// Why.
        reason: String,
        /// Who requested it.
        by: Actor,
    },
    /// Items of an operation have been decided.
    #[event(
        kind = "bulk.advanced",
        public = "Some items of a bulk operation are decided; the event lists their outcomes."
    )]
    Advanced {
        /// Which operation.
        bulk: BulkId,
        /// What came of each.
        outcomes: Vec<BulkOutcome>,
        /// These were the last ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },
}
