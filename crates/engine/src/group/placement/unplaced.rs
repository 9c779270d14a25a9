//! JOB-8: the final commands of batches that ended without an attempt, or whose worker leaves, until a worker has room for them.
//!
//! ```text
//!  BatchFinished(final_command) ──┬► waits ──► FinalCommandAssigned, as any other
//!  WorkerLeaving ─────────────────┘   │
//!                                     └──► FinalCommandNotRun: no free slot in time, too many wait, no right to the
//!                                          account; and an alarm
//! ```
//! They wait by lane: what keeps the first of a lane from a worker keeps all of it.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::Stored;
use tidemill_model::{
    BatchId, Event, FinalCommandEvent, FinalResult, JobDefinition, Priority, Timestamp, WorkerId,
};

use crate::group::final_commands::{Ended, demand, failed};
use crate::group::placement::queue::Lane;
use crate::group::{GroupShard, leave};

/// So many wait at once; of more, the oldest are not run.
const MAX_WAITING: usize = 10_000;

/// Final commands that wait for a worker with a free slot.
#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(in crate::group) struct Unplaced {
    /// Each with the time until which a worker must have room.
    waiting: BTreeMap<BatchId, (Timestamp, Box<Ended>)>,
    lanes: BTreeMap<(Lane, Priority), BTreeSet<BatchId>>,
}

impl Unplaced {
    pub(crate) fn insert(&mut self, id: BatchId, until: Timestamp, ended: Box<Ended>) {
        self.lanes.entry(lane(&ended.definition)).or_default().insert(id);
        self.waiting.insert(id, (until, ended));
    }

    pub(crate) fn remove(&mut self, id: BatchId) -> Option<(Timestamp, Box<Ended>)> {
        let removed = self.waiting.remove(&id)?;
        let lane = lane(&removed.1.definition);
        leave(&mut self.lanes, &lane, &id);
        Some(removed)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Ended> {
        self.waiting.values().map(|(_, ended)| &**ended)
    }

    fn get(&self, id: BatchId) -> Option<&Ended> {
        self.waiting.get(&id).map(|(_, ended)| &**ended)
    }
}

/// What decides which workers may have it: it takes a slot, and neither memory nor pools.
fn lane(definition: &JobDefinition) -> (Lane, Priority) {
    (Lane { memory_mb: 0, pools: None, ..Lane::of(definition) }, definition.spec.priority)
}

impl GroupShard {
    /// Whose turn it is, and the worker that it goes to; without one, it is not run.
    pub(crate) fn next_unplaced_final(&self) -> Option<(BatchId, Option<WorkerId>)> {
        let unplaced = &self.final_commands.unplaced;
        if unplaced.waiting.len() > MAX_WAITING {
            return unplaced.waiting.keys().next().map(|id| (*id, None));
        }
        // The oldest of each lane, oldest first.
        let firsts: BTreeSet<BatchId> =
            unplaced.lanes.values().filter_map(|ids| ids.first().copied()).collect();
        firsts.into_iter().find_map(|id| {
            let definition = &unplaced.get(id)?.definition;
            if self.forbidden_account(definition).is_some() {
                return Some((id, None));
            }
            let worker = self.workers.fitting(demand(definition)).next()?;
            Some((id, Some(worker.clone())))
        })
    }

    pub(crate) fn place_final(&self, id: BatchId, worker: Option<&WorkerId>, now: Timestamp) -> Vec<Event> {
        let Some(ended) = self.final_commands.unplaced.get(id) else { return Vec::new() };
        match worker {
            Some(worker) => vec![self.assigned_final(id, ended, worker, now)],
            None => {
                let many = || format!("more than {MAX_WAITING} final commands wait for a worker");
                not_run(id, ended, self.forbidden_account(&ended.definition).unwrap_or_else(many))
            }
        }
    }

    pub(crate) fn final_not_placed(&self, id: BatchId) -> Vec<Event> {
        let Some(ended) = self.final_commands.unplaced.get(id) else { return Vec::new() };
        let why = match ended.ending.attempts {
            0 => "the batch had no attempt",
            _ => "the worker of the last attempt was stopped",
        };
        not_run(id, ended, format!("{why}, and no worker that may run its job had a free slot in time"))
    }
}

fn not_run(batch: BatchId, ended: &Ended, message: String) -> Vec<Event> {
    let alarm = failed(batch, ended, None, (FinalResult::NotRun, &message));
    vec![Event::FinalCommand(FinalCommandEvent::NotRun { batch, job: ended.definition.id, message }), alarm]
}
