//! Workers, their slots, and which of them can take one more.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{Incarnation, JobType, Token, WorkerId};

use super::lease::Told;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Worker {
    pub(crate) incarnation: Incarnation,
    pub(crate) host: String,
    pub(crate) address: String,
    pub(crate) slots: BTreeMap<JobType, Slots>,
    pub(crate) drained: bool,
    pub(crate) lost: bool,
    /// The lease of this incarnation is over: it must register as another.
    pub(crate) expired: bool,
    /// Everything assigned or granted to it that has not ended.
    pub(crate) tokens: BTreeSet<Token>,
    /// The bounds that it goes by.
    pub(crate) told: Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Slots {
    pub(crate) max: u32,
    pub(crate) used: u32,
}

impl Slots {
    pub(crate) fn free(self) -> u32 {
        (self.max + u32::from(planted!(OneSlotTooMany))).saturating_sub(self.used)
    }
}

impl Worker {
    pub(crate) fn takes_work(&self) -> bool {
        (!self.drained || planted!(WorkForDrainedWorker)) && !self.lost && !self.expired
    }
}

/// Workers by id, and by free slots of each type.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Workers {
    by_id: BTreeMap<WorkerId, Worker>,
    /// Those that take work and have a free slot; the one with most free slots is last.
    free: BTreeMap<JobType, BTreeSet<(u32, WorkerId)>>,
}

impl Workers {
    pub(crate) fn get(&self, id: &WorkerId) -> Option<&Worker> {
        self.by_id.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&WorkerId, &Worker)> {
        self.by_id.iter()
    }

    /// Changes one worker and keeps the index of free slots true.
    pub(crate) fn update(&mut self, id: &WorkerId, change: impl FnOnce(&mut Worker)) {
        let Some(mut worker) = self.by_id.remove(id) else { return };
        self.unindex(id, &worker);
        change(&mut worker);
        self.insert(id.clone(), worker);
    }

    pub(crate) fn insert(&mut self, id: WorkerId, worker: Worker) {
        if let Some(old) = self.by_id.remove(&id) {
            self.unindex(&id, &old);
        }
        if worker.takes_work() {
            for (job_type, slots) in worker.slots.iter().filter(|(_, slots)| slots.free() > 0) {
                self.free.entry(job_type.clone()).or_default().insert((slots.free(), id.clone()));
            }
        }
        self.by_id.insert(id, worker);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Forgets those whose lease is over and that hold nothing: such a life never comes back.
    pub(crate) fn forget_expired(&mut self) {
        self.by_id.retain(|_, worker| !worker.expired || !worker.tokens.is_empty());
    }

    /// Takes (or gives back) one slot. Hot path: touches one type only.
    pub(crate) fn count(&mut self, id: &WorkerId, job_type: &JobType, token: Token, taken: bool) {
        let Some(worker) = self.by_id.get_mut(id) else { return };
        if taken {
            worker.tokens.insert(token);
        } else {
            worker.tokens.remove(&token);
            if worker.tokens.is_empty() {
                worker.told.forget_earlier();
            }
        }
        let Some(slots) = worker.slots.get_mut(job_type) else { return };
        let before = slots.free();
        slots.used = if taken { slots.used + 1 } else { slots.used.saturating_sub(1) };
        let after = slots.free();
        if worker.takes_work() && before != after {
            let free = self.free.entry(job_type.clone()).or_default();
            free.remove(&(before, id.clone()));
            if after > 0 {
                free.insert((after, id.clone()));
            }
        }
    }

    fn unindex(&mut self, id: &WorkerId, worker: &Worker) {
        for (job_type, slots) in &worker.slots {
            if let Some(free) = self.free.get_mut(job_type) {
                free.remove(&(slots.free(), id.clone()));
            }
        }
    }

    /// Workers with a free slot of the type, most free slots first.
    pub(crate) fn free(&self, job_type: &JobType) -> impl Iterator<Item = (&WorkerId, &Worker)> {
        self.free
            .get(job_type)
            .into_iter()
            .flat_map(|free| free.iter().rev())
            .filter_map(|(_, id)| self.by_id.get_key_value(id))
    }

    pub(crate) fn any_free(&self, job_type: &JobType) -> bool {
        self.free.get(job_type).is_some_and(|free| !free.is_empty())
    }
}
