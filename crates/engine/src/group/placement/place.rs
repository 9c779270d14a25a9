//! Which batch goes to which worker.

use tidemill_model::{
    BatchEvent, BatchId, BatchResult, Event, JobDefinition, PoolName, Priority, Timestamp, WorkerId,
};

use crate::group::batches::batch::Batch;
use crate::group::placement::pools::Shut;
use crate::group::placement::queue::{Class, Lane, ReadyKey};
use crate::group::workers::Demand;
use crate::group::{GroupShard, Heartbeats};

/// How many batches of a class to look at when the free workers have already turned the first down.
const LOOK_AHEAD: usize = 64;
/// How many of these may be of one owner.
const LOOK_AHEAD_EACH: usize = 16;

/// A batch that can be placed.
struct Found<'a> {
    /// Its owner's turn.
    turn: u64,
    batch: BatchId,
    worker: &'a WorkerId,
}

/// A class whose turn it could be.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    lane: &'a Lane,
    priority: Priority,
    class: &'a Class,
}

/// Pools that somebody waits for: no one behind takes of them, so that who needs more than one slot of a pool is not
/// passed for ever.
type WaitedFor<'a> = Vec<&'a PoolName>;

impl GroupShard {
    /// Of all classes that can be placed the one whose oldest batch ranks first decides which type and priority goes;
    /// of these the owner with the lowest turn, in whatever class. Its next batch, and the worker for it.
    pub(crate) fn find_placement(&self) -> Option<(BatchId, WorkerId)> {
        let mut waited_for = WaitedFor::new();
        let (first, found) = self.first_by_age(&mut waited_for)?;
        let Found { batch, worker, .. } = self.first_by_turn(first, found, waited_for);
        Some((batch, worker.clone()))
    }

    fn first_by_age<'a>(&'a self, waited_for: &mut WaitedFor<'a>) -> Option<(Candidate<'a>, Found<'a>)> {
        let mut best: Option<(ReadyKey, Candidate<'a>, Found<'a>)> = None;
        let mut of_pools: Vec<(ReadyKey, Candidate<'a>)> = Vec::new();
        for (lane, classes) in self.placement.queue.lanes() {
            if !self.workers.any_free(&lane.job_type) {
                continue;
            }
            for (priority, class) in classes {
                let Some(rank) = class.oldest() else { continue };
                let candidate = Candidate { lane, priority: *priority, class };
                if lane.pools.is_some() {
                    of_pools.push((rank, candidate));
                } else if best.as_ref().is_none_or(|(first, ..)| rank < *first)
                    && let Some(found) = self.pick(candidate)
                {
                    best = Some((rank, candidate, found));
                }
            }
        }
        of_pools.sort_unstable_by_key(|(rank, _)| *rank);
        let before = best.as_ref().map(|(rank, ..)| *rank);
        let earlier = of_pools.into_iter().take_while(|(rank, _)| before.is_none_or(|before| *rank < before));
        let of_pools = earlier
            .map(|(_, candidate)| candidate)
            .find_map(|candidate| Some((candidate, self.pick_within_pools(candidate, waited_for)?)));
        of_pools.or(best.map(|(_, candidate, found)| (candidate, found)))
    }

    /// Among classes of the same type and priority as the first by age.
    fn first_by_turn<'a>(
        &'a self,
        first: Candidate<'a>,
        found: Found<'a>,
        mut waited_for: WaitedFor<'a>,
    ) -> Found<'a> {
        let priority = first.priority;
        let sharing = self.placement.queue.sharing(&first.lane.job_type, priority);
        let mut sharing: Vec<_> =
            sharing.map(|(lane, class)| (class.next_turn(), Candidate { lane, priority, class })).collect();
        if sharing.len() == 1 {
            return found;
        }
        sharing.sort_unstable_by_key(|(turn, _)| *turn);
        let mut best: Option<Found<'a>> = None;
        for (turn, candidate) in sharing {
            let lowest = turn.map_or(0, |(turn, _)| turn);
            if best.as_ref().is_some_and(|best| best.turn <= lowest) {
                break;
            }
            let found = self.pick_within_pools(candidate, &mut waited_for);
            if let Some(found) = found.filter(|found| best.as_ref().is_none_or(|best| found.turn < best.turn))
            {
                best = Some(found);
            }
        }
        best.unwrap_or(found)
    }

    /// What can be placed of a class, if its pools have room that nobody before it waits for.
    fn pick_within_pools<'a>(
        &'a self,
        candidate: Candidate<'a>,
        waited_for: &mut WaitedFor<'a>,
    ) -> Option<Found<'a>> {
        let uses = candidate.lane.pools.as_deref().unwrap_or_default();
        if uses.iter().any(|of| waited_for.contains(&&of.name)) {
            return None;
        }
        match self.placement.pools.admit(uses) {
            Ok(()) => self.pick(candidate),
            Err(Shut::Full { pool, .. }) => {
                if self.pick(candidate).is_some() {
                    waited_for.push(&pool.spec.name);
                }
                None
            }
            Err(Shut::Rate { .. } | Shut::Permits { .. }) => None,
        }
    }

    pub(crate) fn assign(
        &self,
        id: BatchId,
        worker: &WorkerId,
        now: Timestamp,
        heartbeats: &dyn Heartbeats,
    ) -> Option<Event> {
        let batch = self.batches.get(&id)?;
        if let Some(message) = self.forbidden_account(&batch.definition) {
            return Some(self.batches.batch_end(id, BatchResult::Failed, None, message));
        }
        if let Some(assigned) = self.assignment_with_right((id, batch), worker, heartbeats) {
            return Some(assigned);
        }
        Some(Event::Batch(BatchEvent::Assigned {
            batch: id,
            attempt: batch.attempts + 1,
            token: self.batches.next_token(self.id),
            worker: worker.clone(),
            start_by: self.start_by(now),
        }))
    }

    /// DSP-2: why a batch of this job is not run, for people; nothing: its account is allowed, or is the worker's own.
    pub(crate) fn forbidden_account(&self, definition: &JobDefinition) -> Option<String> {
        let account = definition.spec.run_as.as_ref()?;
        if definition.run_as_by.is_none() {
            return Some(format!(
                "the job was defined before accounts were bound to keys; apply it again with a key that may have jobs run \
                 as {account}"
            ));
        }
        let allowed = self.group.as_ref().and_then(|group| group.settings.accounts.as_deref());
        let is_allowed = allowed.is_some_and(|allowed| allowed.allow(account)) || planted!(AccountNotAllowed);
        (!is_allowed)
            .then(|| format!("jobs of group {} may not run as account {account}", definition.spec.group))
    }

    /// The next batch of a class, and the best worker that has not had it already; if every worker that could
    /// run it has had it, then any of them again.
    fn pick<'a>(&'a self, candidate: Candidate<'a>) -> Option<Found<'a>> {
        let Candidate { lane, priority, class } = candidate;
        let demand = Demand::of_class(lane, priority);
        let first = self.workers.fitting(demand).next()?;
        let mut all: Option<Vec<&WorkerId>> = None;
        class.by_turn(LOOK_AHEAD_EACH).take(LOOK_AHEAD).find_map(|(turn, key)| {
            let batch = self.batches.get(&key.batch)?;
            if batch.excluded.is_empty() {
                return Some(Found { turn, batch: key.batch, worker: first });
            }
            let free = all.get_or_insert_with(|| self.workers.fitting(demand).collect());
            let fresh = free.iter().find(|id| !batch.excluded.contains(id)).copied();
            let worker = fresh.or_else(|| self.all_have_had(&demand, batch).then_some(first))?;
            Some(Found { turn, batch: key.batch, worker })
        })
    }

    pub(in crate::group) fn all_have_had_it(&self, id: BatchId) -> bool {
        let batch = self.batches.get(&id);
        batch.is_some_and(|batch| self.all_have_had(&Demand::of(&batch.definition), batch))
    }

    /// Every worker that could take the batch has had it. One whose memory or slots can never hold it does not count:
    /// the batch would wait for it for ever.
    fn all_have_had(&self, demand: &Demand<'_>, batch: &Batch) -> bool {
        let mut able = self.workers.iter().filter(|(_, worker)| worker.could_take(demand));
        able.all(|(id, _)| batch.excluded.contains(id))
    }
}
