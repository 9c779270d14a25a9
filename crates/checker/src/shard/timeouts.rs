//! By when a batch should have got somewhere, computed a second time, and attempts that run far longer than usual.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};
use tidemill_model::{AlarmKind, BatchId, JobId, JobSpec, TimeOfDay, TimeoutKind, Timestamp};

use super::Shard;
use super::batch::{Batch, Phase};
use super::job::Version;
use crate::{At, Invariant};

impl Version {
    /// The times that a batch with this base time has; `None`: not known here.
    pub(super) fn deadlines(&self, base: Timestamp) -> Vec<(TimeoutKind, Option<Timestamp>)> {
        let spec = self.spec();
        let after = |seconds: u32| base.checked_add(SignedDuration::from_secs(seconds.into())).ok();
        let lasting = [
            (TimeoutKind::Dependency, spec.dependency_timeout_s),
            (TimeoutKind::Output, spec.output_timeout_s),
        ];
        let lasting = lasting.into_iter().filter_map(|(kind, seconds)| Some((kind, after(seconds?))));
        let by_time = |time| self.zone.as_ref().and_then(|zone| next(zone, base, time));
        let by_time = spec.not_successful_by.map(|time| (TimeoutKind::ByTime, by_time(time)));
        lasting.chain(by_time).collect()
    }
}

fn next(zone: &TimeZone, base: Timestamp, time: TimeOfDay) -> Option<Timestamp> {
    let today: Zoned = base.to_zoned(zone.clone());
    let days = std::iter::successors(Some(today.date()), |day| day.tomorrow().ok()).take(3);
    let times = days.filter_map(|day| day.to_datetime(time.civil()).to_zoned(zone.clone()).ok());
    times.map(|local| Timestamp::from(local.timestamp())).find(|at| *at > base)
}

/// A batch that ended without success, and has a time ahead.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) job: JobId,
    pub(super) time: Timestamp,
    deadlines: Vec<(TimeoutKind, Option<Timestamp>)>,
    said: u64,
}

impl Ended {
    pub(super) fn of(batch: &Batch) -> Option<Self> {
        let left = batch.deadlines.iter().filter(|(kind, _)| *kind != TimeoutKind::Dependency);
        let deadlines: Vec<_> = left.copied().collect();
        let (job, time, said) = (batch.job, batch.time, batch.said);
        (!deadlines.is_empty() && !batch.suspended).then_some(Self { job, time, deadlines, said })
    }
}

/// An alarm that must follow at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    pub(super) batch: BatchId,
    pub(super) kind: AlarmKind,
}

fn rule_of(kind: AlarmKind) -> Invariant {
    match kind {
        AlarmKind::FinalCommandFailed => Invariant::FinalCommandsOnce,
        AlarmKind::OverLimit => Invariant::ExcessesAreTold,
        // Only marks, final commands and excesses owe an alarm.
        _ => Invariant::TimeoutsMarkedOnce,
    }
}

/// It waits, and never was started.
fn waits(batch: &Batch) -> bool {
    matches!(batch.phase, Phase::Waiting) && batch.attempts == 0
}

impl Shard {
    /// `timeouts_marked_once`
    pub(super) fn timeout_reached(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (kind, deadline): (TimeoutKind, Timestamp),
    ) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        self.owed = Some(Owed { batch: id, kind: kind.into() });
        let left = batch.deadlines.iter().position(|(of, _)| *of == kind);
        let why = match left.map(|index| batch.deadlines.remove(index).1) {
            None => "its job sets no such time, or it was marked before".to_owned(),
            Some(Some(due)) if due != deadline => format!("it had time until {due}, and not {deadline}"),
            Some(_) if at.now < deadline => format!("it has time until {deadline}, and it is {}", at.now),
            Some(_) if kind == TimeoutKind::Dependency && !waits(batch) => {
                format!("it is {}, or was started before", batch.phase.word())
            }
            Some(_) => return,
        };
        let said = batch.said;
        let why = format!("batch {id} is marked for its {kind:?} timeout: {why}");
        at.contradicts(Invariant::TimeoutsMarkedOnce, why, &[said]);
    }

    /// The same of one that has ended; false: it has not.
    pub(super) fn late_marked(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (kind, deadline): (TimeoutKind, Timestamp),
    ) -> bool {
        if self.batches.contains_key(&id) || id.shard() != self.id || id.0 > self.last_batch {
            return false;
        }
        self.owed = Some(Owed { batch: id, kind: kind.into() });
        let late = self.late.get_mut(&id);
        let left = late.and_then(|late| {
            let index = late.deadlines.iter().position(|(of, _)| *of == kind)?;
            Some((late.deadlines.remove(index).1, late.said))
        });
        let (due, earlier) = left.map_or((None, None), |(due, said)| (due, Some(said)));
        if earlier.is_none() || due.is_some_and(|due| due != deadline) || at.now < deadline {
            let why = format!(
                "batch {id} has ended, had time until {due:?}, and is marked for {deadline} at {}",
                at.now
            );
            at.contradicts(Invariant::TimeoutsMarkedOnce, why, earlier.as_slice());
        }
        true
    }

    /// `timeouts_marked_once`, `final_commands_once`: the alarm follows its cause, and there is none without.
    pub(super) fn alarm_raised(&mut self, at: &At<'_>, kind: AlarmKind, batch: Option<BatchId>) {
        let (owed, given) = (self.owed.take(), format!("{kind:?} of {batch:?}"));
        if !owed.is_some_and(|owed| Some(owed.batch) == batch && owed.kind == kind) {
            at.breaks(rule_of(kind), format!("an alarm is raised, {given}, for no cause before it"));
        }
    }

    /// `timeouts_marked_once`: nothing comes between a mark and its alarm.
    pub(super) fn alarm_is_not_owed(&mut self, at: &At<'_>) {
        if let Some(Owed { batch, kind }) = self.owed.take() {
            let why = format!("the alarm {kind:?} of batch {batch} does not follow its cause");
            at.breaks(rule_of(kind), why);
        }
        self.alarms_of_workers_follow(at);
    }

    /// `timeouts_marked_once`, at quiescence: no time has passed without its mark.
    pub(super) fn no_timeout_is_missed(&self, at: &At<'_>) {
        let unsuspended = self.batches.iter().filter(|(_, batch)| !batch.suspended);
        let open = unsuspended.flat_map(|(id, batch)| {
            let of =
                batch.deadlines.iter().filter(|(kind, _)| *kind != TimeoutKind::Dependency || waits(batch));
            of.map(move |of| (*id, of, batch.said))
        });
        let late =
            self.late.iter().flat_map(|(id, late)| late.deadlines.iter().map(|of| (*id, of, late.said)));
        let all = open.chain(late).filter_map(|(id, (kind, due), said)| Some((id, *kind, (*due)?, said)));
        let mut unmarked: Vec<_> = all.filter(|(_, _, due, _)| *due < at.now).collect();
        unmarked.sort_unstable();
        for (id, kind, due, said) in unmarked {
            let why = format!("batch {id} had time until {due}, it is {}, and no {kind:?} mark", at.now);
            at.contradicts(Invariant::TimeoutsMarkedOnce, why, &[said]);
        }
    }
}

/// How long an attempt may run before people are told: twice as long as usual, and ten minutes at least.
pub(super) fn bound(spec: &JobSpec) -> Option<SignedDuration> {
    let seconds = spec.expected_duration_s?;
    Some(SignedDuration::from_secs((i64::from(seconds) * 2).max(600)))
}

impl Shard {
    /// `long_attempts_told_once`
    pub(super) fn told_of_duration(&mut self, at: &At<'_>, id: Option<BatchId>) {
        let rule = Invariant::LongAttemptsToldOnce;
        let batch = id.and_then(|id| self.batches.get_mut(&id));
        let due: Option<Timestamp> = batch.and_then(|batch| batch.long_at.take());
        if due.is_none_or(|due| at.now < due) {
            let why =
                format!("people are told that batch {id:?} runs long, at {}, and it is due {due:?}", at.now);
            at.breaks(rule, why);
        }
    }

    /// `long_attempts_told_once`, at quiescence.
    pub(super) fn none_runs_long_untold(&self, at: &At<'_>) {
        let due = self.batches.iter().filter(|(_, batch)| !batch.suspended);
        let due = due.filter_map(|(id, batch)| Some((id, batch.long_at?, batch.said)));
        for (id, due, said) in due.filter(|(_, due, _)| *due < at.now) {
            let why = format!("batch {id} has run long since {due}, and nobody was told");
            at.contradicts(Invariant::LongAttemptsToldOnce, why, &[said]);
        }
    }
}
