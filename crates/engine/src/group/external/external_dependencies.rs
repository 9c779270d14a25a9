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
use std::sync::Arc;

use jiff::SignedDuration;
use rustc_hash::FxHashMap;
use tidemill_derive::Stored;
use tidemill_model::{
    BatchId, Event, ExternalDependency, ExternalDependencyId, ObservationEvent, ShardId, ThirdPartyReport,
    Timestamp, WorkerId,
};

use crate::group::external::needs::Need;
use crate::group::put;

/// Reports that nobody waits for yet, at most so many per shard.
const MAX_KEPT: usize = 100_000;
/// For how long they are kept.
pub(crate) const KEPT_FOR: SignedDuration = SignedDuration::from_hours(400 * 24);
/// Things that one event forgets.
const FORGOTTEN_AT_ONCE: usize = 500;
/// Things of one answer to probers.
pub(super) const MAX_WANTED: usize = 1_000;
/// Of the batches that wait for an external dependency, those looked at to tell whether it is urgent.
pub(super) const LOOKED_AT: usize = 16;
/// Paths that a worker can report as gone at once: a batch has no more inputs.
pub(super) const MAX_RECHECKED: usize = tidemill_model::MAX_NEEDS;

/// The shard's external dependencies.
#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct ExternalDependencies {
    pub(super) by_id: BTreeMap<ExternalDependencyId, Known>,
    pub(super) by_what: FxHashMap<Arc<ExternalDependency>, ExternalDependencyId>,
    /// Paths that are not there and that somebody waits for.
    pub(super) wanted: BTreeSet<ExternalDependencyId>,
    /// Nobody waits for these; they are to be forgotten.
    pub(super) spare: BTreeSet<ExternalDependencyId>,
    /// Reports that nobody waits for, by the time of the report.
    pub(super) kept: BTreeSet<(Timestamp, ExternalDependencyId)>,
    pub(super) minted: u64,
    pub(super) nudges: u64,
    pub(super) nudged_all: u64,
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(super) struct Known {
    pub(super) what: Arc<ExternalDependency>,
    pub(super) generation: u64,
    pub(super) satisfied: bool,
    /// When it came, went, or was first waited for.
    pub(super) since: Timestamp,
    pub(super) nudge: u64,
    pub(super) waiters: BTreeSet<BatchId>,
}

impl ExternalDependencies {
    /// What a new batch waits for, and the events that tell of what was not waited for before.
    pub(in crate::group) fn wanted_by(
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
                let id = ExternalDependencyId::mint(minted, shard);
                fresh.insert(what.clone(), id);
                told.push(registered(id, what));
                id
            });
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        (told, ids)
    }

    pub(in crate::group) fn mint_above(&mut self, counter: u64) {
        self.minted = self.minted.max(counter);
    }

    pub(in crate::group) fn minted(&self) -> u64 {
        self.minted
    }

    /// What a report changes.
    pub(in crate::group) fn reported(&self, shard: ShardId, reports: &[ThirdPartyReport]) -> Vec<Event> {
        let said = |report: &ThirdPartyReport| {
            let (code, logical_time) = (Arc::clone(&report.code), report.logical_time);
            (ExternalDependency::ThirdParty { code, logical_time }, report.ready)
        };
        let last: BTreeMap<ExternalDependency, bool> = reports.iter().map(said).collect();
        let mut minted = self.minted;
        let mut events = Vec::new();
        for (what, ready) in last {
            match self.by_what.get(&what).and_then(|id| Some((*id, self.by_id.get(id)?))) {
                Some((_, known)) if known.satisfied == ready => {}
                Some((id, known)) if ready => events.push(satisfied(id, known.generation)),
                Some((id, known)) => events.push(known.withdrawn(id, None)),
                None if ready => {
                    minted += 1;
                    let id = ExternalDependencyId::mint(minted, shard);
                    events.extend([registered(id, what), satisfied(id, 1)]);
                }
                None => {}
            }
        }
        events
    }

    pub(in crate::group) fn registered(
        &mut self,
        now: Timestamp,
        id: ExternalDependencyId,
        what: &ExternalDependency,
    ) {
        self.minted += 1;
        let what = Arc::new(what.clone());
        self.by_what.insert(Arc::clone(&what), id);
        let waiters = BTreeSet::new();
        let known = Known { what, generation: 1, satisfied: false, since: now, nudge: 0, waiters };
        self.by_id.insert(id, known);
        self.rest(id);
    }

    pub(in crate::group) fn join(&mut self, batch: BatchId, id: ExternalDependencyId) -> Option<Need> {
        let known = self.by_id.get_mut(&id)?;
        known.waiters.insert(batch);
        self.spare.remove(&id);
        self.kept.remove(&(known.since, id));
        if !known.satisfied && known.is_path() {
            self.wanted.insert(id);
        }
        Some(Need { id, met: known.satisfied, waived: false })
    }

    pub(in crate::group) fn leave(&mut self, batch: BatchId, id: ExternalDependencyId) {
        let Some(known) = self.by_id.get_mut(&id) else { return };
        known.waiters.remove(&batch);
        if known.waiters.is_empty() {
            self.wanted.remove(&id);
            self.rest(id);
        }
    }

    /// It came, or went: the batches that this concerns.
    pub(super) fn changed(
        &mut self,
        now: Timestamp,
        id: ExternalDependencyId,
        generation: u64,
        there: bool,
    ) -> BTreeSet<BatchId> {
        let Some(known) = self.by_id.get_mut(&id) else { return BTreeSet::new() };
        self.kept.remove(&(known.since, id));
        (known.satisfied, known.generation, known.since) = (there, generation, now);
        let waiters = known.waiters.clone();
        put(&mut self.wanted, id, !there && !waiters.is_empty() && known.is_path());
        if waiters.is_empty() {
            self.rest(id);
        }
        waiters
    }

    /// Where an external dependency stands that nobody waits for: reports that say *ready* are kept, all else is to be forgotten.
    pub(in crate::group) fn rest(&mut self, id: ExternalDependencyId) {
        let Some(known) = self.by_id.get(&id) else { return };
        if !known.is_path() && known.satisfied {
            self.spare.remove(&id);
            self.kept.insert((known.since, id));
        } else {
            self.kept.remove(&(known.since, id));
            self.spare.insert(id);
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
        let forgotten = self.spare.iter().copied().chain(self.surplus(now)).take(FORGOTTEN_AT_ONCE);
        let external_dependencies = forgotten.collect();
        vec![Event::Observation(ObservationEvent::ExternalDependenciesEvicted { external_dependencies })]
    }

    pub(crate) fn forgotten(&mut self, external_dependencies: &[ExternalDependencyId]) {
        for id in external_dependencies {
            if self.by_id.get(id).is_none_or(|known| !known.waiters.is_empty()) {
                continue;
            }
            let Some(known) = self.by_id.remove(id) else { continue };
            self.by_what.remove(&known.what);
            self.spare.remove(id);
            self.kept.remove(&(known.since, *id));
        }
    }

    pub(super) fn nudge(&self, known: &Known) -> u64 {
        known.nudge.max(self.nudged_all)
    }

    pub(crate) fn what(&self, id: ExternalDependencyId) -> Option<&ExternalDependency> {
        self.by_id.get(&id).map(|known| known.what.as_ref())
    }
}

impl Known {
    /// A third party's report otherwise.
    pub(super) fn is_path(&self) -> bool {
        matches!(*self.what, ExternalDependency::Path { .. })
    }

    pub(in crate::group) fn withdrawn(&self, id: ExternalDependencyId, worker: Option<&WorkerId>) -> Event {
        Event::Observation(ObservationEvent::ExternalDependencyRevoked {
            external_dependency: id,
            generation: self.generation + 1,
            worker: worker.cloned(),
        })
    }
}

fn registered(external_dependency: ExternalDependencyId, what: ExternalDependency) -> Event {
    Event::Observation(ObservationEvent::ExternalDependencyRegistered { external_dependency, what })
}

pub(super) fn satisfied(external_dependency: ExternalDependencyId, generation: u64) -> Event {
    Event::Observation(ObservationEvent::ExternalDependencySatisfied { external_dependency, generation })
}
