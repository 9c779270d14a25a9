//! What tests change, so that what is rare or must never be comes up within a short history.

use tidemill_model::{Event, JobName};

use crate::group::{GroupShard, Task, Timer};

/// How a state differs from an ordinary one. Only for tests: whoever folds a journal must be rigged as its
/// owner was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rig {
    /// No more keys than this, instead of the usual bound.
    pub max_keys: Option<usize>,
    /// The schedule of a job of this name panics when it is due.
    pub panicking_schedule: Option<JobName>,
    /// To fold that this application's key is revoked panics.
    pub panicking_fold: Option<String>,
}

impl Rig {
    /// # Panics
    /// Where the rig says so.
    pub(crate) fn decides(&self, group: &GroupShard, task: &Task) {
        if let Some(name) = &self.panicking_schedule
            && let Task::Timer(_, Timer::Fire(job)) = task
        {
            let of = group.jobs.get(job).map(|job| &job.definition.name);
            assert!(of != Some(name), "planted in a timer");
        }
    }

    /// # Panics
    /// Where the rig says so.
    pub(crate) fn folds(&self, event: &Event) {
        if let Some(name) = &self.panicking_fold
            && let Event::KeyRevoked { app } = event
        {
            assert!(app != name, "planted in a fold");
        }
    }
}
