//! Workers, their slots and memory, and which of them can take one more; beside this, their registration, health and
//! leases, and what they report.

mod apply;
mod ended_lives;
mod hosts;
mod leaving;
mod machine;
mod registration;
pub(in crate::group) mod report;
mod settle;
mod warn;

use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::Stored;
use tidemill_model::{
    Incarnation, JobDefinition, JobType, Measure, Priority, Reserved, Timestamp, Token, WorkerId, WorkerLabel,
};

use self::ended_lives::EndedLives;
use self::hosts::DrainedHost;
use self::registration::Told;
pub(crate) use self::registration::{Lease, is_public_key};
use self::settle::Unsettled;
use crate::group::leave;
use crate::group::placement::queue::Lane;

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Worker {
    pub(crate) incarnation: Incarnation,
    /// Lives of it that another one has replaced, the last ones.
    pub(crate) ended_lives: EndedLives,
    pub(crate) host: String,
    pub(crate) address: String,
    pub(crate) slots: BTreeMap<JobType, Slots>,
    pub(crate) labels: BTreeSet<WorkerLabel>,
    pub(crate) drained: bool,
    /// Why it can take no work, as it says itself.
    pub(crate) unready: Option<Box<str>>,
    /// Its process was told to stop.
    pub(crate) leaving: bool,
    /// The log has lost its end since it registered: it has to register before anything else is heard of it, or given to it.
    pub(crate) unheard: bool,
    pub(crate) lost: bool,
    /// People were warned that its lease is half over.
    pub(crate) warned: bool,
    /// The lease of this incarnation is over: it must register as another.
    pub(crate) expired: bool,
    /// The group's public key when it registered, if its reports are sealed: the level stood that asks for it.
    pub(crate) seals_by: Option<String>,
    pub(crate) turned: Turned,
    /// Everything assigned or granted to it that has not ended.
    pub(crate) tokens: BTreeSet<Token>,
    /// The bounds that it goes by.
    pub(crate) told: Told,
    /// Memory that what it holds has for itself, MiB.
    pub(crate) reserved_mb: u32,
    pub(crate) machine: Option<Machine>,
}

/// Since when a worker is as it is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Default, Stored)]
pub(crate) struct Turned {
    /// It is lost, or its lease is over.
    pub(crate) gone: Option<Timestamp>,
    /// Its machine is over a bound.
    pub(crate) overloaded: Option<Timestamp>,
    /// It gets no new work, for one of these or because it is drained or unready.
    pub(crate) out: Option<Timestamp>,
    /// It gets new work.
    pub(crate) back: Option<Timestamp>,
}

/// How a worker's machine stood when it last said so.
#[derive(Debug, Clone, Copy, PartialEq, Stored)]
pub(crate) struct Machine {
    pub(crate) measure: Measure,
    pub(crate) at: Timestamp,
    pub(crate) overloaded: bool,
    /// Memory that was in use then, beyond what was reserved, MiB.
    others_mb: u32,
}

impl Machine {
    pub(crate) fn new(measure: Measure, at: Timestamp, overloaded: bool, reserved_mb: u32) -> Self {
        let used_mb = measure.memory_total_mb.saturating_sub(measure.memory_free_mb);
        Self { measure, at, overloaded, others_mb: used_mb.saturating_sub(reserved_mb) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Stored)]
pub(crate) struct Slots {
    pub(crate) max: u32,
    pub(crate) used: u32,
    /// Those that are kept for some jobs.
    pub(crate) reserved: Option<Reserved>,
    /// Used by jobs for which none are kept.
    pub(crate) common: u32,
}

impl Slots {
    /// For jobs for which some are kept.
    pub(crate) fn free(self) -> u32 {
        (self.max + u32::from(planted!(OneSlotTooMany))).saturating_sub(self.used)
    }

    /// For all others.
    pub(crate) fn free_common(self) -> u32 {
        let Some(reserved) = self.reserved else { return self.free() };
        self.free().min(self.max.saturating_sub(reserved.slots).saturating_sub(self.common))
    }

    pub(crate) fn serves(self, demand: &Demand<'_>) -> bool {
        self.reserved.is_some_and(|reserved| reserved.serves(demand.host.is_some(), demand.priority))
    }

    pub(crate) fn free_for(self, demand: &Demand<'_>) -> u32 {
        if self.serves(demand) { self.free() } else { self.free_common() }
    }

    /// Those that a batch with this demand may have at all.
    fn max_for(self, demand: &Demand<'_>) -> u32 {
        let kept = self.reserved.filter(|_| !self.serves(demand)).map_or(0, |reserved| reserved.slots);
        self.max.saturating_sub(kept)
    }

    pub(crate) fn count(&mut self, demand: &Demand<'_>, taken: bool) {
        let step = |n: u32| if taken { n + 1 } else { n.saturating_sub(1) };
        self.used = step(self.used);
        if !self.serves(demand) {
            self.common = step(self.common);
        }
    }
}

/// What a batch asks of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub(crate) job_type: &'a JobType,
    pub(crate) host: Option<&'a str>,
    pub(crate) memory_mb: u32,
    pub(crate) priority: Priority,
    pub(crate) label: Option<&'a WorkerLabel>,
}

impl<'a> Demand<'a> {
    pub(crate) fn of(definition: &'a JobDefinition) -> Self {
        Self {
            job_type: &definition.spec.job_type,
            host: definition.spec.host.as_deref(),
            memory_mb: definition.spec.memory_mb.unwrap_or(0),
            priority: definition.spec.priority,
            label: definition.spec.worker_label.as_ref(),
        }
    }

    pub(crate) fn of_class(lane: &'a Lane, priority: Priority) -> Self {
        Self {
            job_type: &lane.job_type,
            host: lane.host.as_deref(),
            memory_mb: lane.memory_mb,
            priority,
            label: lane.label.as_ref(),
        }
    }
}

impl Worker {
    pub(crate) fn takes_work(&self) -> bool {
        let leaves = self.leaving && !planted!(LeavingWorkerGetsWork);
        (!self.drained || planted!(WorkForDrainedWorker))
            && !leaves
            && !self.lost
            && !self.expired
            && !self.unheard
            && !self.is_overloaded()
            && self.unready.is_none()
    }

    pub(crate) fn has_label(&self, label: Option<&WorkerLabel>) -> bool {
        label.is_none_or(|label| self.labels.contains(label))
    }

    pub(crate) fn is_overloaded(&self) -> bool {
        self.machine.is_some_and(|machine| machine.overloaded)
    }

    pub(crate) fn is_on(&self, host: Option<&str>) -> bool {
        host.is_none_or(|host| host == self.host)
    }

    /// Memory that can still be reserved, MiB; a worker that does not say how much it has gives none.
    pub(crate) fn memory_left(&self) -> u32 {
        self.machine.map_or(0, |machine| {
            let taken = self.reserved_mb.saturating_add(machine.others_mb);
            machine.measure.memory_total_mb.saturating_sub(taken)
        })
    }

    pub(crate) fn has_memory(&self, demand: &Demand<'_>) -> bool {
        demand.memory_mb == 0 || demand.memory_mb <= self.memory_left()
    }

    pub(crate) fn free_for(&self, demand: &Demand<'_>) -> u32 {
        self.slots.get(demand.job_type).map_or(0, |slots| slots.free_for(demand))
    }

    /// Whether it takes such batches at all: one fits now, or would if its own batches ended.
    pub(crate) fn could_take(&self, demand: &Demand<'_>) -> bool {
        let memory_mb = self.memory_left().saturating_add(self.reserved_mb);
        self.takes_work()
            && self.is_on(demand.host)
            && self.has_label(demand.label)
            && self.slots.get(demand.job_type).is_some_and(|slots| slots.max_for(demand) > 0)
            && demand.memory_mb <= memory_mb
    }

    /// Whether it could take a batch with this demand, if it has not had it before.
    pub(crate) fn fits(&self, demand: &Demand<'_>) -> bool {
        self.takes_work()
            && self.is_on(demand.host)
            && self.has_label(demand.label)
            && self.free_for(demand) > 0
            && self.has_memory(demand)
    }
}

/// Workers by id, and by free slots of each type.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Workers {
    by_id: BTreeMap<WorkerId, Worker>,
    by_host: BTreeMap<String, BTreeSet<WorkerId>>,
    drained_hosts: BTreeMap<String, DrainedHost>,
    free: BTreeMap<JobType, Free>,
    /// Those with tokens that are to be taken from them.
    unsettled: BTreeMap<WorkerId, Unsettled>,
}

/// Those that take work and have a free slot of a type; the one with most free slots is last.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
struct Free {
    common: BTreeSet<(u32, WorkerId)>,
    /// Those that keep slots for some jobs, with these counted in.
    keeping: BTreeSet<(u32, WorkerId)>,
}

impl Free {
    fn put(&mut self, id: &WorkerId, slots: Slots) {
        if slots.free_common() > 0 {
            self.common.insert((slots.free_common(), id.clone()));
        }
        if slots.reserved.is_some() && slots.free() > 0 {
            self.keeping.insert((slots.free(), id.clone()));
        }
    }

    fn take(&mut self, id: &WorkerId, slots: Slots) {
        self.common.remove(&(slots.free_common(), id.clone()));
        if slots.reserved.is_some() {
            self.keeping.remove(&(slots.free(), id.clone()));
        }
    }
}

impl Workers {
    /// The next worker whose tokens are to be settled.
    pub(crate) fn next_unsettled(&self) -> Option<&WorkerId> {
        self.unsettled.keys().next()
    }

    pub(crate) fn get(&self, id: &WorkerId) -> Option<&Worker> {
        self.by_id.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&WorkerId, &Worker)> {
        self.by_id.iter()
    }

    /// Whether this life of the worker is the registered one, and not lost.
    pub(in crate::group) fn lives(&self, id: &WorkerId, incarnation: &Incarnation) -> bool {
        let is_well = |known: &Worker| !known.lost && !known.expired && !known.unheard;
        self.get(id).is_some_and(|known| known.incarnation == *incarnation && is_well(known))
    }

    /// A change at `now` after which it may get new work, or none any more. Its host stays.
    pub(crate) fn turn(&mut self, now: Timestamp, id: &WorkerId, change: impl FnOnce(&mut Worker)) {
        let Some(mut worker) = self.by_id.remove(id) else { return };
        self.unindex(id, &worker);
        change(&mut worker);
        let (before, takes_work) = (worker.turned, worker.takes_work());
        let since = |holds: bool, before: Option<Timestamp>| holds.then(|| before.unwrap_or(now));
        worker.turned = Turned {
            gone: since(worker.lost || worker.expired, before.gone),
            overloaded: since(worker.is_overloaded(), before.overloaded),
            out: since(!takes_work, before.out),
            back: since(takes_work, before.back),
        };
        self.insert(id.clone(), worker);
    }

    pub(crate) fn insert(&mut self, id: WorkerId, worker: Worker) {
        if let Some(old) = self.by_id.remove(&id) {
            self.unindex(&id, &old);
        }
        if worker.takes_work() {
            for (job_type, slots) in worker.slots.iter().filter(|(_, slots)| slots.free() > 0) {
                self.free.entry(job_type.clone()).or_default().put(&id, *slots);
            }
        }
        self.by_host.entry(worker.host.clone()).or_default().insert(id.clone());
        self.by_id.insert(id, worker);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Forgets those whose lease is over and that hold nothing: such a life never comes back.
    pub(crate) fn forget_expired(&mut self) {
        let gone = |worker: &Worker| worker.expired && worker.tokens.is_empty();
        let ids: Vec<WorkerId> =
            self.by_id.iter().filter(|(_, worker)| gone(worker)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            if let Some(worker) = self.by_id.remove(&id) {
                self.unindex(&id, &worker);
            }
        }
    }

    /// Takes (or gives back) one slot and the memory. Hot path: touches one type only.
    pub(crate) fn count(&mut self, id: &WorkerId, demand: &Demand<'_>, token: Token, taken: bool) {
        let Some(worker) = self.by_id.get_mut(id) else { return };
        if taken {
            worker.tokens.insert(token);
            worker.reserved_mb = worker.reserved_mb.saturating_add(demand.memory_mb);
        } else {
            worker.tokens.remove(&token);
            worker.reserved_mb = worker.reserved_mb.saturating_sub(demand.memory_mb);
            if worker.tokens.is_empty() {
                worker.told.forget_earlier();
            }
        }
        let takes_work = worker.takes_work();
        let Some(slots) = worker.slots.get_mut(demand.job_type) else { return };
        let before = *slots;
        slots.count(demand, taken);
        let after = *slots;
        if takes_work && before != after {
            let free = self.free.entry(demand.job_type.clone()).or_default();
            free.take(id, before);
            free.put(id, after);
        }
    }

    /// A stray holds no slot, and what an earlier life was told may count as long as it runs.
    pub(in crate::group) fn stray_is_gone(&mut self, now: Timestamp, id: &WorkerId, token: Token) {
        self.turn(now, id, |worker| {
            worker.tokens.remove(&token);
            if worker.tokens.is_empty() {
                worker.told.forget_earlier();
            }
        });
    }

    fn unindex(&mut self, id: &WorkerId, worker: &Worker) {
        for (job_type, slots) in &worker.slots {
            if let Some(free) = self.free.get_mut(job_type) {
                free.take(id, *slots);
            }
        }
        leave(&mut self.by_host, &worker.host, id);
    }

    /// Workers that can take a batch with this demand: where slots are kept for it first, then by most free slots.
    pub(crate) fn fitting<'a>(&'a self, demand: Demand<'a>) -> Box<dyn Iterator<Item = &'a WorkerId> + 'a> {
        if let Some(host) = demand.host {
            let here = self.by_host.get(host).into_iter().flatten();
            let fits = move |id: &&WorkerId| self.by_id.get(*id).is_some_and(|worker| worker.fits(&demand));
            return Box::new(here.filter(fits));
        }
        let Some(free) = self.free.get(demand.job_type) else { return Box::new(std::iter::empty()) };
        let known = move |id: &WorkerId| self.by_id.get(id);
        let serves = move |id: &WorkerId| {
            let slots = known(id).and_then(|worker| worker.slots.get(demand.job_type));
            slots.is_some_and(|slots| slots.serves(&demand))
        };
        let kept = free.keeping.iter().rev().filter(move |(_, id)| serves(id));
        let common = free.common.iter().rev();
        let suits = |worker: &Worker, demand: &Demand<'_>| {
            worker.has_label(demand.label) && worker.has_memory(demand)
        };
        let fits = move |id: &&WorkerId| known(id).is_some_and(|worker| suits(worker, &demand));
        Box::new(kept.chain(common).map(|(_, id)| id).filter(fits))
    }

    pub(crate) fn any_free(&self, job_type: &JobType) -> bool {
        self.free.get(job_type).is_some_and(|free| !free.common.is_empty() || !free.keeping.is_empty())
    }
}
