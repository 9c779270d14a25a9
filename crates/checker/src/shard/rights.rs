//! Assignments that carry the right to start before the question is answered (rule 8). Until such a right is over a process
//! may live, whether a start is on record or not.

use jiff::SignedDuration;
use tidemill_model::{
    AttemptResult, BatchId, Command, Incarnation, StartRight, Timestamp, Token, WorkerCommand, WorkerId,
};

use super::Shard;
use super::batch::{Assignment, Phase};
use crate::findings::Asked;
use crate::{At, Invariant};

const RULE: Invariant = Invariant::RightsEndByWordLeaseOrTime;

/// A right that is not known to be over.
#[derive(Clone, Debug)]
pub(super) struct HeldRight {
    pub(super) incarnation: Incarnation,
    window_ms: u64,
    over_after_ms: u64,
    given_at: Timestamp,
    /// A question under it may have been lost or set aside: time does not end it.
    by_word: bool,
    /// The lease of the life that has it is over.
    lease_over: bool,
}

impl HeldRight {
    pub(super) fn new(at: &At<'_>, right: &StartRight, over_after_ms: u64) -> Self {
        Self {
            incarnation: right.incarnation.clone(),
            window_ms: right.window_ms,
            over_after_ms,
            given_at: at.now,
            by_word: false,
            lease_over: false,
        }
    }

    /// Before this no clock can have ended it: its heartbeat was read half a window before it was given, at most.
    fn over_at(&self) -> Timestamp {
        let ms = self.over_after_ms.saturating_sub(self.window_ms / 2);
        let after = SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX));
        self.given_at.saturating_add(after).unwrap_or(Timestamp::MAX)
    }
}

impl Shard {
    /// `rights_end_by_word_lease_or_time`: what is given.
    pub(super) fn right_may_be_given(&self, at: &At<'_>, id: BatchId, worker: &WorkerId, right: &HeldRight) {
        let Some(batch) = self.batches.get(&id) else { return };
        let known = self.workers.get(worker);
        let lost_after_ms = self.settings.as_ref().map_or(u64::MAX, |settings| settings.lost_after_ms);
        let is_foreign = |parent| !self.jobs.contains_key(&parent);
        let why = if known.is_none_or(|known| known.incarnation != right.incarnation) {
            format!("{} is not the present life of {worker}", right.incarnation)
        } else if right.over_after_ms > lost_after_ms || right.window_ms > right.over_after_ms {
            format!(
                "it lasts {} ms, and a silent worker is lost after {lost_after_ms} ms",
                right.over_after_ms
            )
        } else if batch.needs.has_any() {
            "it waits for more than parents".to_owned()
        } else if batch.waits.iter().any(|waits| is_foreign(waits.dependency.parent)) {
            "it waits for a parent of another group".to_owned()
        } else {
            return;
        };
        at.contradicts(RULE, format!("batch {id} is assigned with a right, and {why}"), &[batch.said]);
    }

    /// `rights_end_by_word_lease_or_time`: what ends.
    pub(super) fn right_may_end(&self, at: &At<'_>, id: BatchId, held: &Assignment) {
        let Some(right) = &held.right else { return };
        let is_word = match at.asked {
            Asked::Command(None) => true,
            Asked::Command(Some(record)) => ends_by_word(&record.command, held.token, &held.worker),
            Asked::Owner | Asked::Unknown => false,
        };
        let early = at.now.checked_add(self.bounds.tolerance).is_ok_and(|now| now < right.over_at());
        let is_over = matches!(at.asked, Asked::Owner) && !early && !right.by_word;
        if is_word || is_over || right.lease_over || self.is_vouched(held.token) {
            return;
        }
        let why = format!(
            "assignment {} of batch {id} ends at {}, and {} may run it under a right until {}{}",
            held.token,
            at.now,
            held.worker,
            right.over_at(),
            if right.by_word { ", or longer: a question of it may be lost" } else { "" }
        );
        at.contradicts(RULE, why, &[held.said]);
    }

    /// Whether an event grants what is assigned with a right to the life that has it.
    pub(super) fn is_under_right(held: &Assignment, incarnation: &Incarnation) -> bool {
        held.right.as_ref().is_some_and(|right| right.incarnation == *incarnation)
    }

    /// Commands were lost or set aside, questions among them perhaps.
    pub(crate) fn hold_rights(&mut self) {
        for batch in self.batches.values_mut() {
            if let Phase::Assigned(Assignment { right: Some(right), .. }) = &mut batch.phase {
                right.by_word = true;
            }
        }
    }

    /// Also of what was granted since, which its worker may still give back.
    pub(super) fn lease_ends_rights(&mut self, worker: &WorkerId) {
        for batch in self.batches.values_mut() {
            if let Phase::Assigned(to) | Phase::Granted { to, .. } = &mut batch.phase
                && to.worker == *worker
                && let Some(right) = &mut to.right
            {
                right.lease_over = true;
            }
        }
    }
}

/// Whether a worker says that nothing of an assignment runs, and nothing will.
fn ends_by_word(command: &Command, of: Token, by: &WorkerId) -> bool {
    match command {
        Command::Worker(WorkerCommand::RejectAssignment { token, worker, .. }) => {
            (*token, worker) == (of, by)
        }
        Command::Worker(WorkerCommand::ReportFinished { token, worker, outcome, .. }) => {
            (*token, worker) == (of, by)
                && matches!(outcome.result, AttemptResult::Lost | AttemptResult::Killed)
        }
        _ => false,
    }
}

/// Whether a report of an attempt implies that its start was asked for.
pub(super) fn implies_a_question(command: &Command, of: Token, by: &WorkerId) -> bool {
    match command {
        Command::Worker(
            WorkerCommand::ReportStarted { token, worker }
            | WorkerCommand::ReportFinished { token, worker, .. },
        ) => (*token, worker) == (of, by),
        _ => false,
    }
}
