//! Who waits for which logical time of a parent in this group, and who has to hear that one stands otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use tidemill_derive::Stored;
use tidemill_model::{BatchEvent, BatchId, Event, JobId, Timestamp};

use crate::group::batches::attempts::rejected;
use crate::group::batches::batch::{Batch, Phase, Waiter, WaitsFor};
use crate::group::dependencies::Dependencies;
use crate::group::dependencies::counted::{COUNTED, at_same_time};
use crate::group::dependencies::failure::{Stand, counts};
use crate::group::{GroupShard, leave, times_of};

type Times = (JobId, Timestamp);

/// Those that list the times they wait for; who counts parents stands in [`crate::group::dependencies::counted`].
///
/// *Invariant:* an unfinished batch stands here with exactly the times that its dependencies declare.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Waiters {
    by_time: BTreeMap<Times, BTreeSet<Waiter>>,
    /// Ad-hoc jobs that wait for the first batch of a job that never had one.
    for_first: BTreeMap<JobId, BTreeSet<Waiter>>,
    /// Times whose newest run changed, and the last waiter that has been told.
    pub(super) changed: BTreeMap<Times, Option<Waiter>>,
}

impl Waiters {
    pub(crate) fn await_time(&self, time: Times) -> bool {
        self.by_time.contains_key(&time)
    }

    pub(crate) fn batches_at(&self, time: Times) -> impl Iterator<Item = BatchId> + '_ {
        self.by_time.get(&time).into_iter().flatten().map(|(batch, _)| *batch)
    }

    /// In order, those behind `after`.
    fn behind(&self, time: Times, after: Option<Waiter>) -> impl Iterator<Item = Waiter> + '_ {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let waiters = self.by_time.get(&time).into_iter();
        waiters.flat_map(move |waiters| waiters.range((behind, Bound::Unbounded))).copied()
    }

    /// Times of the job from `from` to before `to` for which somebody waits.
    pub(crate) fn times_between(
        &self,
        job: JobId,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + '_ {
        self.by_time.range((job, from)..(job, to)).map(|((_, time), _)| *time)
    }

    pub(crate) fn times_of(&self, job: JobId) -> impl Iterator<Item = Timestamp> + '_ {
        self.by_time.range(times_of(job)).map(|((_, time), _)| *time)
    }

    /// The first time that stands otherwise, and the last waiter that has been told.
    pub(crate) fn first_changed(&self) -> Option<(Times, Option<Waiter>)> {
        self.changed.first_key_value().map(|(time, after)| (*time, *after))
    }
}

impl Dependencies {
    /// A batch was generated, and waits for what it lists and counts.
    pub(in crate::group) fn wait_for_parents(&mut self, id: BatchId, batch: &Batch, is_submission: bool) {
        for (index, dependency) in batch.dependencies.iter().enumerate() {
            let waiter = (id, index as u16);
            for time in &dependency.declared.times {
                let key = (dependency.declared.parent, *time);
                self.waiters.by_time.entry(key).or_default().insert(waiter);
                if !self.foreign.parents.is_empty() {
                    self.wait_for_foreign(key.0, key.1);
                }
            }
            if is_submission && dependency.is_open() {
                self.waiters.for_first.entry(dependency.declared.parent).or_default().insert(waiter);
            }
        }
        if batch.counted.is_some() {
            self.counted.0.entry(batch.logical_time).or_default().insert(id);
        }
    }

    /// A batch has ended, and waits for nothing. Times of its parents of which others are still to be told.
    pub(in crate::group) fn wait_no_more(&mut self, id: BatchId, batch: &Batch) -> Vec<Times> {
        let mut untold = Vec::new();
        for (index, dependency) in batch.dependencies.iter().enumerate() {
            let (parent, waiter) = (dependency.declared.parent, (id, index as u16));
            if dependency.is_open() {
                leave(&mut self.waiters.for_first, &parent, &waiter);
            }
            for time in &dependency.declared.times {
                if leave(&mut self.waiters.by_time, &(parent, *time), &waiter) {
                    self.let_go_of_foreign(parent, *time);
                }
                if self.waiters.changed.contains_key(&(parent, *time)) {
                    untold.push((parent, *time));
                }
            }
        }
        untold
    }

    /// The job has its first batch: whoever waited for any waits for this one.
    pub(in crate::group) fn first_came(&mut self, parent: JobId, time: Timestamp) -> BTreeSet<Waiter> {
        let waiters = self.waiters.for_first.remove(&parent).unwrap_or_default();
        if !waiters.is_empty() {
            self.waiters.by_time.entry((parent, time)).or_default().extend(&waiters);
        }
        waiters
    }
}

impl GroupShard {
    /// Whether a batch waits for one of the job, here or in another group, or a job of another group names it.
    pub(crate) fn is_waited_for(&self, id: JobId) -> bool {
        self.waits_for_any_of(id)
            || self.dependencies.waiters.for_first.contains_key(&id)
            || self.dependencies.followers.concern(id)
    }

    /// Whether a batch of this shard waits for a time of the job.
    pub(crate) fn waits_for_any_of(&self, id: JobId) -> bool {
        self.dependencies.waiters.times_of(id).next().is_some() || self.is_counted(id)
    }

    pub(in crate::group) fn dependency_changed(
        &mut self,
        now: Timestamp,
        id: BatchId,
        parent: JobId,
        time: Timestamp,
        met: bool,
    ) {
        let mut told = None;
        if let Some(batch) = self.batches.get_mut(&id) {
            for (index, dependency) in batch.dependencies.iter_mut().enumerate() {
                if dependency.declared.parent != parent {
                    continue;
                }
                if let Some(position) = dependency.position(time) {
                    dependency.met[position] = met;
                    told = Some((id, index as u16));
                }
            }
            batch.note_withdrawn(now, (parent, time), met);
        }
        if self.counted_changed(id, parent, time, met) {
            told = Some((id, COUNTED));
        }
        if met {
            self.make_ready(now, id);
        } else {
            self.make_unready(now, id);
        }
        self.reconsider_rule(id);
        let may_block = !met && self.may_block(parent, time);
        self.look_for_block_by(id, may_block);
        let key = (parent, time);
        if let Some(last) = self.dependencies.waiters.changed.get_mut(&key) {
            *last = told;
            if self.next_untold(parent, time, told).is_none() {
                self.dependencies.waiters.changed.remove(&key);
            }
        }
    }

    /// The newest run of (job, time) is another one, or ended: whoever waits for it must be told.
    pub(crate) fn newest_changed(&mut self, job: JobId, time: Timestamp) {
        self.note_lost(job, time);
        self.tell_watchers(job, time);
        if self.next_untold(job, time, None).is_some() {
            self.dependencies.waiters.changed.insert((job, time), None);
        } else {
            self.dependencies.waiters.changed.remove(&(job, time));
        }
        self.reconsider_waiters(job, time);
    }

    pub(in crate::group) fn tell(&self, parent: JobId, time: Timestamp, (id, index): Waiter) -> Vec<Event> {
        let Some(batch) = self.batches.get(&id) else { return Vec::new() };
        let listed = batch.dependencies.get(usize::from(index)).map(WaitsFor::parent);
        let declared = if index == COUNTED { Some(at_same_time(parent)) } else { listed };
        let Some(declared) = declared else { return Vec::new() };
        let stand = self.stand_of(parent, time);
        let met = counts(&batch.definition, &declared, stand);
        let unmet = batch.unmet_after(parent, time, met);
        let logical_time = time;
        if met {
            let left_out = stand == Stand::Skipped;
            return vec![Event::Batch(BatchEvent::DependencySatisfied {
                batch: id,
                parent,
                logical_time,
                unmet,
                left_out,
            })];
        }
        let mut events =
            vec![Event::Batch(BatchEvent::DependencyRevoked { batch: id, parent, logical_time, unmet })];
        if let Phase::Assigned { token, worker, right: None, .. } = &batch.phase
            && unmet > 0
        {
            // Nothing of it runs yet, so it can still wait for the newest run.
            events.push(rejected(id, (*token, worker), "a dependency was withdrawn"));
        }
        events
    }

    /// The first waiter behind `after` that does not know yet how (parent, time) stands.
    pub(crate) fn next_untold(
        &self,
        parent: JobId,
        time: Timestamp,
        after: Option<Waiter>,
    ) -> Option<Waiter> {
        let stand = self.stand_of(parent, time);
        let is_untold = |(id, index): &Waiter| {
            let batch = self.batches.get(id)?;
            let dependency = batch.dependencies.get(usize::from(*index))?;
            let met = counts(&batch.definition, &dependency.parent(), stand);
            Some(dependency.met[dependency.position(time)?] != met)
        };
        let mut behind = self.dependencies.waiters.behind((parent, time), after);
        let listing = behind.find(|waiter| is_untold(waiter) == Some(true));
        listing.into_iter().chain(self.next_counting(parent, time, after)).min()
    }
}
