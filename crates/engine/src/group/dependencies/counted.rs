//! Parents that a batch waits for and does not list. A job may have 20,000 parents; where many of them are of its own
//! group and waited for at the batch's own logical time (mapping `same`), neither `batch.generated` nor the batch here
//! lists them: the definition does, and here they are counted.
//!
//! What a batch was told of each of them is one bit, which `batch.generated`, `dependency.satisfied` and
//! `dependency.revoked` set; how a parent stands is looked up where it stands, so that whatever makes it stand otherwise is
//! heard of by [`GroupShard::newest_changed`], as for listed parents.
//!
//! *Invariant:* [`Counting`] holds the unfinished batches that count parents, by logical time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    BatchId, CountedParents, JobDefinition, JobId, Mapping, Parent, Timestamp, WaivedParent,
};

use crate::group::batches::batch::{Batch, Waiter};
use crate::group::dependencies::failure::{Stand, counts};
use crate::group::jobs::job::Job;
use crate::group::{GroupShard, leave, put};

/// Stands in a [`Waiter`] for the number of a listed dependency.
pub(crate) const COUNTED: u16 = u16::MAX;
/// Counted parents that a person lets a batch run without are listed up to this number.
const LISTED_WAIVERS: usize = 64;

/// Batches that count parents which they do not list, by logical time.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Counting(pub(super) BTreeMap<Timestamp, BTreeSet<BatchId>>);

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Counted {
    /// All parents with mapping `same` of its definition, in order of id.
    same: Arc<[JobId]>,
    /// Those among them that the batch lists, in order of id.
    listed: Box<[JobId]>,
    /// Those that the batch was told to be met, bit by bit in the order of `same`.
    told_met: Box<[u64]>,
    /// A person lets it run without any of them.
    pub(in crate::group) is_waived: bool,
    /// Told to be unmet, and not waived.
    pub(in crate::group) unmet: u32,
    /// Those that failed, or are blocked by a failed parent themselves: few, where there are many parents.
    pub(in crate::group) lost: BTreeSet<JobId>,
}

impl Counted {
    fn new(same: Arc<[JobId]>, mut listed: Box<[JobId]>) -> Self {
        listed.sort_unstable();
        let told_met = vec![0; same.len().div_ceil(64)].into();
        Self { same, listed, told_met, is_waived: false, unmet: 0, lost: BTreeSet::new() }
    }

    pub(crate) fn contains(&self, parent: JobId) -> bool {
        self.same.binary_search(&parent).is_ok() && !self.is_listed(parent)
    }

    fn is_listed(&self, parent: JobId) -> bool {
        self.listed.binary_search(&parent).is_ok()
    }

    pub(crate) fn parents(&self) -> impl Iterator<Item = JobId> + '_ {
        self.same.iter().copied().filter(|parent| !self.is_listed(*parent))
    }

    pub(crate) fn is_told_met(&self, parent: JobId) -> bool {
        let at = self.same.binary_search(&parent);
        at.is_ok_and(|at| self.told_met[at / 64] & (1 << (at % 64)) != 0)
    }

    /// How many would be unmet if it were told that `parent` is met, or not.
    pub(crate) fn unmet_after(&self, parent: JobId, met: bool, is_waived: bool) -> u32 {
        match (is_waived || self.is_told_met(parent) == met, met) {
            (true, _) => self.unmet,
            (false, true) => self.unmet.saturating_sub(1),
            (false, false) => self.unmet + 1,
        }
    }

    fn tell(&mut self, parent: JobId, met: bool, is_waived: bool) {
        self.unmet = self.unmet_after(parent, met, is_waived);
        if let Ok(at) = self.same.binary_search(&parent) {
            let bit = 1 << (at % 64);
            let word = &mut self.told_met[at / 64];
            *word = if met { *word | bit } else { *word & !bit };
        }
    }
}

/// Parents with mapping `same`, the own past left out, in order of id.
pub(crate) fn same_parents(definition: &JobDefinition) -> Arc<[JobId]> {
    let is_same = |parent: &&Parent| parent.mapping == Mapping::Same && parent.job != definition.id;
    let mut same: Vec<JobId> = definition.parents.iter().filter(is_same).map(|parent| parent.job).collect();
    same.sort_unstable();
    same.dedup();
    same.into()
}

/// As a definition names a parent that is counted.
pub(crate) fn at_same_time(job: JobId) -> Parent {
    Parent { job, mapping: Mapping::Same }
}

impl Batch {
    fn counts_parent(&self, parent: JobId) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.contains(parent))
    }

    fn is_told_met(&self, parent: JobId) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.is_told_met(parent))
    }

    /// Whether a parent of those that it counts keeps it back.
    pub(in crate::group) fn is_kept_back_by(&self, parent: JobId) -> bool {
        !self.is_told_met(parent) && !self.waives_counted(parent)
    }

    /// Whether a person lets it run without this parent, of those that it counts.
    pub(crate) fn waives_counted(&self, parent: JobId) -> bool {
        self.counted.as_ref().is_some_and(|counted| counted.is_waived)
            || self.waives(parent, self.logical_time)
    }
}

impl GroupShard {
    /// Whether batches of the definition count those of their parents that [`GroupShard::is_countable`] tells.
    pub(crate) fn counts_parents(&self, job: &Job, definition: &JobDefinition) -> bool {
        let (parents, most) = (&definition.parents, self.sizes.listed_parents);
        let countable = || parents.iter().filter(|parent| self.is_countable(definition, parent)).count();
        !job.submitted && parents.len() > most && countable() > most
    }

    pub(crate) fn is_countable(&self, definition: &JobDefinition, parent: &Parent) -> bool {
        parent.mapping == Mapping::Same && parent.job != definition.id && self.jobs.contains(parent.job)
    }

    /// What a new batch counts: all that its definition names and it does not list.
    pub(crate) fn counted_parents(
        &self,
        definition: &JobDefinition,
        time: Timestamp,
        said: Option<&CountedParents>,
        listed: impl Iterator<Item = JobId>,
    ) -> Option<Box<Counted>> {
        said?;
        let known = self.jobs.get(&definition.id).filter(|job| job.definition.version == definition.version);
        let known = known.and_then(|job| job.same_parents.as_ref()).map(Arc::clone);
        let same = known.unwrap_or_else(|| same_parents(definition));
        let listed = listed.filter(|parent| same.binary_search(parent).is_ok()).collect();
        let mut counted = Counted::new(same, listed);
        let parents: Vec<JobId> = counted.parents().collect();
        counted.unmet = u32::try_from(parents.len()).unwrap_or(u32::MAX);
        for parent in parents {
            if counts(definition, &at_same_time(parent), self.stand_of(parent, time)) {
                counted.tell(parent, true, false);
            }
            if self.is_lost(parent, time) {
                counted.lost.insert(parent);
            }
        }
        Some(Box::new(counted))
    }

    fn is_lost(&self, parent: JobId, time: Timestamp) -> bool {
        self.stand_of(parent, time) == Stand::Failed || self.is_blocked(parent, time)
    }

    /// A parent's time may stand otherwise than before: the batches that count it note whether it is lost.
    pub(crate) fn note_lost(&mut self, parent: JobId, time: Timestamp) {
        if !self.dependencies.counted.0.contains_key(&time) {
            return;
        }
        let is_lost = self.is_lost(parent, time);
        for id in self.counting(parent, time) {
            let counted = self.batches.get_mut(&id).and_then(|batch| batch.counted.as_mut());
            let Some(counted) = counted else { continue };
            put(&mut counted.lost, parent, is_lost);
        }
    }

    /// The unfinished batches that count this parent's time, in order of id.
    pub(crate) fn counting(&self, parent: JobId, time: Timestamp) -> Vec<BatchId> {
        let batches = self.dependencies.counted.0.get(&time).into_iter().flatten().copied();
        batches.filter(|id| self.counts_of(*id, parent)).collect()
    }

    /// Logical times of this parent, from one on and before another, that some batch counts.
    pub(crate) fn counted_times(
        &self,
        parent: JobId,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + '_ {
        let times = self.dependencies.counted.0.range(from..to);
        let counts = move |batches: &BTreeSet<BatchId>| batches.iter().any(|id| self.counts_of(*id, parent));
        times.filter(move |(_, batches)| counts(batches)).map(|(time, _)| *time)
    }

    pub(crate) fn is_counted(&self, parent: JobId) -> bool {
        // An ad-hoc job has no children.
        if self.dependencies.counted.0.is_empty() || self.jobs.get(&parent).is_some_and(|job| job.submitted) {
            return false;
        }
        self.dependencies.counted.0.values().flatten().any(|id| self.counts_of(*id, parent))
    }

    fn counts_of(&self, id: BatchId, parent: JobId) -> bool {
        self.batches.get(&id).is_some_and(|batch| batch.counts_parent(parent))
    }

    /// The first batch that counts the parent's time, behind `after`, and was not told how it stands.
    pub(crate) fn next_counting(
        &self,
        parent: JobId,
        time: Timestamp,
        after: Option<Waiter>,
    ) -> Option<Waiter> {
        let batches = self.dependencies.counted.0.get(&time)?;
        let first = after.map_or(BatchId(i64::MIN), |(id, _)| id);
        let stand = self.stand_of(parent, time);
        let is_untold = |batch: &Batch| {
            let is_met = || counts(&batch.definition, &at_same_time(parent), stand);
            batch.counts_parent(parent) && batch.is_told_met(parent) != is_met()
        };
        let mut behind = batches.range(first..).map(|id| (*id, COUNTED));
        behind.find(|waiter| {
            after.is_none_or(|after| *waiter > after) && self.batches.get(&waiter.0).is_some_and(is_untold)
        })
    }

    /// A batch is told of a parent's time; whether it counts it.
    pub(crate) fn counted_changed(&mut self, id: BatchId, parent: JobId, time: Timestamp, met: bool) -> bool {
        let Some(batch) = self.batches.get(&id) else { return false };
        if batch.logical_time != time || !batch.counts_parent(parent) {
            return false;
        }
        let is_waived = batch.waives_counted(parent);
        if let Some(counted) = self.batches.get_mut(&id).and_then(|batch| batch.counted.as_mut()) {
            counted.tell(parent, met, is_waived);
        }
        true
    }

    /// The counted parents that keep a batch back, in order of id.
    pub(crate) fn unmet_counted(batch: &Batch) -> impl Iterator<Item = JobId> + '_ {
        let counted = batch.counted.iter().filter(|counted| counted.unmet > 0);
        let parents = counted.flat_map(|counted| counted.parents());
        parents.filter(move |parent| batch.is_kept_back_by(*parent))
    }

    /// The counted parents that keep a batch back: each, or all of them at once where they are many.
    pub(crate) fn waivable_counted(batch: &Batch, wanted: Option<JobId>) -> (Vec<WaivedParent>, bool) {
        let unmet = batch.counted.as_ref().map_or(0, |counted| counted.unmet) as usize;
        if wanted.is_none() && unmet > LISTED_WAIVERS {
            return (Vec::new(), true);
        }
        let is_wanted = |parent: &JobId| wanted.is_none_or(|wanted| wanted == *parent);
        let waiver = |job| WaivedParent { job, logical_time: Some(batch.logical_time) };
        (Self::unmet_counted(batch).filter(is_wanted).map(waiver).collect(), false)
    }

    /// A person lets a batch run without these; they are not among its waivers yet.
    pub(crate) fn waive_counted(&mut self, id: BatchId, parents: &[WaivedParent], all: bool) {
        let Some(batch) = self.batches.get(&id) else { return };
        let is_unmet = |waiver: &&WaivedParent| {
            waiver.logical_time == Some(batch.logical_time)
                && batch.counts_parent(waiver.job)
                && batch.is_kept_back_by(waiver.job)
        };
        let unmet = u32::try_from(parents.iter().filter(is_unmet).count()).unwrap_or(u32::MAX);
        let counted = self.batches.get_mut(&id).and_then(|batch| batch.counted.as_mut());
        let Some(counted) = counted else { return };
        counted.unmet = if all { 0 } else { counted.unmet.saturating_sub(unmet) };
        counted.is_waived |= all;
    }

    /// A batch that counted parents has ended; who was still to be told of them need not be any more.
    pub(crate) fn leave_counted(&mut self, id: BatchId, batch: &Batch) {
        let (Some(counted), time) = (&batch.counted, batch.logical_time) else { return };
        leave(&mut self.dependencies.counted.0, &time, &id);
        let is_concerned = |(parent, at): &&(JobId, Timestamp)| *at == time && counted.contains(*parent);
        let untold: Vec<JobId> = self
            .dependencies
            .waiters
            .changed
            .keys()
            .filter(is_concerned)
            .map(|(parent, _)| *parent)
            .collect();
        for parent in untold {
            self.newest_changed(parent, time);
        }
    }
}
