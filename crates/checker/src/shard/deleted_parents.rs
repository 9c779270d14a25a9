//! `deleted_parents_waited_for`: what was deleted though jobs name it as parent is no time that was skipped.

use tidemill_model::{BatchId, JobId, ShardId, Timestamp};

use super::Shard;
use super::skipped::Skips;
use crate::Invariant;
use crate::at::At;

impl Shard {
    /// Whether a definition of the catalogue, as this shard has it, names a job that was deleted. A job that was submitted
    /// to run once does not: nobody can give it other parents.
    pub(super) fn names_deleted(&self, parent: JobId) -> bool {
        let names = |(id, job): (&JobId, &super::job::Job)| {
            let newest = job.newest().filter(|_| id.shard() == ShardId::CATALOGUE && !job.removed);
            newest.is_some_and(|(_, version)| version.parents.contains(&parent))
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
