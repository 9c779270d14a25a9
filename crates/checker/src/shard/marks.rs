//! A person says how a batch ended.

use tidemill_model::{Actor, BatchCommand, BatchEvent, BatchId, BatchResult, Command, JobId, Timestamp};

use super::Shard;
use super::moves::ELSEWHERE;
use crate::Invariant;
use crate::at::At;

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
        // Of a job that came back from another group, runs are known by their numbers.
        let is_newest = run.batch == id || run.batch == ELSEWHERE && number == Some(run.number);
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
