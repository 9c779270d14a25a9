//! Settings of the role that fills the read tables and publishes the feed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The role that fills the read tables and publishes the feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProjectorSettings {
    /// Rows of each partition kept in memory between transactions, about 400 bytes each. Default 32,768.
    pub(crate) cached_rows: usize,
    /// Under load, transactions of one partition begin at least this far apart, milliseconds. Default 10;
    /// 0 to 500.
    pub(crate) min_write_interval_ms: u64,
    /// How long the tables keep what became of pull tasks, days: grants since they were given, occurrences and tasks
    /// for once since their start. Default 400; 0 to 36,500; 0: for ever. What its owner has not forgotten stays.
    pub(crate) pull_retention_days: u32,
}

impl Default for ProjectorSettings {
    fn default() -> Self {
        let tidemill_projector::Config { cached_rows, min_write_interval_ms, pull_retention_days } =
            tidemill_projector::Config::default();
        Self { cached_rows, min_write_interval_ms, pull_retention_days }
    }
}
