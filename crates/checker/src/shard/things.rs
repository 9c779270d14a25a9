//! What batches wait for outside: things that come and go, the quality service's word, and what a person waives.

use std::collections::{BTreeSet, HashMap};

use tidemill_model::{BatchId, Event, Thing, ThingId, Timestamp, WaivedParent};

use super::Shard;
use super::batch::{Batch, Phase, Waits};
use crate::Invariant;
use crate::at::At;
use crate::findings::Findings;

const RULE: Invariant = Invariant::ThingsComeAndGoInTurn;
const QUALITY: Invariant = Invariant::QualityAskedInTurn;

/// The things of a shard.
#[derive(Debug, Default)]
pub(super) struct Things {
    known: HashMap<ThingId, Known>,
    numbers: HashMap<Thing, ThingId>,
    last: i64,
}

#[derive(Debug)]
struct Known {
    what: Thing,
    generation: u64,
    there: bool,
    waiters: BTreeSet<BatchId>,
    said: u64,
}

/// What one batch waits for besides parents.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) things: Vec<ThingId>,
    /// Things and parents that a person lets it run without.
    waived: BTreeSet<ThingId>,
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

impl Gate {
    fn is_open(&self) -> bool {
        self.waived || self.allowed == Some(true)
    }
}

impl Shard {
    /// A new batch waits for these; each was told of before.
    pub(super) fn needs_of(
        &mut self,
        at: &At<'_>,
        batch: BatchId,
        things: &[ThingId],
        quality_gate: bool,
        found: &mut Findings,
    ) -> Needs {
        for thing in things {
            match self.things.known.get_mut(thing) {
                Some(known) => {
                    known.waiters.insert(batch);
                }
                None => {
                    at.breaks(found, RULE, format!("batch {batch} waits for thing {thing}, told by nobody"))
                }
            }
        }
        let gate = quality_gate.then(Gate::default);
        Needs { things: things.to_vec(), gate, ..Needs::default() }
    }

    /// The batch has ended.
    pub(super) fn leaves_things(&mut self, id: BatchId) {
        let things = self.batches.get(&id).map(|batch| batch.needs.things.clone()).unwrap_or_default();
        for thing in things {
            if let Some(known) = self.things.known.get_mut(&thing) {
                known.waiters.remove(&id);
            }
        }
    }

    /// `things_come_and_go_in_turn`
    pub(super) fn thing_event(&mut self, at: &At<'_>, event: &Event, found: &mut Findings) {
        match event {
            Event::ThingWaited { thing, what } => self.thing_waited(at, *thing, what, found),
            Event::ThingSatisfied { thing, generation } => {
                self.thing_changed(at, *thing, (*generation, true), found);
            }
            Event::ThingWithdrawn { thing, generation, .. } => {
                self.thing_changed(at, *thing, (*generation, false), found);
            }
            Event::ThingsForgotten { things } => {
                for thing in things {
                    self.thing_forgotten(at, *thing, found);
                }
            }
            _ => unreachable!("only events of things come here"),
        }
    }

    fn thing_waited(&mut self, at: &At<'_>, thing: ThingId, what: &Thing, found: &mut Findings) {
        if thing.0 <= self.things.last || thing.shard() != self.id {
            let why = format!("thing {thing} is minted after thing {}", self.things.last);
            at.breaks(found, Invariant::MintedIdsGrow, why);
        }
        self.things.last = self.things.last.max(thing.0);
        if let Some(other) = self.things.numbers.insert(what.clone(), thing) {
            let said = self.things.known.get(&other).map(|known| known.said);
            let why = format!("{what} is thing {thing}, and is thing {other} already");
            at.contradicts(found, RULE, why, said.as_slice());
        }
        let (what, waiters) = (what.clone(), BTreeSet::new());
        let known = Known { what, generation: 1, there: false, waiters, said: at.offset };
        self.things.known.insert(thing, known);
    }

    fn thing_changed(
        &mut self,
        at: &At<'_>,
        thing: ThingId,
        (generation, there): (u64, bool),
        found: &mut Findings,
    ) {
        let Some(known) = self.things.known.get_mut(&thing) else {
            at.breaks(found, RULE, format!("thing {thing} changes, and was told by nobody"));
            return;
        };
        let expected = known.generation + u64::from(!there);
        if known.there == there {
            let why = format!("{} is said to {} twice", known.what, if there { "come" } else { "go" });
            at.contradicts(found, RULE, why, &[known.said]);
        } else if generation != expected {
            let why = format!("{} is of generation {generation}, and must be of {expected}", known.what);
            at.contradicts(found, RULE, why, &[known.said]);
        }
        known.there = there;
        known.generation = generation;
        known.said = at.offset;
    }

    fn thing_forgotten(&mut self, at: &At<'_>, thing: ThingId, found: &mut Findings) {
        let Some(known) = self.things.known.remove(&thing) else {
            at.breaks(found, RULE, format!("thing {thing} is forgotten, and was told by nobody"));
            return;
        };
        self.things.numbers.remove(&known.what);
        if let Some(batch) = known.waiters.first() {
            let why = format!("{} is forgotten, though batch {batch} waits for it", known.what);
            at.contradicts(found, RULE, why, &[known.said]);
        }
    }

    /// Something of a batch's own, parents apart, that does not hold at this point.
    pub(super) fn missing(&self, id: BatchId) -> Option<(String, Vec<u64>)> {
        let batch = self.batches.get(&id)?;
        self.missing_thing(batch).or_else(|| {
            let closed = batch.needs.gate.as_ref().is_some_and(|gate| !gate.is_open());
            closed.then(|| ("the quality service has not allowed it".to_owned(), vec![batch.said]))
        })
    }

    fn missing_thing(&self, batch: &Batch) -> Option<(String, Vec<u64>)> {
        let held = batch.needs.things.iter().filter(|thing| !batch.needs.waived.contains(thing));
        let mut gone = held.filter_map(|thing| self.things.known.get(thing)).filter(|known| !known.there);
        gone.next().map(|known| (format!("{} is not there", known.what), vec![known.said]))
    }

    /// `assigned_only_when_conditions_held`, where something went between assignment and grant.
    pub(super) fn granted_only_with_its_things(&self, at: &At<'_>, id: BatchId, found: &mut Findings) {
        if let Some((why, earlier)) = self.missing(id) {
            let rule = Invariant::AssignedOnlyWhenConditionsHeld;
            at.contradicts(found, rule, format!("batch {id} may start, though {why}"), &earlier);
        }
    }

    /// A person lets the batch run without what keeps it back, and nothing else.
    pub(super) fn overridden(&mut self, at: &At<'_>, id: BatchId, event: &Event, found: &mut Findings) {
        let Event::DependencyOverridden { things, parents, counted_parents, quality, unmet, .. } = event
        else {
            return;
        };
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let rule = Invariant::OverridesNameWhatIsWaitedFor;
        if let Some(thing) = things.iter().find(|thing| !batch.needs.things.contains(thing)) {
            at.breaks(
                found,
                rule,
                format!("batch {id} is to run without thing {thing}, for which it does not wait"),
            );
        }
        let waits =
            |waived: &WaivedParent| {
                batch.waits.iter().filter(|waits| waits.dependency.parent == waived.job).any(|waits| {
                    waived.logical_time.is_none_or(|time| waits.dependency.times.contains(&time))
                })
            };
        if let Some(waived) = parents.iter().find(|waived| !waits(waived)) {
            let why =
                format!("batch {id} is to run without parent {}, for which it does not wait", waived.job);
            at.breaks(found, rule, why);
        }
        if *quality && batch.needs.gate.is_none() {
            at.breaks(found, rule, format!("batch {id} is to run without a quality gate, and has none"));
        }
        batch.needs.waived.extend(things);
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
            at.breaks(found, rule, why);
        }
    }

    /// `quality_asked_in_turn`
    pub(super) fn quality_event(&mut self, at: &At<'_>, id: BatchId, event: &Event, found: &mut Findings) {
        let missing = self.batches.get(&id).and_then(|batch| self.missing_thing(batch));
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let (unmet, said) = (batch.unmet(), batch.said);
        let Some(gate) = &mut batch.needs.gate else {
            at.breaks(
                found,
                QUALITY,
                format!("the quality service is asked about batch {id}, which has no gate"),
            );
            return;
        };
        let why = match event {
            Event::QualityRequested { number, again_at, .. } => {
                let early = gate.again_at.is_some_and(|again_at| at.now < again_at);
                let why = if *number != gate.number + 1 {
                    Some(format!("question {number} follows {}", gate.number))
                } else if gate.number == 0 && (unmet > 0 || missing.is_some()) {
                    Some("something else keeps it back".to_owned())
                } else if gate.allowed.is_some() || gate.waived {
                    Some("there is an answer".to_owned())
                } else if early {
                    Some("the time of the last question is not over".to_owned())
                } else {
                    None
                };
                gate.number = *number;
                gate.taken = false;
                gate.again_at = Some(*again_at);
                why
            }
            Event::QualityTaken { number, .. } => {
                let open = *number == gate.number && !gate.taken && gate.allowed.is_none() && !gate.waived;
                gate.taken = true;
                (!open).then(|| format!("question {number} is not open"))
            }
            Event::QualityAnswered { allowed, .. } => {
                gate.allowed = Some(*allowed);
                gate.again_at = None;
                None
            }
            _ => unreachable!("only events of the gate come here"),
        };
        if let Some(why) = why {
            at.contradicts(found, QUALITY, format!("batch {id}: {why}"), &[said]);
        }
    }

    /// At rest, the quality service was asked about every batch that nothing else keeps back, and what nobody
    /// waits for is forgotten.
    pub(super) fn nothing_is_left_of_things(&self, at: &At<'_>, found: &mut Findings) {
        let mut unasked: Vec<_> = self.batches.iter().filter(|(_, batch)| self.is_unasked(batch)).collect();
        unasked.sort_unstable_by_key(|(id, _)| **id);
        for (id, batch) in unasked {
            let why = format!("the quality service was never asked about batch {id}");
            at.contradicts(found, QUALITY, why, &[batch.said]);
        }
        let is_spare = |known: &&Known| {
            let is_kept = known.there && matches!(known.what, Thing::ThirdParty { .. });
            known.waiters.is_empty() && !is_kept
        };
        let mut spare: Vec<&Known> = self.things.known.values().filter(is_spare).collect();
        spare.sort_unstable_by(|a, b| a.what.cmp(&b.what));
        for known in spare {
            let why = format!("{} is not forgotten, though nobody waits for it", known.what);
            at.contradicts(found, RULE, why, &[known.said]);
        }
    }

    fn is_unasked(&self, batch: &Batch) -> bool {
        let gated = batch.needs.gate.as_ref();
        let unasked = gated.is_some_and(|gate| gate.number == 0 && gate.allowed.is_none() && !gate.waived);
        let waits = matches!(batch.phase, Phase::Waiting) && !batch.suspended;
        unasked && waits && batch.unmet() == 0 && self.missing_thing(batch).is_none()
    }
}
