//! EXE-13: what attempts have started elsewhere, and whose end confirms that all of it has ended.

use tidemill_model::{BatchId, Command, ExternalWorkId, Level, Token, WorkerCommand, bounds};

use super::super::Shard;
use super::super::batch::{Batch, Phase};
use crate::findings::Asked;
use crate::{At, Invariant};

/// What is on record of external work of a batch's attempts.
#[derive(Debug, Default)]
pub(in crate::shard) struct External {
    /// Ids of the attempt at hand.
    ids: Vec<ExternalWorkId>,
    /// That of which it was said last that its end is not confirmed.
    unconfirmed: Option<Token>,
    /// What such an attempt has left is to be ended before the next one begins.
    is_left: bool,
    /// The attempt at hand had to, and has not started.
    was_left: bool,
}

impl External {
    /// Whether work that was found, or what an earlier attempt has left, may run beside this attempt's end.
    pub(super) fn may_write_beside(&self) -> bool {
        !self.ids.is_empty() || self.was_left
    }

    /// An attempt has started, or a person vouches for all that the attempts of the batch did.
    pub(in crate::shard) fn earlier_has_ended(&mut self) {
        (self.is_left, self.was_left) = (false, false);
    }

    /// Whether the next attempt has to end something before it begins.
    pub(in crate::shard) fn is_left(&self) -> bool {
        self.is_left
    }

    /// Another attempt begins.
    pub(super) fn begin(&mut self) {
        self.ids.clear();
        self.was_left = self.is_left;
    }
}

fn runs_as(batch: &Batch, token: Token) -> bool {
    matches!(&batch.phase, Phase::Granted { to, .. } if to.token == token)
}

impl Shard {
    /// `external_work_found_once`
    pub(super) fn external_work_found(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, ids): (Token, &[ExternalWorkId]),
    ) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if !runs_as(batch, token) {
            return self.not_allowed(at, id, &format!("external work of attempt {token} is found"));
        }
        let known = batch.external.ids.len();
        let mut again = None;
        for id in ids {
            if batch.external.ids.contains(id) {
                again = Some(id);
            }
            batch.external.ids.push(id.clone());
        }
        let rule = Invariant::ExternalWorkFoundOnce;
        if let Some(again) = again {
            let why = format!("external work {again} of attempt {token} of batch {id} is found once more");
            at.contradicts(rule, why, &[batch.said]);
        }
        if ids.is_empty() || known + ids.len() > bounds::EXTERNAL_WORK {
            let why = format!("{} ids of external work are added to {known} of attempt {token}", ids.len());
            at.contradicts(rule, why, &[batch.said]);
        }
    }

    /// `unconfirmed_ends_are_told`
    pub(super) fn external_work_unconfirmed(&mut self, at: &At<'_>, id: BatchId, token: Token) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        if !runs_as(batch, token) {
            return self.not_allowed(at, id, &format!("external work of attempt {token} is unconfirmed"));
        }
        batch.external.unconfirmed = Some(token);
        batch.external.is_left = true;
    }

    /// `unconfirmed_ends_are_told`: once the end is there.
    pub(super) fn ended_elsewhere(&self, at: &At<'_>, id: BatchId, token: Token) {
        let Some(batch) = self.batches.get(&id).filter(|_| at.level.allows(Level::EXTERNAL_WORK)) else {
            return;
        };
        let is_told = batch.external.unconfirmed == Some(token);
        let owed = match at.asked {
            Asked::Owner => !self.is_vouched(token),
            Asked::Command(Some(record)) => match &record.command {
                Command::Worker(WorkerCommand::ReportFinished { token: of, external, .. })
                    if *of == token =>
                {
                    external.as_ref().is_some_and(|external| external.unconfirmed)
                }
                _ => return,
            },
            Asked::Command(None) | Asked::Unknown => return,
        };
        if owed != is_told {
            let word = if is_told { "is" } else { "is not" };
            let why = format!(
                "attempt {token} of batch {id} ends, and {word} on record as leaving external work unconfirmed"
            );
            at.contradicts(Invariant::UnconfirmedEndsAreTold, why, &[batch.said]);
        }
    }
}
