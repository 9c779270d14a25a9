//! How far sinks are, for people.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_model::{SinkPartitionStatus, SinkStatus};

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
