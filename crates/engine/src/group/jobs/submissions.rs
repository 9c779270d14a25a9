//! Jobs that were submitted to run once, and how long they are remembered.

use crate::group::GroupShard;
use crate::group::jobs::Jobs;
use crate::group::jobs::job::Job;
use std::sync::Arc;
use tidemill_model::{JobDefinition, JobEvent, Timestamp};

impl Jobs {
    fn job_submitted(&mut self, definition: &Arc<JobDefinition>) {
        self.note_submitted();
        self.insert(definition.id, Job::new(Arc::clone(definition), true, true));
    }

    pub(in crate::group) fn apply_job(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Submitted { definition } => self.job_submitted(definition),
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
