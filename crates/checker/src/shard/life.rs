//! What happens to a batch between generation and result.

use jiff::SignedDuration;
use tidemill_model::{
    AttemptEvent, AttemptOutcome, AttemptResult, BatchEvent, BatchId, BatchResult, Command, Event,
    Incarnation, JobId, MAX_VALUES_BYTES, Nonce, ReturnReason, Timestamp, Token, WorkerCommand, WorkerId,
};

use super::Shard;
use super::batch::{Assignment, Batch, Phase};
use super::final_commands::Due;
use super::placement::Wanted;
use super::retries::{Means, pause};
use super::timeouts::Ended;
use crate::Invariant;
use crate::at::{Asked, At};
use crate::findings::Findings;

/// Finished jobs-for-once that are still known. Owners keep fewer.
const ENDED_SUBMISSIONS: usize = 20_000;
/// How long what every worker gave back waits before it is offered again.
const REJECTION_PAUSE: SignedDuration = SignedDuration::from_secs(10);

impl Shard {
    pub(super) fn batch_event(&mut self, at: &At<'_>, event: &Event, found: &mut Findings) {
        let Some(id) = batch_of(event) else { return };
        if let Event::Batch(BatchEvent::TimeoutReached { kind, deadline, .. }) = event
            && self.late_marked(at, id, (*kind, *deadline), found)
        {
            return;
        }
        if matches!(event, Event::Batch(event) if self.marked(at, event, found))
            || !self.is_unfinished(at, id, event, found)
        {
            return;
        }
        match event {
            Event::Batch(event) => self.step_of_batch(at, id, event, found),
            Event::Attempt(event) => self.step_of_attempt(at, id, event, found),
            _ => {}
        }
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.said = at.offset;
        }
    }

    fn step_of_batch(&mut self, at: &At<'_>, id: BatchId, event: &BatchEvent, found: &mut Findings) {
        match event {
            // Its first event comes another way.
            BatchEvent::Generated { .. } => {}
            BatchEvent::DependencySatisfied { parent, logical_time, unmet, .. } => {
                self.dependency_changed(at, id, (*parent, *logical_time), (true, *unmet), found);
            }
            BatchEvent::DependencyRevoked { parent, logical_time, unmet, .. } => {
                self.dependency_changed(at, id, (*parent, *logical_time), (false, *unmet), found);
            }
            BatchEvent::Assigned { attempt, token, worker, start_by, .. } => {
                let wanted = Wanted { attempt: *attempt, token: *token, worker, start_by: *start_by };
                self.assigned(at, id, &wanted, found);
            }
            BatchEvent::AssignmentReturned { token, reason, .. } => {
                self.returned(at, id, *token, reason, found)
            }
            BatchEvent::RetryScheduled { attempt, at: until, .. } => {
                self.retry_scheduled(at, id, *attempt, *until, found);
            }
            BatchEvent::RetryDue { .. } => self.retry_due(at, id, found),
            BatchEvent::Finished { result, by, final_command, .. } => {
                self.batch_finished(at, id, (*result, by.is_some(), *final_command), found);
            }
            BatchEvent::ResultOverridden { .. } => {}
            BatchEvent::StartDue { .. } => self.start_due(at, id, found),
            BatchEvent::TimeoutReached { kind, deadline, .. } => {
                self.timeout_reached(at, id, (*kind, *deadline), found);
            }
            BatchEvent::Blocked { parent, logical_time, since, .. } => {
                self.block_recorded(at, id, Some((*parent, *logical_time, *since)), found);
            }
            BatchEvent::Unblocked { .. } => self.block_recorded(at, id, None, found),
            BatchEvent::DependencyOverridden { .. } => self.overridden(at, id, event, found),
            BatchEvent::QualityRequested { number, again_at, .. } => {
                self.quality_requested(at, id, (*number, *again_at), found);
            }
            BatchEvent::QualitySent { number, .. } => self.quality_sent(at, id, *number, found),
            BatchEvent::QualityAnswered { allowed, .. } => self.quality_answered(at, id, *allowed, found),
        }
    }

    fn step_of_attempt(&mut self, at: &At<'_>, id: BatchId, event: &AttemptEvent, found: &mut Findings) {
        match event {
            AttemptEvent::StartGranted { token, worker, incarnation, nonce, .. } => {
                self.granted(at, id, (*token, worker, incarnation, nonce), found);
            }
            AttemptEvent::Started { token, .. } => self.started(at, id, *token, found),
            AttemptEvent::UserCodeReported { token, code, .. } => {
                self.user_code_reported(at, id, (*token, *code), found)
            }
            AttemptEvent::Finished { token, attempt, worker, outcome, .. } => {
                self.attempt_finished(at, id, (*token, *attempt, worker), outcome, found);
            }
            AttemptEvent::KillRequested { token, .. } => self.kill_requested(at, id, *token, found),
        }
    }

    /// `finished_is_final`, and `events_per_batch_bounded`
    fn is_unfinished(&mut self, at: &At<'_>, id: BatchId, event: &Event, found: &mut Findings) -> bool {
        let bound = self.bounds.events_per_batch;
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.events = batch.events.saturating_add(1);
            if batch.events == bound.saturating_add(1) {
                let why = format!("batch {id} has more than {bound} events");
                at.contradicts(found, Invariant::EventsPerBatchBounded, why, &[batch.said]);
            }
            return true;
        }
        // Ids grow and unfinished batches are kept, so one that was minted and is not here has finished.
        if id.shard() == self.id && id.0 <= self.last_batch {
            let why = format!("{} of batch {id}, which has finished", event.kind());
            at.breaks(found, Invariant::FinishedIsFinal, why);
        } else {
            let why = format!("{} of batch {id}, which was never generated", event.kind());
            at.breaks(found, Invariant::OnlyAllowedTransitions, why);
        }
        false
    }

    /// `only_allowed_transitions`
    fn not_allowed(&self, at: &At<'_>, id: BatchId, what: &str, found: &mut Findings) {
        let Some(batch) = self.batches.get(&id) else { return };
        let why = format!("batch {id} is {}, and {what}", batch.phase.word());
        at.contradicts(found, Invariant::OnlyAllowedTransitions, why, &[batch.said]);
    }

    /// `start_timeout_kept`, and the assignment at hand is the one that ends.
    fn returned(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        token: Token,
        reason: &ReturnReason,
        found: &mut Findings,
    ) {
        let held = self.batches.get(&id).map(|batch| batch.phase.clone());
        let held = match held.filter(|phase| is_of(phase, token)) {
            Some(Phase::Assigned(held)) => held,
            // The worker that was granted it says that it has not begun, and never will.
            Some(Phase::Granted { to, nonce, started: false })
                if matches!(reason, ReturnReason::Rejected(_))
                    && !matches!(at.asked, Asked::Owner)
                    && at.command().is_none_or(|command| gives_back(command, &to, &nonce)) =>
            {
                to
            }
            Some(_) | None => {
                return self.not_allowed(at, id, &format!("assignment {token} is returned"), found);
            }
        };
        if *reason == ReturnReason::NotStarted && at.now < held.start_by {
            let why =
                format!("assignment {token} is returned at {}, and had time until {}", at.now, held.start_by);
            at.contradicts(found, Invariant::StartTimeoutKept, why, &[held.said]);
        }
        self.step(id, Phase::Waiting);
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.rejected = matches!(reason, ReturnReason::Rejected(_)).then_some(at.now);
        }
    }

    /// `start_granted_only_to_assigned`
    fn granted(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, worker, incarnation, nonce): (Token, &WorkerId, &Incarnation, &Nonce),
        found: &mut Findings,
    ) {
        self.granted_only_with_its_external_dependencies(at, id, found);
        self.has_a_failure(at, id, "granted a start", found);
        let Some(batch) = self.batches.get(&id) else { return };
        let rule = Invariant::StartGrantedOnlyToAssigned;
        let Phase::Assigned(held) = &batch.phase else {
            let why = format!("a start of batch {id} is granted while it is {}", batch.phase.word());
            return at.contradicts(found, rule, why, &[batch.said]);
        };
        let lost = self.workers.get(worker).is_none_or(|worker| worker.lost.is_some());
        let why = if held.token != token {
            format!("{token} is granted, and {} is assigned", held.token)
        } else if held.worker != *worker {
            format!("{worker} gets the grant, and {} the assignment", held.worker)
        } else if held.incarnation.as_ref() != Some(incarnation) {
            format!("{incarnation} of {worker} gets the grant, and another life of it the assignment")
        } else if lost {
            format!("{worker} gets the grant, and is lost")
        } else if at.command().is_some_and(|command| !asks(command, (token, worker, incarnation, nonce))) {
            format!("{token} is granted to a question that was not asked")
        } else {
            String::new()
        };
        if !why.is_empty() {
            at.contradicts(found, rule, format!("batch {id}: {why}"), &[held.said]);
        }
        let (to, run) = (held.clone(), (batch.job, batch.time));
        if let Some(other) = self.live.insert(run, id).filter(|other| *other != id) {
            let why =
                format!("batch {id} may start while {other} lives, another run of {} for {}", run.0, run.1);
            at.breaks(found, Invariant::NeverTwoLiveAttempts, why);
        }
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.phase = Phase::Granted { to, nonce: nonce.clone(), started: false };
            batch.zero = false;
        }
        self.watch_duration(at, id);
    }

    /// `late_reports_change_nothing`: nothing is said after a 0.
    fn user_code_reported(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, code): (Token, i32),
        found: &mut Findings,
    ) {
        let granted = |batch: &Batch| matches!(&batch.phase, Phase::Granted { to, .. } if to.token == token);
        match self.batches.get_mut(&id) {
            Some(batch) if granted(batch) && !batch.zero => batch.zero = code == 0,
            Some(_) | None => {
                self.late(at, id, &format!("attempt {token} is said to have reported a code"), found);
            }
        }
    }

    /// `only_allowed_transitions`: where a job goes by the code, 0 is success, and nothing else is.
    fn succeeds_by_its_code(&self, at: &At<'_>, id: BatchId, result: AttemptResult, found: &mut Findings) {
        match (self.code_of(id), result) {
            (Some(false), AttemptResult::Success) => {
                self.not_allowed(at, id, "has an attempt that succeeds without its code 0", found);
            }
            (Some(true), AttemptResult::Failed) => {
                self.not_allowed(at, id, "has an attempt that fails after its code 0", found);
            }
            _ => {}
        }
    }

    /// Whether the attempt at hand has reported 0, where its job goes by that.
    fn code_of(&self, id: BatchId) -> Option<bool> {
        let batch = self.batches.get(&id)?;
        batch.of.as_ref()?.by_code.then_some(batch.zero)
    }

    /// `late_reports_change_nothing`
    fn late(&self, at: &At<'_>, id: BatchId, what: &str, found: &mut Findings) {
        let Some(batch) = self.batches.get(&id) else { return };
        let why = format!("batch {id} is {}, and {what}", batch.phase.word());
        at.contradicts(found, Invariant::LateReportsChangeNothing, why, &[batch.said]);
    }

    fn started(&mut self, at: &At<'_>, id: BatchId, token: Token, found: &mut Findings) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        match &mut batch.phase {
            Phase::Granted { to, started, .. } if to.token == token && !*started => {
                let same = |command: &Command| matches!(command, Command::Worker(WorkerCommand::ReportStarted { token: of, worker }) if *of == token && *worker == to.worker);
                *started = true;
                if at.command().is_some_and(|command| !same(command)) {
                    self.late(at, id, &format!("the start of {token} was not reported by its worker"), found);
                }
            }
            Phase::Granted { .. }
            | Phase::Waiting
            | Phase::Assigned(_)
            | Phase::Ended { .. }
            | Phase::Pausing { .. } => {
                self.late(at, id, &format!("attempt {token} is said to have started"), found);
            }
        }
    }

    fn attempt_finished(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, attempt, worker): (Token, u32, &WorkerId),
        outcome: &AttemptOutcome,
        found: &mut Findings,
    ) {
        let result = outcome.result;
        let phase = self.batches.get(&id).map(|batch| batch.phase.clone());
        let Some(Phase::Granted { to, nonce, .. }) = phase.filter(|phase| is_of(phase, token)) else {
            return self.late(at, id, &format!("attempt {token} is said to have finished"), found);
        };
        if to.worker != *worker {
            let why = format!("attempt {token} of {} is said to have finished on {worker}", to.worker);
            self.late(at, id, &why, found);
        }
        self.succeeds_by_its_code(at, id, result, found);
        let by_code = self.code_of(id).is_some();
        if at.command().is_some_and(|command| !ends(command, (&to, &nonce), (result, by_code))) {
            self.late(at, id, &format!("the end of {token} was not reported so by its worker"), found);
        }
        if to.attempt != attempt {
            let why = format!("batch {id} was assigned as attempt {}, and finishes {attempt}", to.attempt);
            at.contradicts(found, Invariant::AttemptNumbersWithoutGaps, why, &[to.said]);
        }
        if outcome.values_bytes() > MAX_VALUES_BYTES {
            let why = format!("batch {id} passes {} bytes of values on", outcome.values_bytes());
            at.breaks(found, Invariant::ValuesWithinBounds, why);
        }
        self.no_attempt_before_lease_over(at, &to, result, found);
        self.step(id, Phase::Ended { result, exit_code: outcome.exit_code, at: at.now });
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.attempts = to.attempt;
            batch.last_worker = Some(to.worker.clone());
        }
        self.unsettled.push(id);
    }

    /// `retry_interval_kept`
    fn retry_scheduled(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        attempt: u32,
        until: Timestamp,
        found: &mut Findings,
    ) {
        let Some(batch) = self.batches.get(&id) else { return };
        if let Some(kill) = batch.kill {
            let why = format!("batch {id} was to be ended, and gets attempt {attempt}");
            at.contradicts(found, Invariant::KilledStaysKilled, why, &[kill]);
            return self.step(id, Phase::Pausing { until });
        }
        let Phase::Ended { result, at: ended, .. } = batch.phase else {
            return self.not_allowed(at, id, "gets another attempt", found);
        };
        if result == AttemptResult::Success {
            return self.not_allowed(at, id, "gets another attempt after a successful one", found);
        }
        if batch.exit_means() != Means::Nothing {
            self.exit_code_means_otherwise(at, id, "gets another attempt", found);
        }
        let due = batch.of.as_ref().and_then(|of| pause(of, batch.attempts, ended));
        if let Some((first, last)) = due.filter(|(first, last)| !(*first..=*last).contains(&until)) {
            let why = format!(
                "batch {id} is to be tried again at {until}, and its interval is over from {first} to {last}"
            );
            at.contradicts(found, Invariant::RetryIntervalKept, why, &[batch.said]);
        }
        self.attempt_numbers_without_gaps(at, id, attempt, found);
        self.step(id, Phase::Pausing { until });
    }

    fn retry_due(&mut self, at: &At<'_>, id: BatchId, found: &mut Findings) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let until = match batch.phase {
            Phase::Pausing { until } => Some(until),
            // Given back by a worker that had it before, it waits a while before it is offered again.
            Phase::Waiting => batch.rejected.take().map(|at| at + REJECTION_PAUSE),
            _ => None,
        };
        let Some(until) = until else {
            return self.not_allowed(at, id, "the end of its pause is said", found);
        };
        if at.now < until {
            let why = format!("the pause of batch {id} ends at {}, not at {until}", at.now);
            at.contradicts(found, Invariant::RetryIntervalKept, why, &[batch.said]);
        }
        self.step(id, Phase::Waiting);
    }

    fn kill_requested(&mut self, at: &At<'_>, id: BatchId, token: Token, found: &mut Findings) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if matches!(&batch.phase, Phase::Granted { to, .. } if to.token == token) {
            batch.kill = Some(at.offset);
        } else {
            self.not_allowed(at, id, &format!("attempt {token} is to be ended"), found);
        }
    }

    fn batch_finished(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (result, by, is_called): (BatchResult, bool, bool),
        found: &mut Findings,
    ) {
        match self.marks.remove(&id) {
            Some(marked) => self.may_finish_marked(at, id, (marked, result), found),
            None => self.may_finish(at, id, result, by, found),
        }
        self.step(id, Phase::Waiting);
        self.leaves_external_dependencies(id);
        let Some(batch) = self.batches.remove(&id) else { return };
        if let Some(of_job) = self.unfinished.get_mut(&batch.job) {
            of_job.remove(&id);
            if of_job.is_empty() {
                self.unfinished.remove(&batch.job);
            }
        }
        for waits in &batch.waits {
            self.elsewhere.let_go(&waits.dependency);
        }
        if is_called && !Due::may_be_called(&batch) {
            let why =
                format!("the final command of {id} is called, though it had an attempt, or asks for none");
            at.breaks(found, Invariant::FinalCommandsOnce, why);
        }
        self.due_finals.extend(Due::of(&batch, is_called, at).map(|due| (id, due)));
        let removed = self.jobs.get(&batch.job).is_none_or(|job| job.removed);
        if !result.satisfies() && !removed {
            self.late.extend(Ended::of(&batch).map(|ended| (id, ended)));
        }
        if let Some(run) = self.runs.get_mut(&(batch.job, batch.time)).filter(|run| run.batch == id) {
            (run.succeeded, run.result) = (result.satisfies(), Some(result));
            run.said = at.offset;
        }
        self.forget_submissions(batch.job);
    }

    /// `only_allowed_transitions`, `retries_used_before_failure`, `killed_stays_killed`, and for what the
    /// engine completes by itself `assigned_only_when_conditions_held`
    fn may_finish(&self, at: &At<'_>, id: BatchId, result: BatchResult, by: bool, found: &mut Findings) {
        let Some(batch) = self.batches.get(&id) else { return };
        let anchor = batch.of.as_ref().is_some_and(|of| of.job_type.is_anchor());
        match (&batch.phase, result) {
            (Phase::Ended { result: AttemptResult::Success, .. }, BatchResult::Success) => {}
            (Phase::Ended { .. }, BatchResult::Killed) if by || batch.kill.is_some() => {}
            (
                Phase::Ended { result: AttemptResult::Success, .. },
                BatchResult::Failed | BatchResult::Killed | BatchResult::Skipped,
            ) => {
                self.not_allowed(at, id, "does not succeed after an attempt that did", found);
            }
            (Phase::Ended { .. }, BatchResult::Skipped) if batch.exit_means() == Means::Skip => {}
            (Phase::Ended { .. }, BatchResult::Failed | BatchResult::Success)
                if batch.kill.is_none() && batch.exit_means() == Means::Skip =>
            {
                self.exit_code_means_otherwise(at, id, &format!("ends as {}", result.as_str()), found);
            }
            (Phase::Ended { .. }, BatchResult::Failed) => match batch.kill {
                Some(kill) => {
                    let why = format!("batch {id} was to be ended, and ends as failed");
                    at.contradicts(found, Invariant::KilledStaysKilled, why, &[kill]);
                }
                None if batch.exit_means() == Means::NoRetry => {}
                None if batch.attempts < batch.most_attempts() => {
                    let (used, most) = (batch.attempts, batch.most_attempts());
                    let why = format!("batch {id} fails after {used} of {most} attempts");
                    at.contradicts(found, Invariant::RetriesUsedBeforeFailure, why, &[batch.said]);
                }
                None => {}
            },
            (Phase::Ended { .. }, BatchResult::Success | BatchResult::Killed | BatchResult::Skipped) => {
                self.not_allowed(at, id, &format!("ends as {}", result.as_str()), found);
            }
            (Phase::Waiting | Phase::Pausing { .. } | Phase::Assigned(_), BatchResult::Killed) if by => {}
            (Phase::Waiting, BatchResult::Failed) if self.may_refuse_account(batch) => {}
            (Phase::Waiting, BatchResult::Success) if anchor => {
                self.may_begin(at, id, "completed", found);
                self.has_a_failure(at, id, "completed", found);
                if let Some((why, earlier)) = self.unheld(id) {
                    let why = format!("batch {id} is completed, though {why}");
                    at.contradicts(found, Invariant::AssignedOnlyWhenConditionsHeld, why, &earlier);
                }
            }
            (Phase::Waiting | Phase::Pausing { .. }, BatchResult::Failed | BatchResult::Skipped)
                if !by && self.ends_for_its_parents(at, id, result, found) => {}
            (Phase::Assigned(_), BatchResult::Failed) if !by && batch.may_fail_at_start() => {}
            (Phase::Waiting | Phase::Pausing { .. } | Phase::Assigned(_) | Phase::Granted { .. }, _) => {
                self.not_allowed(at, id, &format!("ends as {}", result.as_str()), found);
            }
        }
    }

    /// `marks_are_accounted_for`: it ends as it was marked, when nothing of it runs.
    fn may_finish_marked(
        &self,
        at: &At<'_>,
        id: BatchId,
        (marked, result): (BatchResult, BatchResult),
        found: &mut Findings,
    ) {
        let Some(batch) = self.batches.get(&id) else { return };
        if matches!(batch.phase, Phase::Granted { .. }) {
            return self.not_allowed(at, id, &format!("ends as {}", result.as_str()), found);
        }
        if marked != result {
            let why = format!("batch {id} was marked {}, and ends as {}", marked.as_str(), result.as_str());
            at.contradicts(found, Invariant::MarksAreAccountedFor, why, &[batch.said]);
        }
    }

    /// Moves a batch on, and its place in the limits with it.
    fn step(&mut self, id: BatchId, to: Phase) {
        self.occupy(id, -1);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if matches!(batch.phase, Phase::Granted { .. }) {
            let run = (batch.job, batch.time);
            if self.live.get(&run) == Some(&id) {
                self.live.remove(&run);
            }
        }
        batch.long_at = None;
        batch.phase = to;
    }

    /// At the end of an envelope, every attempt that ended in it has led to a retry or a result.
    pub(crate) fn settle(&mut self, at: &At<'_>, found: &mut Findings) {
        for id in std::mem::take(&mut self.unsettled) {
            let left = self.batches.get(&id).is_some_and(|batch| matches!(batch.phase, Phase::Ended { .. }));
            if left {
                self.not_allowed(at, id, "the envelope ends with neither retry nor result", found);
            }
        }
    }

    /// When the pause or start time of the batch at hand was over, for the rule that timers wait for commands.
    pub(crate) fn timer_due(&self, event: &Event) -> Option<Timestamp> {
        let phase = |id: &BatchId| self.batches.get(id).map(|batch| &batch.phase);
        match event {
            Event::Batch(BatchEvent::RetryDue { batch }) => match phase(batch)? {
                Phase::Pausing { until } => Some(*until),
                Phase::Waiting | Phase::Assigned(_) | Phase::Granted { .. } | Phase::Ended { .. } => None,
            },
            Event::Batch(BatchEvent::StartDue { batch }) => self.batches.get(batch)?.earliest,
            Event::Batch(BatchEvent::AssignmentReturned {
                batch, reason: ReturnReason::NotStarted, ..
            }) => phase(batch)?.assignment().map(|held| held.start_by),
            event => self.grant_due(event),
        }
    }

    /// Owners forget ad-hoc jobs by count; so does this, later than they do.
    fn forget_submissions(&mut self, job: JobId) {
        if job.shard() != self.id {
            return;
        }
        if let Some(known) = self.jobs.get_mut(&job) {
            known.once.unfinished = known.once.unfinished.saturating_sub(1);
            known.once.ended += 1;
        }
        self.submissions.push_back(job);
        while self.submissions.len() > ENDED_SUBMISSIONS
            && let Some(oldest) = self.submissions.pop_front()
        {
            let Some(known) = self.jobs.get_mut(&oldest) else { continue };
            known.once.ended = known.once.ended.saturating_sub(1);
            if known.once.ended == 0 && known.once.unfinished == 0 {
                for time in std::mem::take(&mut known.once.times) {
                    self.runs.remove(&(oldest, time));
                    self.older_runs.remove(&(oldest, time));
                }
                self.jobs.remove(&oldest);
            }
        }
    }
}

fn batch_of(event: &Event) -> Option<BatchId> {
    match event {
        Event::Batch(
            BatchEvent::DependencySatisfied { batch, .. }
            | BatchEvent::DependencyRevoked { batch, .. }
            | BatchEvent::Assigned { batch, .. }
            | BatchEvent::AssignmentReturned { batch, .. }
            | BatchEvent::RetryScheduled { batch, .. }
            | BatchEvent::RetryDue { batch }
            | BatchEvent::StartDue { batch }
            | BatchEvent::ResultOverridden { batch, .. }
            | BatchEvent::Blocked { batch, .. }
            | BatchEvent::Unblocked { batch }
            | BatchEvent::TimeoutReached { batch, .. }
            | BatchEvent::DependencyOverridden { batch, .. }
            | BatchEvent::QualityRequested { batch, .. }
            | BatchEvent::QualitySent { batch, .. }
            | BatchEvent::QualityAnswered { batch, .. }
            | BatchEvent::Finished { batch, .. },
        )
        | Event::Attempt(
            AttemptEvent::StartGranted { batch, .. }
            | AttemptEvent::Started { batch, .. }
            | AttemptEvent::UserCodeReported { batch, .. }
            | AttemptEvent::Finished { batch, .. }
            | AttemptEvent::KillRequested { batch, .. },
        ) => Some(*batch),
        _ => None,
    }
}

fn is_of(phase: &Phase, token: Token) -> bool {
    phase.assignment().is_some_and(|held| held.token == token)
}

/// Whether a command is the question that a grant answers.
fn asks(command: &Command, grant: (Token, &WorkerId, &Incarnation, &Nonce)) -> bool {
    matches!(command, Command::Worker(WorkerCommand::RequestStart(asked))
        if (asked.token, &asked.worker, &asked.incarnation, &asked.nonce) == grant)
}

/// Whether a command gives this grant back: it names the question that was granted. A worker that says it of an
/// earlier question may have begun on a later one.
pub(super) fn gives_back(command: &Command, to: &Assignment, granted: &Nonce) -> bool {
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
            let same = said == result || (is_judged(said) && is_judged(result));
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
