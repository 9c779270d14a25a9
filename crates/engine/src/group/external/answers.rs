//! What is heard from outside: a path is there or gone, a third party reports.

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::attempts::rejected;
use crate::group::external::External;
use crate::group::external::external_dependencies::{Known, MAX_RECHECKED};
use std::collections::BTreeSet;
use tidemill_model::{
    BatchId, Event, ExternalDependency, ExternalDependencyId, MAX_ANSWERS, ObservationEvent, PathAnswer,
    Rejection, ThirdPartyReport, Timestamp, Token, WorkerId,
};

impl GroupShard {
    pub(crate) fn third_party_reported(&self, reports: &[ThirdPartyReport]) -> Vec<Event> {
        self.external.external_dependencies.reported(self.id, reports)
    }

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
        let needed = batch
            .external_dependencies()
            .iter()
            .filter(|need| !need.waived && named.contains(&need.external_dependency));
        let needed: Vec<(ExternalDependencyId, &Known)> = needed
            .filter_map(|need| {
                Some((
                    need.external_dependency,
                    self.external.external_dependencies.by_id.get(&need.external_dependency)?,
                ))
            })
            .filter(|(_, known)| matches!(*known.what, ExternalDependency::Path { .. }))
            .collect();
        let first = needed.first().map(|(_, known)| known.what.to_string());
        let reason = first.map_or_else(
            || "its worker missed something that it does not wait for".to_owned(),
            |first| format!("{} not there before start, {first}", needed.len()),
        );
        let there = needed.into_iter().filter(|(_, known)| known.satisfied);
        let mut events: Vec<Event> = there
            .map(|(external_dependency, known)| known.withdrawn(external_dependency, Some(worker)))
            .collect();
        events.push(rejected(id, (token, worker), reason));
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
                self.external.external_dependency_registered(now, *external_dependency, what)
            }
            ObservationEvent::ExternalDependencySatisfied { external_dependency, generation } => {
                self.external_dependency_changed(now, *external_dependency, *generation, true);
            }
            ObservationEvent::ExternalDependencyRevoked { external_dependency, generation, .. } => {
                self.external_dependency_changed(now, *external_dependency, *generation, false);
            }
            ObservationEvent::ExternalDependenciesEvicted { external_dependencies } => {
                self.external.external_dependencies.forgotten(external_dependencies)
            }
            ObservationEvent::ProbesRequested { batch, .. } => self.probes_requested(*batch),
        }
    }

    fn external_dependency_changed(
        &mut self,
        now: Timestamp,
        external_dependency: ExternalDependencyId,
        generation: u64,
        there: bool,
    ) {
        let Some(known) = self.external.external_dependencies.by_id.get_mut(&external_dependency) else {
            return;
        };
        self.external.external_dependencies.kept.remove(&(known.since, external_dependency));
        known.satisfied = there;
        known.generation = generation;
        known.since = now;
        let waiters = std::mem::take(&mut known.waiters);
        let is_wanted =
            !there && !waiters.is_empty() && matches!(*known.what, ExternalDependency::Path { .. });
        if is_wanted {
            self.external.external_dependencies.wanted.insert(external_dependency);
        } else {
            self.external.external_dependencies.wanted.remove(&external_dependency);
        }
        for id in &waiters {
            self.need_changed(now, *id, external_dependency, there);
        }
        let is_spare = waiters.is_empty();
        if let Some(known) = self.external.external_dependencies.by_id.get_mut(&external_dependency) {
            known.waiters = waiters;
        }
        if is_spare {
            self.external.external_dependencies.rest(external_dependency);
        }
    }

    fn need_changed(
        &mut self,
        now: Timestamp,
        id: BatchId,
        external_dependency: ExternalDependencyId,
        there: bool,
    ) {
        let needs = self.batches.get_mut(&id).and_then(|batch| batch.needs.as_deref_mut());
        let needs = needs.into_iter().flat_map(|needs| needs.external_dependencies.iter_mut());
        for need in needs.filter(|need| need.external_dependency == external_dependency) {
            need.met = there;
        }
        if there {
            self.make_ready(now, id);
        } else {
            self.make_unready(now, id);
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
            let known = self.external_dependencies.by_id.get(&answer.external_dependency);
            let is_news = known.is_some_and(|known| {
                let is_path = matches!(*known.what, ExternalDependency::Path { .. });
                let is_current = known.generation == answer.generation;
                is_path && answer.exists && !known.satisfied && is_current
            });
            is_news && seen.insert(answer.external_dependency)
        });
        let satisfied = |answer: &PathAnswer| {
            let generation = self
                .external_dependencies
                .by_id
                .get(&answer.external_dependency)
                .map_or(answer.generation, |it| it.generation);
            Event::Observation(ObservationEvent::ExternalDependencySatisfied {
                external_dependency: answer.external_dependency,
                generation,
            })
        };
        Ok(Decision::events(news.map(satisfied).collect()))
    }
}
