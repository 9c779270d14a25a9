//! Fires: each follows from the one before it, none is passed over.

use std::sync::Arc;

use tidemill_model::{Fire, JobId, SkipReason, Timestamp};

use super::Shard;
use super::job::Version;
use crate::Invariant;
use crate::at::At;
use crate::calendar::words;

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
        let Some(version) = job.newest().map(|(_, version)| Arc::clone(version)) else { return };
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
        let version = self.jobs.get(&id).and_then(|job| job.newest()).map(|(_, version)| Arc::clone(version));
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
