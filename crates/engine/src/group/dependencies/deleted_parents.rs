//! JOB-9: parents that were deleted though jobs of this shard name them (`orphan_children`).
//!
//! The batches of such a job go on waiting for what the parent has no successful batch for. The definition of every job of
//! the shard that names the parent keeps it so; where none does any more, the parent is like any deleted one, and skips what
//! it has no batch for. Whoever does not want to wait overrides the dependency.
//!
//! The record is made here as the catalogue's message comes, before the parent is removed, where it runs here. What its
//! shard says, where it runs elsewhere, may come earlier: [`Standing::deleted`](tidemill_model::Standing) says nothing of
//! what is skipped, and counts only with the record.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::Stored;
use tidemill_model::{Event, JobDefinition, JobId, ReplicationEvent, Timestamp};

use crate::group::GroupShard;
use crate::group::batches::batch::Batch;
use crate::group::dependencies::Dependencies;

/// Jobs that the record of a deletion names.
const NAMED_JOBS: usize = 100;

pub(crate) type DeletedParents = BTreeMap<JobId, DeletedParent>;

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct DeletedParent {
    /// As `group/name`.
    pub(crate) name: String,
    deleted_at: Timestamp,
    /// The jobs of this shard that name it.
    children: BTreeSet<JobId>,
}

impl Dependencies {
    /// Whether jobs of this shard name a parent that was deleted; `None`: it was not.
    pub(in crate::group) fn is_deleted_and_named(&self, parent: JobId) -> Option<bool> {
        let deleted = self.deleted_parents.get(&parent);
        deleted.map(|deleted| !deleted.children.is_empty() && !planted!(DeletedParentNotWaitedFor))
    }
}

impl GroupShard {
    pub(crate) fn parent_deletion(
        &self,
        parent: JobId,
        name: &str,
        deleted_at: Timestamp,
        coming: Option<JobId>,
    ) -> Event {
        let jobs = self.namers(parent).into_iter().take(NAMED_JOBS).collect();
        Event::Replication(ReplicationEvent::ParentDeletionReplicated {
            parent,
            name: name.to_owned(),
            deleted_at,
            jobs,
            coming,
        })
    }

    /// The jobs of this shard that name the parent, whether it is known here or not.
    fn namers(&self, parent: JobId) -> BTreeSet<JobId> {
        let known = self.children_of(parent).or_else(|| self.jobs.orphans_of(parent));
        known.cloned().unwrap_or_default()
    }

    pub(crate) fn parent_deleted(
        &mut self,
        parent: JobId,
        name: &str,
        deleted_at: Timestamp,
        coming: Option<JobId>,
    ) {
        let mut children = self.namers(parent);
        children.extend(coming);
        let deleted = DeletedParent { name: name.to_owned(), deleted_at, children };
        self.dependencies.deleted_parents.insert(parent, deleted);
        self.note_named(parent);
        self.forget_deleted_parent(parent);
    }

    /// No definition of any shard names a deleted job of this one.
    pub(crate) fn parent_released(&mut self, parent: JobId) {
        if let Some(job) = self.jobs.get_mut(&parent) {
            job.is_orphaning = false;
        }
        self.forget_removed(parent);
    }

    /// A definition names the parent: it came from another group, or stayed with it.
    pub(crate) fn names_deleted(&mut self, job: JobId, parent: JobId) {
        if let Some(deleted) = self.dependencies.deleted_parents.get_mut(&parent) {
            deleted.children.insert(job);
            self.note_named(parent);
        }
    }

    /// A job has another definition, or is gone: what its old one named may be named no more.
    pub(crate) fn adopted(&mut self, job: JobId, old: &JobDefinition) {
        if self.dependencies.deleted_parents.is_empty() {
            return;
        }
        for parent in old.other_parents().collect::<Vec<_>>() {
            let is_named = self.jobs.get(&job).is_some_and(|job| job.parents().any(|named| named == parent));
            let Some(deleted) = self.dependencies.deleted_parents.get_mut(&parent).filter(|_| !is_named)
            else {
                continue;
            };
            if deleted.children.remove(&job) && deleted.children.is_empty() {
                self.note_named(parent);
                self.skips_moved(parent, Timestamp::MIN, Timestamp::MAX);
                self.forget_removed(parent);
                self.forget_deleted_parent(parent);
            }
        }
    }

    fn note_named(&mut self, parent: JobId) {
        let is_named = self.dependencies.is_deleted_and_named(parent) == Some(true);
        if let Some(job) = self.jobs.get_mut(&parent) {
            job.is_named = is_named;
        }
    }

    /// The record goes when no definition names the parent and no batch waits for it.
    pub(crate) fn forget_deleted_parent(&mut self, parent: JobId) {
        let is_done = |deleted: &DeletedParent| deleted.children.is_empty() && !self.waits_for_any_of(parent);
        if self.dependencies.deleted_parents.get(&parent).is_some_and(is_done) {
            self.dependencies.deleted_parents.remove(&parent);
        }
    }

    /// That a batch waits for a deleted parent, for people, and when that was deleted.
    pub(crate) fn why_parent_deleted(
        &self,
        batch: &Batch,
        waits: &str,
        parent: JobId,
        time: Timestamp,
    ) -> Option<(Timestamp, String)> {
        let DeletedParent { name, deleted_at, .. } = self.dependencies.deleted_parents.get(&parent)?;
        let (child, stands) = (batch.definition.full_name(), self.how_parent_stands(parent, time));
        let message = format!(
            "{waits}{name} of {time}, and that job was deleted at {deleted_at} ({stands}): give {child} other parents, or \
             override its dependency on job {parent}"
        );
        Some((*deleted_at, message))
    }
}
