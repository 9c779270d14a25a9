//! Fires: each follows from the one before it, none is passed over; what one does while an earlier batch is unfinished; and one
//! that cannot be decided: tried again three times, then suspended and told.

use std::sync::Arc;

use tidemill_model::{AlarmKind, BatchId, Fire, JobId, Overlap, ScheduleRule, SkipReason, Timestamp};

use super::Shard;
use super::job::{Job, Version};
use crate::calendar::words;
use crate::{At, Invariant};

/// Spans with more fires are not counted again.
const COUNTED: u64 = 100_000;

impl Shard {
    /// The first fire after a definition or a switch: the one that was to come, or the first after now. One
    /// that is due already may not be dropped.
    pub(super) fn first_fire(
        &self,
        at: &At<'_>,
        (job, version): (JobId, &Arc<Version>),
        enabled: bool,
        (kept, next): (Option<Fire>, Option<Fire>),
    ) {
        let rule = Invariant::DueTimesGeneratedOrSkipped;
        if !enabled || version.calendar.is_none() {
            if let Some(next) = next {
                at.breaks(rule, format!("job {job} has no fire to come, but gets {}", words(Some(next))));
            }
            return;
        }
        if next.is_some() && next == kept {
            return;
        }
        if let Some(kept) = kept.filter(|kept| kept.at <= at.now) {
            at.breaks(rule, format!("job {job} was due {}, which is dropped", words(Some(kept))));
            return;
        }
        let expected = self.first_due(version, at.now);
        if let Some(expected) = expected.filter(|expected| *expected != next) {
            at.breaks(rule, format!("job {job} first fires {}, should be {}", words(next), words(expected)));
        }
    }

    /// `due_times_generated_or_skipped`: the fire to come is used up, for `logical_time`, and `next` is the
    /// one after `last`.
    pub(super) fn due_times_generated_or_skipped(
        &mut self,
        at: &At<'_>,
        id: JobId,
        (logical_time, last): (Timestamp, Timestamp),
        next: Option<Fire>,
    ) {
        let rule = Invariant::DueTimesGeneratedOrSkipped;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.failures = 0;
        let said = std::mem::replace(&mut job.next_said, at.offset);
        let due = std::mem::replace(&mut job.next, next);
        match due {
            None => {
                let why = format!("job {id} fires for {logical_time}, though it had no fire to come");
                at.contradicts(rule, why, &[said]);
                return;
            }
            Some(due) if due.logical_time != logical_time => {
                let why =
                    format!("job {id} fires for {logical_time}, though it was due {}", words(Some(due)));
                at.contradicts(rule, why, &[said]);
                return;
            }
            Some(due) if due.at > at.now => {
                let why = format!("job {id} was due {}, and it is {}", words(Some(due)), at.now);
                at.contradicts(rule, why, &[said]);
            }
            Some(_) => {}
        }
        let Some(version) = job.newest().cloned() else { return };
        let follows = match version.firing.as_ref().and_then(|_| self.fire_after(&version, last)) {
            Some(expected) if expected != next => {
                Some(Err(format!("the next fire is {}, should be {}", words(next), words(expected))))
            }
            Some(_) => None,
            None if version.firing.is_some() => None,
            None => version.calendar.as_ref().map(|calendar| calendar.follows(last, next)),
        };
        if let Some(Err(why)) = follows {
            at.breaks(rule, format!("job {id}: {why}"));
        }
    }

    pub(super) fn schedule_skipped(
        &mut self,
        at: &At<'_>,
        id: JobId,
        (from, to, count): (Timestamp, Timestamp, u64),
        (reason, next): (SkipReason, Option<Fire>),
    ) {
        let version = self.jobs.get(&id).and_then(Job::newest).cloned();
        let is_left_out = reason == SkipReason::Calendar;
        let counted =
            version.as_ref().and_then(|version| self.count(version, (from, to), is_left_out, COUNTED));
        if let Some(counted) = counted.filter(|counted| *counted != count) {
            let why = format!("job {id} skips {count} fires from {from} to {to}, where there are {counted}");
            at.breaks(Invariant::DueTimesGeneratedOrSkipped, why);
        }
        if let Some(version) = &version {
            self.skipped_for(at, (id, version), (reason, to));
        }
        if !is_left_out {
            return self.due_times_generated_or_skipped(at, id, (from, to), next);
        }
        // What a calendar leaves out lies before the fire to come, and leaves it as it is.
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.failures = 0;
        let due = job.next;
        if due != next || due.is_none_or(|due| due.at > at.now || to >= due.logical_time) {
            let why = format!(
                "job {id} has left out fires until {to}, next {}, and is due {}",
                words(next),
                words(due)
            );
            at.contradicts(Invariant::DueTimesGeneratedOrSkipped, why, &[job.next_said]);
        }
    }

    /// When the fire at hand was due, for the rule that timers wait for commands.
    pub(crate) fn fire_due(&self, job: JobId) -> Option<Timestamp> {
        self.jobs.get(&job).and_then(|job| job.next).map(|fire| fire.at)
    }
}

impl Shard {
    /// The unfinished batches of the job that its schedule made and nobody ends.
    fn earlier(&self, id: JobId) -> Vec<BatchId> {
        let is_scheduled = |of: &BatchId| {
            let batch = self.batches.get(of).filter(|batch| batch.kill.is_none());
            let run = batch.and_then(|batch| self.runs.get(&(id, batch.time)));
            run.is_some_and(|run| run.batch == *of && run.number == 0)
        };
        self.unfinished.get(&id).into_iter().flatten().copied().filter(is_scheduled).collect()
    }

    /// `overlaps_as_the_job_says`, when a schedule makes a batch.
    pub(super) fn overlaps(&self, at: &At<'_>, (id, version): (JobId, &Version)) {
        let what = match version.spec().overlap {
            Overlap::Queue | Overlap::Allow => return,
            Overlap::Skip => "is to skip its fires while one is unfinished",
            Overlap::CancelOld => "is to end the earlier ones first",
        };
        if let Some(earlier) = self.earlier(id).first() {
            let why = format!("job {id} {what}, and gets a batch while {earlier} goes on");
            at.breaks(Invariant::OverlapsAsTheJobSays, why);
        }
    }

    /// `overlaps_as_the_job_says`, when fires make none.
    pub(super) fn skipped_for(
        &self,
        at: &At<'_>,
        (id, version): (JobId, &Version),
        (reason, to): (SkipReason, Timestamp),
    ) {
        let why = match reason {
            SkipReason::Overlap if version.spec().overlap != Overlap::Skip => {
                "its job does not skip".to_owned()
            }
            SkipReason::Overlap if !self.unfinished.contains_key(&id) => "none is unfinished".to_owned(),
            SkipReason::TooLate => match version.spec().missed_runs.max_lateness_s() {
                None => "its job sets no such bound".to_owned(),
                // Fires of a period are due later than their logical times.
                Some(most)
                    if i128::from(most) * 1_000_000_000 > at.now.duration_since(to).as_nanos() + 999_999
                        && version.days().is_none()
                        && !matches!(
                            version.schedule.as_ref().map(|of| &of.rule),
                            Some(ScheduleRule::Period(_))
                        ) =>
                {
                    format!("{to} is within {most} s of {}", at.now)
                }
                Some(_) => return,
            },
            _ => return,
        };
        let why = format!("fires of job {id} are skipped as {reason:?}, and {why}");
        at.breaks(Invariant::OverlapsAsTheJobSays, why);
    }
}

const TRIES: u32 = 4;
const MANY: u32 = 10;

/// What must follow a fire that has failed for good, and how many jobs failed in the newest minute.
#[derive(Debug, Default)]
pub(super) struct Failing {
    suspends: Option<JobId>,
    tells: Option<JobId>,
    minute: i64,
    jobs: u32,
    many_told: bool,
}

impl Shard {
    /// `failing_generation_told`
    pub(super) fn generation_failed(
        &mut self,
        at: &At<'_>,
        (id, logical_time): (JobId, Timestamp),
        failures: u32,
        retry_at: Option<Timestamp>,
    ) {
        let rule = Invariant::FailingGenerationTold;
        let minute = at.now.as_second().div_euclid(60);
        if minute != self.failing.minute {
            self.failing = Failing { minute, ..Failing::default() };
        }
        self.failing.jobs += u32::from(failures == 1);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let before = std::mem::replace(&mut job.failures, failures);
        let due = job.next.map(|next| next.logical_time);
        let why = if due != Some(logical_time) {
            format!("it is due for {due:?}")
        } else if failures != before + 1 {
            format!("it had failed {before} times")
        } else if retry_at.is_some() != (failures < TRIES) {
            format!("it has failed {failures} times, and is tried again at {retry_at:?}")
        } else if retry_at.is_some_and(|retry_at| retry_at <= at.now) {
            "it is tried again at once".to_owned()
        } else {
            String::new()
        };
        if !why.is_empty() {
            let said = job.next_said;
            let why = format!("the fire of job {id} for {logical_time} fails, and {why}");
            at.contradicts(rule, why, &[said]);
        }
        self.failing.suspends = retry_at.is_none().then_some(id);
    }

    /// `failing_generation_told`: the timer's suspension follows.
    pub(super) fn failing_suspended(&mut self, entity: &str) {
        let suspends = self.failing.suspends.take_if(|job| entity == format!("job/{job}"));
        self.failing.tells = suspends;
    }

    /// `failing_generation_told`: an alarm is about what was just said, and there is one.
    pub(super) fn failing_told(&mut self, at: &At<'_>, kind: AlarmKind, job: Option<JobId>) {
        let is_owed = match kind {
            AlarmKind::GenerationFailed => job.is_some() && self.failing.tells.take() == job,
            _ => self.failing.jobs == MANY + 1 && !std::mem::replace(&mut self.failing.many_told, true),
        };
        if !is_owed {
            let why = format!("an alarm is raised, {kind:?} of {job:?}, for nothing that failed before it");
            at.breaks(Invariant::FailingGenerationTold, why);
        }
    }

    /// `failing_generation_told`: nothing comes between.
    pub(super) fn failing_is_not_owed(&mut self, at: &At<'_>) {
        let owed = self.failing.suspends.take().or(self.failing.tells.take());
        if let Some(job) = owed {
            let why = format!("job {job} failed for the last time, and nobody is told");
            at.breaks(Invariant::FailingGenerationTold, why);
        }
    }
}
