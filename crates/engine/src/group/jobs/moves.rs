//! JOB-9: a job leaves for another group, or comes from one. Its batches stay with the group that ran them; what the
//! next ones depend on goes along.
//!
//! *Invariant:* a job is let go with the one record that says all that is known of its logical times and its next fire;
//! from that record on nothing fires here for it, and the message that carries it on waits in the outbox.
//!
//! What comes is kept as what was evicted is: by logical time, without the ids of the batches.

use std::sync::Arc;

use tidemill_model::{
    BatchResult, Event, JobDefinition, JobId, Json as _, MovedJob, MovedRuns, Rejection, ShardId,
    ShardMessage, Timestamp, TransferEvent,
};

use crate::draft::MAX_DECISION_BYTES;
use crate::group::GroupShard;
use crate::group::jobs::Jobs;
use crate::group::jobs::calendars::anew;
use crate::group::jobs::job::Job;
use crate::group::jobs::kept_texts::Kept;
use crate::weight::of_definition;

/// What goes along, bytes.
const MAX_MOVED_BYTES: usize = 128 * 1024;
/// With the definition, which stands beside it in records and messages of three shards: less than one decision may take.
const MAX_BYTES: usize = MAX_DECISION_BYTES - 16 * 1024;

impl Jobs {
    /// A fire that was due on the way is made up for as after an outage. The calendar may have changed meanwhile.
    pub(crate) fn attach_job(
        &self,
        definition: &Arc<JobDefinition>,
        enabled: bool,
        moved: &Arc<MovedJob>,
        now: Timestamp,
    ) -> Event {
        let next = moved.next.filter(|_| enabled);
        let follows_days = enabled && definition.spec.calendar.is_some();
        let next = match follows_days {
            true => anew(self.calendars.timetable(definition).as_deref(), next, now),
            false => next,
        };
        let (definition, moved) = (Arc::clone(definition), Arc::clone(moved));
        Event::Transfer(TransferEvent::JobAttached { definition, enabled, next, moved })
    }
}

impl GroupShard {
    pub(in crate::group) fn apply_transfer(&mut self, now: Timestamp, event: &TransferEvent) {
        match event {
            TransferEvent::JobDetached { job, moved } => {
                self.job_dropped(now, *job);
                let (job, moved) = (*job, Arc::clone(moved));
                self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportJobDetached { job, moved });
            }
            TransferEvent::JobDetachRejected { job, reason } => {
                let (job, reason) = (*job, reason.clone());
                self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportJobDetachRejected { job, reason });
            }
            TransferEvent::JobAttached { definition, enabled, next, moved } => {
                self.job_replicated(now, definition, *enabled, *next);
                self.job_attached(definition.id, *enabled, moved);
            }
            TransferEvent::UserDetached { user, history, tasks } => {
                self.user_detached(now, user, history, tasks)
            }
            TransferEvent::UserDetachRejected { user, reason } => {
                self.user_detach_rejected(now, user, reason)
            }
            TransferEvent::UserAttached { user, history, tasks } => {
                self.user_attached(now, user, history, tasks)
            }
        }
    }

    pub(crate) fn detach_job(&self, job: JobId, until: Timestamp, now: Timestamp) -> Event {
        Event::Transfer(match self.let_go(job, until, now) {
            Ok(moved) => TransferEvent::JobDetached { job, moved: Arc::new(moved) },
            Err(reason) => TransferEvent::JobDetachRejected { job, reason },
        })
    }

    fn let_go(&self, id: JobId, until: Timestamp, now: Timestamp) -> Result<MovedJob, Rejection> {
        let job = self.defined_job(id)?;
        let stays = |reason: String| Rejection::JobNotMoved { job: job.definition.full_name(), reason };
        if now > until {
            let reason = "its group has read the request more than a minute after it was made; repeat it";
            return Err(stays(reason.to_owned()));
        }
        let unfinished = self.unfinished_of(&[id]);
        if let Some(unfinished) = unfinished.first().filter(|_| !planted!(UnfinishedLostInMove)) {
            return Err(stays(format!(
                "it has unfinished batches ({}, the newest is {}); wait for them, or end them first",
                unfinished.batches, unfinished.newest
            )));
        }
        if self.final_commands.has_of(id) {
            return Err(stays("its final command has not ended; wait for that".to_owned()));
        }
        if self.strays.has_of(id) {
            return Err(stays(
                "attempts of it run from a life of the log that is lost; end them first".to_owned(),
            ));
        }
        if self.is_waited_for(id) {
            let reason = "batches that wait for it are unfinished, or its group has not heard yet that nobody names it \
                          as a parent any more; wait for them, or end them first";
            return Err(stays(reason.to_owned()));
        }
        if self.batches.has_late(id) {
            let reason = "a batch of it ended without success, and the time by which it should succeed is ahead; run it \
                          again, mark it, or wait for that time";
            return Err(stays(reason.to_owned()));
        }
        let next = if self.jobs.calendars.is_moved(id) {
            anew(job.schedule.as_deref(), job.next, now)
        } else {
            job.next
        };
        let moved = MovedJob {
            runs: runs(job),
            next: next.filter(|_| job.enabled),
            passed: job.passed,
            catching_up: job.catching_up,
            disabled_since: job.disabled_since,
            skipped_before_off: job.skipped_before_off,
        };
        let most = MAX_MOVED_BYTES.min(MAX_BYTES.saturating_sub(of_definition(&job.definition)));
        bounded(moved, most).ok_or_else(|| {
            stays(format!(
                "what its group has to hand over takes more than {most} bytes, for many of its logical times \
                 failed or were run again; delete it there, and define it in the other group"
            ))
        })
    }

    /// What the old group knew of the job, which is one of this shard by now.
    pub(crate) fn job_attached(&mut self, id: JobId, enabled: bool, moved: &MovedJob) {
        self.generation.grids.forget();
        self.parent_went(id, self.id);
        let children = self.dependencies.came_here(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.children.extend(children);
        for of in &moved.runs {
            for time in of.logical_times() {
                job.evicted.add_moved(time, of);
            }
        }
        job.passed = moved.passed;
        job.catching_up = moved.catching_up;
        if !enabled {
            job.disabled_since = moved.disabled_since.or(job.disabled_since);
            job.skipped_before_off = moved.skipped_before_off;
        }
        self.tell_of_taken(id);
        for time in self.dependencies.waiters().times_of(id).collect::<Vec<_>>() {
            self.newest_changed(id, time);
        }
        self.skips_moved(id, Timestamp::MIN, Timestamp::MAX);
    }
}

/// The newest run of each logical time of a job of which nothing is unfinished.
fn runs(job: &Job) -> Vec<MovedRuns> {
    let mut times: Vec<Timestamp> =
        job.evicted.times().chain(job.history.iter().map(|(time, _)| time)).collect();
    times.sort_unstable();
    times.dedup();
    planted!(RunLostInMove => times.truncate(times.len().saturating_sub(1)));
    let mut runs: Vec<MovedRuns> = Vec::new();
    for time in times {
        let Some(of) = run(job, time) else { continue };
        if !runs.last_mut().is_some_and(|last| goes_on(last, &of)) {
            runs.push(of);
        }
    }
    runs
}

fn run(job: &Job, time: Timestamp) -> Option<MovedRuns> {
    let newest = job.newest_run(time)?;
    let in_full = job.history.get(time).map(|newest| newest.definition.version);
    let texts = |kept: Kept<'_>| kept.texts().cloned().unwrap_or_default();
    Some(MovedRuns {
        first: time,
        times: 1,
        step_ms: 0,
        run: newest.number.saturating_sub(u32::from(planted!(RunRepeatedInMove))),
        result: newest.result.unwrap_or(BatchResult::Failed),
        version: in_full.or_else(|| job.evicted.version(time)).unwrap_or(job.definition.version),
        parameters: texts(newest.parameters),
        parameters_dropped: newest.parameters == Kept::Dropped,
        values: texts(newest.values),
        values_dropped: newest.values == Kept::Dropped,
    })
}

/// Whether the time is the next one of the entry, which then holds it.
fn goes_on(last: &mut MovedRuns, of: &MovedRuns) -> bool {
    let is_like =
        MovedRuns { first: last.first, times: last.times, step_ms: last.step_ms, ..of.clone() } == *last;
    let distance = of.first.as_millisecond() - last.first.as_millisecond();
    let fits = last.times == 1 || i64::from(last.times).checked_mul(last.step_ms) == Some(distance);
    if !is_like || !fits {
        return false;
    }
    if last.times == 1 {
        last.step_ms = distance;
    }
    last.times += 1;
    true
}

/// Within its bound: parameters and values of the oldest times are left out, and known to be missing.
fn bounded(mut moved: MovedJob, most: usize) -> Option<MovedJob> {
    let size = |moved: &MovedJob| moved.to_json().len();
    let mut bytes = size(&moved);
    for of in &mut moved.runs {
        if bytes <= most {
            break;
        }
        let before = of.clone();
        of.parameters_dropped |= !std::mem::take(&mut of.parameters).is_empty();
        of.values_dropped |= !std::mem::take(&mut of.values).is_empty();
        let size = |of: &MovedRuns| of.to_json().len();
        bytes = (bytes + size(of)).saturating_sub(size(&before));
    }
    (size(&moved) <= most).then_some(moved)
}
