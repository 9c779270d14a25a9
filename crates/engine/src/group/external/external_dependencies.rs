//! DEP-1, DEP-2, DEP-6: what batches wait for outside, one record per external dependency whoever waits for it.
//!
//! ```text
//!  ExternalDependencyRegistered ──► wanted ──ExternalDependencySatisfied──► there ──ExternalDependenciesEvicted──► gone
//!                     ▲                         │    (nobody waits; reports of third parties are kept a while)
//!                     └──────ExternalDependencyRevoked─────┘
//! ```
//!
//! *Invariant:* a batch waits for an external dependency from its generation to its end, so that an external dependency which is withdrawn keeps
//! back whatever has not started, a retry too. Which record makes a batch ready follows from the fold: the last one
//! of its generation, its parents' `DependencySatisfied`, its external dependencies' `ExternalDependencySatisfied`, an override, and the quality
//! service's word.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::SignedDuration;
use rustc_hash::FxHashMap;
use tidemill_model::{
    Actor, BatchEvent, BatchId, Condition, DataPath, Event, ExternalDependency, ExternalDependencyId,
    JobDefinition, JobId, LiveAnswer, MAX_ANSWERS, ObservationEvent, PathAnswer, PathCheck, Rejection,
    ReturnReason, ShardId, ThirdPartyReport, Timestamp, Token, WantedExternalDependency, WorkerId,
};

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::external::External;
use crate::schedule::{Facts, resolve_path};

/// Reports that nobody waits for yet, at most so many per shard.
const MAX_KEPT: usize = 100_000;
/// For how long they are kept.
pub(crate) const KEPT_FOR: SignedDuration = SignedDuration::from_hours(400 * 24);
/// Things that one event forgets.
const FORGOTTEN_AT_ONCE: usize = 500;
/// Things of one answer to probers.
const MAX_WANTED: usize = 1_000;
/// Of the batches that wait for an external dependency, those looked at to tell whether it is urgent.
const LOOKED_AT: usize = 16;
/// Paths that a worker can report as gone at once: a batch has no more inputs.
const MAX_RECHECKED: usize = tidemill_model::MAX_NEEDS;

/// The shard's external dependencies.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ExternalDependencies {
    by_id: BTreeMap<ExternalDependencyId, Known>,
    by_what: FxHashMap<Arc<ExternalDependency>, ExternalDependencyId>,
    /// Paths that are not there and that somebody waits for.
    wanted: BTreeSet<ExternalDependencyId>,
    /// Nobody waits for these; they are to be forgotten.
    spare: BTreeSet<ExternalDependencyId>,
    /// Reports that nobody waits for, by the time of the report.
    kept: BTreeSet<(Timestamp, ExternalDependencyId)>,
    minted: u64,
    nudges: u64,
    nudged_all: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    what: Arc<ExternalDependency>,
    generation: u64,
    satisfied: bool,
    /// When it came, went, or was first waited for.
    since: Timestamp,
    nudge: u64,
    waiters: BTreeSet<BatchId>,
}

/// What a batch waits for besides parents. Batches that wait for nothing of the kind have none.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Needs {
    pub(crate) external_dependencies: Box<[Need]>,
    /// Parents' times that it runs without (DEP-7).
    pub(crate) waived: Vec<tidemill_model::WaivedParent>,
    /// When parents' times that it waits for were taken back, of those that are.
    pub(crate) withdrawn: BTreeMap<(JobId, Timestamp), Timestamp>,
    pub(crate) gate: Option<Box<crate::group::external::quality::Gate>>,
}

/// One thing that one batch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) external_dependency: ExternalDependencyId,
    pub(crate) met: bool,
    /// A person lets the batch run without it.
    pub(crate) waived: bool,
}

impl Need {
    pub(crate) fn is_unmet(self) -> bool {
        !self.met && !self.waived
    }
}

impl ExternalDependencies {
    /// What a new batch waits for, and the events that tell of what was not waited for before.
    fn wanted_by(
        &self,
        shard: ShardId,
        wanted: Vec<ExternalDependency>,
    ) -> (Vec<Event>, Vec<ExternalDependencyId>) {
        let (mut told, mut ids) = (Vec::new(), Vec::new());
        let mut minted = self.minted;
        let mut fresh: BTreeMap<ExternalDependency, ExternalDependencyId> = BTreeMap::new();
        for what in wanted {
            let known = self.by_what.get(&what).or_else(|| fresh.get(&what)).copied();
            let id = known.unwrap_or_else(|| {
                minted += 1;
                let external_dependency = ExternalDependencyId::mint(minted, shard);
                fresh.insert(what.clone(), external_dependency);
                told.push(Event::Observation(ObservationEvent::ExternalDependencyRegistered {
                    external_dependency,
                    what,
                }));
                external_dependency
            });
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        (told, ids)
    }

    /// What a report changes.
    fn reported(&self, shard: ShardId, reports: &[ThirdPartyReport]) -> Vec<Event> {
        let last: BTreeMap<ExternalDependency, bool> = reports
            .iter()
            .map(|report| {
                let (code, logical_time) = (Arc::clone(&report.code), report.logical_time);
                (ExternalDependency::ThirdParty { code, logical_time }, report.ready)
            })
            .collect();
        let mut minted = self.minted;
        let mut events = Vec::new();
        for (what, ready) in last {
            match self.by_what.get(&what).and_then(|id| Some((*id, self.by_id.get(id)?))) {
                Some((_, known)) if known.satisfied == ready => {}
                Some((external_dependency, known)) if ready => {
                    events.push(Event::Observation(ObservationEvent::ExternalDependencySatisfied {
                        external_dependency,
                        generation: known.generation,
                    }));
                }
                Some((external_dependency, known)) => events.push(known.withdrawn(external_dependency, None)),
                None if ready => {
                    minted += 1;
                    let external_dependency = ExternalDependencyId::mint(minted, shard);
                    events.push(Event::Observation(ObservationEvent::ExternalDependencyRegistered {
                        external_dependency,
                        what,
                    }));
                    events.push(Event::Observation(ObservationEvent::ExternalDependencySatisfied {
                        external_dependency,
                        generation: 1,
                    }));
                }
                None => {}
            }
        }
        events
    }

    fn join(&mut self, batch: BatchId, external_dependency: ExternalDependencyId) -> Option<Need> {
        let known = self.by_id.get_mut(&external_dependency)?;
        known.waiters.insert(batch);
        self.spare.remove(&external_dependency);
        self.kept.remove(&(known.since, external_dependency));
        if !known.satisfied && matches!(*known.what, ExternalDependency::Path { .. }) {
            self.wanted.insert(external_dependency);
        }
        Some(Need { external_dependency, met: known.satisfied, waived: false })
    }

    fn leave(&mut self, batch: BatchId, external_dependency: ExternalDependencyId) {
        let Some(known) = self.by_id.get_mut(&external_dependency) else { return };
        known.waiters.remove(&batch);
        if known.waiters.is_empty() {
            self.wanted.remove(&external_dependency);
            self.rest(external_dependency);
        }
    }

    /// Where an external dependency stands that nobody waits for: reports that say *ready* are kept, all else is to be forgotten.
    fn rest(&mut self, external_dependency: ExternalDependencyId) {
        let Some(known) = self.by_id.get(&external_dependency) else { return };
        let is_report = matches!(*known.what, ExternalDependency::ThirdParty { .. });
        if is_report && known.satisfied {
            self.spare.remove(&external_dependency);
            self.kept.insert((known.since, external_dependency));
        } else {
            self.kept.remove(&(known.since, external_dependency));
            self.spare.insert(external_dependency);
        }
    }

    /// Whether something is to be forgotten.
    pub(crate) fn has_surplus(&self, now: Timestamp) -> bool {
        !self.spare.is_empty() || self.surplus(now).next().is_some()
    }

    /// Kept reports that are too many or too old, oldest first.
    fn surplus(&self, now: Timestamp) -> impl Iterator<Item = ExternalDependencyId> + '_ {
        let too_many = self.kept.len().saturating_sub(MAX_KEPT);
        let cutoff = now.saturating_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
        let oldest = self.kept.iter().enumerate();
        oldest.take_while(move |(index, (at, _))| *index < too_many || *at < cutoff).map(|(_, (_, id))| *id)
    }

    pub(crate) fn forget(&self, now: Timestamp) -> Vec<Event> {
        let external_dependencies =
            self.spare.iter().copied().chain(self.surplus(now)).take(FORGOTTEN_AT_ONCE);
        vec![Event::Observation(ObservationEvent::ExternalDependenciesEvicted {
            external_dependencies: external_dependencies.collect(),
        })]
    }

    fn forgotten(&mut self, external_dependencies: &[ExternalDependencyId]) {
        for external_dependency in external_dependencies {
            if self.by_id.get(external_dependency).is_none_or(|known| !known.waiters.is_empty()) {
                continue;
            }
            let Some(known) = self.by_id.remove(external_dependency) else { continue };
            self.by_what.remove(&known.what);
            self.spare.remove(external_dependency);
            self.kept.remove(&(known.since, *external_dependency));
        }
    }

    fn nudge(&self, known: &Known) -> u64 {
        known.nudge.max(self.nudged_all)
    }

    pub(crate) fn what(&self, external_dependency: ExternalDependencyId) -> Option<&ExternalDependency> {
        self.by_id.get(&external_dependency).map(|known| known.what.as_ref())
    }
}

impl Known {
    fn withdrawn(&self, external_dependency: ExternalDependencyId, worker: Option<&WorkerId>) -> Event {
        Event::Observation(ObservationEvent::ExternalDependencyRevoked {
            external_dependency,
            generation: self.generation + 1,
            worker: worker.cloned(),
        })
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

    /// The paths that a worker looks at before it starts the batch.
    pub(crate) fn checks_of(&self, batch: &Batch) -> Vec<PathCheck> {
        let held = batch.external_dependencies().iter().filter(|need| !need.waived);
        held.filter_map(|need| match self.external_dependencies.what(need.external_dependency)? {
            ExternalDependency::Path { path, mark } => Some(PathCheck {
                external_dependency: need.external_dependency,
                path: Arc::clone(path),
                mark: mark.clone(),
            }),
            ExternalDependency::ThirdParty { .. } => None,
        })
        .collect()
    }

    /// DEP-8: the external dependencies that keep a batch back.
    pub(crate) fn unmet_external_dependencies(&self, batch: &Batch) -> Vec<Condition> {
        let unmet = batch.external_dependencies().iter().filter(|need| need.is_unmet());
        unmet
            .filter_map(|need| {
                let known = self.external_dependencies.by_id.get(&need.external_dependency)?;
                let (kind, message, logical_time) = match known.what.as_ref() {
                    what @ ExternalDependency::Path { .. } => ("path", format!("{what} is not there"), None),
                    what @ ExternalDependency::ThirdParty { logical_time, .. } => {
                        ("third_party", format!("{what} is not reported ready"), Some(*logical_time))
                    }
                };
                let since = Some(known.since.max(batch.generated));
                Some(Condition {
                    kind: kind.to_owned(),
                    message,
                    since,
                    job: None,
                    logical_time,
                    pools: Vec::new(),
                })
            })
            .collect()
    }

    fn external_dependency_registered(
        &mut self,
        now: Timestamp,
        external_dependency: ExternalDependencyId,
        what: &ExternalDependency,
    ) {
        let external_dependencies = &mut self.external_dependencies;
        external_dependencies.minted += 1;
        let what = Arc::new(what.clone());
        external_dependencies.by_what.insert(Arc::clone(&what), external_dependency);
        let waiters = BTreeSet::new();
        let known = Known { what, generation: 1, satisfied: false, since: now, nudge: 0, waiters };
        external_dependencies.by_id.insert(external_dependency, known);
        external_dependencies.rest(external_dependency);
    }

    /// From its generation on the batch waits for these.
    pub(crate) fn join_external_dependencies(
        &mut self,
        id: BatchId,
        external_dependencies: &[ExternalDependencyId],
    ) -> Box<[Need]> {
        external_dependencies
            .iter()
            .filter_map(|external_dependency| self.external_dependencies.join(id, *external_dependency))
            .collect()
    }

    /// The batch has ended, and waits for nothing.
    pub(crate) fn leave_external_dependencies(&mut self, id: BatchId, batch: &Batch) {
        for need in batch.external_dependencies() {
            self.external_dependencies.leave(id, need.external_dependency);
        }
    }
}

impl GroupShard {
    /// What a batch of `job` waits for outside, and the events that go before its generation.
    pub(crate) fn external_dependencies_of(
        &self,
        definition: &JobDefinition,
        facts: &Facts<'_>,
        own: &Parameters,
    ) -> (Vec<Event>, Vec<ExternalDependencyId>) {
        let spec = &definition.spec;
        if spec.inputs.is_empty() && spec.third_party.is_empty() {
            return Default::default();
        }
        let zone = self.zone_of(definition);
        let paths = spec.inputs.iter().map(|input| ExternalDependency::Path {
            path: resolve_path(input.path(), definition, own, facts, &zone).into(),
            mark: input.mark().map(Arc::from),
        });
        let reports = spec.third_party.iter().map(|code| ExternalDependency::ThirdParty {
            code: code.as_str().into(),
            logical_time: facts.logical_time,
        });
        self.external.external_dependencies.wanted_by(self.id, paths.chain(reports).collect())
    }

    /// GEN-1: the paths that a new batch makes, each once.
    pub(crate) fn outputs_of(
        &self,
        definition: &JobDefinition,
        facts: &Facts<'_>,
        own: &Parameters,
    ) -> Vec<DataPath> {
        let written = &definition.spec.outputs;
        if written.is_empty() {
            return Vec::new();
        }
        let zone = self.zone_of(definition);
        let mut outputs: Vec<DataPath> = Vec::with_capacity(written.len());
        for output in written {
            let path = resolve_path(output.path(), definition, own, facts, &zone);
            let output = DataPath { path, ..DataPath::from(output) };
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        outputs
    }

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
        let stale = |reason| Rejection::StaleToken { token: token.0, reason };
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
        let (worker, reason) = (worker.clone(), ReturnReason::Rejected(reason));
        events.push(Event::Batch(BatchEvent::AssignmentReturned { batch: id, token, worker, reason }));
        Ok(Decision::events(events))
    }

    /// DEP-9: probe at once what the batch waits for, or everything.
    pub(crate) fn probe_now(&self, batch: Option<BatchId>, by: &Actor) -> Result<Decision, Rejection> {
        if let Some(id) = batch {
            let known = self.unfinished(id)?;
            let mut paths = known.external_dependencies().iter().filter(|need| need.is_unmet());
            if !paths.any(|need| {
                matches!(
                    self.external.external_dependencies.what(need.external_dependency),
                    Some(ExternalDependency::Path { .. })
                )
            }) {
                let reason = "none of its paths is missing".to_owned();
                return Err(Rejection::NotWaitedFor { batch: id.0, reason });
            }
        }
        Ok(Decision::events(vec![Event::Observation(ObservationEvent::ProbesRequested {
            batch,
            by: by.clone(),
        })]))
    }

    /// What probers are to ask.
    pub(crate) fn wanted_external_dependencies(
        &self,
        after: Option<ExternalDependencyId>,
        limit: u32,
    ) -> LiveAnswer {
        let limit = (limit as usize).clamp(1, MAX_WANTED);
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut wanted =
            self.external.external_dependencies.wanted.range((behind, Bound::Unbounded)).peekable();
        let mut external_dependencies = Vec::new();
        while let Some(id) = wanted.peek().filter(|_| external_dependencies.len() < limit) {
            external_dependencies.extend(self.wanted_external_dependency(**id));
            wanted.next();
        }
        LiveAnswer::Wanted { external_dependencies, more: wanted.peek().is_some() }
    }

    fn wanted_external_dependency(&self, id: ExternalDependencyId) -> Option<WantedExternalDependency> {
        let known = self.external.external_dependencies.by_id.get(&id)?;
        let ExternalDependency::Path { path, mark } = known.what.as_ref() else { return None };
        let is_last = |batch: &Batch| {
            let unmet = batch.external_dependencies().iter().filter(|need| need.is_unmet()).count();
            batch.phase == Phase::Waiting && batch.unmet() == 0 && unmet == 1
        };
        let urgent = known.waiters.iter().take(LOOKED_AT).filter_map(|id| self.batches.get(id)).any(is_last);
        let (path, mark, nudge) =
            (Arc::clone(path), mark.clone(), self.external.external_dependencies.nudge(known));
        Some(WantedExternalDependency { id, generation: known.generation, path, mark, urgent, nudge })
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

    fn probes_requested(&mut self, batch: Option<BatchId>) {
        self.external.external_dependencies.nudges += 1;
        let nudge = self.external.external_dependencies.nudges;
        let Some(id) = batch else {
            self.external.external_dependencies.nudged_all = nudge;
            return;
        };
        for need in self.batches.get(&id).map(Batch::external_dependencies).unwrap_or_default() {
            if let Some(known) = self
                .external
                .external_dependencies
                .by_id
                .get_mut(&need.external_dependency)
                .filter(|_| need.is_unmet())
            {
                known.nudge = nudge;
            }
        }
    }
}

/// A batch's own parameters.
pub(crate) type Parameters = BTreeMap<String, String>;
