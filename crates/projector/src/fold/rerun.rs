//! Reruns and cold starts: their plans, and how far they are.

use std::sync::Arc;

use tidemill_model::{
    Actor, JobId, JobSkip, Json as _, PlannedBatch, RerunEvent, RerunId, RunOutcome, Timestamp,
};
use tidemill_store::rows::{RerunBatchRow, RerunJobRow, RerunRow, RerunSkipRow};

use super::batch::person;
use super::job::{count, json};
use super::{Caches, Place};

fn key(rerun: RerunId, number: u32) -> (i64, i64) {
    (rerun.0, i64::from(number))
}

pub(super) fn need(rows: &mut Caches, event: &RerunEvent) {
    match event {
        RerunEvent::Requested { rerun, jobs, .. } => {
            rows.reruns.expect_new((rerun.0,));
            for position in 1..=count(jobs.len()) {
                rows.rerun_jobs.expect_new((rerun.0, position));
            }
        }
        RerunEvent::JobsSkipped { rerun, jobs, times } => {
            rows.reruns.need((rerun.0,));
            for skip in jobs {
                rows.rerun_skips.expect_new((rerun.0, skip.job.0));
            }
            for skip in times {
                rows.rerun_skips.expect_new((rerun.0, skip.job.0));
            }
        }
        RerunEvent::BatchesPlanned { rerun, first, batches } => {
            for (batch, number) in batches.iter().zip(*first..) {
                rows.rerun_batches.expect_new(key(*rerun, number));
                rows.jobs.need((batch.job.0,));
            }
        }
        RerunEvent::RunsRequested { rerun, runs } => {
            rows.reruns.need((rerun.0,));
            runs.iter().for_each(|run| rows.rerun_batches.need(key(*rerun, run.number)));
        }
        RerunEvent::RunFinished { place, .. } => {
            rows.reruns.need((place.rerun.0,));
            rows.rerun_batches.need(key(place.rerun, place.number));
        }
        RerunEvent::RunsBlocked { rerun, numbers } => {
            rows.reruns.need((rerun.0,));
            numbers.iter().for_each(|number| rows.rerun_batches.need(key(*rerun, *number)));
        }
        RerunEvent::Planned { rerun, .. }
        | RerunEvent::Approved { rerun, .. }
        | RerunEvent::Paused { rerun, .. }
        | RerunEvent::Resumed { rerun, .. }
        | RerunEvent::Cancelled { rerun, .. }
        | RerunEvent::Finished { rerun, .. } => rows.reruns.need((rerun.0,)),
        // These change no row.
        RerunEvent::RunsQueried { .. }
        | RerunEvent::RunsReported { .. }
        | RerunEvent::RunsReceived { .. }
        | RerunEvent::RunSkipped { .. } => {}
    }
}

impl Caches {
    pub(super) fn apply_rerun(&mut self, at: Place, event: &RerunEvent) {
        match event {
            RerunEvent::Requested { .. } => self.request(at, event),
            RerunEvent::JobsSkipped { rerun, jobs, times } => {
                self.reruns.change((rerun.0,), |row| row.jobs_skipped += count(jobs.len()));
                for skip in jobs {
                    let (batch, time) = match skip.reason {
                        JobSkip::Disabled => (None, None),
                        JobSkip::Unfinished { batch, logical_time } => (Some(batch.0), Some(logical_time)),
                    };
                    self.leave_out(at, (*rerun, skip.job), skip.reason.as_str(), batch, time);
                }
                for skip in times {
                    self.leave_out(at, (*rerun, skip.job), skip.reason.as_str(), None, Some(skip.from));
                }
            }
            RerunEvent::BatchesPlanned { rerun, first, batches } => {
                for (batch, number) in batches.iter().zip(*first..) {
                    self.plan(*rerun, number, batch);
                }
            }
            RerunEvent::Planned { rerun, batches } => self.reruns.change((rerun.0,), |row| {
                row.state = "planned".into();
                row.planned = i64::from(*batches);
                row.planned_at = Some(at.now);
            }),
            RerunEvent::Approved { rerun, by } => self.reruns.change((rerun.0,), |row| {
                row.state = "running".into();
                row.approved_by = Some(person(by));
                row.approved_at = Some(at.now);
            }),
            RerunEvent::RunsRequested { rerun, runs } => {
                self.reruns.change((rerun.0,), |row| row.started += count(runs.len()));
                for run in runs {
                    self.rerun_batches.change(key(*rerun, run.number), |row| {
                        row.state = "started".into();
                        row.started_at = Some(at.now);
                    });
                }
            }
            RerunEvent::RunFinished { place, end } => self.end_run(at, key(place.rerun, place.number), end),
            RerunEvent::RunsBlocked { rerun, numbers } => {
                self.reruns.change((rerun.0,), |row| row.blocked += count(numbers.len()));
                for number in numbers {
                    self.rerun_batches.change(key(*rerun, *number), |row| {
                        row.state = "blocked".into();
                        row.settled_at = Some(at.now);
                    });
                }
            }
            RerunEvent::Paused { rerun, by } => self.change_rerun(at, *rerun, "paused", by),
            RerunEvent::Resumed { rerun, by } => self.change_rerun(at, *rerun, "running", by),
            RerunEvent::Cancelled { rerun, by, .. } => self.change_rerun(at, *rerun, "cancelling", by),
            RerunEvent::Finished { rerun, result, message } => self.reruns.change((rerun.0,), |row| {
                row.state = result.as_str().into();
                row.message = message.as_str().into();
                row.ended_at = Some(at.now);
            }),
            // No table shows these.
            RerunEvent::RunsQueried { .. }
            | RerunEvent::RunsReported { .. }
            | RerunEvent::RunsReceived { .. }
            | RerunEvent::RunSkipped { .. } => {}
        }
    }

    fn request(&mut self, at: Place, event: &RerunEvent) {
        let RerunEvent::Requested { rerun, spec, by, jobs, groups, jobs_left_out } = event else { return };
        self.reruns.put(RerunRow {
            id: rerun.0,
            kind: spec.scope.as_str().into(),
            state: "planning".into(),
            spec: spec.to_json().into(),
            groups: json(groups),
            reason: spec.reason.as_str().into(),
            concurrency: i64::from(spec.concurrency),
            jobs: count(jobs.len()),
            jobs_left_out: i64::from(*jobs_left_out),
            requested_by: person(by),
            requested_at: at.now,
            ..RerunRow::default()
        });
        for (job, position) in jobs.iter().zip(1..) {
            self.rerun_jobs.put(RerunJobRow {
                rerun_id: rerun.0,
                position,
                job_id: job.job.0,
                job_version: i64::from(job.version),
                touches: i64::from(job.touches),
            });
        }
    }

    fn leave_out(
        &mut self,
        at: Place,
        (rerun, job): (RerunId, JobId),
        reason: &str,
        batch_id: Option<i64>,
        logical_time: Option<Timestamp>,
    ) {
        self.rerun_skips.put(RerunSkipRow {
            rerun_id: rerun.0,
            job_id: job.0,
            reason: reason.into(),
            batch_id,
            logical_time: logical_time.map(Timestamp::as_millisecond),
            skipped_at: at.now,
        });
    }

    fn plan(&mut self, rerun: RerunId, number: u32, batch: &PlannedBatch) {
        let job = self.jobs.get(&(batch.job.0,));
        let names = job.map(|row| (Arc::clone(&row.name), Arc::clone(&row.group_name)));
        let (job_name, group_name) = names.unwrap_or_default();
        self.rerun_batches.put(RerunBatchRow {
            rerun_id: rerun.0,
            number: i64::from(number),
            job_id: batch.job.0,
            job_name,
            group_name,
            logical_time: batch.logical_time.as_millisecond(),
            run: batch.run.map(i64::from),
            after_numbers: json(&batch.after),
            state: "planned".into(),
            ..RerunBatchRow::default()
        });
    }

    fn end_run(&mut self, at: Place, key: (i64, i64), end: &RunOutcome) {
        let (state, batch, reason) = match end {
            RunOutcome::Finished { batch, result } => (result.as_str(), Some(batch.0), None),
            RunOutcome::Skipped(reason) => ("skipped", None, Some(reason.as_str())),
        };
        self.reruns.change((key.0,), |row| match end {
            RunOutcome::Finished { result, .. } if result.satisfies() => row.succeeded += 1,
            RunOutcome::Finished { .. } => row.failed += 1,
            RunOutcome::Skipped(_) => row.skipped += 1,
        });
        self.rerun_batches.change(key, |row| {
            row.state = state.into();
            row.batch_id = batch;
            row.reason = reason.map(Into::into);
            row.settled_at = Some(at.now);
        });
    }

    fn change_rerun(&mut self, at: Place, rerun: RerunId, state: &str, by: &Actor) {
        self.reruns.change((rerun.0,), |row| {
            row.state = state.into();
            row.changed_by = Some(person(by));
            row.changed_at = Some(at.now);
        });
    }
}
