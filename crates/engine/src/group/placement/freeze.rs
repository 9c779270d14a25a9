//! BYD-17, DSP-1: batches that nothing of their own keeps back, and that may not be assigned all the same: beyond
//! the latest allowed logical time, before their earliest start, or while a stray of their logical time runs.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{BatchId, Condition, Freeze, FreezeScope, JobDefinition, Timestamp};

use crate::group::batches::batch::Batch;
use crate::group::{GroupShard, Timer};

#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct FreezeSet {
    everything: Option<Since>,
    group: Option<Since>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct Since {
    freeze: Freeze,
    received_at: Timestamp,
}

impl FreezeSet {
    /// The latest logical time that may be assigned.
    fn latest(&self) -> Option<Timestamp> {
        self.all().map(|(_, since)| since.freeze.latest).min()
    }

    fn all(&self) -> impl Iterator<Item = (FreezeScope, &Since)> {
        let everything = self.everything.iter().map(|since| (FreezeScope::Everything, since));
        everything.chain(self.group.iter().map(|since| (FreezeScope::Group, since)))
    }
}

/// Batches whose earliest start is ahead.
pub(crate) type Early = BTreeMap<BatchId, Timestamp>;

impl GroupShard {
    /// Whether a batch may not be assigned, though all that it waits for is there.
    pub(crate) fn holds_back(&self, id: BatchId, batch: &Batch) -> bool {
        let beyond = self.placement.frozen.latest().is_some_and(|latest| batch.logical_time > latest);
        beyond
            || self.strays.hold(batch.definition.id, batch.logical_time)
            || (!self.placement.early.is_empty() && self.placement.early.contains_key(&id))
    }

    pub(crate) fn freeze_replicated(&mut self, now: Timestamp, scope: FreezeScope, freeze: Option<&Freeze>) {
        let before = self.placement.frozen.latest();
        let since = freeze.map(|freeze| Since { freeze: freeze.clone(), received_at: now });
        match scope {
            FreezeScope::Everything => self.placement.frozen.everything = since,
            FreezeScope::Group => self.placement.frozen.group = since,
        }
        let after = self.placement.frozen.latest();
        let is_beyond =
            |time: Timestamp, latest: Option<Timestamp>| latest.is_some_and(|latest| time > latest);
        let times = self.batches.iter().map(|(id, batch)| (batch.logical_time, id));
        let turned = times.filter(|(time, _)| is_beyond(*time, before) != is_beyond(*time, after));
        let mut concerned: Vec<(Timestamp, BatchId)> = turned.collect();
        // Batches come out of a hash table.
        concerned.sort_unstable();
        for (time, id) in concerned {
            if is_beyond(time, after) {
                self.hold_ready(now, id);
            } else {
                self.make_ready(now, id);
            }
        }
    }

    /// The base time of the period that has this logical time, and the job's minutes.
    pub(crate) fn earliest_start(
        &self,
        definition: &JobDefinition,
        logical_time: Timestamp,
    ) -> Option<Timestamp> {
        let minutes = SignedDuration::from_mins(definition.spec.earliest_start_minutes?.into());
        let fire =
            self.grid_of(definition).and_then(|grid| grid.schedule().next_after(logical_time.previous()));
        let base = fire.filter(|fire| fire.logical_time == logical_time).map_or(logical_time, |fire| fire.at);
        base.checked_add(minutes).ok()
    }

    pub(crate) fn hold_until(&mut self, id: BatchId, earliest: Option<Timestamp>, now: Timestamp) {
        if let Some(earliest) = earliest.filter(|earliest| *earliest > now) {
            self.placement.early.insert(id, earliest);
            self.timers.set(earliest, Timer::Start(id));
        }
    }

    pub(crate) fn start_due(&mut self, now: Timestamp, id: BatchId) {
        self.forget_early(id);
        self.make_ready(now, id);
    }

    pub(crate) fn forget_early(&mut self, id: BatchId) {
        if let Some(earliest) = self.placement.early.remove(&id) {
            self.timers.cancel(earliest, Timer::Start(id));
        }
    }

    pub(crate) fn why_held_back(&self, id: BatchId, batch: &Batch) -> Vec<Condition> {
        if batch.holder().is_some() {
            return Vec::new();
        }
        let beyond =
            self.placement.frozen.all().filter(|(_, since)| batch.logical_time > since.freeze.latest);
        let frozen = beyond.map(|(scope, Since { freeze, received_at })| {
            let what = match (scope, &self.group) {
                (FreezeScope::Group, Some(group)) => format!("group {}", group.name),
                (FreezeScope::Group, None) => "its group".to_owned(),
                (FreezeScope::Everything, _) => "everything".to_owned(),
            };
            let by = freeze.by.user.as_deref().unwrap_or(&freeze.by.app);
            let latest = freeze.latest;
            let message = format!(
                "{what} is frozen: the latest logical time that may be assigned is {latest} ({by}: {})",
                freeze.reason
            );
            Condition::new("frozen", message, Some((*received_at).max(batch.generated)))
        });
        let early = self.placement.early.get(&id).map(|earliest| {
            let message = format!("its earliest start is {earliest}");
            Condition::new("earliest_start", message, Some(batch.generated))
        });
        frozen.chain(early).chain(self.why_strays(batch)).collect()
    }
}
