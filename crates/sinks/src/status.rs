//! How far sinks are, for people.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;

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
    pub(crate) fn lagging(self, end: u64) -> Self {
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

type All = BTreeMap<&'static str, BTreeMap<u32, SinkPartitionStatus>>;

/// How far all sinks of a process are. A clone is the same.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Mutex<All>>);

impl Progress {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        // Each change is a few assignments, so a thread that panicked left nothing that matters half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(
        &self,
        sink: &'static str,
        partition: u32,
        change: impl FnOnce(&mut SinkPartitionStatus),
    ) {
        let mut all = self.lock();
        let status = all.entry(sink).or_default().entry(partition);
        change(status.or_insert_with(|| SinkPartitionStatus { partition, ..SinkPartitionStatus::default() }));
    }

    /// All sinks, as they are now; `ends` tells where the journal of a partition ends.
    pub fn sinks(&self, ends: impl Fn(u32) -> u64) -> Vec<SinkStatus> {
        let lagging = |status: &SinkPartitionStatus| status.clone().lagging(ends(status.partition));
        let all = self.lock();
        let status = |(sink, partitions): (&&'static str, &BTreeMap<u32, SinkPartitionStatus>)| SinkStatus {
            sink: (*sink).to_owned(),
            partitions: partitions.values().map(lagging).collect(),
        };
        all.iter().map(status).collect()
    }
}
