//! EXE-7: attempts that want more than there is for them: what is on record of it, whom it concerns, and when it uses up no retry.
//!
//! *Invariant:* an attempt is on record as over one limit once at most (`Grant::over`), and before its end where that names an
//! excess. Below level 3 nothing of it is on record, and a want of memory on the host is a failure like any other.

use tidemill_model::{
    AlarmKind, AttemptEvent, AttemptOutcome, AttemptResult, BatchId, Event, Excess, ExcessKind, Heartbeat,
    Level, RunningExcess, Severity, Token, WorkerId, bounds,
};

use crate::group::batches::Batches;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::{GroupShard, alarm};

/// Its place in [`Grant::over`](super::batch::Grant).
const fn bit(kind: ExcessKind) -> u8 {
    1 << kind as u8
}

/// Whether the end of this attempt uses up no retry: its host had too little memory for it, and not too often.
pub(super) fn spares_retry(batch: &Batch, outcome: &AttemptOutcome) -> bool {
    let codes = batch.definition.spec.exit_codes.as_ref().zip(outcome.exit_code);
    outcome.result == AttemptResult::Failed
        && outcome.excess.is_some_and(|excess| excess.kind == ExcessKind::HostMemory)
        && batch.spared < bounds::SPARED_RETRIES
        && batch.kill().is_none()
        && !codes.is_some_and(|(codes, code)| codes.means_skip(code) || codes.forbids_retry(code))
        && !planted!(HostMemoryUsesUpRetry)
}

/// The event and its alarm.
fn over_limit(
    id: BatchId,
    batch: &Batch,
    (token, worker): (Token, &WorkerId),
    excess: Excess,
    spares_retry: bool,
) -> [Event; 2] {
    let message = format!(
        "attempt {token} of batch {id} of {} for {} on worker {worker}: {}",
        batch.definition.full_name(),
        batch.logical_time,
        describe(excess)
    );
    let of = (id, &*batch.definition);
    let raised = alarm(AlarmKind::OverLimit, Severity::Critical, of, Some(worker), message);
    let worker = worker.clone();
    [AttemptEvent::OverLimit { batch: id, token, worker, excess, spares_retry }.into(), raised]
}

/// In one sentence, for people.
fn describe(Excess { kind, limit, seen }: Excess) -> String {
    let (limit, seen) = (
        limit.map(|limit| format!(" of {limit}")).unwrap_or_default(),
        seen.map(|seen| format!(", and {seen} were seen")).unwrap_or_default(),
    );
    match kind {
        ExcessKind::Memory => {
            format!("it wanted more memory than its limit{limit} MiB{seen}; processes of it were ended")
        }
        ExcessKind::HostMemory => {
            format!("its host had too little memory{seen}; the kernel ended a process of it")
        }
        ExcessKind::MemoryAlarm => format!("it uses more memory than the{limit} MiB of its alarm{seen}"),
        ExcessKind::Processes => format!("it wants more processes and threads than its limit{limit}{seen}"),
        ExcessKind::Output => {
            format!("its output is larger than its limit{limit} MiB{seen}; the rest is dropped")
        }
    }
}

impl Batches {
    /// Before the end of an attempt: what that names, unless it is on record of the attempt already.
    pub(super) fn over_limit_at_end(
        &self,
        id: BatchId,
        batch: &Batch,
        (token, worker): (Token, &WorkerId),
        outcome: &AttemptOutcome,
    ) -> Vec<Event> {
        planted!(ExcessUntold => return Vec::new());
        let is_known =
            |excess: &Excess| batch.grant().is_some_and(|grant| grant.over & bit(excess.kind) != 0);
        let news = outcome.excess.filter(|excess| !is_known(excess));
        let spares = spares_retry(batch, outcome);
        news.map(|excess| over_limit(id, batch, (token, worker), excess, spares))
            .into_iter()
            .flatten()
            .collect()
    }
}

impl GroupShard {
    /// What a worker says of attempts that run on it, and is not on record yet.
    pub(in crate::group) fn over_limit_while_running(&self, heartbeat: &Heartbeat) -> Vec<Event> {
        if heartbeat.excesses.is_empty() || !self.level().allows(Level::LIMITS) {
            return Vec::new();
        }
        let mut events = Vec::new();
        let mut said = Vec::new();
        for RunningExcess { token, excess } in heartbeat.excesses.iter().take(bounds::EXCESSES) {
            let Ok((id, batch)) = self.holding(*token, &heartbeat.worker) else { continue };
            let Some(grant) = batch.grant() else { continue };
            let is_new = grant.over & bit(excess.kind) == 0 && !said.contains(&(*token, excess.kind));
            if is_new && excess.kind.is_of_running() {
                said.push((*token, excess.kind));
                events.extend(over_limit(id, batch, (*token, &grant.worker), *excess, false));
            }
        }
        events
    }

    pub(in crate::group) fn went_over_limit(&mut self, id: BatchId, excess: Excess, spares_retry: bool) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        batch.spared += u32::from(spares_retry);
        if let Phase::Granted(grant) = &mut batch.phase {
            grant.over |= bit(excess.kind);
        }
    }
}
