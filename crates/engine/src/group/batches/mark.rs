//! BYD-16: a person says how a batch ended.
//!
//! ```text
//!  waits, is assigned   BatchResultOverridden, BatchFinished(result)
//!  runs                 BatchResultOverridden, KillRequested … AttemptFinished, BatchFinished(result)
//!  has finished         BatchResultOverridden: the result of this run from now on, which its children hear of
//! ```

use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, AttemptEvent, BatchEvent, BatchId, BatchResult, Event, JobId, OverriddenResult, Rejection,
    Timestamp,
};

use crate::decision::Decision;
use crate::group::{GroupShard, reason};

/// What somebody said of a batch that runs.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Mark {
    pub(super) result: BatchResult,
    pub(super) by: Actor,
    pub(super) reason: String,
}

/// What is to be marked, and how.
pub(crate) struct Marking<'a> {
    pub(crate) batch: BatchId,
    pub(crate) job: JobId,
    pub(crate) logical_time: Timestamp,
    pub(crate) result: OverriddenResult,
    pub(crate) by: &'a Actor,
    pub(crate) reason: &'a str,
    /// Which run of its logical time it is, if whoever asks knows that.
    pub(crate) run: Option<u32>,
}

impl GroupShard {
    pub(crate) fn override_batch_result(&self, marking: &Marking<'_>) -> Result<Decision, Rejection> {
        let reason = reason::checked(marking.reason, "say why")?;
        let (id, result, by) = (marking.batch, BatchResult::from(marking.result), marking.by.clone());
        let marked = |job, logical_time, run| {
            Event::Batch(BatchEvent::ResultOverridden {
                batch: id,
                job,
                logical_time,
                result: marking.result,
                by: by.clone(),
                reason: reason.clone(),
                run,
            })
        };
        let Some(batch) = self.batches.get(&id) else {
            let (ended, run) = self.ended(marking)?;
            let events = (ended != result).then(|| marked(marking.job, marking.logical_time, run));
            return Ok(Decision::answered(events.into_iter().collect(), Answer::Done));
        };
        let mut events = vec![marked(batch.definition.id, batch.logical_time, None)];
        match batch.running_as() {
            Some((_, Some(_))) => {}
            Some((token, None)) => {
                let reason = format!("marked {}: {reason}", result.as_str());
                events.push(Event::Attempt(AttemptEvent::KillRequested { batch: id, token, by, reason }));
            }
            None => {
                let message = reason.clone();
                events.push(self.batches.batch_end(id, result, Some(by), message));
            }
        }
        Ok(Decision::answered(events, Answer::Done))
    }

    /// How a finished batch ended, if it is the newest run of its logical time, and the number of that run, where the
    /// history has evicted it.
    fn ended(&self, marking: &Marking<'_>) -> Result<(BatchResult, Option<u32>), Rejection> {
        let Marking { batch, job, logical_time, run, .. } = *marking;
        let unknown = || Rejection::unknown("batch", batch);
        let newest = self.defined_job(job)?.newest_run(logical_time).ok_or_else(unknown)?;
        let result = newest.result.ok_or_else(unknown);
        let number = newest.number;
        let older = |named: String| {
            let rule = format!(
                "is not the newest run of its logical time, which decides; mark {named} (run {number})"
            );
            Err(Rejection::field("batch", batch, rule))
        };
        match (newest.batch, run) {
            (Some(known), _) if known == batch => Ok((result?, None)),
            (Some(_), None) if self.batches.result_of(batch).is_none() && number == 0 => Err(unknown()),
            (Some(known), _) => older(format!("batch {known}")),
            (None, _) if planted!(MarkRefused) => Err(Rejection::field("batch", batch, "is too old")),
            (None, Some(run)) if run == number => Ok((result?, Some(run))),
            (None, Some(run)) if run < number => older("the newest batch".to_owned()),
            (None, Some(_)) => Err(unknown()),
            (None, None) => {
                let rule = "ended so long ago that its shard knows its run only by number, and the request does \
                            not give that; repeat it";
                Err(Rejection::field("batch", batch, rule))
            }
        }
    }

    pub(crate) fn batch_result_overridden(&mut self, event: &BatchEvent) {
        let BatchEvent::ResultOverridden { batch, job, logical_time, result, by, reason, run } = event else {
            return;
        };
        let result = BatchResult::from(*result);
        if self.batches.contains(*batch) {
            self.batches.marks.insert(*batch, Mark { result, by: by.clone(), reason: reason.clone() });
            return;
        }
        let Some(known) = self.jobs.get_mut(job) else { return };
        let (time, evicted) = (*logical_time, &mut known.evicted);
        match known.history.get_mut(time) {
            Some(newest) if newest.batch == *batch => newest.result = Some(result),
            None if evicted.holds(time) && *run == Some(evicted.run(time)) => {
                evicted.set_result(time, result)
            }
            Some(_) | None => return,
        }
        self.batches.ended.insert(*batch, result);
        if result.satisfies() {
            self.forget_late(*job, *logical_time);
        }
        self.newest_changed(*job, *logical_time);
    }
}
