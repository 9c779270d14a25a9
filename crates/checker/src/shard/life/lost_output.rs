//! ZMB-1: a lost attempt whose job goes by its output path is looked for, and only newer output is its success.

use tidemill_model::{
    AttemptEvent, AttemptResult, BatchId, Command, Level, ObservationCommand, OutputFound, SuccessCheck,
    Timestamp, Token, WorkerCommand,
};

use super::super::Shard;
use super::super::batch::{Batch, Phase};
use crate::findings::Asked;
use crate::{At, Invariant};

const RULE: Invariant = Invariant::LostAttemptsAreLookedFor;

/// What is on record of the output of a batch's last attempt.
#[derive(Debug, Default)]
pub(in crate::shard) struct LostOutput {
    /// When the attempt at hand was granted its start.
    granted: Option<Timestamp>,
    /// The attempt that has just been lost.
    lost: Option<Token>,
    /// It has to be looked for.
    owed: bool,
    look: Option<Look>,
}

#[derive(Debug)]
struct Look {
    token: Token,
    since: Timestamp,
    until: Timestamp,
    said: u64,
}

impl LostOutput {
    /// Another attempt begins.
    pub(super) fn begin(&mut self, now: Timestamp) {
        *self = Self { granted: Some(now), ..Self::default() };
    }
}

impl Shard {
    /// The attempt at hand ends.
    pub(super) fn output_owed(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, started, result): (Token, bool, AttemptResult),
    ) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let may_be_made = match at.asked {
            Asked::Owner => true,
            // A worker that was there, and cannot tell what runs elsewhere, has judged it.
            Asked::Command(Some(record)) => {
                let is_judged = matches!(
                    &record.command,
                    Command::Worker(WorkerCommand::ReportFinished { usage: Some(_), external: Some(external), .. })
                        if external.unconfirmed
                );
                started && !is_judged
            }
            Asked::Command(None) | Asked::Unknown => false,
        };
        let is_lost = result == AttemptResult::Lost && batch.kill.is_none() && !batch.was_interrupted;
        batch.lost_output.lost = is_lost.then_some(token);
        batch.lost_output.owed = is_lost
            && may_be_made
            && at.level.allows(Level::OUTPUT_LOOKS)
            && goes_by_output(batch)
            && !batch.external.may_write_beside()
            && !batch.may_fail_at_start()
            && !self.strays.live.values().any(|stray| stray.run == (batch.job, batch.time));
    }

    /// `lost_attempts_are_looked_for`
    pub(super) fn output_queried(&mut self, at: &At<'_>, id: BatchId, event: &AttemptEvent) {
        let AttemptEvent::OutputQueried { token, since, until, .. } = event else { return };
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let (granted, lost) = (batch.lost_output.granted, batch.lost_output.lost);
        let is_lost = matches!(batch.phase, Phase::Ended { result: AttemptResult::Lost, .. });
        batch.lost_output.owed = false;
        batch.lost_output.look = Some(Look { token: *token, since: *since, until: *until, said: at.offset });
        let why = if !is_lost || lost != Some(*token) {
            "it is not the attempt that was just lost".to_owned()
        } else if !goes_by_output(batch) {
            "its job does not go by that".to_owned()
        } else if granted.is_some_and(|granted| granted != *since) {
            format!("it was granted its start at {}, not at {since}", granted.unwrap_or(*since))
        } else if *until <= at.now {
            format!("there is no time for it until {until}")
        } else {
            String::new()
        };
        if !why.is_empty() {
            let why = format!("the output of attempt {token} of batch {id} is to be looked for, and {why}");
            at.contradicts(RULE, why, &[batch.said]);
        }
        self.step(id, Phase::Pausing { until: *until });
    }

    /// The same, of what was found.
    pub(super) fn output_answered(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, found): (Token, &OutputFound),
    ) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let look = batch.lost_output.look.take();
        let Some(look) = look.filter(|look| look.token == token && is_pausing(&batch.phase)) else {
            return self.not_allowed(at, id, &format!("the output of attempt {token} was looked for"));
        };
        let said = match at.asked {
            Asked::Command(Some(record)) => answers(&record.command, (id, token, found)),
            Asked::Command(None) | Asked::Unknown => true,
            Asked::Owner => matches!(found, OutputFound::Unknown { .. }) && at.now >= look.until,
        };
        if !said {
            let why = format!(
                "what was found of the output of attempt {token} of batch {id} is what no prober has said, or its time was not over"
            );
            at.contradicts(RULE, why, &[look.said]);
        }
        let result = match found {
            OutputFound::Changed { .. } if found.proves_success(look.since) => AttemptResult::Success,
            OutputFound::Changed { .. } | OutputFound::Absent => AttemptResult::Failed,
            OutputFound::Unknown { .. } => AttemptResult::Lost,
        };
        self.step(id, Phase::Ended { result, exit_code: None, at: at.now });
        self.unsettled.push(id);
    }

    /// The same: what follows from the end of an attempt is decided once its output was looked for.
    pub(super) fn none_is_lost_unlooked_for(&mut self, at: &At<'_>, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if std::mem::take(&mut batch.lost_output.owed) {
            let why = format!(
                "the last attempt of batch {id} is lost, and nobody looks for the output that its job goes by"
            );
            at.contradicts(RULE, why, &[batch.said]);
        }
    }
}

fn goes_by_output(batch: &Batch) -> bool {
    batch.of.as_ref().is_some_and(|of| matches!(of.spec().success_check, SuccessCheck::OutputPath(_)))
}

fn is_pausing(phase: &Phase) -> bool {
    matches!(phase, Phase::Pausing { .. })
}

fn answers(command: &Command, (batch, token, found): (BatchId, Token, &OutputFound)) -> bool {
    let Command::Observation(ObservationCommand::ReportOutputs { answers, .. }) = command else {
        return false;
    };
    answers.iter().any(|answer| {
        let same = match (&answer.found, found) {
            // It may be cut.
            (OutputFound::Unknown { reason }, OutputFound::Unknown { reason: kept }) => {
                reason.starts_with(&**kept)
            }
            (said, kept) => said == kept,
        };
        (answer.batch, answer.token) == (batch, token) && same
    })
}
