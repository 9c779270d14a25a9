//! A worker is known from its registration on.

use crate::group::GroupShard;
use crate::group::workers::lease::Told;
use crate::group::workers::registration::MAX_WORKERS;
use crate::group::workers::settle::SettleCause;
use crate::group::workers::worker::{Demand, Slots, Worker};
use tidemill_model::{Timestamp, WorkerEvent};

impl GroupShard {
    pub(in crate::group) fn worker_registered(&mut self, now: Timestamp, event: &WorkerEvent) {
        let WorkerEvent::Registered { worker, incarnation, host, address, slots, labels, settings, reserved } =
            event
        else {
            return;
        };
        let settings = settings.clone().unwrap_or_else(|| self.settings());
        let old = self.workers.get(worker);
        let is_new = old.is_none();
        let same_life = old.is_some_and(|old| old.incarnation == *incarnation);
        let tokens = old.map(|old| old.tokens.clone()).unwrap_or_default();
        let drained = old.is_some_and(|old| old.drained);
        let told = match old.map(|old| old.told.clone()) {
            Some(told) if same_life => told.again(settings),
            Some(told) if !tokens.is_empty() => told.reborn(settings),
            Some(_) | None => Told::new(settings),
        };
        let slots_of = |kind, max| Slots::new(max, reserved.get(kind).copied());
        let mut slots: std::collections::BTreeMap<_, _> =
            slots.iter().map(|(kind, max)| (kind.clone(), slots_of(kind, *max))).collect();
        let mut reserved_mb = 0_u32;
        for batch in tokens.iter().filter_map(|token| self.batches.get(&self.batches.of_token(*token)?)) {
            let demand = Demand::of(&batch.definition);
            reserved_mb = reserved_mb.saturating_add(demand.memory_mb);
            if let Some(slot) = slots.get_mut(demand.job_type) {
                slot.count(&demand, true);
            }
        }
        for demand in tokens.iter().filter_map(|token| self.final_commands.demand(*token)) {
            if let Some(slot) = slots.get_mut(demand.job_type) {
                slot.count(&demand, true);
            }
        }
        let machine = old.and_then(|old| old.machine);
        let unready = old.filter(|_| same_life).and_then(|old| old.unready.clone());
        let expired = same_life && old.is_some_and(|old| old.expired);
        let turned = old.map(|old| old.turned).unwrap_or_default();
        if is_new && self.workers.len() >= MAX_WORKERS {
            self.workers.forget_expired();
        }
        let known = Worker {
            incarnation: incarnation.clone(),
            host: host.clone(),
            address: address.clone(),
            slots,
            labels: labels.clone(),
            drained,
            unready,
            lost: false,
            expired,
            turned,
            tokens,
            told,
            reserved_mb,
            machine,
        };
        self.workers.insert(worker.clone(), known);
        self.workers.turn(now, worker, |_| {});
        let dead =
            self.workers.unsettled.get(worker).is_some_and(|left| left.because == SettleCause::Expired);
        match (same_life, dead) {
            // What its dead life had is ended whoever the worker is now.
            (_, true) => {}
            // A repeat says nothing new of what an earlier life had.
            (true, false) => self.workers.keep_what_was_lost(worker),
            (false, false) => self.unsettle(worker, SettleCause::Restarted),
        }
    }
}
