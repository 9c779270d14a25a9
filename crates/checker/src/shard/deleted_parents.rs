//! `deleted_parents_waited_for`: what was deleted though jobs name it as parent is no time that was skipped.

use tidemill_model::{BatchId, JobId, ShardId, Timestamp};

use super::Shard;
use super::job::Job;
use super::skipped::Skips;
use crate::Invariant;
use crate::at::At;

impl Shard {
    /// Whether a definition of the catalogue, as this shard has it, names a job that was deleted. A job that was submitted
    /// to run once does not: nobody can give it other parents.
    pub(super) fn names_deleted(&self, parent: JobId) -> bool {
        self.deleted_parents.contains(&parent) && self.namers_of(parent).next().is_some()
    }

    /// Whether only jobs that came from another group name a job that was deleted here: before they came nothing may have, and
    /// the owner kept nothing of it.
    pub(super) fn may_have_forgotten(&self, parent: JobId) -> bool {
        let has_come = |job: &Job| job.tenure.is_some();
        self.is_removed(parent) && self.names_deleted(parent) && self.namers_of(parent).all(has_come)
    }

    /// The jobs of the catalogue whose definitions name a parent.
    fn namers_of(&self, parent: JobId) -> impl Iterator<Item = &Job> {
        let of_the_catalogue =
            self.jobs.iter().filter(|(id, job)| id.shard() == ShardId::CATALOGUE && !job.removed);
        let jobs = of_the_catalogue.map(|(_, job)| job);
        jobs.filter(move |job| job.newest().is_some_and(|(_, version)| version.parents.contains(&parent)))
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
