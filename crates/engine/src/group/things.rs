//! DEP-1, DEP-2, DEP-6: what batches wait for outside, one record per thing whoever waits for it.
//!
//! ```text
//!  ThingWaited ──► wanted ──ThingSatisfied──► there ──ThingsForgotten──► gone
//!                     ▲                         │    (nobody waits; reports of third parties are kept a while)
//!                     └──────ThingWithdrawn─────┘
//! ```
//!
//! *Invariant:* a batch waits for a thing from its generation to its end, so that a thing which is withdrawn keeps
//! back whatever has not started, a retry too. Which record makes a batch ready follows from the fold: the last one
//! of its generation, its parents' `DependencySatisfied`, its things' `ThingSatisfied`, an override, and the quality
//! service's word.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::SignedDuration;
use rustc_hash::FxHashMap;
use tidemill_model::{
    Actor, BatchId, Condition, DataPath, Event, JobDefinition, JobId, LiveAnswer, MAX_ANSWERS, PathAnswer,
    PathCheck, Rejection, ReturnReason, ShardId, Thing, ThingId, ThirdPartyReport, Timestamp, Token,
    WantedThing, WorkerId,
};

use super::GroupShard;
use super::batch::{Batch, Phase};
use crate::decision::Decision;
use crate::schedule::{Facts, resolve_path};

/// Reports that nobody waits for yet, at most so many per shard.
const MAX_KEPT: usize = 100_000;
/// For how long they are kept.
pub(crate) const KEPT_FOR: SignedDuration = SignedDuration::from_hours(400 * 24);
/// Things that one event forgets.
const FORGOTTEN_AT_ONCE: usize = 500;
/// Things of one answer to probers.
const MAX_WANTED: usize = 1_000;
/// Of the batches that wait for a thing, those looked at to tell whether it is urgent.
const LOOKED_AT: usize = 16;
/// Paths that a worker can report as gone at once: a batch has no more inputs.
const MAX_RECHECKED: usize = tidemill_model::MAX_NEEDS;

/// The shard's things.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Things {
    by_id: BTreeMap<ThingId, Known>,
    by_what: FxHashMap<Arc<Thing>, ThingId>,
    /// Paths that are not there and that somebody waits for.
    wanted: BTreeSet<ThingId>,
    /// Nobody waits for these; they are to be forgotten.
    spare: BTreeSet<ThingId>,
    /// Reports that nobody waits for, by the time of the report.
    kept: BTreeSet<(Timestamp, ThingId)>,
    minted: u64,
    nudges: u64,
    nudged_all: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    what: Arc<Thing>,
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
    pub(crate) things: Box<[Need]>,
    /// Parents' times that it runs without (DEP-7).
    pub(crate) waived: Vec<tidemill_model::WaivedParent>,
    /// When parents' times that it waits for were taken back, of those that are.
    pub(crate) withdrawn: BTreeMap<(JobId, Timestamp), Timestamp>,
    pub(crate) gate: Option<Box<super::quality::Gate>>,
}

/// One thing that one batch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) thing: ThingId,
    pub(crate) met: bool,
    /// A person lets the batch run without it.
    pub(crate) waived: bool,
}

impl Need {
    pub(crate) fn is_unmet(self) -> bool {
        !self.met && !self.waived
    }
}

impl Things {
    /// What a new batch waits for, and the events that tell of what was not waited for before.
    fn wanted_by(&self, shard: ShardId, wanted: Vec<Thing>) -> (Vec<Event>, Vec<ThingId>) {
        let (mut told, mut ids) = (Vec::new(), Vec::new());
        let mut minted = self.minted;
        let mut fresh: BTreeMap<Thing, ThingId> = BTreeMap::new();
        for what in wanted {
            let known = self.by_what.get(&what).or_else(|| fresh.get(&what)).copied();
            let id = known.unwrap_or_else(|| {
                minted += 1;
                let thing = ThingId::mint(minted, shard);
                fresh.insert(what.clone(), thing);
                told.push(Event::ThingWaited { thing, what });
                thing
            });
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        (told, ids)
    }

    /// What a report changes.
    fn reported(&self, shard: ShardId, reports: &[ThirdPartyReport]) -> Vec<Event> {
        let last: BTreeMap<Thing, bool> = reports
            .iter()
            .map(|report| {
                let (code, logical_time) = (Arc::clone(&report.code), report.logical_time);
                (Thing::ThirdParty { code, logical_time }, report.ready)
            })
            .collect();
        let mut minted = self.minted;
        let mut events = Vec::new();
        for (what, ready) in last {
            match self.by_what.get(&what).and_then(|id| Some((*id, self.by_id.get(id)?))) {
                Some((_, known)) if known.satisfied == ready => {}
                Some((thing, known)) if ready => {
                    events.push(Event::ThingSatisfied { thing, generation: known.generation });
                }
                Some((thing, known)) => events.push(known.withdrawn(thing, None)),
                None if ready => {
                    minted += 1;
                    let thing = ThingId::mint(minted, shard);
                    events.push(Event::ThingWaited { thing, what });
                    events.push(Event::ThingSatisfied { thing, generation: 1 });
                }
                None => {}
            }
        }
        events
    }

    fn join(&mut self, batch: BatchId, thing: ThingId) -> Option<Need> {
        let known = self.by_id.get_mut(&thing)?;
        known.waiters.insert(batch);
        self.spare.remove(&thing);
        self.kept.remove(&(known.since, thing));
        if !known.satisfied && matches!(*known.what, Thing::Path { .. }) {
            self.wanted.insert(thing);
        }
        Some(Need { thing, met: known.satisfied, waived: false })
    }

    fn leave(&mut self, batch: BatchId, thing: ThingId) {
        let Some(known) = self.by_id.get_mut(&thing) else { return };
        known.waiters.remove(&batch);
        if known.waiters.is_empty() {
            self.wanted.remove(&thing);
            self.rest(thing);
        }
    }

    /// Where a thing stands that nobody waits for: reports that say *ready* are kept, all else is to be forgotten.
    fn rest(&mut self, thing: ThingId) {
        let Some(known) = self.by_id.get(&thing) else { return };
        let is_report = matches!(*known.what, Thing::ThirdParty { .. });
        if is_report && known.satisfied {
            self.spare.remove(&thing);
            self.kept.insert((known.since, thing));
        } else {
            self.kept.remove(&(known.since, thing));
            self.spare.insert(thing);
        }
    }

    /// Whether something is to be forgotten.
    pub(crate) fn has_surplus(&self, now: Timestamp) -> bool {
        !self.spare.is_empty() || self.surplus(now).next().is_some()
    }

    /// Kept reports that are too many or too old, oldest first.
    fn surplus(&self, now: Timestamp) -> impl Iterator<Item = ThingId> + '_ {
        let too_many = self.kept.len().saturating_sub(MAX_KEPT);
        let cutoff = now.saturating_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
        let oldest = self.kept.iter().enumerate();
        oldest.take_while(move |(index, (at, _))| *index < too_many || *at < cutoff).map(|(_, (_, id))| *id)
    }

    pub(crate) fn forget(&self, now: Timestamp) -> Vec<Event> {
        let things = self.spare.iter().copied().chain(self.surplus(now)).take(FORGOTTEN_AT_ONCE);
        vec![Event::ThingsForgotten { things: things.collect() }]
    }

    fn forgotten(&mut self, things: &[ThingId]) {
        for thing in things {
            if self.by_id.get(thing).is_none_or(|known| !known.waiters.is_empty()) {
                continue;
            }
            let Some(known) = self.by_id.remove(thing) else { continue };
            self.by_what.remove(&known.what);
            self.spare.remove(thing);
            self.kept.remove(&(known.since, *thing));
        }
    }

    fn nudge(&self, known: &Known) -> u64 {
        known.nudge.max(self.nudged_all)
    }

    pub(crate) fn what(&self, thing: ThingId) -> Option<&Thing> {
        self.by_id.get(&thing).map(|known| known.what.as_ref())
    }
}

impl Known {
    fn withdrawn(&self, thing: ThingId, worker: Option<&WorkerId>) -> Event {
        Event::ThingWithdrawn { thing, generation: self.generation + 1, worker: worker.cloned() }
    }
}

impl GroupShard {
    /// What a batch of `job` waits for outside, and the events that go before its generation.
    pub(crate) fn things_of(
        &self,
        definition: &JobDefinition,
        facts: &Facts<'_>,
        own: &Parameters,
    ) -> (Vec<Event>, Vec<ThingId>) {
        let Some(data) = &definition.data else { return Default::default() };
        if data.inputs.is_empty() && data.third_party.is_empty() {
            return Default::default();
        }
        let zone = self.zone_of(definition);
        let paths = data.inputs.iter().map(|input| Thing::Path {
            path: resolve_path(&input.path, definition, own, facts, &zone).into(),
            mark: input.mark.as_deref().map(Arc::from),
        });
        let reports = data
            .third_party
            .iter()
            .map(|code| Thing::ThirdParty { code: Arc::clone(code), logical_time: facts.logical_time });
        self.things.wanted_by(self.id, paths.chain(reports).collect())
    }

    /// GEN-1: the paths that a new batch makes, each once.
    pub(crate) fn outputs_of(
        &self,
        definition: &JobDefinition,
        facts: &Facts<'_>,
        own: &Parameters,
    ) -> Vec<DataPath> {
        let written = definition.data.as_ref().map_or(&[][..], |data| &data.outputs);
        if written.is_empty() {
            return Vec::new();
        }
        let zone = self.zone_of(definition);
        let mut outputs: Vec<DataPath> = Vec::with_capacity(written.len());
        for output in written {
            let path = resolve_path(&output.path, definition, own, facts, &zone);
            let output = DataPath { path, mark: output.mark.clone() };
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        outputs
    }

    /// DEP-1: what probers found. Answers of an older generation, and those that change nothing, are ignored; a
    /// path that was there stays so until a worker finds it gone.
    pub(crate) fn report_paths(&self, answers: &[PathAnswer]) -> Result<Decision, Rejection> {
        if answers.len() > MAX_ANSWERS {
            let rule = format!("must be at most {MAX_ANSWERS} in one report");
            return Err(Rejection::field("answers", answers.len(), rule));
        }
        let mut seen = BTreeSet::new();
        let news = answers.iter().filter(|answer| {
            let known = self.things.by_id.get(&answer.thing);
            let is_news = known.is_some_and(|known| {
                let is_path = matches!(*known.what, Thing::Path { .. });
                let is_current = known.generation == answer.generation;
                is_path && answer.exists && !known.satisfied && is_current
            });
            is_news && seen.insert(answer.thing)
        });
        let satisfied = |answer: &PathAnswer| {
            let generation =
                self.things.by_id.get(&answer.thing).map_or(answer.generation, |it| it.generation);
            Event::ThingSatisfied { thing: answer.thing, generation }
        };
        Ok(Decision::events(news.map(satisfied).collect()))
    }

    pub(crate) fn third_party_reported(&self, reports: &[ThirdPartyReport]) -> Vec<Event> {
        self.things.reported(self.id, reports)
    }

    /// DEP-6: what the worker did not find is gone for all that wait for it; the batch waits again.
    pub(crate) fn recheck_failed(
        &self,
        token: Token,
        worker: &WorkerId,
        gone: &[ThingId],
    ) -> Result<Decision, Rejection> {
        let stale = |reason| Rejection::StaleToken { token: token.0, reason };
        let (id, batch) = self.holding(token, worker).map_err(stale)?;
        if batch.grant().is_some() {
            return Err(stale("it was granted; its end must be reported".to_owned()));
        }
        let named: BTreeSet<ThingId> = gone.iter().take(MAX_RECHECKED).copied().collect();
        let needed = batch.things().iter().filter(|need| !need.waived && named.contains(&need.thing));
        let needed: Vec<(ThingId, &Known)> = needed
            .filter_map(|need| Some((need.thing, self.things.by_id.get(&need.thing)?)))
            .filter(|(_, known)| matches!(*known.what, Thing::Path { .. }))
            .collect();
        let first = needed.first().map(|(_, known)| known.what.to_string());
        let reason = first.map_or_else(
            || "its worker missed something that it does not wait for".to_owned(),
            |first| format!("{} not there before start, {first}", needed.len()),
        );
        let there = needed.into_iter().filter(|(_, known)| known.satisfied);
        let mut events: Vec<Event> =
            there.map(|(thing, known)| known.withdrawn(thing, Some(worker))).collect();
        let (worker, reason) = (worker.clone(), ReturnReason::Rejected(reason));
        events.push(Event::AssignmentReturned { batch: id, token, worker, reason });
        Ok(Decision::events(events))
    }

    /// DEP-9: probe at once what the batch waits for, or everything.
    pub(crate) fn check_now(&self, batch: Option<BatchId>, by: &Actor) -> Result<Decision, Rejection> {
        if let Some(id) = batch {
            let known = self.unfinished(id)?;
            let mut paths = known.things().iter().filter(|need| need.is_unmet());
            if !paths.any(|need| matches!(self.things.what(need.thing), Some(Thing::Path { .. }))) {
                let reason = "none of its paths is missing".to_owned();
                return Err(Rejection::NotWaitedFor { batch: id.0, reason });
            }
        }
        Ok(Decision::events(vec![Event::ChecksRequested { batch, by: by.clone() }]))
    }

    /// The paths that a worker looks at before it starts the batch.
    pub(crate) fn checks_of(&self, batch: &Batch) -> Vec<PathCheck> {
        let held = batch.things().iter().filter(|need| !need.waived);
        held.filter_map(|need| match self.things.what(need.thing)? {
            Thing::Path { path, mark } => {
                Some(PathCheck { thing: need.thing, path: Arc::clone(path), mark: mark.clone() })
            }
            Thing::ThirdParty { .. } => None,
        })
        .collect()
    }

    /// What probers are to ask.
    pub(crate) fn wanted_things(&self, after: Option<ThingId>, limit: u32) -> LiveAnswer {
        let limit = (limit as usize).clamp(1, MAX_WANTED);
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut wanted = self.things.wanted.range((behind, Bound::Unbounded)).peekable();
        let mut things = Vec::new();
        while let Some(id) = wanted.peek().filter(|_| things.len() < limit) {
            things.extend(self.wanted_thing(**id));
            wanted.next();
        }
        LiveAnswer::Wanted { things, more: wanted.peek().is_some() }
    }

    fn wanted_thing(&self, id: ThingId) -> Option<WantedThing> {
        let known = self.things.by_id.get(&id)?;
        let Thing::Path { path, mark } = known.what.as_ref() else { return None };
        let is_last = |batch: &Batch| {
            let unmet = batch.things().iter().filter(|need| need.is_unmet()).count();
            batch.phase == Phase::Waiting && batch.unmet() == 0 && unmet == 1
        };
        let urgent = known.waiters.iter().take(LOOKED_AT).filter_map(|id| self.batches.get(id)).any(is_last);
        let (path, mark, nudge) = (Arc::clone(path), mark.clone(), self.things.nudge(known));
        Some(WantedThing { id, generation: known.generation, path, mark, urgent, nudge })
    }

    /// DEP-8: the things that keep a batch back.
    pub(crate) fn unmet_things(&self, batch: &Batch) -> Vec<Condition> {
        let unmet = batch.things().iter().filter(|need| need.is_unmet());
        unmet
            .filter_map(|need| {
                let known = self.things.by_id.get(&need.thing)?;
                let (kind, message, logical_time) = match known.what.as_ref() {
                    what @ Thing::Path { .. } => ("path", format!("{what} is not there"), None),
                    what @ Thing::ThirdParty { logical_time, .. } => {
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

    /// Folds what concerns a thing.
    pub(crate) fn fold_things(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::ThingWaited { thing, what } => self.thing_waited(now, *thing, what),
            Event::ThingSatisfied { thing, generation } => {
                self.thing_changed(now, *thing, *generation, true);
            }
            Event::ThingWithdrawn { thing, generation, .. } => {
                self.thing_changed(now, *thing, *generation, false);
            }
            Event::ThingsForgotten { things } => self.things.forgotten(things),
            Event::ChecksRequested { batch, .. } => self.checks_requested(*batch),
            other => unreachable!("{} concerns no thing", other.kind()),
        }
    }

    fn thing_waited(&mut self, now: Timestamp, thing: ThingId, what: &Thing) {
        let things = &mut self.things;
        things.minted += 1;
        let what = Arc::new(what.clone());
        things.by_what.insert(Arc::clone(&what), thing);
        let waiters = BTreeSet::new();
        let known = Known { what, generation: 1, satisfied: false, since: now, nudge: 0, waiters };
        things.by_id.insert(thing, known);
        things.rest(thing);
    }

    fn thing_changed(&mut self, now: Timestamp, thing: ThingId, generation: u64, there: bool) {
        let Some(known) = self.things.by_id.get_mut(&thing) else { return };
        self.things.kept.remove(&(known.since, thing));
        known.satisfied = there;
        known.generation = generation;
        known.since = now;
        let waiters = std::mem::take(&mut known.waiters);
        let is_wanted = !there && !waiters.is_empty() && matches!(*known.what, Thing::Path { .. });
        if is_wanted {
            self.things.wanted.insert(thing);
        } else {
            self.things.wanted.remove(&thing);
        }
        for id in &waiters {
            self.need_changed(now, *id, thing, there);
        }
        let is_spare = waiters.is_empty();
        if let Some(known) = self.things.by_id.get_mut(&thing) {
            known.waiters = waiters;
        }
        if is_spare {
            self.things.rest(thing);
        }
    }

    fn need_changed(&mut self, now: Timestamp, id: BatchId, thing: ThingId, there: bool) {
        let needs = self.batches.get_mut(&id).and_then(|batch| batch.needs.as_deref_mut());
        let needs = needs.into_iter().flat_map(|needs| needs.things.iter_mut());
        for need in needs.filter(|need| need.thing == thing) {
            need.met = there;
        }
        if there {
            self.make_ready(now, id);
        } else {
            self.make_unready(now, id);
        }
    }

    fn checks_requested(&mut self, batch: Option<BatchId>) {
        self.things.nudges += 1;
        let nudge = self.things.nudges;
        let Some(id) = batch else {
            self.things.nudged_all = nudge;
            return;
        };
        for need in self.batches.get(&id).map(Batch::things).unwrap_or_default() {
            if let Some(known) = self.things.by_id.get_mut(&need.thing).filter(|_| need.is_unmet()) {
                known.nudge = nudge;
            }
        }
    }

    /// From its generation on the batch waits for these.
    pub(crate) fn join_things(&mut self, id: BatchId, things: &[ThingId]) -> Box<[Need]> {
        things.iter().filter_map(|thing| self.things.join(id, *thing)).collect()
    }

    /// The batch has ended, and waits for nothing.
    pub(crate) fn leave_things(&mut self, id: BatchId, batch: &Batch) {
        for need in batch.things() {
            self.things.leave(id, need.thing);
        }
    }
}

/// A batch's own parameters.
pub(crate) type Parameters = BTreeMap<String, String>;
