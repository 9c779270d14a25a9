//! The end of a batch: with which result it may end, what is forgotten then, and what a person says of it.

use tidemill_model::{
    Actor, AttemptResult, BatchCommand, BatchEvent, BatchId, BatchResult, Command, JobId, Timestamp, WorkerId,
};

use super::super::Shard;
use super::super::batch::Phase;
use super::super::final_commands::Due;
use super::super::moves::ELSEWHERE;
use super::super::timeouts::Ended;
use super::retry::Means;
use crate::{At, Invariant};

/// Finished jobs-for-once that are still known. Owners keep fewer.
const ENDED_SUBMISSIONS: usize = 20_000;

impl Shard {
    pub(super) fn batch_finished(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (result, by, is_called): (BatchResult, bool, bool),
    ) {
        let batch = self.batches.get(&id);
        if let Some(Phase::Assigned(held)) = batch.map(|batch| &batch.phase) {
            self.right_may_end(at, id, held);
        }
        match self.marks.remove(&id) {
            Some(marked) => self.may_finish_marked(at, id, (marked, result)),
            None => self.may_finish(at, id, result, by),
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
            at.breaks(Invariant::FinalCommandsOnce, why);
        }
        let leaves = |ran: &WorkerId| self.workers.get(ran).is_some_and(|known| known.leaving);
        let due = Due::of(&batch, is_called, at).map(|due| (id, due.with(leaves)));
        self.due_finals.extend(due);
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
    fn may_finish(&self, at: &At<'_>, id: BatchId, result: BatchResult, by: bool) {
        let Some(batch) = self.batches.get(&id) else { return };
        let anchor = batch.of.as_ref().is_some_and(|of| of.spec().job_type.is_anchor());
        match (&batch.phase, result) {
            (Phase::Ended { result: AttemptResult::Success, .. }, BatchResult::Success) => {}
            (Phase::Ended { .. }, BatchResult::Killed) if by || batch.kill.is_some() => {}
            (
                Phase::Ended { result: AttemptResult::Success, .. },
                BatchResult::Failed | BatchResult::Killed | BatchResult::Skipped,
            ) => {
                self.not_allowed(at, id, "does not succeed after an attempt that did");
            }
            (Phase::Ended { .. }, BatchResult::Skipped) if batch.exit_means() == Means::Skip => {}
            (Phase::Ended { .. }, BatchResult::Failed | BatchResult::Success)
                if batch.kill.is_none() && batch.exit_means() == Means::Skip =>
            {
                self.exit_code_means_otherwise(at, id, &format!("ends as {}", result.as_str()));
            }
            (Phase::Ended { .. }, BatchResult::Failed) => match batch.kill {
                Some(kill) => {
                    let why = format!("batch {id} was to be ended, and ends as failed");
                    at.contradicts(Invariant::KilledStaysKilled, why, &[kill]);
                }
                None if batch.exit_means() == Means::NoRetry => {}
                None if batch.attempts < batch.most_attempts() => {
                    let (used, most) = (batch.attempts, batch.most_attempts());
                    let why = format!("batch {id} fails after {used} of {most} attempts");
                    at.contradicts(Invariant::RetriesUsedBeforeFailure, why, &[batch.said]);
                }
                None => {}
            },
            (Phase::Ended { .. }, BatchResult::Success | BatchResult::Killed | BatchResult::Skipped) => {
                self.not_allowed(at, id, &format!("ends as {}", result.as_str()));
            }
            (Phase::Waiting | Phase::Pausing { .. } | Phase::Assigned(_), BatchResult::Killed) if by => {}
            (Phase::Waiting, BatchResult::Failed) if self.may_refuse_account(batch) => {}
            (Phase::Waiting, BatchResult::Success) if anchor => {
                self.may_begin(at, id, "completed");
                self.has_a_failure(at, id, "completed");
                if let Some((why, earlier)) = self.unheld(id) {
                    let why = format!("batch {id} is completed, though {why}");
                    at.contradicts(Invariant::AssignedOnlyWhenConditionsHeld, why, &earlier);
                }
            }
            (Phase::Waiting | Phase::Pausing { .. }, BatchResult::Failed | BatchResult::Skipped)
                if !by && self.ends_for_its_parents(at, id, result) => {}
            (Phase::Assigned(_), BatchResult::Failed) if !by && batch.may_fail_at_start() => {}
            (Phase::Waiting | Phase::Pausing { .. } | Phase::Assigned(_) | Phase::Granted { .. }, _) => {
                self.not_allowed(at, id, &format!("ends as {}", result.as_str()));
            }
        }
    }

    /// `marks_are_accounted_for`: it ends as it was marked, when nothing of it runs.
    fn may_finish_marked(&self, at: &At<'_>, id: BatchId, (marked, result): (BatchResult, BatchResult)) {
        let Some(batch) = self.batches.get(&id) else { return };
        if matches!(batch.phase, Phase::Granted { .. }) {
            return self.not_allowed(at, id, &format!("ends as {}", result.as_str()));
        }
        if marked != result {
            let why = format!("batch {id} was marked {}, and ends as {}", marked.as_str(), result.as_str());
            at.contradicts(Invariant::MarksAreAccountedFor, why, &[batch.said]);
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

const RULE: Invariant = Invariant::MarksAreAccountedFor;

impl Shard {
    /// `marks_are_accounted_for`; true: the batch has finished, and this was all about it.
    pub(super) fn marked(&mut self, at: &At<'_>, event: &BatchEvent) -> bool {
        let BatchEvent::ResultOverridden { batch, job, logical_time, result, by, reason, run, .. } = event
        else {
            return false;
        };
        let (id, result) = (*batch, BatchResult::from(*result));
        if let Some(why) = unaccounted(at, id, by, reason) {
            at.breaks(RULE, format!("batch {id} is marked {}, and {why}", result.as_str()));
        }
        if let Some(batch) = self.batches.get(&id) {
            if (batch.job, batch.time) != (*job, *logical_time) {
                let why = format!("batch {id} of {} for {} is marked as another's", batch.job, batch.time);
                at.breaks(RULE, why);
            }
            self.marks.insert(id, result);
            return false;
        }
        self.finished_marked(at, (id, *run), (*job, *logical_time), result)
    }

    /// The newest run's result changes, and only that.
    fn finished_marked(
        &mut self,
        at: &At<'_>,
        (id, number): (BatchId, Option<u32>),
        of: (JobId, Timestamp),
        result: BatchResult,
    ) -> bool {
        if id.shard() != self.id || id.0 > self.last_batch {
            return false;
        }
        let Some(run) = self.runs.get_mut(&of) else {
            let why = format!("batch {id} is marked for {} of job {}, which was never run", of.1, of.0);
            at.breaks(RULE, why);
            return true;
        };
        // Of a job that came back from another group, runs are known by their numbers, and so is one that a lost life of the log had
        // given another id, where the shard has evicted it since.
        let is_lost = self.lost_batches.iter().any(|(last, upto)| (last + 1..=*upto).contains(&id.0));
        let by_number = (run.batch == ELSEWHERE || is_lost) && number == Some(run.number);
        let is_newest = run.batch == id || by_number;
        if !is_newest {
            let why = format!("batch {id} is marked, and {} is the newest run", run.batch);
            at.contradicts(RULE, why, &[run.said]);
            return true;
        }
        if run.result == Some(result) {
            let why = format!("batch {id} is marked {}, as it was before", result.as_str());
            at.contradicts(RULE, why, &[run.said]);
        }
        (run.succeeded, run.result, run.said) = (result.satisfies(), Some(result), at.offset);
        if result.satisfies() {
            self.late.remove(&id);
        }
        true
    }
}

/// What a mark lacks.
fn unaccounted(at: &At<'_>, id: BatchId, by: &Actor, reason: &str) -> Option<&'static str> {
    if by.app.is_empty() {
        return Some("nobody says so");
    }
    if reason.trim().is_empty() {
        return Some("no reason is given");
    }
    let asks = |command: &Command| matches!(command, Command::Batch(BatchCommand::OverrideResult { batch, .. }) if *batch == id);
    at.command().is_some_and(|command| !asks(command)).then_some("no command asks for it")
}
