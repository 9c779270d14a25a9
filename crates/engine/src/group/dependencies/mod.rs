//! What batches wait for inside the cluster: logical times of parents, here and in other groups.

pub(in crate::group) mod blocked;
pub(in crate::group) mod counted;
pub(in crate::group) mod deleted_parents;
pub(in crate::group) mod failure;
pub(in crate::group) mod followers;
pub(in crate::group) mod foreign;
pub(in crate::group) mod waiters;
pub(in crate::group) mod waive;

use std::collections::BTreeSet;

use tidemill_derive::Stored;
use tidemill_model::{BatchId, JobId};

use self::blocked::Blocked;
use self::counted::Counting;
use self::deleted_parents::DeletedParents;
use self::followers::Followers;
use self::foreign::Foreign;
use self::waiters::Waiters;
use super::GroupShard;

/// Who waits for which parent, and who of other groups does.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Dependencies {
    waiters: Waiters,
    counted: Counting,
    foreign: Foreign,
    /// Other groups that have children of this one's jobs.
    followers: Followers,
    /// Deleted jobs that jobs of this shard name as parent, or named when they were deleted.
    deleted_parents: DeletedParents,
    /// Batches that are to be ended for their parents.
    concluding: BTreeSet<BatchId>,
    blocked: Blocked,
}

impl Dependencies {
    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    pub(crate) fn foreign(&self) -> &Foreign {
        &self.foreign
    }

    pub(crate) fn followers(&self) -> &Followers {
        &self.followers
    }

    /// The batch ends: nothing ends it for its parents, and nothing blocks it.
    pub(crate) fn forget(&mut self, id: BatchId) {
        self.concluding.remove(&id);
        self.blocked.forget(id);
    }

    /// The name of a deleted job that jobs of this shard name, or named, as parent.
    pub(crate) fn deleted_name(&self, job: JobId) -> Option<String> {
        self.deleted_parents.get(&job).map(|deleted| deleted.name.clone())
    }
}

impl GroupShard {
    /// The jobs that name `parent`, wherever it runs.
    pub(crate) fn children_of(&self, parent: JobId) -> Option<&BTreeSet<JobId>> {
        let local = self.jobs.get(&parent).map(|job| &job.children);
        local.or_else(|| self.dependencies.foreign.get(parent).map(|parent| &parent.children))
    }
}
