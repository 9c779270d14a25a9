//! Batches: what they wait for, their assignments and attempts, their end.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{
    Actor, AttemptEvent, AttemptOutcome, AttemptResult, BatchEvent, BatchId, BatchResult, BatchState,
    Dependency, FinalCommandEvent, FinalResult, JobId, Origin, ReturnReason, TimeoutKind, Token, Usage,
    WorkerId,
};
use tidemill_store::rows::{
    AssignmentReturnRow, AttemptRow, BatchDependencyRow, BatchOutputRow, BatchRow, UserCodeRow,
};

use super::job::{json, mapping_word, number};
use super::sources::is_copy;
use super::{Caches, Place};

fn state(state: BatchState) -> i64 {
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
    /// The rows that such an event changes or reads.
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

    #[expect(clippy::too_many_lines, reason = "one arm for each event, with the rows that it changes")]
    pub(super) fn apply_batch(&mut self, at: Place, event: &BatchEvent) {
        match event {
            BatchEvent::Generated { .. } => self.generate(at, event),
            BatchEvent::DependencySatisfied { batch, parent, logical_time, unmet, .. } => {
                let key = (batch.0, parent.0, logical_time.as_millisecond());
                self.depends(at, key, true, *unmet);
            }
            BatchEvent::DependencyRevoked { batch, parent, logical_time, unmet } => {
                let key = (batch.0, parent.0, logical_time.as_millisecond());
                self.depends(at, key, false, *unmet);
            }
            BatchEvent::Assigned { batch, attempt, token, worker, start_by } => {
                self.batches.change((batch.0,), |row| {
                    row.state = state(BatchState::Assigned);
                    row.attempt = i64::from(*attempt);
                    row.token = Some(token.0);
                    row.worker_id = Some(Arc::clone(&worker.0));
                    row.assigned_at = Some(at.now);
                    row.start_by = Some(start_by.as_millisecond());
                    row.retry_at = None;
                    row.message = "".into();
                });
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
                self.batches.change((batch.0,), |row| {
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
                        row.message = message.as_str().into();
                    }
                })
            }
            BatchEvent::ResultOverridden { batch, result, by, reason, .. } => {
                self.batches.change((batch.0,), |row| {
                    let result: Arc<str> = BatchResult::from(*result).as_str().into();
                    if row.result.is_some() {
                        row.result = Some(Arc::clone(&result));
                    }
                    row.overridden_result = Some(result);
                    row.result_overridden_at = Some(at.now);
                    row.result_overridden_by = Some(person(by));
                    row.result_override_reason = Some(reason.as_str().into());
                })
            }
            BatchEvent::TimeoutReached { batch, kind, .. } => self.batches.change((batch.0,), |row| {
                let reached_at = match kind {
                    TimeoutKind::Dependency => &mut row.dependency_timeout_at,
                    TimeoutKind::Output => &mut row.output_timeout_at,
                    TimeoutKind::ByTime => &mut row.not_successful_by_at,
                };
                *reached_at = Some(at.now);
            }),
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

    /// The rows that such an event changes or reads.
    pub(super) fn need_attempt(&mut self, event: &AttemptEvent) {
        match event {
            AttemptEvent::StartGranted { batch, token, .. } => {
                self.batches.need((batch.0,));
                self.attempts.expect_new((token.0,));
            }
            AttemptEvent::UserCodeReported { token, .. } => self.attempts.need((token.0,)),
            AttemptEvent::Started { batch, token } | AttemptEvent::Finished { batch, token, .. } => {
                self.batches.need((batch.0,));
                self.attempts.need((token.0,));
            }
            AttemptEvent::KillRequested { batch, .. } => self.batches.need((batch.0,)),
        }
    }

    pub(super) fn apply_attempt(&mut self, at: Place, event: &AttemptEvent) {
        match event {
            AttemptEvent::StartGranted { batch, token, worker, incarnation, .. } => {
                self.grant(at, *batch, *token, worker, &incarnation.0);
            }
            AttemptEvent::Started { batch, token } => {
                self.attempts.change((token.0,), |row| row.started_at = Some(at.now));
                let started = |row: &mut BatchRow| row.started_at = row.started_at.or(Some(at.now));
                self.batches.change((batch.0,), started);
            }
            AttemptEvent::UserCodeReported { token, code, .. } => {
                self.user_code_reported(at, *token, i64::from(*code))
            }
            AttemptEvent::Finished { batch, token, outcome, usage, .. } => {
                self.batches.change((batch.0,), |row| {
                    row.token = None;
                    row.message = outcome.message.as_str().into();
                });
                self.attempts.change((token.0,), |row| finish(row, at, outcome, usage.as_ref()));
            }
            AttemptEvent::KillRequested { batch, by, reason, .. } => self.batches.change((batch.0,), |row| {
                row.kill_requested_at = Some(at.now);
                row.killed_by = Some(person(by));
                row.message = reason.as_str().into();
            }),
        }
    }

    /// The rows that such an event changes or reads.
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

    #[expect(clippy::too_many_lines, reason = "one arm for each event, with the rows that it changes")]
    fn generate(&mut self, at: Place, event: &BatchEvent) {
        let BatchEvent::Generated {
            batch,
            job,
            version,
            logical_time,
            run,
            origin,
            dependencies,
            counted_parents,
            external_dependencies,
            quality_gate,
            earliest_start,
            parameters,
            next,
            calendar,
            // Timeouts are told once they are marked.
            base: _,
            rerun,
            // For the checker: whether the run by hand was refused beside others.
            concurrent: _,
            outputs,
        } = event
        else {
            return;
        };
        let (job_name, group_name, job_type) = self.names(at, *job);
        let listed = dependencies.iter().filter(|it| !it.is_satisfied(it.met.len())).count();
        let unmet = listed + counted_parents.map_or(0, |counted| counted.unmet as usize);
        self.batches.put(BatchRow {
            id: batch.0,
            job_id: job.0,
            job_version: i64::from(*version),
            calendar_version: calendar.map(i64::from),
            job_name,
            group_name,
            job_type,
            logical_time: logical_time.as_millisecond(),
            run: i64::from(*run),
            origin: origin_word(*origin).into(),
            rerun_id: rerun.map(|place| place.rerun.0),
            rerun_number: rerun.map(|place| i64::from(place.number)),
            parameters: json(parameters),
            state: state(BatchState::Waiting),
            result: None,
            unmet: i64::try_from(unmet).expect("an event is bounded in size"),
            counted_parents: counted_parents.map_or(0, |counted| i64::from(counted.parents)),
            attempt: 0,
            attempts: 0,
            returned: 0,
            worker_id: None,
            token: None,
            message: "".into(),
            killed_by: None,
            generated_at: at.now,
            ready_at: (unmet == 0).then_some(at.now),
            assigned_at: None,
            start_by: None,
            started_at: None,
            retry_at: None,
            kill_requested_at: None,
            finished_at: None,
            earliest_start_at: earliest_start.map(|time| time.as_millisecond()),
            dependency_timeout_at: None,
            output_timeout_at: None,
            not_successful_by_at: None,
            blocked_since: None,
            blocked_by: None,
            blocked_by_time: None,
            overridden_result: None,
            result_overridden_at: None,
            result_overridden_by: None,
            result_override_reason: None,
            final_token: None,
            final_result: None,
            final_message: None,
            final_ended_at: None,
        });
        self.await_times(at, *batch, dependencies);
        self.await_external_dependencies(*batch, external_dependencies, *quality_gate);
        for (position, output) in (1..).zip(outputs) {
            self.batch_outputs.put(BatchOutputRow {
                batch_id: batch.0,
                position,
                path: output.path.as_str().into(),
                mark: output.mark.as_deref().map(Arc::from),
            });
        }
        if *origin == Origin::Schedule && is_copy(*job) {
            self.fires_next(at, job.0, *next);
        }
    }

    /// Name, group and type, as the shard knows them.
    fn names(&self, at: Place, job: JobId) -> (Arc<str>, Arc<str>, Arc<str>) {
        let copy = self.shard_jobs.get(&(job.0, at.shard));
        let copy = copy.map(|row| (row.name.clone(), row.group_name.clone(), row.job_type.clone()));
        let submitted = || {
            let row = self.jobs.get(&(job.0,))?;
            Some((row.name.clone(), row.group_name.clone(), row.job_type.clone()))
        };
        copy.or_else(submitted).unwrap_or_else(|| ("".into(), "".into(), "".into()))
    }

    /// One row per parent and logical time, even where two mappings gave it.
    fn await_times(&mut self, at: Place, batch: BatchId, dependencies: &[Dependency]) {
        let mut times: BTreeMap<(i64, i64), (Vec<&str>, bool)> = BTreeMap::new();
        for dependency in dependencies {
            for time in &dependency.times {
                let entry = times.entry((dependency.parent.0, time.as_millisecond())).or_default();
                entry.0.push(mapping_word(dependency.mapping));
                entry.1 |= dependency.met.contains(time);
            }
        }
        for ((parent_id, logical_time), (mappings, met)) in times {
            self.batch_dependencies.put(BatchDependencyRow {
                batch_id: batch.0,
                parent_id,
                logical_time,
                mapping: mappings.join(",").into(),
                met,
                met_at: met.then_some(at.now),
            });
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
        let (reason, message) = match why {
            ReturnReason::Rejected(message) => ("rejected", message.as_str()),
            ReturnReason::NotStarted => ("not_started", ""),
            ReturnReason::WorkerLost => ("worker_lost", ""),
            ReturnReason::WorkerRestarted => ("worker_restarted", ""),
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
            started_at: None,
            finished_at: None,
            result: None,
            exit_code: None,
            signal_number: None,
            user_code: None,
            message: "".into(),
            passed_values: "{}".into(),
            duration_ms: None,
            cpu_ms: None,
            peak_memory_kib: None,
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

fn end_final(row: &mut BatchRow, at: Place, result: FinalResult, message: &str) {
    row.final_result = Some(result.as_str().into());
    row.final_message = (!message.is_empty()).then(|| message.into());
    row.final_ended_at = Some(at.now);
}

fn finish(row: &mut AttemptRow, at: Place, outcome: &AttemptOutcome, usage: Option<&Usage>) {
    let result = match outcome.result {
        AttemptResult::Success => "success",
        AttemptResult::Failed => "failed",
        AttemptResult::Killed => "killed",
        AttemptResult::Lost => "lost",
        AttemptResult::TimedOut => "timed_out",
    };
    row.finished_at = Some(at.now);
    row.result = Some(result.into());
    row.exit_code = outcome.exit_code.map(i64::from);
    row.signal_number = outcome.signal.map(i64::from);
    row.message = outcome.message.as_str().into();
    row.passed_values = json(&outcome.values);
    row.duration_ms = usage.map(|usage| number(usage.duration_ms));
    row.cpu_ms = usage.map(|usage| number(usage.cpu_ms));
    row.peak_memory_kib = usage.map(|usage| number(usage.peak_memory_kib));
}

fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Schedule => "schedule",
        Origin::Parent => "parent",
        Origin::Manual => "manual",
        Origin::Rerun => "rerun",
        Origin::ColdStart => "cold_start",
        Origin::Submission => "submission",
    }
}
