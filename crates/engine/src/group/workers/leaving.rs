//! EXE-12: a worker whose process was told to stop says so, and gets no new work.
//!
//! ```text
//!  heartbeat: it leaves        what it has not begun goes back         heartbeat: nothing of it is left
//!     Leaving ───────────────► (WorkerLeaving, uncounted) ────────────► Left: it is gone, and nobody waits for its lease
//!        └───── another life registers: it works again · silent with what it keeps running: lost, and its lease counts
//! ```
//! An attempt that its worker ended because it was stopped uses up no retry. Below level 3 none of this is recorded: such a
//! worker is silent in the end, and what it ended is lost.

use tidemill_model::{
    AttemptEvent, AttemptOutcome, AttemptResult, BatchId, Event, Heartbeat, Incarnation, Level, Timestamp,
    Token, WorkerEvent, WorkerId,
};

use super::settle::SettleCause;
use super::{Worker, Workers};
use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, Phase};

impl Worker {
    fn left(&self, worker: &WorkerId) -> Event {
        let (worker, incarnation) = (worker.clone(), self.incarnation.clone());
        Event::Worker(WorkerEvent::Left { worker, incarnation })
    }
}

impl GroupShard {
    pub(in crate::group) fn records_departures(&self) -> bool {
        self.level().allows(Level::new(3))
    }

    /// What a heartbeat of a registered life says of its leaving.
    pub(super) fn departure(&self, known: &Worker, heartbeat: &Heartbeat) -> Vec<Event> {
        let Some(leaving) = heartbeat.leaving.filter(|_| self.records_departures()) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        let (worker, incarnation) = (&heartbeat.worker, &heartbeat.incarnation);
        if !known.leaving {
            let (worker, incarnation) = (worker.clone(), incarnation.clone());
            let keeps_jobs = leaving.keeps_jobs;
            events.push(WorkerEvent::Leaving { worker, incarnation, keeps_jobs }.into());
        }
        if leaving.is_empty && self.leaves_nothing(worker, known) {
            events.push(known.left(worker));
        }
        events
    }

    /// Of a leaving worker that fell silent and holds nothing, its silence says that it has gone.
    pub(in crate::group) fn gone_quietly(
        &self,
        worker: &WorkerId,
        incarnation: &Incarnation,
    ) -> Option<Event> {
        let known = self.workers.get(worker)?;
        let is_it = known.incarnation == *incarnation && known.leaving && !known.expired;
        (is_it && known.tokens.is_empty()).then(|| known.left(worker))
    }

    /// Whether its word that nothing of it is left covers all that it holds: not what an earlier life may have begun, what is
    /// said to have started, or what only another word ends.
    fn leaves_nothing(&self, worker: &WorkerId, known: &Worker) -> bool {
        let is_covered = |token: &Token| match self.batches.of_token(*token) {
            Some(id) => self.batches.get(&id).is_some_and(|batch| is_of_life(batch, &known.incarnation)),
            None => !self.final_commands.is_granted(*token) && !self.strays.has(*token),
        };
        !self.workers.has_dead_life(worker) && self.tokens_of(worker).all(|token| is_covered(&token))
    }

    pub(super) fn worker_leaves(&mut self, worker: &WorkerId, now: Timestamp) {
        self.finals_go_on(worker, now);
        if !self.workers.has_dead_life(worker) {
            self.unsettle(worker, SettleCause::Leaving);
        }
    }

    /// Whether the end of an attempt is its worker's own doing, for it was stopped; then it uses up no retry. A worker that is
    /// heard of and does not leave was not stopped: somebody else, the job itself perhaps, has sent the signal.
    pub(in crate::group) fn interruption(
        &self,
        (id, token): (BatchId, Token),
        worker: &WorkerId,
        (said, outcome): (bool, &AttemptOutcome),
    ) -> Option<Event> {
        planted!(StopUsesUpRetry => return None);
        let is_killed = || self.batches.get(&id).is_some_and(|batch| batch.kill().is_some());
        let counts = !said || outcome.result != AttemptResult::Lost || !self.records_departures();
        if counts || is_killed() || !self.was_stopped(id, worker) {
            return None;
        }
        let worker = worker.clone();
        Some(AttemptEvent::Interrupted { batch: id, token, worker }.into())
    }

    /// Whether the life of the worker that began the batch leaves, or is over.
    fn was_stopped(&self, id: BatchId, worker: &WorkerId) -> bool {
        let Some(known) = self.workers.get(worker).filter(|known| !known.leaving && !known.expired) else {
            return true;
        };
        let began = self.batches.get(&id).and_then(|batch| match &batch.phase {
            Phase::Granted(grant) => Some(&grant.incarnation),
            Phase::Assigned { right, .. } => right.as_ref().map(|right| &right.of.incarnation),
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => None,
        });
        began.is_some_and(|life| *life != known.incarnation)
    }
}

/// Whether a batch that a worker holds was given to this life of it, which has not begun it as far as anybody said.
fn is_of_life(batch: &Batch, life: &Incarnation) -> bool {
    match &batch.phase {
        Phase::Assigned { right, .. } => {
            right.as_ref().is_none_or(|right| right.of.incarnation == *life && !right.is_by_word())
        }
        // What a restore holds was granted to a question that nobody asked: of what became of it the log knows nothing.
        Phase::Granted(grant) => {
            grant.incarnation == *life && !grant.started && !grant.nonce.as_str().is_empty()
        }
        Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => true,
    }
}

impl Workers {
    /// Whether the worker leaves, and takes no work for that.
    pub(in crate::group) fn is_leaving(&self, worker: &WorkerId) -> bool {
        self.get(worker).is_some_and(|known| known.leaving)
    }
}
