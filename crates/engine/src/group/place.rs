//! Which batch goes to which worker.

use jiff::{SignedDuration, Timestamp};
use tidemill_model::{BatchId, Event, Priority, Token, WorkerId};

use super::GroupShard;
use super::batch::Batch;
use super::queue::{Class, Lane, ReadyKey};
use super::worker::Demand;

/// How many batches of a class to look at when the free workers have already turned the first down.
const LOOK_AHEAD: usize = 64;
/// How many of these may be of one owner.
const LOOK_AHEAD_EACH: usize = 16;

impl GroupShard {
    /// Of all classes that can be placed the one whose oldest batch ranks first; its next batch, and the worker
    /// for it.
    pub(crate) fn find_placement(&self) -> Option<(BatchId, WorkerId)> {
        let mut best: Option<(ReadyKey, BatchId, &WorkerId)> = None;
        for (lane, classes) in self.queue.lanes() {
            if !self.workers.any_free(&lane.job_type) {
                continue;
            }
            for (priority, class) in classes {
                let Some(rank) = class.oldest() else { continue };
                if best.is_some_and(|(first, ..)| first < rank) {
                    continue;
                }
                if let Some((batch, worker)) = self.pick(lane, *priority, class) {
                    best = Some((rank, batch, worker));
                }
            }
        }
        best.map(|(_, batch, worker)| (batch, worker.clone()))
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

    /// The next batch of a class, and the best worker that has not had it already; if every worker that could
    /// run it has had it, then any of them again.
    fn pick<'a>(
        &'a self,
        lane: &'a Lane,
        priority: Priority,
        class: &Class,
    ) -> Option<(BatchId, &'a WorkerId)> {
        let demand = Demand::of_class(lane, priority);
        let first = self.workers.fitting(demand).next()?;
        let mut all: Option<Vec<&WorkerId>> = None;
        class.by_turn(LOOK_AHEAD_EACH).take(LOOK_AHEAD).find_map(|key| {
            let batch = self.batches.get(&key.batch)?;
            if batch.excluded.is_empty() {
                return Some((key.batch, first));
            }
            let free = all.get_or_insert_with(|| self.workers.fitting(demand).collect());
            let fresh = free.iter().find(|id| !batch.excluded.contains(id)).copied();
            let worker = fresh.or_else(|| self.all_have_had(lane, batch).then_some(first))?;
            Some((key.batch, worker))
        })
    }

    fn all_have_had(&self, lane: &Lane, batch: &Batch) -> bool {
        self.workers
            .iter()
            .filter(|(_, worker)| worker.takes_work() && worker.is_on(lane.host.as_deref()))
            .filter(|(_, worker)| worker.slots.contains_key(&lane.job_type))
            .all(|(id, _)| batch.excluded.contains(id))
    }
}
