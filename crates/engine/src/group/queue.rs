//! Who goes next.
//!
//! A ready batch is ordered by when it became ready, plus ten minutes for each step of priority. So a batch
//! of priority 0 passes everything of lower priority that is not much older, and a batch of priority 9 that
//! has waited 90 minutes longer goes first: priority with ageing, in one number that never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use tidemill_model::{BatchId, JobDefinition, JobType, Priority};

/// How much earlier one step of priority puts a batch, milliseconds.
const PRIORITY_STEP_MS: i64 = 600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadyKey {
    rank_ms: i64,
    pub(crate) batch: BatchId,
}

impl ReadyKey {
    pub(crate) fn new(ready_at: Timestamp, priority: Priority, batch: BatchId) -> Self {
        let steps = i64::from(u8::from(priority));
        Self { rank_ms: ready_at.as_millisecond().saturating_add(steps * PRIORITY_STEP_MS), batch }
    }
}

/// Which slots a batch can use: those of one type, anywhere or on one host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) job_type: JobType,
    pub(crate) host: Option<Arc<str>>,
}

impl Lane {
    pub(crate) fn of(definition: &JobDefinition) -> Self {
        let host = definition.host.as_deref().filter(|_| !definition.job_type.is_anchor());
        Self { job_type: definition.job_type.clone(), host: host.map(Arc::from) }
    }
}

/// Ready batches that their jobs' limits admit, by lane.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Queue {
    lanes: BTreeMap<Lane, BTreeSet<ReadyKey>>,
}

impl Queue {
    pub(crate) fn insert(&mut self, lane: Lane, key: ReadyKey) {
        self.lanes.entry(lane).or_default().insert(key);
    }

    pub(crate) fn remove(&mut self, lane: &Lane, key: ReadyKey) -> bool {
        let Some(keys) = self.lanes.get_mut(lane) else { return false };
        let was_there = keys.remove(&key);
        if keys.is_empty() {
            self.lanes.remove(lane);
        }
        was_there
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = (&Lane, &BTreeSet<ReadyKey>)> {
        self.lanes.iter()
    }

    pub(crate) fn lane(&self, lane: &Lane) -> Option<&BTreeSet<ReadyKey>> {
        self.lanes.get(lane)
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.values().map(BTreeSet::len).sum()
    }
}
