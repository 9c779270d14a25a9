//! EXE-4: programs that say themselves whether they have succeeded, by a code.

use std::num::NonZeroI32;

use tidemill_model::{
    AttemptEvent, AttemptOutcome, AttemptResult, BatchId, Event, Rejection, SuccessCheck, Token,
};

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::Batches;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::workers::report::NEVER_GRANTED;

/// Codes that one attempt can report.
const MAX_CODES: u8 = 100;

fn ends_by_code(batch: &Batch) -> bool {
    batch.definition.spec.success_check == SuccessCheck::UserCode
}

impl Batches {
    /// While the attempt runs; after its 0 nothing more is to be said.
    pub(crate) fn report_user_code(&self, token: Token, code: i32) -> Result<Decision, Rejection> {
        let stale = |reason: &str| Rejection::stale(token, reason);
        let id = self.of_token(token).ok_or_else(|| stale("it has ended, or was never issued"))?;
        let batch = self.get(&id).ok_or_else(|| stale("its batch has ended"))?;
        let grant = batch.grant().ok_or_else(|| stale(NEVER_GRANTED))?;
        if !ends_by_code(batch) {
            let rule = "has no effect: the job's success_check is not user_code";
            return Err(Rejection::field("code", code, rule));
        }
        if grant.codes == MAX_CODES {
            let what = format!("the number of codes that attempt {token} has reported");
            return Err(Rejection::limit(what, u64::from(MAX_CODES)));
        }
        if grant.zero {
            return Err(Rejection::AlreadyThere { what: format!("code 0 of attempt {token}") });
        }
        // The same again is no other fact.
        let said = NonZeroI32::new(code).is_some_and(|code| grant.code == Some(code));
        let event = Event::Attempt(AttemptEvent::UserCodeReported { batch: id, token, code });
        Ok(Decision::events(if said { Vec::new() } else { vec![event] }))
    }

    pub(crate) fn user_code_reported(&mut self, id: BatchId, code: i32) {
        if let Some(Phase::Granted(grant)) = self.get_mut(&id).map(|batch| &mut batch.phase) {
            grant.codes = grant.codes.saturating_add(1);
            match NonZeroI32::new(code) {
                None => grant.zero = true,
                Some(code) => grant.code = Some(code),
            }
        }
    }
}

impl GroupShard {
    /// How an attempt that ended by itself did, where its job goes by the code.
    pub(crate) fn judge_by_code(&self, batch: &Batch, outcome: &mut AttemptOutcome) {
        let by_code = ends_by_code(batch);
        let Some(grant) = batch.grant().filter(|_| by_code) else { return };
        match outcome.result {
            AttemptResult::Success | AttemptResult::Failed if grant.zero => {
                outcome.result = AttemptResult::Success;
            }
            AttemptResult::Success | AttemptResult::Failed => {
                outcome.result = AttemptResult::Failed;
                let why = match grant.code {
                    Some(code) => format!("its program reported code {code}"),
                    None => "its program reported no code".to_owned(),
                };
                let said = std::mem::take(&mut outcome.message);
                outcome.message = if said.is_empty() { why } else { format!("{why}; {said}") };
            }
            AttemptResult::Killed | AttemptResult::Lost | AttemptResult::TimedOut => {}
        }
    }
}
