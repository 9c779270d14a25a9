//! ZMB-1: the output path of a lost attempt says whether it has done its work, where its worker could not look any more.
//!
//! ```text
//!  AttemptFinished(lost)                       OutputAnswered: its path changed  → success
//!  AttemptOutputQueried ── the batch pauses ──                 older, or absent  → as an attempt that failed
//!                          until 60 s later ── nobody can tell, or has           → as an attempt that is lost
//! ```
//! Its slot, its pools and its place in the job's limit are free meanwhile, for nothing of it runs. What has changed proves something
//! only after the grant of its start.
//!
//! *Invariant:* what is looked for is of a batch that pauses for that, and its time stands among the timers.

use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{
    AttemptEvent, AttemptOutcome, AttemptResult, BatchId, Event, Level, MAX_OUTPUT_ANSWERS,
    MAX_WANTED_OUTPUTS, OUTPUT_WITHIN_MS, OutputAnswer, OutputFound, Rejection, SuccessCheck, Timestamp,
    Token, WantedOutput,
};

use super::Batches;
use super::batch::{PauseAfter, Phase};
use super::finish::Ended;
use crate::decision::Decision;
use crate::group::{GroupShard, Timer};

/// Why nobody can tell, characters.
const REASON_CHARS: usize = 300;

/// An output that probers look for.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct LostOutput {
    token: Token,
    path: Arc<str>,
    since: Timestamp,
}

impl Batches {
    /// What is looked for of a batch's last attempt.
    pub(crate) fn lost_output(&self, id: BatchId) -> Option<&str> {
        self.lost_outputs.get(&id).map(|output| &*output.path)
    }

    /// Outputs that probers are to look for, those of the oldest batches first.
    pub(crate) fn wanted_outputs(&self) -> Vec<WantedOutput> {
        let wanted = |(batch, output): (&BatchId, &LostOutput)| WantedOutput {
            batch: *batch,
            token: output.token,
            path: Arc::clone(&output.path),
        };
        self.lost_outputs.iter().take(MAX_WANTED_OUTPUTS).map(wanted).collect()
    }

    /// What was found, and what follows from that.
    fn output_answered(&self, id: BatchId, found: OutputFound, now: Timestamp) -> Vec<Event> {
        let Some((output, batch)) = self.lost_outputs.get(&id).zip(self.get(&id)) else { return Vec::new() };
        let outcome = judged(output, &found);
        let follows = self.after_attempt((id, batch), &Ended::on_record(batch, &outcome), now);
        let answered = AttemptEvent::OutputAnswered { batch: id, token: output.token, found };
        vec![answered.into(), follows]
    }

    /// A batch waits for it no more.
    pub(in crate::group) fn forget_lost_output(&mut self, id: BatchId) {
        self.lost_outputs.remove(&id);
    }
}

/// How the attempt did, by what was found of its output.
fn judged(LostOutput { path, since, .. }: &LostOutput, found: &OutputFound) -> AttemptOutcome {
    let proves = found.proves_success(*since)
        || planted!(OldOutputProves) && matches!(found, OutputFound::Changed { .. });
    let (result, message) = match found {
        OutputFound::Changed { at } if proves => (
            AttemptResult::Success,
            format!(
                "its attempt was lost; its output path {path} changed at {at}, after its start was granted at {since}, so it has succeeded"
            ),
        ),
        OutputFound::Changed { at } => (
            AttemptResult::Failed,
            format!(
                "its attempt was lost; its output path {path} changed last at {at}, before its start was granted at {since}, and proves nothing"
            ),
        ),
        OutputFound::Absent => (
            AttemptResult::Failed,
            format!("its attempt was lost, and its output path {path} does not exist"),
        ),
        OutputFound::Unknown { reason } => (
            AttemptResult::Lost,
            format!("whether its output path {path} is newer than its start is not known: {reason}"),
        ),
    };
    AttemptOutcome { message, ..AttemptOutcome::bare(result) }
}

impl GroupShard {
    /// Whether the output of an attempt that is lost is to be looked for. `is_said`: somebody has said so, and what never began has
    /// made nothing. Where something else of the logical time may still write it, it proves nothing either.
    pub(in crate::group) fn output_queried(
        &self,
        (id, token): (BatchId, Token),
        outcome: &AttemptOutcome,
        is_said: bool,
        now: Timestamp,
    ) -> Option<Event> {
        let is_lost = outcome.result == AttemptResult::Lost && self.level().allows(Level::OUTPUT_LOOKS);
        let batch = self.batches.get(&id).filter(|batch| is_lost && batch.kill().is_none())?;
        let by_output = matches!(batch.definition.spec.success_check, SuccessCheck::OutputPath(_));
        let grant = batch.grant().filter(|grant| by_output && (grant.started || !is_said))?;
        if self.strays.hold(batch.definition.id, batch.logical_time) || self.batches.has_external_ids(id) {
            return None;
        }
        planted!(LostWithoutLook => if grant.token == token { return None });
        let path = self.run_spec(id, batch, grant.token).ok()?.output_path?;
        let within = SignedDuration::from_millis(OUTPUT_WITHIN_MS);
        let until = now.saturating_add(within).unwrap_or(Timestamp::MAX);
        Some(AttemptEvent::OutputQueried { batch: id, token, path, since: batch.since, until }.into())
    }

    /// What probers found. Of an attempt for which nobody waits any more, it says nothing.
    pub(crate) fn report_outputs(
        &self,
        answers: &[OutputAnswer],
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        if answers.len() > MAX_OUTPUT_ANSWERS {
            let rule = format!("must be at most {MAX_OUTPUT_ANSWERS} in one report");
            return Err(Rejection::field("answers", answers.len(), rule));
        }
        let mut answered: Vec<BatchId> = Vec::new();
        let mut events = Vec::new();
        for OutputAnswer { batch, token, found } in answers {
            let is_wanted = self.batches.lost_outputs.get(batch).is_some_and(|output| output.token == *token);
            if is_wanted && !answered.contains(batch) {
                answered.push(*batch);
                events.extend(self.batches.output_answered(*batch, bounded(found), now));
            }
        }
        Ok(Decision::events(events))
    }

    /// The time of a batch's pause is over.
    pub(in crate::group) fn pause_over(&self, id: BatchId, now: Timestamp) -> Option<Vec<Event>> {
        self.batches.lost_output(id)?;
        let reason = format!("no prober has looked within {} s", OUTPUT_WITHIN_MS / 1_000);
        Some(self.batches.output_answered(id, OutputFound::Unknown { reason }, now))
    }

    pub(in crate::group) fn lost_output_queried(&mut self, now: Timestamp, event: &AttemptEvent) {
        let AttemptEvent::OutputQueried { batch, token, path, since, until } = event else { return };
        let Some(known) = self.batches.get_mut(batch) else { return };
        known.phase = Phase::Pausing { until: *until, after: PauseAfter::LostOutput };
        known.since = now;
        self.timers.set(*until, Timer::Retry(*batch));
        let output = LostOutput { token: *token, path: path.as_str().into(), since: *since };
        self.batches.lost_outputs.insert(*batch, output);
        self.reconsider(*batch);
    }

    pub(in crate::group) fn lost_output_answered(&mut self, id: BatchId) {
        self.batches.forget_lost_output(id);
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if let Phase::Pausing { until, .. } = batch.phase {
            batch.phase = Phase::Waiting;
            self.timers.cancel(until, Timer::Retry(id));
        }
    }
}

/// What is not from us is cut, not refused: the answer counts.
fn bounded(found: &OutputFound) -> OutputFound {
    match found {
        OutputFound::Unknown { reason } => {
            OutputFound::Unknown { reason: reason.chars().take(REASON_CHARS).collect() }
        }
        OutputFound::Changed { .. } | OutputFound::Absent => found.clone(),
    }
}
