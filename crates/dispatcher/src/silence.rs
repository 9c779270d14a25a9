//! Who has been silent for how long, by the owner's own monotonic clock (rule 9).

use std::collections::{BTreeMap, BTreeSet};

use tidemill_engine::Partition;
use tidemill_model::{Command, Incarnation, ShardId, WorkerCommand, WorkerId};

/// One life of one worker.
type Life = (ShardId, WorkerId, Incarnation);

/// When each registered life of each worker was last heard of, in this owner's time. A word of an earlier life
/// may come late, and says nothing of the present one.
///
/// *Invariant:* it has at most one entry for each worker that the state knows: words of others are not kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Silence {
    heard: BTreeMap<Life, u64>,
    /// Everything counts from the claim at the earliest.
    since_ms: u64,
}

/// Whose word a command is. Only heartbeats and registrations carry the life that they come from, so only they
/// count.
pub(crate) fn speaker(shard: ShardId, command: &Command) -> Option<Life> {
    let (worker, incarnation) = match command {
        Command::Worker(WorkerCommand::Heartbeat(heartbeat)) => (&heartbeat.worker, &heartbeat.incarnation),
        Command::Worker(WorkerCommand::Register(registration)) => {
            (&registration.worker, &registration.incarnation)
        }
        _ => return None,
    };
    Some((shard, worker.clone(), incarnation.clone()))
}

impl Silence {
    pub(crate) fn start(&mut self, boot_ms: u64) {
        self.heard.clear();
        self.since_ms = boot_ms;
    }

    /// Notes a word of a life that the state knows as the worker's present one.
    pub(crate) fn hear(&mut self, life: Life, boot_ms: u64) {
        self.heard.insert(life, boot_ms);
    }

    /// What follows at `boot_ms`, up to which all commands have been read: workers to declare lost, leases
    /// that are over, each by the longest lease that its worker may go by.
    pub(crate) fn overdue(&mut self, partition: &Partition, boot_ms: u64) -> Vec<(ShardId, Command)> {
        let mut overdue = Vec::new();
        let mut live_now = BTreeSet::new();
        for group in partition.groups() {
            let (id, lost_after_ms) = (group.id(), group.settings().lost_after_ms);
            for live in group.live_workers() {
                let lease_ms = if planted!(LeaseCutShort) { Some(0) } else { live.lease_ends_after_ms };
                let life = (id, live.worker, live.incarnation);
                let last = self.heard.get(&life).copied().unwrap_or(self.since_ms);
                let silent = boot_ms.saturating_sub(last);
                let (worker, incarnation) = (life.1.clone(), life.2.clone());
                live_now.insert(life);
                if !live.lost && silent > lost_after_ms {
                    overdue.push((id, Command::Worker(WorkerCommand::DeclareLost { worker, incarnation })));
                } else if live.lost && lease_ms.is_some_and(|lease_ms| silent > lease_ms) {
                    overdue.push((id, Command::Worker(WorkerCommand::ExpireLease { worker, incarnation })));
                }
            }
        }
        self.heard.retain(|life, _| live_now.contains(life));
        overdue
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heard.len()
    }
}
