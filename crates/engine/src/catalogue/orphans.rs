//! JOB-9: a job is deleted though others name it as parent (`orphan_children`).
//!
//! Who may name a job as parent needs no right to the job's group, so a child must not keep the job for ever. Nor may the
//! deletion let batches run without what they wait for:
//!
//! ```text
//!  catalogue        JobParentDeleted ─► JobDeleted
//!                     └─ ParentDeleted ─┐   └─ Remove(orphaned_in) ─┐
//!  children's shard                     ▼                           │
//!                     ParentDeletionReplicated                      ▼
//!  parent's shard                                               JobDropped ··· ParentReleased
//! ```
//!
//! What the parent did before counts, for the batches that come later, too: its shard keeps it until the catalogue says that
//! no definition names it any more (`ReleaseParent`).
//!
//! *Invariant:* a deleted job that a definition still names is listed here, and in the shard of that definition from
//! `ParentDeletionReplicated` on. What the deleted job has no batch for, nobody
//! in these shards takes for skipped, until every definition of the shard names it no more.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::Stored;
use tidemill_model::{
    Event, JobDefinition, JobEvent, JobId, OrphanedChildren, Rejection, ShardId, ShardMessage, Timestamp,
};

use super::{Catalogue, Job, Terms};

/// Deleted jobs that others still name as parent.
pub(crate) type Orphans = BTreeMap<JobId, DeletedParent>;

/// A deleted job, and who names it.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct DeletedParent {
    pub(super) name: String,
    /// Where it ran: there its batches are kept until nobody names it.
    shard: Option<ShardId>,
    deleted_at: Timestamp,
    children: BTreeSet<JobId>,
}

impl Catalogue {
    /// Whether a job may go although others name it as parent. `goes_too`: these are deleted or defined anew with it.
    pub(super) fn check_unneeded(
        &self,
        job: JobId,
        known: &Job,
        terms: &Terms<'_>,
        goes_too: &dyn Fn(JobId) -> bool,
    ) -> Result<(), Rejection> {
        self.check_stays(job)?;
        let children: Vec<JobId> = self.children_left(job, goes_too).collect();
        if terms.orphan_children || children.is_empty() {
            return Ok(());
        }
        let named = self.named_for(&children, self.reach_of(terms.by));
        let reason = format!(
            "it is a parent of {named}; point them elsewhere first, or delete it with orphan_children, and their batches go \
             on waiting until somebody does"
        );
        Err(Rejection::JobInUse { job: known.definition.full_name(), reason })
    }

    fn children_left(&self, job: JobId, goes_too: &dyn Fn(JobId) -> bool) -> impl Iterator<Item = JobId> {
        let children = self.children.get(&job).into_iter().flatten().copied();
        children.filter(move |child| self.jobs.contains_key(child) && !goes_too(*child))
    }

    /// What is on record before the deletion of a job that others go on naming. `None`: no other one does.
    pub(super) fn orphaned_by(&self, job: JobId, goes_too: &dyn Fn(JobId) -> bool) -> Option<Event> {
        let mut shards: BTreeMap<ShardId, u32> = BTreeMap::new();
        for shard in self.children_left(job, goes_too).filter_map(|child| self.shard_of(child)) {
            *shards.entry(shard).or_default() += 1;
        }
        if shards.is_empty() || planted!(OrphansNotRecorded) {
            return None;
        }
        let name = self.jobs.get(&job)?.definition.full_name();
        let children = shards.into_iter().map(|(shard, jobs)| OrphanedChildren { shard, jobs }).collect();
        Some(Event::Job(JobEvent::ParentDeleted { parent: job, name, children }))
    }

    pub(super) fn job_parent_deleted(
        &mut self,
        now: Timestamp,
        parent: JobId,
        name: &str,
        children: &[OrphanedChildren],
    ) {
        let mut all = self.children.get(&parent).cloned().unwrap_or_default();
        // What is deleted in the same step may be there still, in other shards.
        all.retain(|child| children.iter().any(|of| Some(of.shard) == self.shard_of(*child)));
        let shard = self.shard_of(parent);
        let deleted = DeletedParent { name: name.to_owned(), shard, deleted_at: now, children: all };
        for orphaned in children {
            self.mailbox.send(orphaned.shard, deleted.message(parent, None));
        }
        self.orphans.insert(parent, deleted);
    }

    /// The shards with jobs that go on naming a job that is deleted now.
    pub(super) fn orphaned_in(&self, parent: JobId) -> Vec<ShardId> {
        let children = self.orphans.get(&parent).into_iter().flat_map(|deleted| &deleted.children);
        let shards: BTreeSet<ShardId> = children.filter_map(|child| self.shard_of(*child)).collect();
        shards.into_iter().collect()
    }

    /// A definition replaces an old one, or a job is deleted: it is no child of those that the old one named, and the
    /// deleted parents among them that the new one does not name are no longer its own.
    pub(super) fn left_parents(&mut self, old: &JobDefinition, new: Option<&JobDefinition>) {
        for parent in &old.parents {
            if let Some(children) = self.children.get_mut(&parent.job) {
                children.remove(&old.id);
            }
        }
        if self.orphans.is_empty() {
            return;
        }
        for parent in old.other_parents() {
            if new.is_some_and(|new| new.other_parents().any(|named| named == parent)) {
                continue;
            }
            let Some(deleted) = self.orphans.get_mut(&parent) else { continue };
            deleted.children.remove(&old.id);
            if !deleted.children.is_empty() && !planted!(ParentReleasedTooEarly) {
                continue;
            }
            if let Some(shard) = deleted.shard {
                self.mailbox.send(shard, ShardMessage::ReleaseParent { parent });
            }
            self.orphans.remove(&parent);
        }
    }

    /// Before a definition goes to a shard that it was not in: which of its parents are deleted.
    pub(super) fn tell_deleted_parents(&mut self, definition: &JobDefinition) {
        let Some(to) = self.shard_of_group(&definition.spec.group) else { return };
        let parents = definition.other_parents();
        let deleted = parents
            .filter_map(|parent| Some(self.orphans.get(&parent)?.message(parent, Some(definition.id))));
        for message in deleted.collect::<Vec<_>>() {
            self.mailbox.send(to, message);
        }
    }
}

impl DeletedParent {
    fn message(&self, parent: JobId, coming: Option<JobId>) -> ShardMessage {
        ShardMessage::ParentDeleted { parent, name: self.name.clone(), deleted_at: self.deleted_at, coming }
    }
}
