//! Fires: each follows from the one before it, none is passed over.

use std::sync::Arc;

use jiff::Timestamp;
use tidemill_model::{Fire, JobId};

use super::Shard;
use super::job::Version;
use crate::Invariant;
use crate::at::At;
use crate::calendar::words;
use crate::findings::Findings;

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
        found: &mut Findings,
    ) {
        let rule = Invariant::DueTimesGeneratedOrSkipped;
        if !enabled || version.calendar.is_none() {
            if let Some(next) = next {
                at.breaks(
                    found,
                    rule,
                    format!("job {job} has no fire to come, but gets {}", words(Some(next))),
                );
            }
            return;
        }
        if next.is_some() && next == kept {
            return;
        }
        if let Some(kept) = kept.filter(|kept| kept.at <= at.now) {
            let why = format!("job {job} was due {}, which is dropped", words(Some(kept)));
            at.breaks(found, rule, why);
            return;
        }
        let expected = version.calendar.as_ref().and_then(|calendar| calendar.first_after(at.now));
        if let Some(expected) = expected.filter(|expected| *expected != next) {
            let why = format!("job {job} first fires {}, should be {}", words(next), words(expected));
            at.breaks(found, rule, why);
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
        found: &mut Findings,
    ) {
        let rule = Invariant::DueTimesGeneratedOrSkipped;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let said = std::mem::replace(&mut job.next_said, at.offset);
        let due = std::mem::replace(&mut job.next, next);
        match due {
            None => {
                let why = format!("job {id} fires for {logical_time}, though it had no fire to come");
                at.contradicts(found, rule, why, &[said]);
                return;
            }
            Some(due) if due.logical_time != logical_time => {
                let why =
                    format!("job {id} fires for {logical_time}, though it was due {}", words(Some(due)));
                at.contradicts(found, rule, why, &[said]);
                return;
            }
            Some(due) if due.at > at.now => {
                let why = format!("job {id} was due {}, and it is {}", words(Some(due)), at.now);
                at.contradicts(found, rule, why, &[said]);
            }
            Some(_) => {}
        }
        let calendar = job.newest().and_then(|(_, version)| version.calendar.as_ref());
        if let Some(Err(why)) = calendar.map(|calendar| calendar.follows(last, next)) {
            at.breaks(found, rule, format!("job {id}: {why}"));
        }
    }

    pub(super) fn fires_skipped(
        &mut self,
        at: &At<'_>,
        id: JobId,
        (from, to, count): (Timestamp, Timestamp, u64),
        next: Option<Fire>,
        found: &mut Findings,
    ) {
        let calendar = self.jobs.get(&id).and_then(|job| job.newest());
        let calendar = calendar.and_then(|(_, version)| version.calendar.as_ref());
        let counted = calendar.and_then(|calendar| calendar.count(from, to, COUNTED));
        if let Some(counted) = counted.filter(|counted| *counted != count) {
            let why = format!("job {id} skips {count} fires from {from} to {to}, where there are {counted}");
            at.breaks(found, Invariant::DueTimesGeneratedOrSkipped, why);
        }
        self.due_times_generated_or_skipped(at, id, (from, to), next, found);
    }

    /// When the fire at hand was due, for the rule that timers wait for commands.
    pub(crate) fn fire_due(&self, job: JobId) -> Option<Timestamp> {
        self.jobs.get(&job).and_then(|job| job.next).map(|fire| fire.at)
    }
}
