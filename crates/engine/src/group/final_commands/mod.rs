//! JOB-8: the final command of a batch that has ended for good.
//!
//! ```text
//!  BatchFinished ──► due ──► FinalCommandAssigned ──► FinalCommandGranted ──► FinalCommandFinished
//!                     └─────────────┴── not run: its worker is gone, or does not ask ──► ▲ and an alarm
//! ```
//! It goes to the worker of the batch's last attempt, with a token of its own and the handshake of an attempt, and is
//! granted once: so it runs at most once, and where it did not, that is on record. That of a batch that never had an
//! attempt goes to the first worker that may run the job and has a free slot, within the time in which a worker has to
//! start. Its `BatchFinished` says that it is due: batches that ended so on record before had none. The same becomes of one whose
//! worker leaves before it is granted ([`GroupShard::finals_go_on`]).
//!
//! *Invariant:* what is due is assigned before anything else is placed, so a final command takes over the slot of the
//! attempt whose end ended the batch.

mod handshake;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    AlarmKind, AttemptOutcome, AttemptResult, BatchId, BatchResult, Ending, Event, FinalCommandEvent,
    FinalResult, Incarnation, JobDefinition, JobId, Nonce, Rejection, Severity, Timestamp, Token, WorkerId,
};

use crate::decision::Decision;
use crate::group::batches::batch::Batch;
use crate::group::placement::unplaced::Unplaced;
use crate::group::restored::unasked;
use crate::group::workers::Demand;
use crate::group::workers::report::GRANTED_TO_ANOTHER;
use crate::group::{GroupShard, Timer, alarm};

#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct Finals {
    /// Of batches that have just ended, and the worker of each one's last attempt.
    due: BTreeMap<BatchId, (WorkerId, Box<Ended>)>,
    /// Of batches that ended without an attempt, or whose worker leaves.
    pub(in crate::group) unplaced: Unplaced,
    held: BTreeMap<Token, Box<Held>>,
    /// The workers of the last attempts of unfinished batches.
    last: HashMap<BatchId, Last, rustc_hash::FxBuildHasher>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct Last {
    worker: WorkerId,
    exit_code: Option<i32>,
    values: Option<Arc<BTreeMap<String, String>>>,
}

/// A batch that has ended.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Ended {
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) logical_time: Timestamp,
    pub(crate) run: u32,
    pub(crate) parameters: Option<Arc<BTreeMap<String, String>>>,
    /// What parents had passed on when its last attempt began (BYD-20).
    pub(crate) values: Option<Arc<BTreeMap<String, String>>>,
    pub(crate) ending: Ending,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct Held {
    batch: BatchId,
    of: Ended,
    worker: WorkerId,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Stored)]
enum Phase {
    Assigned { start_by: Timestamp },
    Granted { incarnation: Incarnation, nonce: Nonce },
}

impl Held {
    fn ended(&self, token: Token, end: (FinalResult, Option<i32>, String)) -> Vec<Event> {
        told(self.batch, &self.of, (Some(token), &self.worker), end)
    }
}

impl Finals {
    fn len(&self) -> usize {
        self.due.len() + self.unplaced.all().count() + self.held.len()
    }

    pub(crate) fn next_due(&self) -> Option<BatchId> {
        self.due.keys().next().copied()
    }

    /// Whether a final command of the job has not ended.
    pub(crate) fn has_of(&self, job: JobId) -> bool {
        let due = self.due.values().map(|(_, ended)| ended.as_ref());
        let mut of = due.chain(self.held.values().map(|held| &held.of)).chain(self.unplaced.all());
        of.any(|ended| ended.definition.id == job)
    }

    /// The attempt that the batch has has ended.
    pub(crate) fn note(&mut self, id: BatchId, batch: &Batch, outcome: &AttemptOutcome) {
        if final_command(&batch.definition).is_some()
            && let Some((_, worker)) = batch.holder()
        {
            let values = batch.grant().and_then(|grant| grant.values.clone());
            self.last.insert(id, Last { worker: worker.clone(), exit_code: outcome.exit_code, values });
        }
    }

    /// The slot that the token holds.
    pub(crate) fn demand(&self, token: Token) -> Option<Demand<'_>> {
        self.held.get(&token).map(|held| demand(&held.of.definition))
    }

    pub(crate) fn is_granted(&self, token: Token) -> bool {
        self.held.get(&token).is_some_and(|held| matches!(held.phase, Phase::Granted { .. }))
    }

    pub(crate) fn holds(&self, token: Token) -> bool {
        self.held.contains_key(&token)
    }

    /// The end of one that a worker has; nothing if none has it.
    pub(crate) fn final_ended(&self, token: Token, result: FinalResult, why: &str) -> Vec<Event> {
        let Some(held) = self.held.get(&token) else { return Vec::new() };
        held.ended(token, (result, None, why.to_owned()))
    }

    /// What becomes of one whose worker was lost, came back, or is dead.
    pub(crate) fn final_settled(&self, token: Token) -> Vec<Event> {
        let (result, why) = match self.is_granted(token) {
            true => (FinalResult::Lost, "nothing of its worker runs any more"),
            false => (FinalResult::NotRun, "its worker was lost before it started"),
        };
        self.final_ended(token, result, why)
    }

    /// A worker gives it back, which is its right until it was granted, and after that while nothing of it runs.
    pub(crate) fn reject_final(
        &self,
        token: Token,
        (worker, nonce): (&WorkerId, Option<&Nonce>),
        reason: &str,
    ) -> Option<Decision> {
        let held = self.held.get(&token).filter(|held| held.worker == *worker)?;
        if let Phase::Granted { nonce: asked, .. } = &held.phase
            && nonce != Some(asked)
        {
            return Some(Rejection::stale(token, GRANTED_TO_ANOTHER).into());
        }
        let why: String = reason.chars().take(500).collect();
        Some(Decision::events(held.ended(token, (FinalResult::NotRun, None, why))))
    }

    pub(crate) fn final_finished(
        &self,
        token: Token,
        worker: &WorkerId,
        outcome: &AttemptOutcome,
    ) -> Option<Decision> {
        let held = self.held.get(&token).filter(|held| held.worker == *worker)?;
        let result = match (&held.phase, outcome.result) {
            (Phase::Assigned { .. }, _) => FinalResult::NotRun,
            (Phase::Granted { .. }, AttemptResult::Success) => FinalResult::Success,
            (Phase::Granted { .. }, AttemptResult::Failed | AttemptResult::Killed) => FinalResult::Failed,
            (Phase::Granted { .. }, AttemptResult::TimedOut) => FinalResult::TimedOut,
            (Phase::Granted { .. }, AttemptResult::Lost) => FinalResult::Lost,
        };
        let said: String = outcome.message.chars().take(500).collect();
        let message = match (outcome.exit_code, outcome.signal) {
            (Some(code), _) if code != 0 && said.is_empty() => format!("exit code {code}"),
            (None, Some(signal)) if said.is_empty() => format!("signal {signal}"),
            _ => said,
        };
        Some(Decision::events(held.ended(token, (result, outcome.exit_code, message))))
    }
}

/// It takes the slot of an attempt, and none of its memory.
pub(crate) fn demand(definition: &JobDefinition) -> Demand<'_> {
    Demand { memory_mb: 0, ..Demand::of(definition) }
}

pub(in crate::group) fn final_command(definition: &JobDefinition) -> Option<&str> {
    definition.spec.final_command.as_deref()
}

impl GroupShard {
    /// Final commands that are due and have not ended.
    #[must_use]
    pub fn unfinished_final_commands(&self) -> usize {
        self.final_commands.len()
    }

    /// What was assigned may have been granted in what was lost of the log.
    pub(in crate::group) fn hold_finals(&mut self) {
        for (token, held) in &mut self.final_commands.held {
            let Phase::Assigned { start_by } = held.phase else { continue };
            let Some(incarnation) = self.workers.get(&held.worker).map(|known| known.incarnation.clone())
            else {
                continue;
            };
            held.phase = Phase::Granted { incarnation, nonce: unasked() };
            self.timers.cancel(start_by, Timer::StartBy(*token));
        }
    }

    pub(in crate::group) fn apply_final_command(&mut self, event: &FinalCommandEvent) {
        match event {
            FinalCommandEvent::Assigned { batch, worker, token, start_by, .. } => {
                self.final_assigned(*batch, worker, (*token, *start_by));
            }
            FinalCommandEvent::Granted { token, incarnation, nonce, .. } => {
                let Some(held) = self.final_commands.held.get_mut(token) else { return };
                let granted = Phase::Granted { incarnation: incarnation.clone(), nonce: nonce.clone() };
                if let Phase::Assigned { start_by } = std::mem::replace(&mut held.phase, granted) {
                    self.timers.cancel(start_by, Timer::StartBy(*token));
                }
            }
            FinalCommandEvent::Finished { batch, token, .. } => self.final_has_ended(*batch, *token),
            FinalCommandEvent::NotRun { batch, .. } => {
                self.final_placed(*batch);
            }
        }
    }

    /// What a batch that has just ended asks for.
    pub(crate) fn final_commands(&self, id: BatchId, now: Timestamp) -> Vec<Event> {
        let Some((worker, ended)) = self.final_commands.due.get(&id) else { return Vec::new() };
        if self.workers.get(worker).is_none_or(|worker| worker.lost || worker.expired) {
            let why = "the worker of the last attempt is gone";
            return told(id, ended, (None, worker), (FinalResult::NotRun, None, why.to_owned()));
        }
        vec![self.assigned_final(id, ended, worker, now)]
    }

    pub(in crate::group) fn assigned_final(
        &self,
        id: BatchId,
        ended: &Ended,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Event {
        Event::FinalCommand(FinalCommandEvent::Assigned {
            batch: id,
            job: ended.definition.id,
            token: self.batches.next_token(self.id),
            worker: worker.clone(),
            start_by: self.start_by(now),
        })
    }

    /// A batch has ended for good; one without an attempt `is_called`, if its end says so, and then a worker must have room
    /// for it in time.
    pub(crate) fn final_called(
        &mut self,
        id: BatchId,
        batch: &Batch,
        (result, is_called): (BatchResult, bool),
        now: Timestamp,
    ) {
        let last = self.final_commands.last.remove(&id);
        if final_command(&batch.definition).is_none() || (last.is_none() && !is_called) {
            return;
        }
        let (worker, values, exit_code) =
            last.map_or((None, None, None), |last| (Some(last.worker), last.values, last.exit_code));
        let ended = Box::new(Ended {
            definition: Arc::clone(&batch.definition),
            logical_time: batch.logical_time,
            run: batch.run,
            parameters: batch.parameters.clone(),
            values,
            ending: Ending { result, attempts: batch.attempts, exit_code },
        });
        match worker.filter(|worker| !self.workers.is_leaving(worker)) {
            Some(worker) => drop(self.final_commands.due.insert(id, (worker, ended))),
            None => self.final_waits(id, ended, now),
        }
    }

    /// A worker must have room for it in time.
    fn final_waits(&mut self, id: BatchId, ended: Box<Ended>, now: Timestamp) {
        let until = self.start_by(now);
        self.final_commands.unplaced.insert(id, until, ended);
        self.timers.set(until, Timer::Final(id));
    }

    /// EXE-12: a worker leaves. What it has not been granted goes to another one, or to its next life.
    pub(in crate::group) fn finals_go_on(&mut self, worker: &WorkerId, now: Timestamp) {
        let of = |(id, (due_to, _)): (&BatchId, &(WorkerId, _))| (due_to == worker).then_some(*id);
        let due: Vec<BatchId> = self.final_commands.due.iter().filter_map(of).collect();
        for id in due {
            if let Some((_, ended)) = self.final_commands.due.remove(&id) {
                self.final_waits(id, ended, now);
            }
        }
        let is_waiting =
            |token: &Token| self.final_commands.holds(*token) && !self.final_commands.is_granted(*token);
        let assigned: Vec<Token> = self.tokens_of(worker).filter(is_waiting).collect();
        for token in assigned {
            let Some(held) = self.final_commands.held.remove(&token) else { continue };
            if let Phase::Assigned { start_by } = held.phase {
                self.timers.cancel(start_by, Timer::StartBy(token));
            }
            self.workers.count(worker, &demand(&held.of.definition), token, false);
            self.final_waits(held.batch, Box::new(held.of), now);
        }
    }

    pub(crate) fn final_assigned(
        &mut self,
        batch: BatchId,
        worker: &WorkerId,
        (token, start_by): (Token, Timestamp),
    ) {
        self.batches.note_token();
        let due = self.final_commands.due.remove(&batch).map(|(_, ended)| ended);
        let Some(ended) = due.or_else(|| self.final_placed(batch)) else { return };
        self.workers.count(worker, &demand(&ended.definition), token, true);
        self.timers.set(start_by, Timer::StartBy(token));
        let (worker, phase) = (worker.clone(), Phase::Assigned { start_by });
        let held = Held { batch, of: *ended, worker, phase };
        self.final_commands.held.insert(token, Box::new(held));
    }

    /// It waits for a worker no longer.
    pub(in crate::group) fn final_placed(&mut self, batch: BatchId) -> Option<Box<Ended>> {
        let (until, ended) = self.final_commands.unplaced.remove(batch)?;
        self.timers.cancel(until, Timer::Final(batch));
        Some(ended)
    }

    pub(crate) fn final_has_ended(&mut self, batch: BatchId, token: Option<Token>) {
        self.final_commands.due.remove(&batch);
        let Some(token) = token else { return };
        let Some(held) = self.final_commands.held.remove(&token) else { return };
        if let Phase::Assigned { start_by } = held.phase {
            self.timers.cancel(start_by, Timer::StartBy(token));
        }
        self.workers.count(&held.worker, &demand(&held.of.definition), token, false);
        if self.workers.next_unsettled().is_some() {
            self.go_on_settling(&held.worker);
        }
    }
}

/// The end of a final command; people are told unless it succeeded.
fn told(
    batch: BatchId,
    ended: &Ended,
    (token, worker): (Option<Token>, &WorkerId),
    (result, exit_code, message): (FinalResult, Option<i32>, String),
) -> Vec<Event> {
    let alarm =
        (result != FinalResult::Success).then(|| failed(batch, ended, Some(worker), (result, &message)));
    let (job, worker) = (ended.definition.id, worker.clone());
    let end = Event::FinalCommand(FinalCommandEvent::Finished {
        batch,
        job,
        token,
        worker,
        result,
        exit_code,
        message,
    });
    std::iter::once(end).chain(alarm).collect()
}

pub(in crate::group) fn failed(
    batch: BatchId,
    ended: &Ended,
    worker: Option<&WorkerId>,
    (result, message): (FinalResult, &str),
) -> Event {
    let message = format!(
        "the final command of batch {batch} of {} for {} ended as {}: {message}; the batch stays {}",
        ended.definition.full_name(),
        ended.logical_time,
        result.as_str(),
        ended.ending.result.as_str()
    );
    let of = (batch, &*ended.definition);
    alarm(AlarmKind::FinalCommandFailed, Severity::Important, of, worker, message)
}
