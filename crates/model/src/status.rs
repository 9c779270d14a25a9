//! How roles do at the moment, for status pages and metrics: what they tell, and the interface shows.

use schemars::JsonSchema;
use serde::Serialize;
use tidemill_derive::vocabulary;

/// How a prober does at the moment.
#[vocabulary(Default, Eq)]
#[schemars(rename = "Status")]
pub struct ProberStatus {
    /// Distinct paths that this process asks for.
    pub paths: usize,
    /// What waits for them; one path may be waited for in several groups.
    pub external_dependencies: usize,
    /// Paths being asked for.
    pub asking: usize,
    /// Paths whose last check failed after all its tries, or hung.
    pub failing: usize,
    /// Each name node, mount and bucket that was asked.
    pub authorities: Vec<AuthorityStatus>,
}

/// How a name node, a mount or a bucket was asked since the start.
#[vocabulary(Default, Eq)]
pub struct AuthorityStatus {
    /// Which, as `hdfs://host:port`.
    pub authority: String,
    /// By how much the path is late that was checked longest ago, milliseconds; 0: none is.
    pub late_ms: u64,
    /// How many paths are late.
    pub late_paths: usize,
    /// Calls for one path.
    pub look_calls: u64,
    /// Calls for a page of a listing.
    pub list_calls: u64,
    /// Calls that were not answered in their time, and were abandoned.
    pub hung_calls: u64,
    /// Calls that failed.
    pub failed_calls: u64,
    /// How often it began to be left alone for a while.
    pub pauses: u64,
    /// Time within which 99 of 100 calls were answered, microseconds; absent before the first.
    pub p99_us: Option<u64>,
}

/// One partition of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct SinkPartitionStatus {
    /// Its number.
    pub partition: u32,
    /// Offset of the last journal record that the data hold; absent: none yet.
    pub stored: Option<u64>,
    /// Journal records behind that, most of which have nothing to store.
    pub lag_records: u64,
    /// Changes stored since the start.
    pub changes: u64,
    /// Why it is held up, or does not go on any more.
    pub error: Option<String>,
    /// It does not go on by itself: somebody has to fix something and start it again.
    pub stopped: bool,
    /// When the process that runs it said so, every 10 s at least; absent: it is this one, now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noted_at: Option<String>,
}

impl SinkPartitionStatus {
    /// With the lag behind where the journal ends.
    #[must_use]
    pub fn lagging(self, end: u64) -> Self {
        let next = self.stored.map_or(0, |offset| offset + 1);
        Self { lag_records: end.saturating_sub(next), ..self }
    }
}

/// One sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SinkStatus {
    /// `mysql`, `elasticsearch` or `parquet`.
    pub sink: String,
    /// Each partition.
    pub partitions: Vec<SinkPartitionStatus>,
}
