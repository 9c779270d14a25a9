//! BYD-16: a person says how a batch ended.
//!
//! ```text
//!  waits, is assigned   BatchMarked, BatchFinished(result)
//!  runs                 BatchMarked, KillRequested … AttemptFinished, BatchFinished(result)
//!  has finished         BatchMarked: the result of this run from now on, which its children hear of
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidemill_model::{Actor, Answer, BatchId, BatchResult, Event, JobId, MarkedResult, Rejection};

use super::GroupShard;
use crate::decision::Decision;

const MAX_REASON_CHARS: usize = 500;

/// Running batches that end as somebody said.
pub(crate) type Marks = BTreeMap<BatchId, Mark>;

/// What somebody said of a batch that runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    result: BatchResult,
    by: Actor,
    reason: String,
}

/// What is to be marked, and how.
pub(crate) struct Marking<'a> {
    pub(crate) batch: BatchId,
    pub(crate) job: JobId,
    pub(crate) logical_time: Timestamp,
    pub(crate) result: MarkedResult,
    pub(crate) by: &'a Actor,
    pub(crate) reason: &'a str,
}

impl GroupShard {
    pub(crate) fn mark_batch(&self, marking: &Marking<'_>) -> Result<Decision, Rejection> {
        let reason = marking.reason.trim();
        if reason.is_empty() || reason.chars().count() > MAX_REASON_CHARS {
            let rule = format!("must be 1 to {MAX_REASON_CHARS} characters: say why");
            return Err(Rejection::field("reason", reason, rule));
        }
        let (id, result, by) = (marking.batch, BatchResult::from(marking.result), marking.by.clone());
        let marked = |job, logical_time| Event::BatchMarked {
            batch: id,
            job,
            logical_time,
            result: marking.result,
            by: by.clone(),
            reason: reason.to_owned(),
        };
        let Some(batch) = self.batches.get(&id) else {
            let changes = self.finished_result(marking)? != result;
            let events = changes.then(|| marked(marking.job, marking.logical_time));
            return Ok(Decision::answered(events.into_iter().collect(), Answer::Done));
        };
        let mut events = vec![marked(batch.definition.id, batch.logical_time)];
        match batch.grant() {
            Some(grant) if grant.kill.is_some() => {}
            Some(grant) => {
                let (token, reason) = (grant.token, format!("marked {}: {reason}", result.as_str()));
                events.push(Event::KillRequested { batch: id, token, by, reason });
            }
            None => {
                let message = reason.to_owned();
                events.push(Event::BatchFinished { batch: id, result, by: Some(by), message });
            }
        }
        Ok(Decision::answered(events, Answer::Done))
    }

    /// How a finished batch ended, if it is the newest run of a time that the state holds.
    fn finished_result(&self, marking: &Marking<'_>) -> Result<BatchResult, Rejection> {
        let Marking { batch, job, logical_time, .. } = *marking;
        let known = self.defined_job(job)?;
        let Some(newest) = known.history.get(logical_time) else {
            if known.has_batch_for(logical_time) {
                let rule = "is so old that nothing can wait for it any more, and its result stays; run its logical \
                            time again instead";
                return Err(Rejection::field("batch", batch, rule));
            }
            return Err(Rejection::unknown("batch", batch));
        };
        if newest.batch != batch {
            if self.finished.get(&batch).is_none() && newest.run == 0 {
                return Err(Rejection::unknown("batch", batch));
            }
            let (newest, run) = (newest.batch, newest.run);
            let rule = format!(
                "is not the newest run of its logical time, which decides; mark batch {newest} (run {run})"
            );
            return Err(Rejection::field("batch", batch, rule));
        }
        newest.result.ok_or_else(|| Rejection::unknown("batch", batch))
    }

    /// How a killed batch ends: as it was marked, else killed.
    pub(crate) fn killed_or_marked(&self, id: BatchId, by: Actor) -> Event {
        match self.marks.get(&id).cloned() {
            Some(Mark { result, by, reason }) => {
                Event::BatchFinished { batch: id, result, by: Some(by), message: reason }
            }
            None => {
                let message = "killed on request".to_owned();
                Event::BatchFinished { batch: id, result: BatchResult::Killed, by: Some(by), message }
            }
        }
    }

    pub(crate) fn batch_marked(&mut self, event: &Event) {
        let Event::BatchMarked { batch, job, logical_time, result, by, reason } = event else { return };
        let result = BatchResult::from(*result);
        if self.batches.contains_key(batch) {
            self.marks.insert(*batch, Mark { result, by: by.clone(), reason: reason.clone() });
            return;
        }
        let newest = self.jobs.get_mut(job).and_then(|job| job.history.get_mut(*logical_time));
        let Some(newest) = newest.filter(|newest| newest.batch == *batch) else { return };
        newest.result = Some(result);
        self.finished.insert(*batch, result);
        if result.satisfies() {
            self.forget_late(*job, *logical_time);
        }
        self.newest_changed(*job, *logical_time);
    }
}
