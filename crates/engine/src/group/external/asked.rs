//! What is to be looked for outside, and by whom it is asked.

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::external::External;
use crate::group::external::external_dependencies::{Known, LOOKED_AT, MAX_WANTED};
use std::ops::Bound;
use std::sync::Arc;
use tidemill_model::{
    Actor, BatchId, Condition, ExternalDependency, ExternalDependencyId, LiveAnswer, ObservationEvent,
    PathCheck, Rejection, WantedExternalDependency,
};

impl GroupShard {
    /// DEP-9: probe at once what the batch waits for, or everything.
    pub(crate) fn probe_now(&self, batch: Option<BatchId>, by: &Actor) -> Result<Decision, Rejection> {
        if let Some(id) = batch {
            let known = self.unfinished(id)?;
            let mut paths = known.external_dependencies().iter().filter(|need| need.is_unmet());
            if !paths.any(|need| self.external.known.by_id.get(&need.id).is_some_and(Known::is_path)) {
                let reason = "none of its paths is missing".to_owned();
                return Err(Rejection::NotWaitedFor { batch: id.0, reason });
            }
        }
        Ok(Decision::of(ObservationEvent::ProbesRequested { batch, by: by.clone() }))
    }

    /// What probers are to ask.
    pub(crate) fn wanted_external_dependencies(
        &self,
        after: Option<ExternalDependencyId>,
        limit: u32,
    ) -> LiveAnswer {
        let limit = (limit as usize).clamp(1, MAX_WANTED);
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.external.known.wanted.range((behind, Bound::Unbounded));
        let mut wanted = behind.filter_map(|id| self.wanted_external_dependency(*id));
        let external_dependencies = wanted.by_ref().take(limit).collect();
        let outputs = if after.is_none() { self.batches.wanted_outputs() } else { Vec::new() };
        LiveAnswer::Wanted { external_dependencies, more: wanted.next().is_some(), outputs }
    }

    fn wanted_external_dependency(&self, id: ExternalDependencyId) -> Option<WantedExternalDependency> {
        let known = self.external.known.by_id.get(&id)?;
        let ExternalDependency::Path { path, mark } = known.what.as_ref() else { return None };
        let is_last = |batch: &Batch| {
            let unmet = batch.external_dependencies().iter().filter(|need| need.is_unmet()).count();
            batch.phase == Phase::Waiting && batch.unmet() == 0 && unmet == 1
        };
        let urgent = known.waiters.iter().take(LOOKED_AT).filter_map(|id| self.batches.get(id)).any(is_last);
        let (path, mark, nudge) = (Arc::clone(path), mark.clone(), self.external.known.nudge(known));
        Some(WantedExternalDependency { id, generation: known.generation, path, mark, urgent, nudge })
    }

    pub(in crate::group) fn probes_requested(&mut self, batch: Option<BatchId>) {
        self.external.known.nudges += 1;
        let nudge = self.external.known.nudges;
        let Some(id) = batch else {
            self.external.known.nudged_all = nudge;
            return;
        };
        for need in self.batches.get(&id).map(Batch::external_dependencies).unwrap_or_default() {
            let known = self.external.known.by_id.get_mut(&need.id);
            if let Some(known) = known.filter(|_| need.is_unmet()) {
                known.nudge = nudge;
            }
        }
    }
}

impl External {
    /// The paths that a worker looks at before it starts the batch.
    pub(crate) fn checks_of(&self, batch: &Batch) -> Vec<PathCheck> {
        let held = batch.external_dependencies().iter().filter(|need| !need.waived);
        held.filter_map(|need| match self.known.what(need.id)? {
            ExternalDependency::Path { path, mark } => {
                Some(PathCheck { external_dependency: need.id, path: Arc::clone(path), mark: mark.clone() })
            }
            ExternalDependency::ThirdParty { .. } => None,
        })
        .collect()
    }

    /// DEP-8: the external dependencies that keep a batch back.
    pub(crate) fn unmet_external_dependencies(&self, batch: &Batch) -> Vec<Condition> {
        let unmet = batch.external_dependencies().iter().filter(|need| need.is_unmet());
        unmet
            .filter_map(|need| {
                let known = self.known.by_id.get(&need.id)?;
                let (kind, message, logical_time) = match known.what.as_ref() {
                    what @ ExternalDependency::Path { .. } => ("path", format!("{what} is not there"), None),
                    what @ ExternalDependency::ThirdParty { logical_time, .. } => {
                        ("third_party", format!("{what} is not reported ready"), Some(*logical_time))
                    }
                };
                let since = Some(known.since.max(batch.generated));
                Some(Condition { logical_time, ..Condition::new(kind, message, since) })
            })
            .collect()
    }
}
