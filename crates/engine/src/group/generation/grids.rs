//! What a job without a schedule of its own follows: the schedule of its nearest ancestor that has one.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use tidemill_calendar::Timetable;
use tidemill_model::{JobDefinition, JobId};

use crate::group::GroupShard;
use crate::group::generation::generate::Known;

/// Of jobs without a schedule, what was found above them, so that a deep chain is climbed once. It says nothing that the
/// jobs do not say, so it takes no part in comparisons, and a copy begins without.
#[derive(Debug, Default)]
pub(crate) struct Grids(Mutex<FxHashMap<JobId, Option<Arc<Timetable>>>>);

impl Clone for Grids {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Grids {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Grids {
    /// Jobs, parents or calendars change.
    pub(in crate::group) fn forget(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn get(&self, job: JobId) -> Option<Option<Arc<Timetable>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&job).cloned()
    }

    fn note(&self, jobs: Vec<JobId>, grid: Option<&Arc<Timetable>>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.extend(jobs.into_iter().map(|job| (job, grid.cloned())));
    }
}

impl GroupShard {
    /// What lies above a definition, which may be an earlier one of its job.
    pub(super) fn grid_above(&self, definition: &JobDefinition) -> Option<Arc<Timetable>> {
        let (grid, climbed) = self.climb(definition, |job| self.generation.grids.get(job));
        debug_assert_eq!(grid, self.climb(definition, |_| None).0, "what is noted is what is there");
        if !climbed.is_empty() {
            self.generation.grids.note(climbed, grid.as_ref());
        }
        grid
    }

    /// With the jobs in between, of which none is known to `noted`.
    fn climb<'a>(
        &'a self,
        mut definition: &'a JobDefinition,
        noted: impl Fn(JobId) -> Option<Option<Arc<Timetable>>>,
    ) -> (Option<Arc<Timetable>>, Vec<JobId>) {
        let mut climbed = Vec::new();
        while climbed.len() < self.jobs.len() {
            let parent = match definition.other_parents().find_map(|parent| self.known(parent)) {
                Some(Known::Here(parent)) => parent,
                Some(Known::Elsewhere(parent)) => return (parent.schedule.clone(), climbed),
                None => return (None, climbed),
            };
            if parent.schedule.is_some() {
                return (parent.schedule.clone(), climbed);
            }
            if let Some(grid) = noted(parent.definition.id) {
                return (grid, climbed);
            }
            climbed.push(parent.definition.id);
            definition = &parent.definition;
        }
        (None, climbed)
    }
}
