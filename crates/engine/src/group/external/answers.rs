//! What is heard from outside: a path is there or gone, a third party reports.

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::external::External;
use crate::group::external::external_dependencies::{Known, MAX_RECHECKED, satisfied};
use std::collections::BTreeSet;
use tidemill_model::{
    Event, ExternalDependencyId, MAX_ANSWERS, ObservationEvent, PathAnswer, Rejection, ReturnReason,
    Timestamp, Token, WorkerId,
};

impl GroupShard {
    /// DEP-6: what the worker did not find is gone for all that wait for it; the batch waits again.
    pub(crate) fn recheck_failed(
        &self,
        token: Token,
        worker: &WorkerId,
        gone: &[ExternalDependencyId],
    ) -> Result<Decision, Rejection> {
        let stale = |reason: String| Rejection::stale(token, reason);
        let (id, batch) = self.holding(token, worker).map_err(stale)?;
        if batch.grant().is_some() {
            return Err(stale("it was granted; its end must be reported".to_owned()));
        }
        let named: BTreeSet<ExternalDependencyId> = gone.iter().take(MAX_RECHECKED).copied().collect();
        let needed =
            batch.external_dependencies().iter().filter(|need| !need.waived && named.contains(&need.id));
        let needed: Vec<(ExternalDependencyId, &Known)> = needed
            .filter_map(|need| Some((need.id, self.external.known.by_id.get(&need.id)?)))
            .filter(|(_, known)| known.is_path())
            .collect();
        let first = needed.first().map(|(_, known)| known.what.to_string());
        let reason = first.map_or_else(
            || "its worker missed something that it does not wait for".to_owned(),
            |first| format!("{} not there before start, {first}", needed.len()),
        );
        let there = needed.into_iter().filter(|(_, known)| known.satisfied);
        let mut events: Vec<Event> = there.map(|(id, known)| known.withdrawn(id, Some(worker))).collect();
        events.extend(self.not_begun(id, batch, ReturnReason::Rejected(reason)));
        Ok(Decision::events(events))
    }

    pub(in crate::group) fn apply_observation(&mut self, now: Timestamp, event: &ObservationEvent) {
        match event {
            // What the catalogue decides.
            ObservationEvent::ThirdPartyReported { .. }
            | ObservationEvent::ThirdPartyEvicted { .. }
            | ObservationEvent::ProbesLate { .. }
            | ObservationEvent::ProbesRecovered { .. } => {}
            ObservationEvent::ExternalDependencyRegistered { external_dependency, what } => {
                self.external.known.registered(now, *external_dependency, what)
            }
            ObservationEvent::ExternalDependencySatisfied { external_dependency, generation } => {
                self.external_dependency_changed(now, *external_dependency, *generation, true);
            }
            ObservationEvent::ExternalDependencyRevoked { external_dependency, generation, .. } => {
                self.external_dependency_changed(now, *external_dependency, *generation, false);
            }
            ObservationEvent::ExternalDependenciesEvicted { external_dependencies } => {
                self.external.known.forgotten(external_dependencies)
            }
            ObservationEvent::ProbesRequested { batch, .. } => self.probes_requested(*batch),
        }
    }

    fn external_dependency_changed(
        &mut self,
        now: Timestamp,
        id: ExternalDependencyId,
        generation: u64,
        there: bool,
    ) {
        for batch in self.external.known.changed(now, id, generation, there) {
            let needs = self.batches.get_mut(&batch).and_then(|batch| batch.needs.as_deref_mut());
            let needs = needs.into_iter().flat_map(|needs| needs.external_dependencies.iter_mut());
            for need in needs.filter(|need| need.id == id) {
                need.met = there;
            }
            if there {
                self.make_ready(now, batch);
            } else {
                self.make_unready(now, batch);
            }
        }
    }
}

impl External {
    /// DEP-1: what probers found. Answers of an older generation, and those that change nothing, are ignored; a
    /// path that was there stays so until a worker finds it gone.
    pub(crate) fn report_paths(&self, answers: &[PathAnswer]) -> Result<Decision, Rejection> {
        if answers.len() > MAX_ANSWERS {
            let rule = format!("must be at most {MAX_ANSWERS} in one report");
            return Err(Rejection::field("answers", answers.len(), rule));
        }
        let mut seen = BTreeSet::new();
        let news = answers.iter().filter(|answer| {
            let known = self.known.by_id.get(&answer.external_dependency);
            let is_news = known.is_some_and(|known| {
                let is_current = known.generation == answer.generation;
                known.is_path() && answer.exists && !known.satisfied && is_current
            });
            is_news && seen.insert(answer.external_dependency)
        });
        let satisfied = |answer: &PathAnswer| satisfied(answer.external_dependency, answer.generation);
        Ok(Decision::events(news.map(satisfied).collect()))
    }
}
