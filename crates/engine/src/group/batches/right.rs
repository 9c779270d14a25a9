//! The right to start before the question is answered, which an assignment may carry (rule 8).
//!
//! ```text
//!  sent            read by the owner
//!   n ──────────────► n ··· assigned with a right under n ··· granted: the worker's question was read
//!   |── window_ms ──|       |                             ··· word of the worker, end of its lease
//!   |  it may start |       └── window and margin from the reading or the claim, and all commands read
//! ```
//!
//! The worker asks as ever, and starts once the log has its question. So whoever has read the commands up to an end that was
//! asked for after the window has read the question of each process that was started, or none was.
//!
//! *Invariant:* a question under the right is granted whatever has changed since, and until the right is over nothing but its
//! worker's word ends the assignment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    Actor, AttemptEvent, BatchEvent, BatchId, BatchResult, Event, Incarnation, Level, Nonce, PartitionEvent,
    ReturnReason, StartRight, Timestamp, Token, WorkMessage, WorkerId, bounds,
};

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::attempts::returned;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::batches::mark::Mark;

/// The margin beyond the window, at least, milliseconds; the group's margin of leases, where that is longer.
const LEAST_MARGIN_MS: u64 = 500;
/// A window that is shorter is not worth it.
const LEAST_WINDOW_MS: u64 = 500;
/// The question of a start that its worker's reports imply.
const IMPLIED: &str = "implied";

/// A right that is not known to be over.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Right {
    pub(crate) of: StartRight,
    /// Window and margin.
    over_after_ms: u64,
    /// Who asked for the end of what may run.
    pub(crate) kill: Option<Actor>,
    /// A question under it may have been lost, or could not be read: time does not end it.
    by_word: bool,
    /// What was given of its parents' values.
    pub(crate) values: Option<Arc<BTreeMap<String, String>>>,
}

impl Right {
    /// Whether only its worker's word ends it, or the lease.
    pub(crate) fn is_by_word(&self) -> bool {
        self.by_word
    }
}

/// A heartbeat that an owner has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadHeartbeat {
    /// Its number in the life of its worker.
    pub number: u64,
    /// So long ago, milliseconds.
    pub age_ms: u64,
}

/// Whether commands were set aside or lost: questions that were asked under a right may be among them.
pub(crate) fn puts_rights_in_doubt(event: &Event) -> bool {
    matches!(
        event,
        Event::Partition(
            PartitionEvent::CommandDeadLettered { .. } | PartitionEvent::CommandLossAccepted { .. },
        )
    )
}

/// What an owner knows of the heartbeats that it has read itself; no state holds it.
pub trait Heartbeats: std::fmt::Debug {
    /// The last one of this life of a worker.
    fn last(
        &self,
        shard: tidemill_model::ShardId,
        worker: &WorkerId,
        life: &Incarnation,
    ) -> Option<ReadHeartbeat>;
}

/// Nothing is known, so no rights are given.
impl Heartbeats for () {
    fn last(&self, _: tidemill_model::ShardId, _: &WorkerId, _: &Incarnation) -> Option<ReadHeartbeat> {
        None
    }
}

/// A right that its owner has to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveRight {
    /// Of which assignment.
    pub token: Token,
    /// It is over so long after the reading of its heartbeat, or the owner's claim.
    pub over_after_ms: u64,
}

impl GroupShard {
    /// The rights that time ends.
    pub fn live_rights(&self) -> impl Iterator<Item = LiveRight> + '_ {
        self.batches.rights.iter().filter_map(|token| {
            let right = self.batches.get(&self.batches.of_token(*token)?)?.right()?;
            (!right.by_word).then_some(LiveRight { token: *token, over_after_ms: right.over_after_ms })
        })
    }

    /// The assignment of this batch with a right, if its worker may have one.
    pub(crate) fn assignment_with_right(
        &self,
        (id, batch): (BatchId, &Batch),
        worker: &WorkerId,
        heartbeats: &dyn Heartbeats,
    ) -> Option<Event> {
        if !self.level().allows(Level::new(2)) || !self.waits_for_own_parents_alone(batch) {
            return None;
        }
        let settings = self.settings();
        let margin_ms = settings.lease_margin_ms.max(LEAST_MARGIN_MS);
        let window_ms = settings.lost_after_ms.saturating_sub(margin_ms).min(bounds::START_WINDOW_MS);
        let incarnation = self.workers.get(worker)?.incarnation.clone();
        let read = heartbeats.last(self.id, worker, &incarnation)?;
        if window_ms < LEAST_WINDOW_MS || read.age_ms > window_ms / 2 || read.number == 0 {
            return None;
        }
        let token = self.batches.next_token(self.id);
        // What cannot be resolved fails when its worker asks.
        self.run_spec(id, batch, token).ok()?;
        Some(Event::Batch(BatchEvent::AssignedWithRight {
            batch: id,
            attempt: batch.attempts + 1,
            token,
            worker: worker.clone(),
            right: StartRight { incarnation, heartbeat: read.number, window_ms },
            over_after_ms: window_ms + margin_ms,
        }))
    }

    /// What other shards or services hold back can be withdrawn without this shard.
    fn waits_for_own_parents_alone(&self, batch: &Batch) -> bool {
        let listed = batch.dependencies.iter().map(|waits| waits.declared.parent);
        let counted = batch.counted.iter().flat_map(|counted| counted.parents());
        batch.external_dependencies().is_empty()
            && batch.gate().is_none()
            && listed.chain(counted).all(|parent| self.jobs.get(&parent).is_some())
    }

    pub(in crate::group) fn batch_assigned_with_right(&mut self, now: Timestamp, event: &BatchEvent) {
        let BatchEvent::AssignedWithRight { batch, token, worker, right, over_after_ms, .. } = event else {
            return;
        };
        let (of, over_after_ms) = (right.clone(), *over_after_ms);
        let values = self.fixed_values(batch);
        let right = Right { of, over_after_ms, kill: None, by_word: false, values };
        let over = jiff::SignedDuration::from_millis(i64::try_from(over_after_ms).unwrap_or(i64::MAX));
        let start_by = now.saturating_add(over).unwrap_or(Timestamp::MAX);
        self.batch_assigned(now, *batch, (*token, worker), start_by, Some(Box::new(right)));
        self.batches.rights.insert(*token);
    }

    /// What the batch gets of its parents' values, as they are now.
    pub(in crate::group) fn fixed_values(&self, id: &BatchId) -> Option<Arc<BTreeMap<String, String>>> {
        let values = self.batches.get(id).and_then(|batch| self.values_for(batch).ok());
        values.filter(|values| !values.is_empty()).map(Arc::new)
    }

    /// A question may have been lost, or could not be read: the rights of now end by their workers' words or leases.
    pub(crate) fn hold_rights(&mut self) {
        for token in &self.batches.rights {
            let batch = self.batches.by_token.get(token).and_then(|id| self.batches.by_id.get_mut(id));
            if let Some(Phase::Assigned { right: Some(right), .. }) = batch.map(|batch| &mut batch.phase) {
                right.by_word = true;
            }
        }
    }

    /// Whether a process may run, or still be started, under the right of this assignment. That another life of the worker has
    /// registered says nothing: what an earlier one sent may come late.
    pub(in crate::group) fn stands(&self, token: Token, worker: &WorkerId) -> bool {
        !self.workers.is_over(worker, token)
    }

    /// The start that a report implies of an attempt under a right: the question is behind it, or lost.
    pub(in crate::group) fn implied_grant(&self, id: BatchId, batch: &Batch) -> Option<Event> {
        let (right, (token, worker)) = (batch.right()?, batch.holder()?);
        self.stands(token, worker).then(|| {
            Event::Attempt(AttemptEvent::StartGranted {
                batch: id,
                token,
                worker: worker.clone(),
                incarnation: right.of.incarnation.clone(),
                nonce: Nonce::new(IMPLIED),
            })
        })
    }

    /// Whether a report that nothing of an attempt runs tells of a process that did.
    pub(in crate::group) fn tells_of_a_process(batch: &Batch, has_usage: bool) -> bool {
        has_usage && batch.right().is_some_and(|right| right.by_word)
    }

    /// An assignment that was not granted ends: the batch goes to another worker, or ends where that was asked for.
    pub(in crate::group) fn not_begun(&self, id: BatchId, batch: &Batch, reason: ReturnReason) -> Vec<Event> {
        match (batch.kill(), batch.holder()) {
            (Some(by), _) if !planted!(KillLostOnReturn) => vec![self.batches.killed_end(id, by)],
            (_, Some(holder)) => vec![returned(id, holder, reason)],
            (_, None) => Vec::new(),
        }
    }

    /// The window and margin are over by the owner's clock, and all commands were read.
    pub(crate) fn end_start_right(&self, token: Token) -> Decision {
        let found = self.batches.of_token(token).and_then(|id| Some((id, self.batches.get(&id)?)));
        let ends = |batch: &Batch| batch.right().is_some_and(|right| !right.by_word);
        let Some((id, batch)) = found.filter(|(_, batch)| ends(batch)) else { return Decision::nothing() };
        Decision::events(self.not_begun(id, batch, ReturnReason::NotStarted))
    }

    /// What the worker of an assignment with a right is told.
    pub(crate) fn assigned_with_right(&self, token: Token) -> Option<WorkMessage> {
        let id = self.batches.of_token(token)?;
        let batch = self.batches.get(&id)?;
        let right = batch.right()?.of.clone();
        let spec = Box::new(self.run_spec(id, batch, token).ok()?);
        Some(WorkMessage::AssignedWithRight { right, spec })
    }

    /// Whether its question may be lost, or its life over.
    pub(in crate::group) fn is_in_doubt(&self, worker: &WorkerId, right: &Right) -> bool {
        right.by_word || !self.workers.is_present_life(worker, &right.of.incarnation)
    }

    /// What is asked of the worker of an assignment that is to come back.
    pub(crate) fn asked_back(&self, id: &BatchId) -> Option<(WorkerId, WorkMessage)> {
        let batch = self.batches.get(id)?;
        let (token, worker) = batch.holder()?;
        let in_doubt = self.is_in_doubt(worker, batch.right()?);
        (in_doubt || !batch.may_run()).then(|| (worker.clone(), WorkMessage::AskedBack { token }))
    }

    /// All that the worker of an assignment with a right must hear.
    pub(crate) fn outstanding_right(&self, id: BatchId, batch: &Batch, token: Token) -> Vec<WorkMessage> {
        let kill = || WorkMessage::Kill { token, grace_ms: self.settings().kill_grace_ms };
        let assigned = self.assigned_with_right(token);
        let asked_back = self.asked_back(&id).map(|(_, message)| message);
        assigned.into_iter().chain(asked_back).chain(batch.kill().map(|_| kill())).collect()
    }

    /// What the workers of rights that only they can end are asked.
    pub(crate) fn rights_asked_back(&self) -> Vec<(WorkerId, WorkMessage)> {
        let batches = self.batches.rights.iter().filter_map(|token| self.batches.of_token(*token));
        batches.filter_map(|id| self.asked_back(&id)).collect()
    }

    /// Whether the worker has to say what became of an assignment of a life before.
    pub(crate) fn is_by_word(&self, token: Token) -> bool {
        let batch = self.batches.of_token(token).and_then(|id| self.batches.get(&id));
        batch.and_then(Batch::right).is_some_and(|right| right.by_word)
    }
}

impl super::Batches {
    /// How a batch ends that was to be ended.
    pub(in crate::group) fn killed_end(&self, id: BatchId, by: &Actor) -> Event {
        match self.marks.get(&id).cloned() {
            Some(Mark { result, by, reason }) => self.batch_end(id, result, Some(by), reason),
            None => self.batch_end(id, BatchResult::Killed, Some(by.clone()), "killed on request".to_owned()),
        }
    }
}
