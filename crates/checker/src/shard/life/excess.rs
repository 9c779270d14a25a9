//! EXE-7: attempts that are over a limit, and which of their failures use up no retry, computed a second time.

use tidemill_model::{AlarmKind, AttemptOutcome, AttemptResult, BatchId, Excess, ExcessKind, Token, bounds};

use super::super::Shard;
use super::super::batch::{Batch, Phase};
use super::super::timeouts::Owed;
use super::retry::Means;
use crate::{At, Invariant};

/// What is on record of a batch's attempts and their limits.
#[derive(Debug, Default)]
pub(in crate::shard) struct Over {
    /// The kinds of which the attempt at hand is over the limit.
    kinds: Vec<ExcessKind>,
    /// Attempts that used up no retry, the one at hand among them.
    pub(in crate::shard) spared: u32,
    /// The one at hand does not.
    spares: bool,
}

impl Over {
    /// Another attempt begins.
    pub(super) fn begin(&mut self) {
        self.kinds.clear();
        self.spares = false;
    }
}

impl Shard {
    /// `excesses_are_told`
    pub(super) fn over_limit(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (token, excess, spares): (Token, &Excess, bool),
    ) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let runs = matches!(&batch.phase, Phase::Granted { to, .. } if to.token == token);
        self.owed = Some(Owed { batch: id, kind: AlarmKind::OverLimit });
        if !runs {
            return self.not_allowed(at, id, &format!("attempt {token} is over its limit"));
        }
        let was_known = batch.over.kinds.contains(&excess.kind);
        batch.over.kinds.push(excess.kind);
        batch.over.spares |= spares;
        batch.over.spared += u32::from(spares);
        let said = batch.said;
        if was_known {
            let why = format!(
                "attempt {token} of batch {id} is over its limit of {} once more",
                excess.kind.as_str()
            );
            at.contradicts(Invariant::ExcessesAreTold, why, &[said]);
        }
    }

    /// `excesses_are_told`, `host_memory_uses_up_no_retry`: once its end is known.
    pub(super) fn ended_over_limit(&self, at: &At<'_>, id: BatchId, outcome: &AttemptOutcome) {
        let Some(batch) = self.batches.get(&id) else { return };
        let Over { kinds, spared, spares } = &batch.over;
        if let Some(excess) = outcome.excess.filter(|excess| !kinds.contains(&excess.kind)) {
            let why =
                format!("batch {id} ends over its limit of {}, and nobody was told", excess.kind.as_str());
            at.contradicts(Invariant::ExcessesAreTold, why, &[batch.said]);
        }
        let before = spared - u32::from(*spares);
        if *spares != is_spared(batch, outcome, before) {
            let uses = if *spares { "uses up no retry" } else { "uses up a retry" };
            let why =
                format!("an end of batch {id} {uses}, after {before} that did not: {:?}", outcome.excess);
            at.contradicts(Invariant::HostMemoryUsesUpNoRetry, why, &[batch.said]);
        }
    }
}

fn is_spared(batch: &Batch, outcome: &AttemptOutcome, before: u32) -> bool {
    let of_host = outcome.excess.is_some_and(|excess| excess.kind == ExcessKind::HostMemory);
    of_host
        && outcome.result == AttemptResult::Failed
        && batch.kill.is_none()
        && batch.exit_means() == Means::Nothing
        && before < bounds::SPARED_RETRIES
}
