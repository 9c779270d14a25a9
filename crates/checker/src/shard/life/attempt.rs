//! Attempts: granted, started, told to end, ended.

use tidemill_model::{
    AttemptEvent, AttemptOutcome, AttemptResult, BatchId, Command, Incarnation, Level, MAX_VALUES_BYTES,
    Nonce, ReturnReason, SuccessCheck, Token, WorkerCommand, WorkerId,
};

use super::super::Shard;
use super::super::batch::{Assignment, Batch, Phase};
use super::super::rights::implies_a_question;
use super::super::timeouts::bound;
use crate::Invariant;
use crate::findings::{Asked, At};

impl Shard {
    pub(super) fn step_of_attempt(&mut self, at: &At<'_>, id: BatchId, event: &AttemptEvent) {
        match event {
            AttemptEvent::StartGranted { token, worker, incarnation, nonce, .. } => {
                self.granted(at, id, (*token, worker, incarnation, nonce));
            }
            AttemptEvent::Adopted { .. } => self.adopted(at, id, event),
            AttemptEvent::Started { token, .. } => self.started(at, id, *token),
            AttemptEvent::UserCodeReported { token, code, .. } => {
                self.user_code_reported(at, id, (*token, *code))
            }
            AttemptEvent::OverLimit { token, excess, spares_retry, .. } => {
                self.over_limit(at, id, (*token, excess, *spares_retry));
            }
            AttemptEvent::ExternalWorkFound { token, ids, .. } => {
                self.external_work_found(at, id, (*token, ids));
            }
            AttemptEvent::ExternalWorkUnconfirmed { token, .. } => {
                self.external_work_unconfirmed(at, id, *token);
            }
            AttemptEvent::OutputQueried { .. } => self.output_queried(at, id, event),
            AttemptEvent::OutputAnswered { token, found, .. } => {
                self.output_answered(at, id, (*token, found));
            }
            AttemptEvent::Interrupted { token, worker, .. } => self.interrupted(at, id, (*token, worker)),
            AttemptEvent::Finished { token, attempt, worker, outcome, .. } => {
                self.attempt_finished(at, id, (*token, *attempt, worker), outcome);
            }
            AttemptEvent::KillRequested { token, .. } => self.kill_requested(at, id, *token),
            AttemptEvent::EndVouched { token, worker, by, .. } => {
                self.attempt_end_vouched(at, id, (*token, worker, by));
            }
        }
    }

    /// `start_timeout_kept`, and the assignment at hand is the one that ends.
    pub(super) fn returned(&mut self, at: &At<'_>, id: BatchId, token: Token, reason: &ReturnReason) {
        let held = self.batches.get(&id).map(|batch| batch.phase.clone());
        let held = match held.filter(|phase| is_of(phase, token)) {
            Some(Phase::Assigned(held)) => {
                self.leaves_with(at, id, &held, reason);
                held
            }
            // The worker that was granted it says that it has not begun, and never will.
            Some(Phase::Granted { to, nonce, started: false })
                if matches!(
                    reason,
                    ReturnReason::Rejected(_) | ReturnReason::LacksResources(_) | ReturnReason::WorkerLeaving
                ) && self.may_give_a_grant_back(at, &to, reason)
                    && at.command().is_none_or(|command| gives_back(command, &to, &nonce)) =>
            {
                to
            }
            Some(_) | None => {
                return self.not_allowed(at, id, &format!("assignment {token} is returned"));
            }
        };
        self.right_may_end(at, id, &held);
        let has_time = held.right.is_none() && at.now < held.start_by;
        if *reason == ReturnReason::NotStarted && has_time {
            let why =
                format!("assignment {token} is returned at {}, and had time until {}", at.now, held.start_by);
            at.contradicts(Invariant::StartTimeoutKept, why, &[held.said]);
        }
        self.step(id, Phase::Waiting);
        if let Some(batch) = self.batches.get_mut(&id) {
            let is_word = matches!(reason, ReturnReason::Rejected(_) | ReturnReason::LacksResources(_));
            batch.rejected = is_word.then_some(at.now);
        }
    }

    fn may_give_a_grant_back(&self, at: &At<'_>, to: &Assignment, reason: &ReturnReason) -> bool {
        match reason {
            ReturnReason::WorkerLeaving => self.may_leave(at, to, true),
            _ => !matches!(at.asked, Asked::Owner),
        }
    }

    /// `start_granted_only_to_assigned`
    fn granted(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, worker, incarnation, nonce): (Token, &WorkerId, &Incarnation, &Nonce),
    ) {
        let Some(batch) = self.batches.get(&id) else { return };
        let is_assigned = |held: &Assignment| Self::is_under_right(held, incarnation);
        let under_right = batch.phase.assignment().is_some_and(is_assigned);
        if !under_right {
            self.granted_only_with_its_external_dependencies(at, id);
            self.has_a_failure(at, id, "granted a start");
            self.no_stray_holds(at, id, "granted a start");
        }
        let Some(batch) = self.batches.get(&id) else { return };
        let rule = Invariant::StartGrantedOnlyToAssigned;
        let Phase::Assigned(held) = &batch.phase else {
            let why = format!("a start of batch {id} is granted while it is {}", batch.phase.word());
            return at.contradicts(rule, why, &[batch.said]);
        };
        let lost = self.workers.get(worker).is_none_or(|worker| worker.lost.is_some());
        let is_question = |command: &Command| {
            asks(command, (token, worker, incarnation, nonce))
                || under_right && implies_a_question(command, token, worker)
        };
        let why = if held.token != token {
            format!("{token} is granted, and {} is assigned", held.token)
        } else if held.worker != *worker {
            format!("{worker} gets the grant, and {} the assignment", held.worker)
        } else if held.incarnation.as_ref() != Some(incarnation) {
            format!("{incarnation} of {worker} gets the grant, and another life of it the assignment")
        } else if lost && !under_right {
            format!("{worker} gets the grant, and is lost")
        } else if at.command().is_some_and(|command| !is_question(command)) {
            format!("{token} is granted to a question that was not asked")
        } else {
            String::new()
        };
        if !why.is_empty() {
            at.contradicts(rule, format!("batch {id}: {why}"), &[held.said]);
        }
        let to = held.clone();
        self.never_two_live_attempts(at, id);
        self.begins(at, id, Phase::Granted { to, nonce: nonce.clone(), started: false });
    }

    /// From here on a process may live.
    pub(in crate::shard) fn begins(&mut self, at: &At<'_>, id: BatchId, granted: Phase) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        batch.phase = granted;
        batch.zero = false;
        batch.over.begin();
        batch.external.begin();
        batch.lost_output.begin(at.now);
        let bound = batch.of.as_ref().and_then(|of| bound(of.spec()));
        batch.long_at = bound.and_then(|bound| at.now.checked_add(bound).ok());
    }

    /// From a grant on, and from an assignment with a right.
    pub(in crate::shard) fn never_two_live_attempts(&mut self, at: &At<'_>, id: BatchId) {
        let Some(batch) = self.batches.get(&id) else { return };
        let run = (batch.job, batch.time);
        if let Some(other) = self.live.insert(run, id).filter(|other| *other != id) {
            let why =
                format!("batch {id} may start while {other} lives, another run of {} for {}", run.0, run.1);
            at.breaks(Invariant::NeverTwoLiveAttempts, why);
        }
    }

    fn started(&mut self, at: &At<'_>, id: BatchId, token: Token) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        match &mut batch.phase {
            Phase::Granted { to, started, .. } if to.token == token && !*started => {
                let same = |command: &Command| matches!(command, Command::Worker(WorkerCommand::ReportStarted { token: of, worker }) if *of == token && *worker == to.worker);
                *started = true;
                batch.external.earlier_has_ended();
                if at.command().is_some_and(|command| !same(command)) {
                    self.late(at, id, &format!("the start of {token} was not reported by its worker"));
                }
            }
            _ => self.late(at, id, &format!("attempt {token} is said to have started")),
        }
    }

    /// `late_reports_change_nothing`: nothing is said after a 0.
    fn user_code_reported(&mut self, at: &At<'_>, id: BatchId, (token, code): (Token, i32)) {
        let granted = |batch: &Batch| matches!(&batch.phase, Phase::Granted { to, .. } if to.token == token);
        match self.batches.get_mut(&id) {
            Some(batch) if granted(batch) && !batch.zero => batch.zero = code == 0,
            Some(_) | None => {
                self.late(at, id, &format!("attempt {token} is said to have reported a code"));
            }
        }
    }

    fn kill_requested(&mut self, at: &At<'_>, id: BatchId, token: Token) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let may_run = match &batch.phase {
            Phase::Granted { to, .. } => to.token == token,
            Phase::Assigned(held) => held.token == token && held.right.is_some(),
            Phase::Waiting | Phase::Ended { .. } | Phase::Pausing { .. } => false,
        };
        if may_run {
            batch.kill = Some(at.offset);
        } else {
            self.not_allowed(at, id, &format!("attempt {token} is to be ended"));
        }
    }

    fn attempt_finished(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, attempt, worker): (Token, u32, &WorkerId),
        outcome: &AttemptOutcome,
    ) {
        let result = outcome.result;
        let phase = self.batches.get(&id).map(|batch| batch.phase.clone());
        let Some(Phase::Granted { to, nonce, started }) = phase.filter(|phase| is_of(phase, token)) else {
            return self.late(at, id, &format!("attempt {token} is said to have finished"));
        };
        if to.worker != *worker {
            let why = format!("attempt {token} of {} is said to have finished on {worker}", to.worker);
            self.late(at, id, &why);
        }
        self.succeeds_by_its_code(at, id, result);
        let by_code = self.code_of(id).is_some();
        let is_vouched =
            self.is_vouched(token) && matches!(result, AttemptResult::Lost | AttemptResult::Success);
        let ends = |command: &Command| is_vouched || ends(command, (&to, &nonce), (result, by_code));
        if at.command().is_some_and(|command| !ends(command)) {
            self.late(at, id, &format!("the end of {token} was not reported so by its worker"));
        }
        if to.attempt != attempt {
            let why = format!("batch {id} was assigned as attempt {}, and finishes {attempt}", to.attempt);
            at.contradicts(Invariant::AttemptNumbersWithoutGaps, why, &[to.said]);
        }
        if outcome.values_bytes() > MAX_VALUES_BYTES {
            let why = format!("batch {id} passes {} bytes of values on", outcome.values_bytes());
            at.breaks(Invariant::ValuesWithinBounds, why);
        }
        self.excused_if_stopped(at, id, &to, result);
        self.no_attempt_before_lease_over(at, &to, result);
        self.step(id, Phase::Ended { result, exit_code: outcome.exit_code, at: at.now });
        self.ended_over_limit(at, id, outcome);
        self.ended_elsewhere(at, id, token);
        self.output_owed(at, id, (token, started, result));
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.attempts = to.attempt;
            batch.last_worker = Some(to.worker.clone());
        }
        self.unsettled.push(id);
    }

    /// `only_allowed_transitions`: where a job goes by the code, 0 is success, and nothing else is; since level 3 also of what is
    /// lost.
    fn succeeds_by_its_code(&self, at: &At<'_>, id: BatchId, result: AttemptResult) {
        match (self.code_of(id), result) {
            (Some(false), AttemptResult::Success) => {
                self.not_allowed(at, id, "has an attempt that succeeds without its code 0");
            }
            (Some(true), AttemptResult::Failed) => {
                self.not_allowed(at, id, "has an attempt that fails after its code 0");
            }
            (Some(true), AttemptResult::Lost) if at.level.allows(Level::new(3)) => {
                self.not_allowed(at, id, "has an attempt that is lost after its code 0");
            }
            _ => {}
        }
    }

    /// Whether the attempt at hand has reported 0, where its job goes by that.
    fn code_of(&self, id: BatchId) -> Option<bool> {
        let batch = self.batches.get(&id)?;
        (batch.of.as_ref()?.spec().success_check == SuccessCheck::UserCode).then_some(batch.zero)
    }

    /// `late_reports_change_nothing`
    fn late(&self, at: &At<'_>, id: BatchId, what: &str) {
        let Some(batch) = self.batches.get(&id) else { return };
        let why = format!("batch {id} is {}, and {what}", batch.phase.word());
        at.contradicts(Invariant::LateReportsChangeNothing, why, &[batch.said]);
    }
}

fn is_of(phase: &Phase, token: Token) -> bool {
    phase.assignment().is_some_and(|held| held.token == token)
}

/// Whether a command is the question that a grant answers.
pub(in crate::shard) fn asks(command: &Command, grant: (Token, &WorkerId, &Incarnation, &Nonce)) -> bool {
    matches!(command, Command::Worker(WorkerCommand::RequestStart(asked))
        if (asked.token, &asked.worker, &asked.incarnation, &asked.nonce) == grant)
}

/// Whether a command gives this grant back: it names the question that was granted. A worker that says it of an
/// earlier question may have begun on a later one.
pub(in crate::shard) fn gives_back(command: &Command, to: &Assignment, granted: &Nonce) -> bool {
    matches!(command, Command::Worker(WorkerCommand::RejectAssignment { token, worker, nonce, .. })
        if (*token, worker, nonce.as_ref()) == (to.token, &to.worker, Some(granted)))
}

/// Whether a command can have brought the end of an attempt.
fn ends(
    command: &Command,
    (to, granted): (&Assignment, &Nonce),
    (result, by_code): (AttemptResult, bool),
) -> bool {
    let is_judged = |result| by_code && matches!(result, AttemptResult::Success | AttemptResult::Failed);
    match command {
        Command::Worker(WorkerCommand::ReportFinished { token, worker, outcome, .. }) => {
            let said = outcome.result;
            let succeeds_though_lost =
                by_code && (said, result) == (AttemptResult::Lost, AttemptResult::Success);
            let same = said == result || (is_judged(said) && is_judged(result)) || succeeds_though_lost;
            *token == to.token && *worker == to.worker && same
        }
        Command::Worker(WorkerCommand::Register(who)) => {
            who.worker == to.worker && result == AttemptResult::Lost
        }
        // It was to be ended, and its worker has not begun it.
        Command::Worker(WorkerCommand::RejectAssignment { .. }) => {
            gives_back(command, to, granted) && result == AttemptResult::Killed
        }
        _ => false,
    }
}
