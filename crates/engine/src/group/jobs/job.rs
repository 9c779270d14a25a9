//! A job as its group's shard knows it: the definition, what fires next, and what became of its newest
//! logical times.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_calendar::Timetable;
use tidemill_derive::Stored;
use tidemill_model::{BatchId, BatchResult, Fire, JobDefinition, JobId, LISTED_PARENTS, ShardId, Timestamp};

use crate::group::dependencies::counted::same_parents;
use crate::group::generation::failing::Failed;
use crate::group::jobs::evicted::Evicted;
use crate::group::jobs::history::{History, Newest};
use crate::group::jobs::kept_texts::Kept;
use crate::group::placement::queue::ReadyKey;

/// Older names of a job are not kept.
const MAX_NAMES: usize = 16;

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Job {
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) former_names: FormerNames,
    /// When its batches are due; absent when it has no schedule or this version cannot read it.
    pub(crate) schedule: Option<Arc<Timetable>>,
    pub(crate) enabled: bool,
    pub(crate) disabled_since: Option<Timestamp>,
    /// While it is switched off: the time before which its schedule made no batches when it was switched off.
    pub(crate) skipped_before_off: Option<Timestamp>,
    /// Submitted to run once, rather than defined in the catalogue.
    pub(crate) submitted: bool,
    /// The definition is gone; what is unfinished of it, or waits for it, is seen through.
    pub(crate) removed: bool,
    /// Jobs of this shard go on naming it, though it is removed: what it has no batch for is not skipped by that.
    pub(crate) is_named: bool,
    /// The shards with such jobs when it was removed.
    pub(crate) orphaned_in: BTreeSet<ShardId>,
    /// There may be such jobs in any shard.
    pub(crate) is_orphaning: bool,
    pub(crate) next: Option<Fire>,
    /// The logical time of its schedule up to which all is dealt with, where days of a calendar are left out.
    pub(crate) passed: Option<Timestamp>,
    pub(crate) failed: Option<Failed>,
    /// The last generated batch was behind its time, so more may be.
    pub(crate) catching_up: bool,
    /// Jobs that name this one as parent.
    pub(crate) children: BTreeSet<JobId>,
    /// Its parents with mapping `same`, in order of id, where they are many.
    pub(crate) same_parents: Option<Arc<[JobId]>>,
    pub(crate) history: History,
    pub(crate) evicted: Evicted,
    pub(crate) limit: Limit,
}

/// The newest run of a logical time, whether the history holds the time or has evicted it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewestRun<'a> {
    pub(crate) number: u32,
    /// Its batch; of an evicted time it is not known.
    pub(crate) batch: Option<BatchId>,
    /// How it ended; `None`: it has not.
    pub(crate) result: Option<BatchResult>,
    /// The definition that it had, as long as that is kept.
    pub(crate) definition: Option<&'a Arc<JobDefinition>>,
    /// Over those of the definition.
    pub(crate) parameters: Kept<'a>,
    /// What its newest attempt passed on.
    pub(crate) values: Kept<'a>,
}

/// How the maximum concurrency stands.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Limit {
    /// Assigned or running.
    pub(crate) active: u32,
    pub(crate) queued: u32,
    /// Ready, but the maximum is reached, or the job is disabled.
    parked: BTreeSet<ReadyKey>,
    /// Of these, the ones that a disabled job admits, too.
    parked_by_hand: BTreeSet<ReadyKey>,
}

impl Limit {
    pub(crate) fn park(&mut self, key: ReadyKey, waits_while_disabled: bool) {
        self.parked.insert(key);
        if !waits_while_disabled {
            self.parked_by_hand.insert(key);
        }
    }

    pub(crate) fn unpark(&mut self, key: ReadyKey) {
        self.parked.remove(&key);
        self.parked_by_hand.remove(&key);
    }

    pub(crate) fn is_parked(&self, key: ReadyKey) -> bool {
        self.parked.contains(&key)
    }

    pub(crate) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }
}

impl Job {
    pub(crate) fn new(definition: Arc<JobDefinition>, enabled: bool, submitted: bool) -> Self {
        let are_many = definition.parents.len() > LISTED_PARENTS;
        let same_parents = are_many.then(|| same_parents(&definition));
        Self {
            definition,
            former_names: FormerNames::default(),
            schedule: None,
            enabled,
            disabled_since: None,
            skipped_before_off: None,
            submitted,
            removed: false,
            is_named: false,
            orphaned_in: BTreeSet::new(),
            is_orphaning: false,
            next: None,
            passed: None,
            failed: None,
            catching_up: false,
            children: BTreeSet::new(),
            same_parents,
            history: History::default(),
            evicted: Evicted::default(),
            limit: Limit::default(),
        }
    }

    /// When its timer is to go off: at its next fire, or when one that failed is tried again.
    pub(crate) fn fires_at(&self) -> Option<Timestamp> {
        let next = self.next?;
        self.failed.map_or(Some(next.at), |failed| failed.retry_at)
    }

    /// All of its schedule up to this logical time is dealt with.
    pub(crate) fn pass(&mut self, logical_time: Timestamp) {
        if self.definition.spec.calendar.is_some() {
            self.passed = Some(logical_time);
        }
    }

    pub(crate) fn switch(&mut self, enabled: bool, now: Timestamp) {
        if !self.removed {
            self.skipped_before_off = self.skips_when_off().filter(|_| !enabled);
        }
        self.enabled = enabled;
        self.disabled_since = if enabled { None } else { self.disabled_since.or(Some(now)) };
    }

    /// DSP-1: disabled, so that what its schedule, its parents and cold starts make waits. What is unfinished of a job
    /// that is gone is seen through.
    pub(crate) fn is_off(&self) -> bool {
        !self.enabled && !self.removed
    }

    /// DSP-2: whether one more batch may be in the queue, beside those that are there, assigned or running.
    pub(crate) fn has_room(&self) -> bool {
        self.limit.active + self.limit.queued < self.definition.spec.max_concurrent
    }

    /// Takes out the first parked batch that may go on.
    pub(crate) fn take_parked(&mut self) -> Option<ReadyKey> {
        let may_go_on = if self.is_off() { &self.limit.parked_by_hand } else { &self.limit.parked };
        let key = *may_go_on.first()?;
        self.limit.unpark(key);
        Some(key)
    }

    /// Generated by its parents' generation, not by a schedule of its own.
    pub(crate) fn is_dependency_triggered(&self) -> bool {
        self.definition.spec.schedule.is_none() && !self.submitted && self.parents().next().is_some()
    }

    /// The definition of a version: today's, or that of the time's newest run.
    pub(crate) fn definition_of(&self, version: u32, time: Timestamp) -> &Arc<JobDefinition> {
        let recorded = self.newest_run(time).and_then(|newest| newest.definition);
        let is_meant = |definition: &&Arc<JobDefinition>| definition.version == version;
        Some(&self.definition).filter(is_meant).or(recorded.filter(is_meant)).unwrap_or(&self.definition)
    }

    pub(crate) fn newest_run(&self, time: Timestamp) -> Option<NewestRun<'_>> {
        if let Some(newest) = self.history.get(time) {
            return Some(NewestRun {
                number: newest.run,
                batch: Some(newest.batch),
                result: newest.result,
                definition: Some(&newest.definition),
                parameters: Kept::of(newest.parameters.as_ref()),
                values: Kept::of(newest.values.as_ref()),
            });
        }
        let evicted = &self.evicted;
        let lost = planted!(LostParameters);
        evicted.holds(time).then(|| NewestRun {
            number: evicted.run(time),
            batch: None,
            result: Some(evicted.result(time)),
            definition: evicted.definition(time),
            parameters: if lost { Kept::Nothing } else { evicted.parameters(time) },
            values: evicted.values(time),
        })
    }

    /// The newest logical time that has a batch and is not after `time`.
    pub(crate) fn newest_upto(&self, time: Timestamp) -> Option<Timestamp> {
        self.history.newest_upto(time).max(self.evicted.newest_upto(time))
    }

    /// Its parents, itself left out.
    pub(crate) fn parents(&self) -> impl Iterator<Item = JobId> + '_ {
        self.definition.other_parents()
    }

    /// Whether `parent` is one of its parents with mapping `same`, which are many.
    pub(crate) fn counts(&self, parent: JobId) -> bool {
        self.same_parents.as_ref().is_some_and(|same| same.binary_search(&parent).is_ok())
    }

    /// Whether a batch for the logical time was ever generated, as far as the state remembers.
    pub(crate) fn has_batch_for(&self, time: Timestamp) -> bool {
        self.history.get(time).is_some() || self.evicted.holds(time)
    }

    /// Whether the newest run of the logical time is what others wait for: a success, or skipped.
    pub(crate) fn has_succeeded(&self, time: Timestamp) -> bool {
        match self.history.get(time) {
            Some(newest) => newest.result.is_some_and(BatchResult::satisfies),
            None => self.evicted.holds(time) && self.evicted.result(time).satisfies(),
        }
    }

    /// The run number for another batch of the logical time. 0 is kept for the schedule's own.
    pub(crate) fn next_run(&self, time: Timestamp) -> u32 {
        match self.history.get(time) {
            Some(newest) => newest.run + u32::from(!planted!(RunNumberReused)),
            None if self.evicted.holds(time) => self.evicted.run(time) + 1,
            None => u32::from(self.definition.spec.schedule.is_some()),
        }
    }

    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (Timestamp, &Newest)> {
        self.history.iter().filter(|(_, newest)| newest.result.is_none())
    }
}

/// The full names that a job had, the newest last: batches keep the definitions they were generated with, whose templates
/// name parents as they were called then (BYD-20, JOB-9).
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct FormerNames(Vec<String>);

impl FormerNames {
    pub(crate) fn note(&mut self, old: &str, new: &str) {
        if old == new {
            return;
        }
        self.0.retain(|name| name != old && name != new);
        self.0.push(old.to_owned());
        if self.0.len() > MAX_NAMES {
            self.0.remove(0);
        }
    }

    pub(crate) fn had(&self, name: &str) -> bool {
        self.0.iter().any(|former| former == name)
    }
}
