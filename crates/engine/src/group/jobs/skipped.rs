//! Logical times that a parent skipped on record (DEP-3). Nothing waits for them.
//!
//! ```text
//!   a job with a schedule            times without a batch
//!   switched on, next fire for T     before T: skipped      from T on: may come
//!   switched on, no further fire     skipped
//!   switched off, next fire was T    before T: skipped      from T on: waited for, until it is switched on
//!   deleted                          skipped
//!   deleted, and still named         as switched off, where jobs name it (`orphan_children`)
//! ```
//!
//! A schedule goes through its logical times in order, and each of them gets a batch or is passed over: so whatever lies
//! before the next fire and has no batch was passed over, whether by a policy, a calendar, a span in which the job was
//! switched off, or because it was not defined yet. Of a job that is switched off, what it skipped until then stays
//! skipped, and the rest is waited for: whoever switches a failing parent off does not let its children go on without its data.
//! That takes one time of memory, and it is the record that moved the next
//! fire which makes it true: `schedule.skipped`, `job.replicated`, `job.switch_replicated`, `job.dropped`, `schedule.rescheduled`, `batch.generated`. A job
//! without a schedule skips what all of its parents skipped, and nothing while it is switched off.
//!
//! *A batch decides, where there is one.* A skipped time that is run by hand or in a rerun is waited for again by
//! whatever has not started.
//!
//! *Invariant:* whoever waits for a time, here or in another group, is told when it comes to be skipped or is not any
//! more: [`GroupShard::skips_changed`] follows each event that moves the next fire.

use std::collections::BTreeSet;

use tidemill_model::{JobId, ShardId, Timestamp};

use crate::group::GroupShard;
use crate::group::jobs::Jobs;
use crate::group::jobs::job::Job;

/// Ancestors without a schedule that are asked for one answer; beyond them a time may come.
const MAX_ANCESTORS: usize = 256;

impl Job {
    /// The time before which it makes no batches any more; `None`: that is as its parents have it, or nothing says so.
    fn skips_before(&self) -> Option<Timestamp> {
        if !self.is_generated() {
            return None;
        }
        self.skips_before_named(self.is_named)
    }

    /// The same of a job that is to make batches. `is_named`: where it is removed, who asks has jobs that go on naming it.
    fn skips_before_named(&self, is_named: bool) -> Option<Timestamp> {
        if self.removed && !is_named {
            return Some(Timestamp::MAX);
        }
        if !self.enabled {
            let skipped = self.skipped_before_off.filter(|_| self.definition.spec.schedule.is_some());
            return Some(skipped.unwrap_or(Timestamp::MIN));
        }
        self.schedule.as_ref()?;
        Some(self.next.map_or(Timestamp::MAX, |next| next.logical_time))
    }

    /// Whether batches of it are made without anybody's asking.
    fn is_generated(&self) -> bool {
        !self.submitted && (self.definition.spec.schedule.is_some() || self.is_dependency_triggered())
    }

    /// Whether a removed job makes no batch for the time, for a shard that asks.
    pub(crate) fn was_skipped(&self, time: Timestamp, by: ShardId) -> bool {
        let before = self.skips_before_named(self.orphaned_in.contains(&by));
        self.is_generated() && !self.has_batch_for(time) && before.is_some_and(|before| time < before)
    }

    /// What stays skipped when it is switched off now, or is off already: what was skipped while it was on.
    pub(crate) fn skips_when_off(&self) -> Option<Timestamp> {
        if self.removed { None } else { self.skips_before() }
    }
}

impl Jobs {
    pub(crate) fn skips_before(&self, job: JobId) -> Option<Timestamp> {
        self.get(&job).and_then(|job| job.skips_before())
    }

    /// The job, and those that have their logical times from it.
    fn heirs(&self, job: JobId) -> BTreeSet<JobId> {
        let (mut heirs, mut open) = (BTreeSet::from([job]), vec![job]);
        while let Some(job) = open.pop() {
            let children = self.get(&job).into_iter().flat_map(|job| &job.children);
            for child in children {
                let inherits = self.get(child).is_some_and(|child| child.is_dependency_triggered());
                if inherits && heirs.insert(*child) {
                    open.push(*child);
                }
            }
        }
        heirs
    }
}

impl GroupShard {
    /// Whether a job of this shard has no batch for the time, and makes none.
    pub(crate) fn is_skipped(&self, job: JobId, time: Timestamp) -> bool {
        if planted!(WaitsForSkipped) {
            return false;
        }
        self.makes_none(job, time, &mut BTreeSet::new())
    }

    fn makes_none(&self, id: JobId, time: Timestamp, asked: &mut BTreeSet<JobId>) -> bool {
        let Some(job) = self.jobs.get(&id).filter(|job| !job.has_batch_for(time)) else { return false };
        if let Some(before) = job.skips_before() {
            return time < before;
        }
        if !job.is_dependency_triggered() || asked.len() >= MAX_ANCESTORS {
            return false;
        }
        // On the way down a line that was asked already says nothing new.
        if !asked.insert(id) {
            return true;
        }
        job.parents().all(|parent| self.makes_none(parent, time, asked))
    }

    /// `latest` goes back to the newest time that was not skipped, where one is known.
    pub(crate) fn go_back(&self, parent: JobId, times: &mut [Timestamp]) {
        let Some(job) = self.jobs.get(&parent) else { return };
        for time in times.iter_mut().filter(|time| self.is_skipped(parent, **time)) {
            *time = job.newest_upto(*time).unwrap_or(*time);
        }
    }

    /// After an event that may have moved it: whoever waits for a time that is concerned hears of it.
    pub(crate) fn skips_changed(&mut self, job: JobId, before: Option<Timestamp>) {
        let after = self.jobs.skips_before(job);
        if after == before {
            return;
        }
        let (from, to) = match (before, after) {
            (Some(before), Some(after)) => (before.min(after), before.max(after)),
            (None, _) | (_, None) => (Timestamp::MIN, Timestamp::MAX),
        };
        self.skips_moved(job, from, to);
    }

    /// Whoever waits for one of these times, of the job or of one that has its times from it, hears how it stands.
    pub(crate) fn skips_moved(&mut self, job: JobId, from: Timestamp, to: Timestamp) {
        for job in self.jobs.heirs(job) {
            for time in self.awaited(job, from, to) {
                self.newest_changed(job, time);
            }
        }
    }

    /// A batch for a time that had none, made by a person or a plan: jobs that have their logical times from this one skip
    /// it no more.
    pub(crate) fn time_came(&mut self, job: JobId, time: Timestamp) {
        for heir in self.jobs.heirs(job).into_iter().filter(|heir| *heir != job) {
            let is_awaited =
                self.dependencies.waiters().await_time((heir, time)) || !self.counting(heir, time).is_empty();
            if is_awaited || self.dependencies.followers().is_watched(heir, time) {
                self.newest_changed(heir, time);
            }
        }
    }

    /// Times of a job for which something waits, here or in another group.
    fn awaited(&self, job: JobId, from: Timestamp, to: Timestamp) -> BTreeSet<Timestamp> {
        let here = self.dependencies.waiters().times_between(job, from, to);
        here.chain(self.counted_times(job, from, to))
            .chain(self.dependencies.followers().watched(job, from, to))
            .collect()
    }
}
