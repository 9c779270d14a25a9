//! Logical times that a job skipped on record: they have no batch, and none comes (DEP-3).

use std::collections::BTreeSet;

use tidemill_model::{BatchId, Dependency, JobId, Mapping, ShardId, Timestamp};

use super::Shard;
use super::days::Calendars;
use super::job::{Job, Version};
use crate::{At, Invariant};

/// Ancestors that are asked for one answer; beyond them a time may come.
const MAX_ANCESTORS: usize = 256;

/// Which logical times without a batch a job makes none for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Skips {
    #[default]
    Nothing,
    Before(Timestamp),
    Everything,
    /// Those that all of its parents skip.
    AsParents,
    /// The journal alone does not say.
    Unknown,
}

impl Job {
    fn skips(&self, id: JobId, calendars: &Calendars) -> Skips {
        let Some(version) = self.newest() else { return Skips::Nothing };
        if self.removed {
            return Skips::Unknown;
        }
        if version.schedule.is_none() {
            let is_triggered = version.parents.iter().any(|parent| *parent != id);
            return if self.enabled && is_triggered { Skips::AsParents } else { Skips::Nothing };
        }
        if !self.enabled {
            return self.skips_off;
        }
        match (self.next, &version.calendar) {
            (Some(next), _) => Skips::Before(next.logical_time),
            // Nothing is due any more; unless this version cannot read the schedule, or its calendar has not come.
            (None, Some(_)) if calendars.has_that_of(version) => Skips::Everything,
            (None, _) => Skips::Unknown,
        }
    }

    /// What stays skipped when it is switched off now, or is off already.
    pub(super) fn skips_when_off(&self, id: JobId, calendars: &Calendars) -> Skips {
        match self.skips(id, calendars) {
            _ if self.removed => Skips::Nothing,
            Skips::AsParents => Skips::Nothing,
            skips => skips,
        }
    }
}

impl Shard {
    /// What a batch has of one time of a dependency; `None`: not known in this shard.
    pub(super) fn oracle_of(
        &self,
        (job, of): (JobId, Option<&Version>),
        dependency: &Dependency,
        time: Timestamp,
    ) -> Option<bool> {
        let parent = dependency.parent;
        if self.is_skipped(parent, time)? && parent != job {
            return Some(dependency.mapping != Mapping::Any);
        }
        let ends = of.is_some_and(Version::ends_are_enough) && parent != job;
        if ends { self.has_ended(parent, time) } else { self.oracle(parent, time) }
    }

    /// Whether a time was skipped, of a job in another group as it was heard; `None`: not known in this shard.
    pub(super) fn is_skipped(&self, job: JobId, time: Timestamp) -> Option<bool> {
        if !self.jobs.contains_key(&job) && self.elsewhere.is_parent(job) {
            let is_named = self.names_deleted(job);
            // A deleted one that no job here names any more may count as skipped without an answer of its shard.
            let was_named = self.deleted_parents.contains(&job) && !is_named;
            if was_named && !self.elsewhere.has_heard(job, time) {
                return None;
            }
            // Its shard may not know that jobs of this one name it, where these came later.
            return self.elsewhere.is_skipped(job, time).filter(|skipped| !*skipped || !is_named);
        }
        if !self.jobs.contains_key(&job) {
            return Some(false);
        }
        self.makes_none(job, time, &mut BTreeSet::new())
    }

    /// Whether it is a job of this shard whose logical times are those of its parents.
    pub(crate) fn inherits_times(&self, job: JobId) -> bool {
        let newest = self.jobs.get(&job).and_then(Job::newest);
        newest.is_some_and(|version| version.schedule.is_none() && !version.parents.is_empty())
    }

    fn makes_none(&self, id: JobId, time: Timestamp, asked: &mut BTreeSet<JobId>) -> Option<bool> {
        let Some(job) = self.jobs.get(&id) else { return Some(false) };
        if self.runs.contains_key(&(id, time)) {
            return Some(false);
        }
        // One that was deleted, and is named all the same, skips what it had skipped by then.
        let skips = if job.removed && self.names_deleted(id) {
            job.skips_off
        } else {
            job.skips(id, &self.calendars)
        };
        match skips {
            Skips::Nothing => return Some(false),
            Skips::Before(next) => return Some(time < next),
            Skips::Everything => return Some(true),
            Skips::Unknown => return None,
            Skips::AsParents if asked.len() >= MAX_ANCESTORS => return Some(false),
            Skips::AsParents => {}
        }
        if !asked.insert(id) {
            return Some(true);
        }
        let parents = job.newest().map(|version| &version.parents[..]).unwrap_or_default();
        for parent in parents.iter().filter(|parent| **parent != id) {
            if !self.makes_none(*parent, time, asked)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

impl Shard {
    /// Whether a definition of the catalogue, as this shard has it, names a job that was deleted. A job that was submitted
    /// to run once does not: nobody can give it other parents.
    pub(super) fn names_deleted(&self, parent: JobId) -> bool {
        let names = |(id, job): (&JobId, &super::job::Job)| {
            let newest = job.newest().filter(|_| id.shard() == ShardId::CATALOGUE && !job.removed);
            newest.is_some_and(|version| version.parents.contains(&parent))
        };
        self.deleted_parents.contains(&parent) && self.jobs.iter().any(names)
    }

    /// Whether it is a job of this shard that was deleted, or went to another group.
    pub(crate) fn is_removed(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.removed)
    }

    /// A batch takes a time of a parent for met.
    pub(super) fn met_by_deleted(&self, at: &At<'_>, batch: BatchId, (parent, time): (JobId, Timestamp)) {
        // One of this shard is judged as others until it is dropped, a record later.
        if !self.names_deleted(parent) || self.jobs.get(&parent).is_some_and(|job| !job.removed) {
            return;
        }
        let may_be_met = match self.jobs.get(&parent) {
            Some(job) => {
                self.runs.contains_key(&(parent, time))
                    || match job.skips_off {
                        Skips::Before(next) => time < next,
                        Skips::Everything | Skips::Unknown => true,
                        Skips::Nothing | Skips::AsParents => false,
                    }
            }
            None => self.elsewhere.may_count(parent, time),
        };
        if !may_be_met {
            let why = format!(
                "batch {batch} takes {parent} for {time} for met, and that job was deleted without a batch for it, while \
                 definitions name it"
            );
            at.breaks(Invariant::DeletedParentsWaitedFor, why);
        }
    }
}
