//! How an attempt's end becomes a retry or a result, and what the end of a batch does to the state. JOB-9: what is
//! unfinished of a job is told to the catalogue before it is deleted, or ended after it was.
//!
//! BYD-19: how long a failed batch pauses before its next attempt, and exit codes that say more than *failed*.
//!
//! ```text
//!  pause n = retry interval × factor ^ (n − 1), at most the maximum; with jitter 50 to 100 % of that
//! ```

use jiff::SignedDuration;
use tidemill_model::{
    Actor, AttemptEvent, AttemptOutcome, AttemptResult, BatchEvent, BatchId, BatchResult, DeletionEvent,
    Event, ExternalEnd, JobDefinition, JobId, Level, Rejection, RunOutcome, ShardId, ShardMessage, Timestamp,
    Token, UnfinishedJob, Usage,
};

use crate::group::batches::Batches;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::batches::excess::spares_retry;
use crate::group::final_commands::final_command;
use crate::group::{GroupShard, Timer};

/// An attempt that has ended, as it counts for what follows.
pub(super) struct Ended<'a> {
    outcome: &'a AttemptOutcome,
    number: u32,
    /// Attempts so far that ended by themselves: retries are for those.
    counted: u32,
    counts: bool,
}

impl<'a> Ended<'a> {
    /// It ends now.
    fn now(batch: &Batch, outcome: &'a AttemptOutcome, counts: bool) -> Self {
        let counted = batch.counted_attempts() + u32::from(counts);
        Self { outcome, number: batch.attempts + 1, counted, counts }
    }

    /// Its end is on record already, and counts.
    pub(super) fn on_record(batch: &Batch, outcome: &'a AttemptOutcome) -> Self {
        Self { outcome, number: batch.attempts, counted: batch.counted_attempts(), counts: true }
    }
}

impl Batches {
    /// How a batch ends. Where it had no attempt and has a final command, that is due.
    pub(crate) fn batch_end(
        &self,
        id: BatchId,
        result: BatchResult,
        by: Option<Actor>,
        message: String,
    ) -> Event {
        let is_due = |batch: &Batch| {
            batch.attempts == 0 && batch.grant().is_none() && final_command(&batch.definition).is_some()
        };
        let final_command = self.get(&id).is_some_and(is_due);
        Event::Batch(BatchEvent::Finished { batch: id, result, by, message, final_command })
    }

    /// Killed stays killed; success ends the batch; a failed or lost attempt is followed by another while
    /// retries are left. What failed for want of memory on its host uses up none, a few times (EXE-7), and neither does what its
    /// worker ended because it was stopped itself.
    pub(super) fn after_attempt(
        &self,
        (id, batch): (BatchId, &Batch),
        ended: &Ended<'_>,
        now: Timestamp,
    ) -> Event {
        let Ended { outcome, number, counted, counts } = *ended;
        if let Some(by) = batch.kill()
            && !planted!(KilledTriesAgain)
        {
            return self.killed_end(id, by);
        }
        let codes = batch.definition.spec.exit_codes.as_ref().zip(outcome.exit_code);
        let codes = codes.filter(|_| outcome.result == AttemptResult::Failed);
        match outcome.result {
            AttemptResult::Failed if codes.is_some_and(|(codes, code)| codes.means_skip(code)) => {
                let message = format!("{}, which means that there was nothing to do", describe(outcome));
                self.batch_end(id, BatchResult::Skipped, None, message)
            }
            AttemptResult::Success => self.batch_end(id, BatchResult::Success, None, outcome.message.clone()),
            AttemptResult::Failed | AttemptResult::Killed | AttemptResult::Lost | AttemptResult::TimedOut
                if (!counts
                    || counted - batch.spared - u32::from(spares_retry(batch, outcome))
                        <= batch.definition.spec.retries + u32::from(planted!(RetryCountOff)))
                    && !codes.is_some_and(|(codes, code)| codes.forbids_retry(code)) =>
            {
                let waits = counts && !planted!(RetryIntervalIgnored);
                let pause = if waits { pause(&batch.definition, id, counted) } else { SignedDuration::ZERO };
                let at = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
                Event::Batch(BatchEvent::RetryScheduled { batch: id, attempt: number + 1, at })
            }
            AttemptResult::Failed | AttemptResult::Killed | AttemptResult::Lost | AttemptResult::TimedOut => {
                self.batch_end(id, BatchResult::Failed, None, describe(outcome))
            }
        }
    }

    /// How an attempt ended, as it was judged, and what follows from that; of one that does not count, another at once.
    pub(crate) fn attempt_ended(
        &self,
        id: BatchId,
        token: Token,
        (outcome, counts): (AttemptOutcome, bool),
        usage: Option<Box<Usage>>,
        now: Timestamp,
    ) -> Vec<Event> {
        let Some(batch) = self.get(&id) else { return Vec::new() };
        let Some((_, worker)) = batch.holder() else { return Vec::new() };
        let (attempt, worker) = (batch.attempts + 1, worker.clone());
        let mut next = self.after_attempt((id, batch), &Ended::now(batch, &outcome, counts), now);
        // It had an attempt, whether that is granted or the report at hand implies it.
        if let Event::Batch(BatchEvent::Finished { final_command, .. }) = &mut next {
            *final_command = false;
        }
        let mut events = self.over_limit_at_end(id, batch, (token, &worker), &outcome);
        let ended = AttemptEvent::Finished { batch: id, token, attempt, worker, outcome, usage };
        events.extend([Event::Attempt(ended), next]);
        events
    }
}

impl GroupShard {
    /// How an attempt ended, and what follows from that; what is known of its external work: absent, nothing is left of it.
    pub(in crate::group) fn end_attempt(
        &self,
        id: BatchId,
        token: Token,
        mut outcome: AttemptOutcome,
        external: Option<&ExternalEnd>,
        now: Timestamp,
    ) -> Vec<Event> {
        if let Some(batch) = self.batches.get(&id) {
            self.judge_by_code(batch, &mut outcome);
        }
        let mut events = self.external_work_at_end(id, token, external);
        // Where nothing is said of its external work, it is a person's word that ends it.
        let queried = self.output_queried((id, token), &outcome, external.is_none(), now);
        events.extend(self.batches.attempt_ended(id, token, (outcome, true), None, now));
        follow_with(&mut events, queried);
        events
    }

    /// EXE-4, ZMB-1: how an attempt did that nobody and no timeout ended, where its job goes by the code. What has reported 0
    /// has done its work, whatever became of its process or worker since.
    pub(in crate::group) fn judge_by_code(&self, batch: &Batch, outcome: &mut AttemptOutcome) {
        if !batch.ends_by_code() {
            return;
        }
        let (zero, code) = batch.grant().map_or((false, None), |grant| (grant.zero, grant.code));
        let counts = match outcome.result {
            AttemptResult::Success | AttemptResult::Failed => true,
            AttemptResult::Lost => zero && self.level().allows(Level::new(3)) && !planted!(CodeZeroForgotten),
            AttemptResult::Killed | AttemptResult::TimedOut => false,
        };
        if !counts {
            return;
        }
        if zero {
            outcome.result = AttemptResult::Success;
            return;
        }
        outcome.result = AttemptResult::Failed;
        let why = match code {
            Some(code) => format!("its program reported code {code}"),
            None => "its program reported no code".to_owned(),
        };
        let said = std::mem::take(&mut outcome.message);
        outcome.message = if said.is_empty() { why } else { format!("{why}; {said}") };
    }

    /// A batch that a person may still act on, or why not.
    pub(crate) fn unfinished(&self, id: BatchId) -> Result<&Batch, Rejection> {
        if let Some(batch) = self.batches.get(&id) {
            return Ok(batch);
        }
        Err(match self.batches.result_of(id) {
            Some(result) => {
                Rejection::BatchAlreadyFinished { batch: id.0, result: result.as_str().to_owned() }
            }
            // Only so many of those that have ended are remembered.
            None if id.shard() == self.id && id.0 > 0 && id < self.batches.next_id(self.id) => {
                Rejection::BatchAlreadyFinished { batch: id.0, result: "long ago".to_owned() }
            }
            None => Rejection::unknown("batch", id),
        })
    }

    pub(in crate::group) fn apply_deletion(&mut self, event: &DeletionEvent) {
        match event {
            DeletionEvent::UnfinishedReported { question, jobs } => {
                let message = ShardMessage::ReportUnfinished { question: *question, jobs: jobs.clone() };
                self.mailbox.send(ShardId::CATALOGUE, message);
            }
            // What the catalogue decides.
            DeletionEvent::UnfinishedQueried { .. }
            | DeletionEvent::UnfinishedReceived { .. }
            | DeletionEvent::Decided { .. } => {}
        }
    }

    pub(crate) fn unfinished_of(&self, jobs: &[JobId]) -> Vec<UnfinishedJob> {
        let unfinished = |id: &JobId| {
            let job = self.jobs.get(id)?;
            let newest = job.unfinished().last().map(|(_, newest)| newest.batch)?;
            let batches = u32::try_from(job.unfinished().count()).unwrap_or(u32::MAX);
            Some(UnfinishedJob { job: *id, batches, newest })
        };
        jobs.iter().filter_map(unfinished).collect()
    }

    /// What is unfinished of the job is to be ended, one batch after another.
    pub(crate) fn cancellation_replicated(&mut self, id: JobId, by: &Actor) {
        let Some(job) = self.jobs.get(&id) else { return };
        let batches: Vec<BatchId> = job.unfinished().map(|(_, newest)| newest.batch).collect();
        for batch in batches {
            let known = self.batches.get(&batch);
            let is_left = known.is_some_and(|known| known.kill().is_none());
            if is_left {
                self.batches.cancelling.insert(batch, by.clone());
            }
        }
    }

    pub(crate) fn cancel(&self, batch: BatchId) -> Vec<Event> {
        let Some(by) = self.batches.cancelling.get(&batch) else { return Vec::new() };
        self.killed(batch, by, "its job was deleted")
    }

    pub(in crate::group) fn batch_finished(&mut self, now: Timestamp, id: BatchId, end: (BatchResult, bool)) {
        let (result, _) = end;
        self.batches.cancelling.remove(&id);
        self.batches.marks.remove(&id);
        self.batches.forget_external_work(id);
        self.batches.forget_lost_output(id);
        self.dependencies.forget(id);
        self.forget_early(id);
        let Some(batch) = self.batches.get(&id) else { return };
        if let Some((token, _)) = batch.holder() {
            self.release(token);
        }
        self.unwatch(id, result);
        self.settle_gate(id);
        let Some(batch) = self.batches.by_id.remove(&id) else { return };
        match batch.phase {
            Phase::Ready { key } => self.unqueue(&batch.definition, key),
            Phase::Pausing { until, .. } => {
                self.timers.cancel(until, Timer::Retry(id));
            }
            Phase::Waiting | Phase::Assigned { .. } | Phase::Granted(_) => {}
        }
        self.external.leave_external_dependencies(id, &batch);
        for (parent, time) in self.dependencies.wait_no_more(id, &batch) {
            self.newest_changed(parent, time);
        }
        self.leave_counted(id, &batch);
        self.say_of(batch.dependencies.iter().map(|waits_for| &waits_for.declared));
        self.final_called(id, &batch, end, now);
        self.batches.ended.insert(id, result);
        if let Some(place) = self.batches.reruns.remove(&id) {
            let end = RunOutcome::Finished { batch: id, result };
            self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportRunFinished { place, end });
        }
        let Some(job) = self.jobs.get_mut(&batch.definition.id) else { return };
        if let Some(newest) = job.history.get_mut(batch.logical_time)
            && newest.batch == id
        {
            newest.result = Some(result);
        }
        if job.submitted {
            self.jobs.note_submission_ended(batch.definition.id);
        }
        let id = batch.definition.id;
        self.newest_changed(id, batch.logical_time);
        let counted: Vec<JobId> = batch.counted.iter().flat_map(|counted| counted.parents()).collect();
        let listed = batch.dependencies.iter().map(|d| d.declared.parent);
        for parent in [id].into_iter().chain(listed).chain(counted) {
            if self.jobs.get(&parent).is_some_and(|job| job.removed) {
                self.forget_removed(parent);
            }
            self.forget_deleted_parent(parent);
        }
        self.forget_submissions(now);
    }
}

/// What follows from the end of an attempt is decided once its output was looked for.
pub(in crate::group) fn follow_with(ended: &mut [Event], queried: Option<Event>) {
    if let Some((follows, queried)) = ended.last_mut().zip(queried) {
        *follows = queried;
    }
}

/// The pause after attempt number `ended`.
fn pause(definition: &JobDefinition, batch: BatchId, ended: u32) -> SignedDuration {
    let interval = u128::from(definition.spec.retry_interval_s) * 1_000;
    let Some(backoff) = &definition.spec.retry_backoff else { return milliseconds(interval) };
    let (factor, most) = (u128::from(backoff.factor.percent()), u128::from(backoff.max_interval_s) * 1_000);
    // In hundred-thousandths, so that rounding does not hold a small factor up; what is at the maximum stays.
    let fine = 1_000;
    let mut grown = interval * fine;
    for _ in 1..ended {
        if grown >= most * fine {
            break;
        }
        grown = grown * factor / 100;
    }
    let pause = (grown / fine).min(most);
    if !backoff.jitter {
        return milliseconds(pause);
    }
    milliseconds(pause * (500 + u128::from(scattered(batch, ended) % 501)) / 1_000)
}

fn milliseconds(ms: u128) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// A number that looks drawn, and is the same for ever for one attempt of one batch (splitmix64's last step).
fn scattered(batch: BatchId, attempt: u32) -> u64 {
    let seed = (batch.0 as u64).wrapping_add(u64::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn describe(outcome: &AttemptOutcome) -> String {
    let cause = match (outcome.exit_code, outcome.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => match outcome.result {
            AttemptResult::Lost => "lost with its worker".to_owned(),
            AttemptResult::Killed => "killed".to_owned(),
            AttemptResult::TimedOut => "timed out".to_owned(),
            AttemptResult::Failed | AttemptResult::Success => "failed".to_owned(),
        },
    };
    if outcome.message.is_empty() { cause } else { format!("{cause}: {}", outcome.message) }
}
