//! How an attempt's end becomes a retry or a result.

use jiff::SignedDuration;
use tidemill_model::{
    Actor, AttemptEvent, AttemptOutcome, AttemptResult, BatchEvent, BatchId, BatchResult, Event, Rejection,
    Timestamp, Token, Usage,
};

use crate::group::GroupShard;
use crate::group::batches::Batches;
use crate::group::batches::batch::Batch;
use crate::group::batches::retry::{Meaning, meaning, pause};
use crate::group::final_commands::final_command::final_command;

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
    /// retries are left.
    fn after_attempt(&self, id: BatchId, batch: &Batch, outcome: &AttemptOutcome, now: Timestamp) -> Event {
        let attempt = batch.attempts + 1;
        if let Some(by) = batch.grant().and_then(|grant| grant.kill.clone())
            && !planted!(KilledTriesAgain)
        {
            return self.killed_or_marked(id, by);
        }
        let meaning = meaning(&batch.definition, outcome);
        match outcome.result {
            AttemptResult::Failed if meaning == Meaning::Skip => {
                let message = format!("{}, which means that there was nothing to do", describe(outcome));
                self.batch_end(id, BatchResult::Skipped, None, message)
            }
            AttemptResult::Success => {
                let message = outcome.message.clone();
                self.batch_end(id, BatchResult::Success, None, message)
            }
            AttemptResult::Failed | AttemptResult::Killed | AttemptResult::Lost | AttemptResult::TimedOut
                if attempt <= batch.definition.spec.retries + u32::from(planted!(RetryCountOff))
                    && meaning != Meaning::NoRetry =>
            {
                let pause = pause(&batch.definition, id, attempt);
                let pause = if planted!(RetryIntervalIgnored) { SignedDuration::ZERO } else { pause };
                let at = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
                Event::Batch(BatchEvent::RetryScheduled { batch: id, attempt: attempt + 1, at })
            }
            AttemptResult::Failed | AttemptResult::Killed | AttemptResult::Lost | AttemptResult::TimedOut => {
                let message = describe(outcome);
                self.batch_end(id, BatchResult::Failed, None, message)
            }
        }
    }

    /// The events that end a granted attempt.
    pub(crate) fn end_attempt(
        &self,
        id: BatchId,
        token: Token,
        outcome: AttemptOutcome,
        usage: Option<Usage>,
        now: Timestamp,
    ) -> Vec<Event> {
        let Some(batch) = self.get(&id) else { return Vec::new() };
        let attempt = batch.attempts + 1;
        let Some((_, worker)) = batch.holder() else { return Vec::new() };
        let worker = worker.clone();
        let next = self.after_attempt(id, batch, &outcome, now);
        vec![
            Event::Attempt(AttemptEvent::Finished { batch: id, token, attempt, worker, outcome, usage }),
            next,
        ]
    }
}

impl GroupShard {
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
            None if self.is_minted(id) => {
                Rejection::BatchAlreadyFinished { batch: id.0, result: "long ago".to_owned() }
            }
            None => Rejection::unknown("batch", id),
        })
    }

    /// Whether there ever was such a batch.
    fn is_minted(&self, id: BatchId) -> bool {
        id.shard() == self.id && id.0 > 0 && id < self.batches.next_id(self.id)
    }
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
