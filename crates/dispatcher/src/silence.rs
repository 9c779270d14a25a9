//! Who has been silent for how long, by the owner's own monotonic clock (rule 9).

use std::collections::{BTreeMap, BTreeSet};

use tidemill_engine::Partition;
use tidemill_model::{Command, Incarnation, ShardId, WorkerId};

/// A life that never registered, or was followed by another, is forgotten after this.
const FORGET_AFTER_MS: u64 = 60_000;

/// When each life of each worker was last heard of, in this owner's time. A word of an earlier life may come
/// late, and says nothing of the present one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Silence {
    heard: BTreeMap<(ShardId, WorkerId, Incarnation), u64>,
    /// Everything counts from the claim at the earliest.
    since_ms: u64,
}

impl Silence {
    pub(crate) fn start(&mut self, boot_ms: u64) {
        self.heard.clear();
        self.since_ms = boot_ms;
    }

    /// Notes what a command tells about its worker. Only heartbeats and registrations carry the life that
    /// they come from, so only they count.
    pub(crate) fn hear(&mut self, shard: ShardId, command: &Command, boot_ms: u64) {
        let (worker, incarnation) = match command {
            Command::Heartbeat(heartbeat) => (&heartbeat.worker, &heartbeat.incarnation),
            Command::RegisterWorker(registration) => (&registration.worker, &registration.incarnation),
            _ => return,
        };
        self.heard.insert((shard, worker.clone(), incarnation.clone()), boot_ms);
    }

    /// What follows at `boot_ms`, up to which all commands have been read: workers to declare lost, leases
    /// that are over.
    pub(crate) fn overdue(&mut self, partition: &Partition, boot_ms: u64) -> Vec<(ShardId, Command)> {
        let mut overdue = Vec::new();
        let mut live_now = BTreeSet::new();
        for group in partition.groups() {
            let (id, settings) = (group.id(), group.settings());
            for live in group.live_workers() {
                let life = (id, live.worker, live.incarnation);
                let last = self.heard.get(&life).copied().unwrap_or(self.since_ms);
                let silent = boot_ms.saturating_sub(last);
                let (worker, incarnation) = (life.1.clone(), life.2.clone());
                live_now.insert(life);
                if !live.lost && silent > settings.lost_after_ms {
                    overdue.push((id, Command::DeclareLost { worker, incarnation }));
                } else if live.lost && silent > settings.lease_ms + settings.lease_margin_ms {
                    overdue.push((id, Command::ExpireLease { worker, incarnation }));
                }
            }
        }
        // Of others, those may still register that were heard of lately.
        self.heard
            .retain(|life, at| boot_ms.saturating_sub(*at) < FORGET_AFTER_MS || live_now.contains(life));
        overdue
    }
}
