//! Memory and reserved slots of workers, counted a second time.

use tidemill_model::{BatchId, Measure, Reserved, WorkerId};

use super::Shard;
use super::job::Version;
use super::worker::Worker;
use crate::Invariant;
use crate::at::At;

fn may_use(kept: &Reserved, of: &Version) -> bool {
    of.host.is_some() || kept.priority.is_some_and(|least| of.priority <= least)
}

impl Shard {
    fn held_by<'a>(&'a self, worker: &'a Worker) -> impl Iterator<Item = &'a Version> {
        worker.held.iter().filter_map(|id| self.batches.get(id)?.of.as_deref())
    }

    pub(super) fn measured(&mut self, id: &WorkerId, measure: Measure, overloaded: bool) {
        let Some(known) = self.workers.get(id) else { return };
        let ours: u32 = self.held_by(known).map(|of| of.memory_mb).sum();
        let used = measure.memory_total_mb.saturating_sub(measure.memory_free_mb);
        let others = used.saturating_sub(ours);
        if let Some(known) = self.workers.get_mut(id) {
            known.overloaded = overloaded;
            known.memory_mb = Some(measure.memory_total_mb.saturating_sub(others));
        }
    }

    /// `resources_never_oversold`
    pub(super) fn resources_never_oversold(&self, at: &At<'_>, id: BatchId, worker: &WorkerId) {
        let rule = Invariant::ResourcesNeverOversold;
        let Some(of) = self.batches.get(&id).and_then(|batch| batch.of.as_deref()) else { return };
        let Some(known) = self.workers.get(worker) else { return };
        if of.memory_mb > 0 {
            let reserved: u32 = self.held_by(known).map(|of| of.memory_mb).sum();
            let there = known.memory_mb.unwrap_or(0);
            if reserved > there {
                let why = format!("{reserved} MiB of worker {worker} are reserved, and it has {there}");
                at.contradicts(rule, why, &[known.said]);
            }
        }
        let Some(kept) = known.reserved.get(&of.job_type).filter(|kept| !may_use(kept, of)) else { return };
        let slots = known.slots.get(&of.job_type).copied().unwrap_or(0);
        let others = self.held_by(known).filter(|held| held.job_type == of.job_type && !may_use(kept, held));
        let (others, most) = (others.count(), slots.saturating_sub(kept.slots) as usize);
        if others > most {
            let why = format!(
                "worker {worker} has {others} attempts of type {} in {most} slots, for the others are kept",
                of.job_type
            );
            at.contradicts(rule, why, &[known.said]);
        }
    }
}
