//! What batches wait for outside: external dependencies that come and go, the quality service's word, and what a person waives.

use std::collections::{BTreeSet, HashMap};

use tidemill_model::{
    BatchEvent, BatchId, ExternalDependency, ExternalDependencyId, ObservationEvent, ShardId, Timestamp,
    WaivedParent,
};

use super::Shard;
use super::batch::{Batch, Phase, Waits};
use crate::{At, Invariant};

const RULE: Invariant = Invariant::ExternalDependenciesComeAndGoInTurn;
const QUALITY: Invariant = Invariant::QualityAskedInTurn;

#[derive(Debug, Default)]
pub(super) struct ExternalDependencies {
    known: HashMap<ExternalDependencyId, Known>,
    numbers: HashMap<ExternalDependency, ExternalDependencyId>,
    last: i64,
}

#[derive(Debug)]
struct Known {
    what: ExternalDependency,
    generation: u64,
    there: bool,
    waiters: BTreeSet<BatchId>,
    said: u64,
}

/// What one batch waits for besides parents.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) external_dependencies: Vec<ExternalDependencyId>,
    /// Things and parents that a person lets it run without.
    waived: BTreeSet<ExternalDependencyId>,
    pub(super) waived_parents: Vec<WaivedParent>,
    gate: Option<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    number: u32,
    taken: bool,
    again_at: Option<Timestamp>,
    allowed: Option<bool>,
    waived: bool,
}

impl Needs {
    /// Whether it waits, or waited, for anything besides parents.
    pub(super) fn has_any(&self) -> bool {
        !self.external_dependencies.is_empty() || self.gate.is_some()
    }
}

impl Gate {
    fn is_open(&self) -> bool {
        self.waived || self.allowed == Some(true)
    }
}

impl ExternalDependencies {
    fn registered(
        &mut self,
        at: &At<'_>,
        (id, shard): (ExternalDependencyId, ShardId),
        what: &ExternalDependency,
    ) {
        if id.0 <= self.last || id.shard() != shard {
            let last = self.last;
            let why = format!("external dependency {id} is minted after external dependency {last}");
            at.breaks(Invariant::MintedIdsGrow, why);
        }
        self.last = self.last.max(id.0);
        if let Some(other) = self.numbers.insert(what.clone(), id) {
            let said = self.known.get(&other).map(|known| known.said);
            let why =
                format!("{what} is external dependency {id}, and is external dependency {other} already");
            at.contradicts(RULE, why, said.as_slice());
        }
        let (what, waiters) = (what.clone(), BTreeSet::new());
        self.known.insert(id, Known { what, generation: 1, there: false, waiters, said: at.offset });
    }

    fn changed(&mut self, at: &At<'_>, id: ExternalDependencyId, (generation, there): (u64, bool)) {
        let Some(known) = self.known.get_mut(&id) else {
            return at.breaks(RULE, format!("external dependency {id} changes, and was told by nobody"));
        };
        let expected = known.generation + u64::from(!there);
        if known.there == there {
            let why = format!("{} is said to {} twice", known.what, if there { "come" } else { "go" });
            at.contradicts(RULE, why, &[known.said]);
        } else if generation != expected {
            let why = format!("{} is of generation {generation}, and must be of {expected}", known.what);
            at.contradicts(RULE, why, &[known.said]);
        }
        (known.there, known.generation, known.said) = (there, generation, at.offset);
    }

    fn forgotten(&mut self, at: &At<'_>, id: ExternalDependencyId) {
        let Some(known) = self.known.remove(&id) else {
            let why = format!("external dependency {id} is forgotten, and was told by nobody");
            return at.breaks(RULE, why);
        };
        self.numbers.remove(&known.what);
        if let Some(batch) = known.waiters.first() {
            let why = format!("{} is forgotten, though batch {batch} waits for it", known.what);
            at.contradicts(RULE, why, &[known.said]);
        }
    }
}

impl Shard {
    /// A new batch waits for these; each was told of before.
    pub(super) fn needs_of(
        &mut self,
        at: &At<'_>,
        batch: BatchId,
        external_dependencies: &[ExternalDependencyId],
        quality_gate: bool,
    ) -> Needs {
        for id in external_dependencies {
            if let Some(known) = self.external_dependencies.known.get_mut(id) {
                known.waiters.insert(batch);
            } else {
                at.breaks(RULE, format!("batch {batch} waits for external dependency {id}, told by nobody"));
            }
        }
        let gate = quality_gate.then(Gate::default);
        Needs { external_dependencies: external_dependencies.to_vec(), gate, ..Needs::default() }
    }

    /// The batch has ended.
    pub(super) fn leaves_external_dependencies(&mut self, id: BatchId) {
        let Some(batch) = self.batches.get(&id) else { return };
        for left in &batch.needs.external_dependencies {
            if let Some(known) = self.external_dependencies.known.get_mut(left) {
                known.waiters.remove(&id);
            }
        }
    }

    /// `external_dependencies_come_and_go_in_turn`
    pub(super) fn external_dependency_event(&mut self, at: &At<'_>, event: &ObservationEvent) {
        let known = &mut self.external_dependencies;
        match event {
            ObservationEvent::ExternalDependencyRegistered { external_dependency: id, what } => {
                known.registered(at, (*id, self.id), what);
            }
            ObservationEvent::ExternalDependencySatisfied { external_dependency: id, generation } => {
                known.changed(at, *id, (*generation, true));
            }
            ObservationEvent::ExternalDependencyRevoked { external_dependency: id, generation, .. } => {
                known.changed(at, *id, (*generation, false));
            }
            ObservationEvent::ExternalDependenciesEvicted { external_dependencies } => {
                external_dependencies.iter().for_each(|id| known.forgotten(at, *id));
            }
            _ => {}
        }
    }

    /// Something of a batch's own, parents apart, that does not hold at this point.
    pub(super) fn missing(&self, id: BatchId) -> Option<(String, Vec<u64>)> {
        let batch = self.batches.get(&id)?;
        self.missing_external_dependency(batch).or_else(|| {
            let closed = batch.needs.gate.as_ref().is_some_and(|gate| !gate.is_open());
            closed.then(|| ("the quality service has not allowed it".to_owned(), vec![batch.said]))
        })
    }

    fn missing_external_dependency(&self, batch: &Batch) -> Option<(String, Vec<u64>)> {
        let needs = &batch.needs;
        let held = needs.external_dependencies.iter().filter(|id| !needs.waived.contains(id));
        let known = held.filter_map(|id| self.external_dependencies.known.get(id));
        let mut gone = known.filter(|known| !known.there);
        gone.next().map(|known| (format!("{} is not there", known.what), vec![known.said]))
    }

    /// `assigned_only_when_conditions_held`, where something went between assignment and grant.
    pub(super) fn granted_only_with_its_external_dependencies(&self, at: &At<'_>, id: BatchId) {
        if let Some((why, earlier)) = self.missing(id) {
            let rule = Invariant::AssignedOnlyWhenConditionsHeld;
            at.contradicts(rule, format!("batch {id} may start, though {why}"), &earlier);
        }
    }

    /// A person lets the batch run without what keeps it back, and nothing else.
    pub(super) fn overridden(&mut self, at: &At<'_>, id: BatchId, event: &BatchEvent) {
        let BatchEvent::DependencyOverridden {
            external_dependencies,
            parents,
            counted_parents,
            quality,
            unmet,
            ..
        } = event
        else {
            return;
        };
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let rule = Invariant::OverridesNameWhatIsWaitedFor;
        let is_own = |it: &&ExternalDependencyId| batch.needs.external_dependencies.contains(it);
        if let Some(stray) = external_dependencies.iter().find(|it| !is_own(it)) {
            let why = format!(
                "batch {id} is to run without external dependency {stray}, for which it does not wait"
            );
            at.breaks(rule, why);
        }
        let waits = |waived: &WaivedParent| {
            let mut of = batch.waits.iter().filter(|waits| waits.dependency.parent == waived.job);
            of.any(|waits| waived.logical_time.is_none_or(|time| waits.dependency.times.contains(&time)))
        };
        if let Some(waived) = parents.iter().find(|waived| !waits(waived)) {
            let why =
                format!("batch {id} is to run without parent {}, for which it does not wait", waived.job);
            at.breaks(rule, why);
        }
        if *quality && batch.needs.gate.is_none() {
            at.breaks(rule, format!("batch {id} is to run without a quality gate, and has none"));
        }
        batch.needs.waived.extend(external_dependencies);
        batch.needs.waived_parents.extend(parents);
        if *counted_parents {
            let counted = batch.waits.iter().filter(|waits| waits.is_counted);
            let waiver =
                |waits: &Waits| WaivedParent { job: waits.dependency.parent, logical_time: Some(batch.time) };
            batch.needs.waived_parents.extend(counted.map(waiver));
        }
        if let Some(gate) = batch.needs.gate.as_mut().filter(|_| *quality) {
            gate.waived = true;
        }
        if usize::try_from(*unmet) != Ok(batch.unmet()) {
            let why =
                format!("batch {id} is said to have {unmet} unmet dependencies, and has {}", batch.unmet());
            at.breaks(rule, why);
        }
    }

    /// The gate of a batch about which the quality service is asked, whether anything else keeps the batch back, and where
    /// the batch was last spoken of.
    fn gate(&mut self, at: &At<'_>, id: BatchId) -> Option<(&mut Gate, bool, u64)> {
        let missing = self.batches.get(&id).and_then(|batch| self.missing_external_dependency(batch));
        let batch = self.batches.get_mut(&id)?;
        let (is_kept, said) = (batch.unmet() > 0 || missing.is_some(), batch.said);
        if batch.needs.gate.is_none() {
            at.breaks(QUALITY, format!("the quality service is asked about batch {id}, which has no gate"));
        }
        batch.needs.gate.as_mut().map(|gate| (gate, is_kept, said))
    }

    /// `quality_asked_in_turn`
    pub(super) fn quality_requested(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (number, again_at): (u32, Timestamp),
    ) {
        let Some((gate, is_kept, said)) = self.gate(at, id) else { return };
        let why = if number != gate.number + 1 {
            format!("question {number} follows {}", gate.number)
        } else if gate.number == 0 && is_kept {
            "something else keeps it back".to_owned()
        } else if gate.allowed.is_some() || gate.waived {
            "there is an answer".to_owned()
        } else if gate.again_at.is_some_and(|again_at| at.now < again_at) {
            "the time of the last question is not over".to_owned()
        } else {
            String::new()
        };
        gate.number = number;
        gate.taken = false;
        gate.again_at = Some(again_at);
        if !why.is_empty() {
            at.contradicts(QUALITY, format!("batch {id}: {why}"), &[said]);
        }
    }

    /// `quality_asked_in_turn`
    pub(super) fn quality_sent(&mut self, at: &At<'_>, id: BatchId, number: u32) {
        let Some((gate, _, said)) = self.gate(at, id) else { return };
        let is_open = number == gate.number && !gate.taken && gate.allowed.is_none() && !gate.waived;
        gate.taken = true;
        if !is_open {
            at.contradicts(QUALITY, format!("batch {id}: question {number} is not open"), &[said]);
        }
    }

    /// `quality_asked_in_turn`
    pub(super) fn quality_answered(&mut self, at: &At<'_>, id: BatchId, allowed: bool) {
        let Some((gate, ..)) = self.gate(at, id) else { return };
        gate.allowed = Some(allowed);
        gate.again_at = None;
    }

    /// At rest, the quality service was asked about every batch that nothing else keeps back, and what nobody
    /// waits for is forgotten.
    pub(super) fn nothing_is_left_of_external_dependencies(&self, at: &At<'_>) {
        for (id, batch) in self.batches.iter().filter(|(_, batch)| self.is_unasked(batch)) {
            let why = format!("the quality service was never asked about batch {id}");
            at.contradicts(QUALITY, why, &[batch.said]);
        }
        let is_spare = |known: &&Known| {
            let is_kept = known.there && matches!(known.what, ExternalDependency::ThirdParty { .. });
            known.waiters.is_empty() && !is_kept
        };
        let mut spare: Vec<&Known> = self.external_dependencies.known.values().filter(is_spare).collect();
        spare.sort_unstable_by(|a, b| a.what.cmp(&b.what));
        for known in spare {
            let why = format!("{} is not forgotten, though nobody waits for it", known.what);
            at.contradicts(RULE, why, &[known.said]);
        }
    }

    fn is_unasked(&self, batch: &Batch) -> bool {
        let gated = batch.needs.gate.as_ref();
        let unasked = gated.is_some_and(|gate| gate.number == 0 && gate.allowed.is_none() && !gate.waived);
        let waits = matches!(batch.phase, Phase::Waiting) && !batch.suspended;
        unasked && waits && batch.unmet() == 0 && self.missing_external_dependency(batch).is_none()
    }
}
