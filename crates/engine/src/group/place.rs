//! Which batch goes to which worker.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tidemill_model::{BatchId, Event, Token, WorkerId};

use super::GroupShard;
use super::batch::Batch;
use super::queue::{Lane, ReadyKey};
use super::worker::Worker;

/// How far behind the head of a lane to look when the free workers have already turned the head down.
const LOOK_AHEAD: usize = 64;

impl GroupShard {
    /// Of all lanes' first placeable batches the one that ranks first, and the worker for it.
    pub(crate) fn find_placement(&self) -> Option<(BatchId, WorkerId)> {
        let first = |(lane, keys): (&Lane, &BTreeSet<ReadyKey>)| {
            if !self.workers.any_free(&lane.job_type) {
                return None;
            }
            let mut candidates = keys.iter().take(LOOK_AHEAD);
            candidates.find_map(|key| self.worker_for(lane, *key).map(|worker| (*key, worker)))
        };
        let (key, worker) = self.queue.lanes().filter_map(first).min_by_key(|(key, _)| *key)?;
        Some((key.batch, worker.clone()))
    }

    pub(crate) fn assign(&self, id: BatchId, worker: &WorkerId, now: Timestamp) -> Option<Event> {
        let batch = self.batches.get(&id)?;
        let limit = SignedDuration::from_millis(self.settings().start_timeout_ms as i64);
        let minted = self.tokens_minted + 1;
        let minted = if planted!(TokensEqual) { minted | 1 } else { minted };
        Some(Event::BatchAssigned {
            batch: id,
            attempt: batch.attempts + 1,
            token: Token::mint(minted, self.id),
            worker: worker.clone(),
            start_by: now.saturating_add(limit).unwrap_or(Timestamp::MAX),
        })
    }

    /// The worker with most free slots that has not had the batch already; if every worker that could run
    /// it has had it, then any of them again.
    fn worker_for(&self, lane: &Lane, key: ReadyKey) -> Option<&WorkerId> {
        let batch = self.batches.get(&key.batch)?;
        let mut fits = self.workers.free(&lane.job_type).filter(|(_, worker)| on_host(lane, worker));
        if batch.excluded.is_empty() {
            return fits.next().map(|(id, _)| id);
        }
        let free: Vec<&WorkerId> = fits.map(|(id, _)| id).collect();
        let fresh = free.iter().find(|id| !batch.excluded.contains(id)).copied();
        fresh.or_else(|| free.first().copied().filter(|_| self.all_have_had(lane, batch)))
    }

    fn all_have_had(&self, lane: &Lane, batch: &Batch) -> bool {
        self.workers
            .iter()
            .filter(|(_, worker)| worker.takes_work() && on_host(lane, worker))
            .filter(|(_, worker)| worker.slots.contains_key(&lane.job_type))
            .all(|(id, _)| batch.excluded.contains(id))
    }
}

fn on_host(lane: &Lane, worker: &Worker) -> bool {
    lane.host.as_deref().is_none_or(|host| host == worker.host)
}
