//! Batches: what they wait for, their assignments, their end.

use std::sync::Arc;

use tidemill_model::{
    Actor, BatchEvent, BatchId, BatchResult, BatchState, OverriddenResult, ReturnReason, TimeoutKind, Token,
    WorkerId,
};
use tidemill_store::rows::{AssignmentReturnRow, BatchRow};

use super::job::is_copy;
use super::{Caches, Place};

pub(super) fn state(state: BatchState) -> i64 {
    i64::from(state.number())
}

pub(super) fn person(actor: &Actor) -> Arc<str> {
    match &actor.user {
        Some(user) => format!("{}/{user}", actor.app).into(),
        None => Arc::clone(&actor.app),
    }
}

fn unblock(row: &mut BatchRow) {
    (row.blocked_since, row.blocked_by, row.blocked_by_time) = (None, None, None);
}

impl Caches {
    pub(super) fn need_batch(&mut self, shard: i64, event: &BatchEvent) {
        match event {
            BatchEvent::Generated { batch, job, .. } => {
                self.batches.expect_new((batch.0,));
                if is_copy(*job) {
                    self.shard_jobs.need((job.0, shard));
                } else {
                    self.jobs.need((job.0,));
                }
            }
            BatchEvent::DependencySatisfied { batch, parent, logical_time, .. }
            | BatchEvent::DependencyRevoked { batch, parent, logical_time, .. } => {
                self.batches.need((batch.0,));
                self.batch_dependencies.need((batch.0, parent.0, logical_time.as_millisecond()));
            }
            BatchEvent::AssignmentReturned { batch, token, .. } => {
                self.batches.need((batch.0,));
                self.attempts.need((token.0,));
            }
            BatchEvent::Assigned { batch, .. }
            | BatchEvent::AssignedWithRight { batch, .. }
            | BatchEvent::RetryScheduled { batch, .. }
            | BatchEvent::RetryDue { batch }
            | BatchEvent::StartDue { batch }
            | BatchEvent::ResultOverridden { batch, .. }
            | BatchEvent::Blocked { batch, .. }
            | BatchEvent::Unblocked { batch }
            | BatchEvent::TimeoutReached { batch, .. }
            | BatchEvent::Finished { batch, .. } => self.batches.need((batch.0,)),
            BatchEvent::DependencyOverridden { batch, .. } => {
                self.batches.need((batch.0,));
                self.batch_quality.need((batch.0,));
            }
            BatchEvent::QualityRequested { batch, .. }
            | BatchEvent::QualitySent { batch, .. }
            | BatchEvent::QualityAnswered { batch, .. } => self.batch_quality.need((batch.0,)),
        }
    }

    pub(super) fn apply_batch(&mut self, at: Place, event: &BatchEvent) {
        match event {
            BatchEvent::Generated { .. } => self.generate(at, event),
            BatchEvent::DependencySatisfied { batch, parent, logical_time, unmet, .. }
            | BatchEvent::DependencyRevoked { batch, parent, logical_time, unmet } => {
                let met = matches!(event, BatchEvent::DependencySatisfied { .. });
                self.depends(at, (batch.0, parent.0, logical_time.as_millisecond()), met, *unmet);
            }
            BatchEvent::Assigned { batch, attempt, token, worker, start_by } => {
                let start_by = start_by.as_millisecond();
                self.batches.change((batch.0,), |row| assign(row, at, *attempt, (*token, worker), start_by));
            }
            BatchEvent::AssignedWithRight { batch, attempt, token, worker, right: _, over_after_ms } => {
                let start_by = at.now.saturating_add(over_after_ms.cast_signed());
                self.batches.change((batch.0,), |row| assign(row, at, *attempt, (*token, worker), start_by));
            }
            BatchEvent::AssignmentReturned { batch, token, worker, reason } => {
                self.give_back(at, *batch, *token, worker, reason);
            }
            BatchEvent::RetryScheduled { batch, at: not_before, .. } => {
                self.batches.change((batch.0,), |row| {
                    row.state = state(BatchState::Waiting);
                    row.token = None;
                    row.start_by = None;
                    row.retry_at = Some(not_before.as_millisecond());
                })
            }
            BatchEvent::RetryDue { batch } => self.batches.change((batch.0,), |row| row.retry_at = None),
            BatchEvent::Finished { batch, result, by, message, .. } => {
                self.batches.change((batch.0,), |row| finish(row, at, *result, by.as_ref(), message));
            }
            BatchEvent::ResultOverridden { batch, result, by, reason, .. } => {
                self.batches.change((batch.0,), |row| override_result(row, at, *result, by, reason));
            }
            BatchEvent::TimeoutReached { batch, kind, .. } => {
                self.batches.change((batch.0,), |row| *reached_at(row, *kind) = Some(at.now));
            }
            BatchEvent::Blocked { batch, parent, logical_time, since } => {
                self.batches.change((batch.0,), |row| {
                    row.blocked_since = Some(since.as_millisecond());
                    row.blocked_by = Some(parent.0);
                    row.blocked_by_time = Some(logical_time.as_millisecond());
                });
            }
            BatchEvent::Unblocked { batch } => self.batches.change((batch.0,), unblock),
            // Its row says when that is.
            BatchEvent::StartDue { .. } => {}
            BatchEvent::DependencyOverridden { .. } => self.overridden(at, event),
            BatchEvent::QualityRequested { batch, number: asked, again_at } => {
                self.batch_quality.change((batch.0,), |row| {
                    row.state = "requested".into();
                    row.asked = i64::from(*asked);
                    row.requested_at = Some(at.now);
                    row.again_at = Some(again_at.as_millisecond());
                });
            }
            BatchEvent::QualitySent { batch, .. } => self.batch_quality.change((batch.0,), |row| {
                row.state = "sent".into();
                row.sent_at = Some(at.now);
            }),
            BatchEvent::QualityAnswered { batch, allowed, reason, by } => {
                self.batch_quality.change((batch.0,), |row| {
                    row.state = if *allowed { "allowed" } else { "refused" }.into();
                    row.again_at = None;
                    row.answered_at = Some(at.now);
                    row.answered_by = Some(person(by));
                    row.reason = reason.as_str().into();
                });
            }
        }
    }

    fn depends(&mut self, at: Place, key: (i64, i64, i64), met: bool, unmet: u32) {
        self.batches.change((key.0,), |row| {
            row.unmet = i64::from(unmet);
            row.ready_at = (unmet == 0).then_some(at.now);
        });
        self.batch_dependencies.change(key, |row| {
            row.met = met;
            row.met_at = met.then_some(at.now);
        });
    }

    fn give_back(&mut self, at: Place, batch: BatchId, token: Token, worker: &WorkerId, why: &ReturnReason) {
        let reason = why.as_str();
        let message = match why {
            ReturnReason::Rejected(message) | ReturnReason::LacksResources(message) => message,
            ReturnReason::NotStarted
            | ReturnReason::WorkerLost
            | ReturnReason::WorkerRestarted
            | ReturnReason::WorkerLeaving => "",
        };
        let Some(row) = self.batches.get(&(batch.0,)) else { return };
        self.assignment_returns.put(AssignmentReturnRow {
            token: token.0,
            batch_id: batch.0,
            job_id: row.job_id,
            attempt: row.attempt,
            worker_id: Arc::clone(&worker.0),
            assigned_at: row.assigned_at,
            returned_at: at.now,
            reason: reason.into(),
            message: message.into(),
        });
        // One that was granted and never began is no attempt.
        let granted = self.attempts.get(&(token.0,)).is_some();
        if granted {
            self.attempts.remove((token.0,));
        }
        self.batches.change((batch.0,), |row| {
            if granted {
                row.attempts -= 1;
            }
            row.state = state(BatchState::Waiting);
            row.returned += 1;
            row.token = None;
            row.start_by = None;
            row.message = if message.is_empty() { reason.into() } else { message.into() };
        });
    }
}

pub(super) fn assign(
    row: &mut BatchRow,
    at: Place,
    attempt: u32,
    (token, worker): (Token, &WorkerId),
    start_by: i64,
) {
    row.state = state(BatchState::Assigned);
    row.attempt = i64::from(attempt);
    row.start_by = Some(start_by);
    row.token = Some(token.0);
    row.worker_id = Some(Arc::clone(&worker.0));
    row.assigned_at = Some(at.now);
    row.retry_at = None;
    row.message = "".into();
}

fn finish(row: &mut BatchRow, at: Place, result: BatchResult, by: Option<&Actor>, message: &str) {
    row.state = state(BatchState::Finished);
    row.result = Some(result.as_str().into());
    row.token = None;
    row.start_by = None;
    row.retry_at = None;
    row.finished_at = Some(at.now);
    unblock(row);
    if let Some(by) = by {
        row.killed_by = Some(person(by));
    }
    if !message.is_empty() {
        row.message = message.into();
    }
}

fn override_result(row: &mut BatchRow, at: Place, result: OverriddenResult, by: &Actor, reason: &str) {
    let result: Arc<str> = BatchResult::from(result).as_str().into();
    if row.result.is_some() {
        row.result = Some(Arc::clone(&result));
    }
    row.overridden_result = Some(result);
    row.result_overridden_at = Some(at.now);
    row.result_overridden_by = Some(person(by));
    row.result_override_reason = Some(reason.into());
}

/// When such a timeout was reached.
fn reached_at(row: &mut BatchRow, kind: TimeoutKind) -> &mut Option<i64> {
    match kind {
        TimeoutKind::Dependency => &mut row.dependency_timeout_at,
        TimeoutKind::Output => &mut row.output_timeout_at,
        TimeoutKind::ByTime => &mut row.not_successful_by_at,
    }
}
