//! Operators: workers are drained, groups frozen, clocks repaired.

use jiff::SignedDuration;
use tidemill_model::{CatalogueCommand, ShardCommand, ShardId, WorkerCommand};

use crate::rng::Rng;
use crate::world::World;

impl World {
    pub(super) fn drain(&mut self, rng: &mut Rng) {
        let workers: Vec<_> = self.known.workers.iter().collect();
        let Some((worker, shard)) = rng.pick(&workers) else { return self.submit(rng) };
        let (worker, shard) = ((*worker).clone(), **shard);
        let drains = rng.chance(50);
        let command = if drains { WorkerCommand::Drain { worker } } else { WorkerCommand::Resume { worker } };
        self.ask(shard, command);
    }

    /// Freezes a group or everything, or lifts the freeze of what is frozen.
    pub(super) fn freeze(&mut self, rng: &mut Rng) {
        let frozen: Vec<_> = self.known.frozen.iter().cloned().collect();
        if let Some(group) = rng.pick(&frozen).filter(|_| rng.clone().chance(60)).cloned() {
            self.ask_catalogue(CatalogueCommand::LiftFreeze { group, reason: String::new() });
            return;
        }
        let name = format!("g{}", rng.below(self.plan.groups) + 1);
        let group = rng.chance(60).then(|| name.try_into().expect("a name"));
        let seconds = SignedDuration::from_secs(rng.range(0, 120) as i64 - 60);
        let latest = rng.chance(80).then(|| self.wall() + seconds);
        let reason = "a move".to_owned();
        self.ask_catalogue(CatalogueCommand::Freeze { group, latest, reason });
    }

    /// An operator repairs the clock, which does not need it.
    pub(super) fn set_time(&mut self, rng: &mut Rng) {
        let shard = ShardId(rng.below(self.plan.groups + 1) as u16);
        let now = self.wall() - SignedDuration::from_millis(rng.range(1_000, 3_000) as i64);
        self.ask(shard, ShardCommand::SetTime { now });
    }
}
