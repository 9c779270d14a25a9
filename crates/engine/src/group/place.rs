//! Which batch goes to which worker.

use jiff::{SignedDuration, Timestamp};
use tidemill_model::{BatchId, Event, PoolName, Priority, Token, WorkerId};

use super::GroupShard;
use super::batch::Batch;
use super::pools::Shut;
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
        let mut of_pools: Vec<(ReadyKey, &Lane, Priority, &Class)> = Vec::new();
        for (lane, classes) in self.queue.lanes() {
            if !self.workers.any_free(&lane.job_type) {
                continue;
            }
            if lane.pools.is_some() {
                of_pools
                    .extend(classes.iter().filter_map(|(p, class)| Some((class.oldest()?, lane, *p, class))));
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
        of_pools.sort_unstable_by_key(|(rank, ..)| *rank);
        let of_pools = self.first_of_pools(&of_pools, best.map(|(rank, ..)| rank));
        of_pools.or(best).map(|(_, batch, worker)| (batch, worker.clone()))
    }

    /// The same among classes that need pools and rank before another one, by rank: while one waits for room in a
    /// pool, no later one takes of it, so that who needs more than one slot of it is not passed for ever.
    fn first_of_pools<'a>(
        &'a self,
        classes: &[(ReadyKey, &'a Lane, Priority, &'a Class)],
        before: Option<ReadyKey>,
    ) -> Option<(ReadyKey, BatchId, &'a WorkerId)> {
        let mut waited_for: Vec<&PoolName> = Vec::new();
        for (rank, lane, priority, class) in classes {
            if before.is_some_and(|before| before < *rank) {
                return None;
            }
            let uses = lane.pools.as_deref().unwrap_or_default();
            if uses.iter().any(|of| waited_for.contains(&&of.name)) {
                continue;
            }
            match self.pools.admit(uses) {
                Ok(()) => {
                    if let Some((batch, worker)) = self.pick(lane, *priority, class) {
                        return Some((*rank, batch, worker));
                    }
                }
                Err(Shut::Full { pool, .. }) if self.pick(lane, *priority, class).is_some() => {
                    waited_for.push(&pool.spec.name);
                }
                Err(Shut::Full { .. } | Shut::Rate { .. } | Shut::Permits { .. }) => {}
            }
        }
        None
    }

    pub(crate) fn assign(&self, id: BatchId, worker: &WorkerId, now: Timestamp) -> Option<Event> {
        let batch = self.batches.get(&id)?;
        if let Some(refused) = self.refuse_account(id, &batch.definition) {
            return Some(refused);
        }
        let limit = SignedDuration::from_millis(self.start_timeout_ms() as i64);
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
            .filter(|(_, worker)| worker.has_label(lane.label.as_ref()))
            .filter(|(_, worker)| worker.slots.contains_key(&lane.job_type))
            .all(|(id, _)| batch.excluded.contains(id))
    }
}
