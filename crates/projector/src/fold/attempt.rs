//! Attempts: granted, begun, ended, and what their programs say; and the final commands of batches.

use std::sync::Arc;

use tidemill_model::{
    AttemptEvent, AttemptOutcome, BatchId, BatchState, Excess, ExternalWorkId, FinalCommandEvent,
    FinalResult, OutputFound, Token, Usage, WorkerId,
};
use tidemill_store::rows::{AttemptRow, BatchRow, UserCodeRow};

use super::batch::{assign, person, state};
use super::job::{json, number};
use super::{Caches, Place};

impl Caches {
    pub(super) fn need_attempt(&mut self, event: &AttemptEvent) {
        match event {
            AttemptEvent::StartGranted { batch, token, .. } | AttemptEvent::Adopted { batch, token, .. } => {
                self.batches.need((batch.0,));
                self.attempts.expect_new((token.0,));
            }
            // A rebuild from a time needs the batch of every attempt that it folds: see `since`.
            AttemptEvent::UserCodeReported { batch, token, .. }
            | AttemptEvent::OverLimit { batch, token, .. }
            | AttemptEvent::ExternalWorkFound { batch, token, .. }
            | AttemptEvent::ExternalWorkUnconfirmed { batch, token, .. }
            | AttemptEvent::Started { batch, token }
            | AttemptEvent::Interrupted { batch, token, .. }
            | AttemptEvent::Finished { batch, token, .. } => {
                self.batches.need((batch.0,));
                self.attempts.need((token.0,));
            }
            AttemptEvent::KillRequested { batch, .. }
            | AttemptEvent::EndVouched { batch, .. }
            | AttemptEvent::OutputQueried { batch, .. }
            | AttemptEvent::OutputAnswered { batch, .. } => {
                self.batches.need((batch.0,));
            }
        }
    }

    pub(super) fn apply_attempt(&mut self, at: Place, event: &AttemptEvent) {
        match event {
            AttemptEvent::StartGranted { batch, token, worker, incarnation, .. } => {
                self.grant(at, *batch, *token, worker, &incarnation.0);
            }
            AttemptEvent::Adopted { batch, token, attempt, worker, incarnation, .. } => {
                self.batches.change((batch.0,), |row| assign(row, at, *attempt, (*token, worker), at.now));
                self.grant(at, *batch, *token, worker, &incarnation.0);
                self.attempts.change((token.0,), |row| row.started_at = Some(at.now));
                let started = |row: &mut BatchRow| row.started_at = row.started_at.or(Some(at.now));
                self.batches.change((batch.0,), started);
            }
            AttemptEvent::Started { batch, token } => {
                self.attempts.change((token.0,), |row| row.started_at = Some(at.now));
                let started = |row: &mut BatchRow| row.started_at = row.started_at.or(Some(at.now));
                self.batches.change((batch.0,), started);
            }
            AttemptEvent::UserCodeReported { token, code, .. } => {
                self.user_code_reported(at, *token, i64::from(*code))
            }
            AttemptEvent::OverLimit { token, excess, .. } => {
                self.attempts.change((token.0,), |row| note_excess(row, *excess));
            }
            AttemptEvent::ExternalWorkFound { token, ids, .. } => {
                self.attempts.change((token.0,), |row| note_external_work(row, ids));
            }
            AttemptEvent::ExternalWorkUnconfirmed { token, .. } => {
                self.attempts.change((token.0,), |row| row.external_work_unconfirmed = true);
            }
            AttemptEvent::Interrupted { token, .. } => {
                self.attempts.change((token.0,), |row| row.interrupted = true);
            }
            AttemptEvent::Finished { batch, token, outcome, usage, .. } => {
                self.batches.change((batch.0,), |row| {
                    row.token = None;
                    row.message = outcome.message.as_str().into();
                });
                self.attempts.change((token.0,), |row| finish(row, at, outcome, usage.as_deref()));
            }
            // Its end follows, with the reason.
            AttemptEvent::EndVouched { .. } => {}
            AttemptEvent::OutputQueried { batch, path, until, .. } => {
                self.batches.change((batch.0,), |row| {
                    row.state = state(BatchState::Waiting);
                    row.start_by = None;
                    row.retry_at = Some(until.as_millisecond());
                    row.message =
                        format!("its attempt was lost; its output path {path} is looked for").into();
                })
            }
            AttemptEvent::OutputAnswered { batch, found, .. } => self.batches.change((batch.0,), |row| {
                row.retry_at = None;
                row.message = format!("its attempt was lost; {}", of_output(found)).into();
            }),
            AttemptEvent::KillRequested { batch, by, reason, .. } => self.batches.change((batch.0,), |row| {
                row.kill_requested_at = Some(at.now);
                row.killed_by = Some(person(by));
                row.message = reason.as_str().into();
            }),
        }
    }

    pub(super) fn need_final_command(&mut self, event: &FinalCommandEvent) {
        match event {
            FinalCommandEvent::Assigned { batch, .. }
            | FinalCommandEvent::Finished { batch, .. }
            | FinalCommandEvent::NotRun { batch, .. } => self.batches.need((batch.0,)),
            FinalCommandEvent::Granted { .. } => {}
        }
    }

    pub(super) fn apply_final_command(&mut self, at: Place, event: &FinalCommandEvent) {
        match event {
            FinalCommandEvent::Assigned { batch, token, .. } => {
                self.batches.change((batch.0,), |row| row.final_token = Some(token.0));
            }
            FinalCommandEvent::Granted { .. } => {}
            FinalCommandEvent::Finished { batch, result, message, .. } => {
                self.batches.change((batch.0,), |row| end_final(row, at, *result, message));
            }
            FinalCommandEvent::NotRun { batch, message, .. } => {
                self.batches.change((batch.0,), |row| end_final(row, at, FinalResult::NotRun, message));
            }
        }
    }

    fn grant(&mut self, at: Place, batch: BatchId, token: Token, worker: &WorkerId, incarnation: &Arc<str>) {
        let Some(row) = self.batches.get(&(batch.0,)) else { return };
        self.attempts.put(AttemptRow {
            id: token.0,
            batch_id: batch.0,
            job_id: row.job_id,
            attempt: row.attempt,
            worker_id: Arc::clone(&worker.0),
            incarnation: Arc::clone(incarnation),
            granted_at: at.now,
            passed_values: "{}".into(),
            unenforced_limits: "[]".into(),
            external_work: "[]".into(),
            ..AttemptRow::default()
        });
        self.batches.change((batch.0,), |row| {
            row.state = state(BatchState::Running);
            row.attempts += 1;
            row.start_by = None;
        });
    }

    /// After a 0 no other code counts.
    fn user_code_reported(&mut self, at: Place, token: Token, code: i64) {
        let Some(row) = self.attempts.get(&(token.0,)) else { return };
        let effective_code = if row.user_code == Some(0) { 0 } else { code };
        self.user_code_reports.put(UserCodeRow {
            journal_partition: at.partition,
            journal_offset: at.offset,
            event_index: at.index,
            batch_id: row.batch_id,
            job_id: row.job_id,
            attempt_id: token.0,
            attempt: row.attempt,
            code,
            effective_code,
            reported_at: at.now,
        });
        self.attempts.change((token.0,), |row| row.user_code = Some(effective_code));
    }
}

fn finish(row: &mut AttemptRow, at: Place, outcome: &AttemptOutcome, usage: Option<&Usage>) {
    row.finished_at = Some(at.now);
    row.result = Some(outcome.result.as_str().into());
    row.exit_code = outcome.exit_code.map(i64::from);
    row.signal_number = outcome.signal.map(i64::from);
    row.message = outcome.message.as_str().into();
    row.passed_values = json(&outcome.values);
    row.duration_ms = usage.map(|usage| number(usage.duration_ms));
    row.cpu_ms = usage.map(|usage| number(usage.cpu_ms));
    row.peak_memory_kib = usage.map(|usage| number(usage.peak_memory_kib));
    row.peak_processes = usage.and_then(|usage| usage.peak_processes).map(i64::from);
    row.read_kib = usage.and_then(|usage| usage.read_kib).map(number);
    row.written_kib = usage.and_then(|usage| usage.written_kib).map(number);
    row.unenforced_limits = usage.map_or_else(|| "[]".into(), |usage| json(&usage.unenforced));
    if let Some(excess) = outcome.excess {
        note_excess(row, excess);
    }
}

/// EXE-7: the last one that is on record; that of its end says most.
fn note_excess(row: &mut AttemptRow, excess: Excess) {
    row.excess = Some(excess.kind.as_str().into());
    row.excess_limit = excess.limit.map(i64::from);
    row.excess_seen = excess.seen.map(i64::from);
}

/// EXE-13: in the order in which they were found.
fn note_external_work(row: &mut AttemptRow, ids: &[ExternalWorkId]) {
    let mut all: Vec<ExternalWorkId> = serde_json::from_str(&row.external_work).unwrap_or_default();
    all.extend_from_slice(ids);
    row.external_work = json(&all);
}

fn end_final(row: &mut BatchRow, at: Place, result: FinalResult, message: &str) {
    row.final_result = Some(result.as_str().into());
    row.final_message = (!message.is_empty()).then(|| message.into());
    row.final_ended_at = Some(at.now);
}

/// For people; what follows from it is on record behind it.
fn of_output(found: &OutputFound) -> String {
    match found {
        OutputFound::Changed { at } => format!("its output path changed last at {at}"),
        OutputFound::Absent => "its output path does not exist".to_owned(),
        OutputFound::Unknown { reason } => format!("whether its output is new is not known: {reason}"),
    }
}
