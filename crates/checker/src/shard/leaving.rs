//! Workers that were told to stop, and the attempts that they end for that.

use tidemill_model::{
    AttemptResult, BatchId, Command, Incarnation, Level, ReturnReason, Token, WorkerCommand, WorkerId,
};

use super::Shard;
use super::batch::{Assignment, Phase};
use crate::findings::Asked;
use crate::{At, Invariant};

const RULE: Invariant = Invariant::StoppedAttemptsUseNoRetry;

impl Shard {
    /// `worker_lives_follow`: a worker leaves once in a life.
    pub(super) fn leaving(&mut self, at: &At<'_>, (worker, incarnation): (&WorkerId, &Incarnation)) {
        let Some(known) = self.in_its_life(at, worker, incarnation, "leaving") else { return };
        let said = std::mem::replace(&mut known.said, at.offset);
        if std::mem::replace(&mut known.leaving, true) {
            at.contradicts(Invariant::WorkerLivesFollow, format!("worker {worker} leaves twice"), &[said]);
        }
        self.finals_go_on(at, worker);
    }

    /// `worker_lives_follow`: it has left only after it was leaving, and nothing that has started is left there.
    pub(super) fn has_left(&mut self, at: &At<'_>, (worker, incarnation): (&WorkerId, &Incarnation)) {
        let rule = Invariant::WorkerLivesFollow;
        let Some(known) = self.in_its_life(at, worker, incarnation, "gone") else { return };
        let said = std::mem::replace(&mut known.said, at.offset);
        let was_leaving = known.leaving && !known.expired;
        (known.left, known.expired) = (Some(at.offset), true);
        let held: Vec<BatchId> = known.held.iter().copied().collect();
        if !was_leaving {
            at.contradicts(rule, format!("worker {worker} has left, and was not leaving"), &[said]);
        }
        let runs = |id: &&BatchId| {
            self.batches
                .get(id)
                .is_some_and(|batch| matches!(batch.phase, Phase::Granted { started: true, .. }))
        };
        if let Some(id) = held.iter().find(runs) {
            at.contradicts(rule, format!("worker {worker} has left, and batch {id} runs there"), &[said]);
        }
        self.lease_ends_rights(worker);
    }

    /// Whether an assignment may be returned because its worker leaves; of one that was granted, the worker has said so.
    pub(super) fn may_leave(&self, at: &At<'_>, held: &Assignment, is_granted: bool) -> bool {
        let Some(known) = self.workers.get(&held.worker) else { return false };
        // Also where its next life has registered before what it held was taken back, or one record says all of it.
        let has_left = known.left.is_some_and(|left| held.said <= left);
        has_left || if is_granted { !matches!(at.asked, Asked::Owner) } else { known.leaving }
    }

    /// `only_allowed_transitions`
    pub(super) fn leaves_with(&self, at: &At<'_>, id: BatchId, held: &Assignment, reason: &ReturnReason) {
        if *reason == ReturnReason::WorkerLeaving && !self.may_leave(at, held, false) {
            let why = format!("assignment {} is returned because {} leaves", held.token, held.worker);
            let why = format!("batch {id}: {why}, and it does not");
            at.contradicts(Invariant::OnlyAllowedTransitions, why, &[held.said]);
        }
    }

    /// `stopped_attempts_use_no_retry`: only what its worker says that it has ended, for it was stopped.
    pub(super) fn interrupted(&mut self, at: &At<'_>, id: BatchId, (token, worker): (Token, &WorkerId)) {
        let stopped = self.batches.get(&id).is_none_or(|batch| match &batch.phase {
            Phase::Granted { to, .. } | Phase::Assigned(to) => self.is_stopped(to),
            Phase::Waiting | Phase::Ended { .. } | Phase::Pausing { .. } => false,
        });
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let runs =
            matches!(&batch.phase, Phase::Granted { to, .. } if to.token == token && to.worker == *worker);
        let is_said = at.command().is_none_or(|command| says_interrupted(command, token, worker));
        let (is_killed, said) = (batch.kill.is_some(), batch.said);
        batch.interrupting = Some(token);
        batch.interrupted = batch.interrupted.saturating_add(1);
        self.unsettled.push(id);
        if !runs || !is_said || is_killed || !stopped {
            let why = match (runs, is_killed, is_said) {
                (false, _, _) => "and it does not run there",
                (true, true, _) => "and its end was asked for",
                (true, false, false) => "and it has not said so",
                (true, false, true) => "and it works on in the life that began it",
            };
            let why = format!("attempt {token} of batch {id} is excused, for {worker} was stopped, {why}");
            at.contradicts(RULE, why, &[said]);
        }
    }

    /// Whether the life that began an attempt leaves, or is over.
    fn is_stopped(&self, to: &Assignment) -> bool {
        self.workers.get(&to.worker).is_none_or(|known| {
            known.leaving
                || known.expired
                || to.incarnation.as_ref().is_some_and(|life| *life != known.incarnation)
        })
    }

    /// `stopped_attempts_use_no_retry`: an attempt ends, excused or not.
    pub(super) fn excused_if_stopped(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        to: &Assignment,
        result: AttemptResult,
    ) {
        let is_stopped = self.is_stopped(to);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let is_excused = batch.interrupting.take().is_some_and(|token| token == to.token);
        batch.was_interrupted = is_excused;
        if is_excused && result != AttemptResult::Lost {
            let why =
                format!("attempt {} of batch {id} is excused, and ends as {}", to.token, result.as_str());
            at.contradicts(RULE, why, &[batch.said]);
        }
        let is_said = at.command().is_some_and(|command| says_interrupted(command, to.token, &to.worker));
        // One that has reported code 0 has succeeded all the same.
        let is_lost = result == AttemptResult::Lost;
        let is_due =
            is_said && is_lost && is_stopped && batch.kill.is_none() && at.level.allows(Level::new(3));
        if is_due && !is_excused {
            let why = format!(
                "attempt {} of batch {id} was ended because {} was stopped, and uses up a retry",
                to.token, to.worker
            );
            at.contradicts(RULE, why, &[batch.said]);
        }
    }

    /// `stopped_attempts_use_no_retry`: at the end of an envelope.
    pub(super) fn none_is_excused_alone(&mut self, at: &At<'_>, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if let Some(token) = batch.interrupting.take() {
            let why = format!("attempt {token} of batch {id} is excused, and does not end");
            at.contradicts(RULE, why, &[batch.said]);
        }
    }
}

/// Whether a command is a worker's word that it has ended an attempt because it was stopped.
fn says_interrupted(command: &Command, of: Token, by: &WorkerId) -> bool {
    matches!(command, Command::Worker(WorkerCommand::ReportFinished { token, worker, outcome, interrupted: true, .. })
        if (*token, worker) == (of, by) && outcome.result == AttemptResult::Lost)
}
