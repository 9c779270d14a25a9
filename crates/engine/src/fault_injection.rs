//! What tests change, so that what is rare or must never be comes up within a short history.

use tidemill_model::{CatalogueEvent, Event, JobName, Token};

use crate::group::{Chore, GroupShard, Timer};

/// How a state differs from an ordinary one. Only for tests: whoever folds a journal must be rigged as its
/// owner was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultInjection {
    /// No more keys than this, instead of the usual bound.
    pub max_keys: Option<usize>,
    /// The schedule of a job of this name panics when it is due.
    pub panicking_schedule: Option<JobName>,
    /// Up to so many parents with mapping `same` are listed by a new batch, instead of the usual bound.
    pub listed_parents: Option<usize>,
    /// So do the schedules of jobs whose names begin so.
    pub panicking_schedules: Option<String>,
    /// To derive what a worker must hear of an attempt of a job of this name panics.
    pub panicking_effect: Option<JobName>,
    /// Jobs keep so many logical times in full, beyond what their children's mappings reach, instead of the usual
    /// number.
    pub spare_history: Option<usize>,
    /// So many ended ad-hoc jobs are remembered instead of the usual number.
    pub remembered_submissions: Option<usize>,
    /// To fold that this application's key is revoked panics.
    pub panicking_fold: Option<String>,
}

/// Each panics where its field says so.
impl FaultInjection {
    pub(crate) fn decides(&self, group: &GroupShard, task: &Chore) {
        let Chore::Timer(_, Timer::Fire(job)) = task else { return };
        let Some(of) = group.jobs.get(job).map(|job| &job.definition.spec.name) else { return };
        assert!(self.panicking_schedule.as_ref() != Some(of), "planted in a timer");
        let prefix = self.panicking_schedules.as_ref();
        assert!(prefix.is_none_or(|prefix| !of.as_str().starts_with(prefix)), "planted in timers");
    }

    pub(crate) fn derives(&self, group: &GroupShard, token: Token) {
        let Some(name) = &self.panicking_effect else { return };
        let batch = group.batches.of_token(token).and_then(|batch| group.batches.get(&batch));
        assert!(batch.is_none_or(|batch| batch.definition.spec.name != *name), "planted in an effect");
    }

    pub(crate) fn folds(&self, event: &Event) {
        if let Some(name) = &self.panicking_fold
            && let Event::Catalogue(CatalogueEvent::KeyRevoked { app }) = event
        {
            assert!(app != name, "planted in a fold");
        }
    }
}
