//! What the shard knows of its jobs: definitions, what became of their logical times, names, calendars.

pub(in crate::group) mod calendars;
pub(in crate::group) mod evicted;
pub(in crate::group) mod history;
pub(in crate::group) mod job;
pub(in crate::group) mod kept_texts;
pub(in crate::group) mod moves;
pub(in crate::group) mod replicated;
pub(in crate::group) mod skipped;
pub(in crate::group) mod times;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{JobEvent, JobId, ShardId, Timestamp};

use super::GroupShard;

use self::calendars::Calendars;
use self::job::Job;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Jobs {
    by_id: BTreeMap<JobId, Box<Job>>,
    /// Jobs whose parent is not known here (yet, or any more), by that parent.
    orphans: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Those that were submitted to run once and have ended, the oldest first.
    submissions: VecDeque<JobId>,
    calendars: Calendars,
    minted: u64,
}

impl Jobs {
    pub(crate) fn get(&self, id: &JobId) -> Option<&Job> {
        self.by_id.get(id).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        self.by_id.get_mut(id).map(Box::as_mut)
    }

    pub(crate) fn contains(&self, id: JobId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The number of the next job that is submitted to run once.
    pub(crate) fn next_id(&self, shard: ShardId) -> JobId {
        JobId::mint(self.minted + 1, shard)
    }

    pub(in crate::group) fn mint_above(&mut self, counter: u64) {
        self.minted = self.minted.max(counter);
    }

    pub(in crate::group) fn minted(&self) -> u64 {
        self.minted
    }

    pub(crate) fn note_submitted(&mut self) {
        self.minted += 1;
    }

    pub(crate) fn note_submission_ended(&mut self, id: JobId) {
        self.submissions.push_back(id);
    }

    pub(crate) fn orphans_of(&self, parent: JobId) -> Option<&BTreeSet<JobId>> {
        self.orphans.get(&parent)
    }

    /// The parent is known from now on.
    pub(crate) fn take_orphans(&mut self, parent: JobId) -> BTreeSet<JobId> {
        self.orphans.remove(&parent).unwrap_or_default()
    }

    pub(crate) fn calendars(&self) -> &Calendars {
        &self.calendars
    }

    pub(in crate::group) fn apply_job(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Submitted { definition } => {
                self.note_submitted();
                self.insert(definition.id, Job::new(Arc::clone(definition), true, true));
            }
            // What the catalogue decides.
            JobEvent::Defined { .. }
            | JobEvent::Enabled { .. }
            | JobEvent::Disabled { .. }
            | JobEvent::Deleted { .. }
            | JobEvent::ParentDeleted { .. }
            | JobEvent::MoveRequested { .. }
            | JobEvent::Moved { .. }
            | JobEvent::MoveRejected { .. }
            | JobEvent::Cancelled { .. } => {}
        }
    }

    fn insert(&mut self, id: JobId, job: Job) {
        self.by_id.insert(id, Box::new(job));
    }

    fn remove(&mut self, id: JobId) -> Option<Box<Job>> {
        self.by_id.remove(&id)
    }
}

impl GroupShard {
    /// Ad-hoc jobs leave the state in the order in which they ended, once there are too many.
    pub(in crate::group) fn forget_submissions(&mut self, now: Timestamp) {
        while self.jobs.submissions.len() > self.sizes.remembered_submissions {
            let Some(oldest) = self.jobs.submissions.pop_front() else { return };
            if self.jobs.get(&oldest).is_some_and(|job| self.is_needed(oldest, job)) {
                self.jobs.submissions.push_back(oldest);
                return;
            }
            self.job_dropped(now, oldest);
        }
    }
}
