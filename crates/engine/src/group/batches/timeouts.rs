//! TMO-1, TMO-2, TMO-4: batches that have not got somewhere in time. Each is marked once per kind, people are
//! told, and it goes on, unless its job says that it is to be ended.
//!
//! ```text
//!  base time ───────► dependency timeout: waits, and was never started?
//!  base time ───────────────────► output timeout: not successful?
//!  base time ──► next HH:MM:SS of the job's zone: not successful?
//! ```
//!
//! *Invariant:* a deadline that has neither been marked nor become pointless stands among the timers, so none is
//! missed however long nobody owned the shard. The dependency's stands there only while the batch waits: an
//! assigned batch that is given back after it is marked at once.
//!
//! ALM-5: of an attempt that runs far longer than its job's attempts usually do, people are told, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use tidemill_derive::Stored;
use tidemill_model::{
    Actor, AlarmEvent, AlarmKind, BatchEvent, BatchId, BatchResult, Event, JobDefinition, JobId, JobSpec,
    Severity, TimeOfDay, TimeoutKind, Timestamp,
};

use crate::group::batches::Batches;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::timers::Timers;
use crate::group::{GroupShard, Timer, alarm, times_of};

/// How often the usual duration it may take.
const FACTOR: u32 = 2;
/// Nobody wants to hear of less, seconds.
const AT_LEAST_S: u32 = 600;

/// Batches that ended without success, and are to be marked for that at a time ahead. A newer run of the logical
/// time has times of its own, and takes its place.
#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct Late {
    batches: BTreeMap<BatchId, LateBatch>,
    by_time: BTreeMap<(JobId, Timestamp), BatchId>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct LateBatch {
    definition: Arc<JobDefinition>,
    logical_time: Timestamp,
    result: BatchResult,
    deadlines: Deadlines,
}

/// What is left to be watched of a batch, by kind.
pub(in crate::group) type Deadlines = [Option<Timestamp>; 3];

/// In the order in which [`Deadlines`] has them, which is that of their declaration.
const KINDS: [TimeoutKind; 3] = [TimeoutKind::Dependency, TimeoutKind::Output, TimeoutKind::ByTime];

fn deadlines_of(spec: &JobSpec, base: Timestamp, zone: &TimeZone) -> Deadlines {
    let after = |seconds: u32| {
        base.saturating_add(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MAX)
    };
    [
        spec.dependency_timeout_s.map(after),
        spec.output_timeout_s.map(after),
        spec.not_successful_by.and_then(|time| next_local(zone, base, time)),
    ]
}

/// The first instant after `after` at which the zone's clock shows `time`; where a gap leaves that out, what
/// comes right after it.
fn next_local(zone: &TimeZone, after: Timestamp, time: TimeOfDay) -> Option<Timestamp> {
    let mut date = zone.to_datetime(after.jiff()).date();
    // A day may have none after the base time, and the next one a zone that skips a day.
    for _ in 0..3 {
        let local = zone.to_ambiguous_timestamp(date.to_datetime(time.civil()));
        let at = Timestamp::from(local.compatible().ok()?);
        if at > after {
            return Some(at);
        }
        date = date.tomorrow().ok()?;
    }
    None
}

impl Batches {
    /// Whether an ended batch of the job has a time ahead by which its logical time should succeed.
    pub(crate) fn has_late(&self, job: JobId) -> bool {
        self.late.by_time.range(times_of(job)).next().is_some()
    }

    fn late_passed(&self, id: BatchId, kind: TimeoutKind) -> Vec<Event> {
        let Some(late) = self.late.batches.get(&id) else { return Vec::new() };
        let Some(deadline) = late.deadlines[kind as usize] else { return Vec::new() };
        let stands = format!("has ended, {}", late.result.as_str());
        marked(id, (&late.definition, late.logical_time), &stands, (kind, deadline)).0
    }
}

impl GroupShard {
    /// From its generation on.
    pub(crate) fn watch(&mut self, id: BatchId, base: Timestamp) {
        let Some(definition) = self.batches.get(&id).map(|batch| &batch.definition) else { return };
        let deadlines = deadlines_of(&definition.spec, base, self.zone_of(definition).time_zone());
        if deadlines == Deadlines::default() {
            return;
        }
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.deadlines = Some(Box::new(deadlines));
        }
        self.each_deadline(id, &KINDS, Timers::set);
    }

    /// A batch ends. It waits for nothing any more; without success it is still late when its time comes.
    pub(crate) fn unwatch(&mut self, id: BatchId, result: BatchResult) {
        self.each_deadline(id, &KINDS, Timers::cancel);
        let Some(batch) = self.batches.get(&id).filter(|_| !result.satisfies()) else { return };
        let Some(deadlines) = &batch.deadlines else { return };
        if self.jobs.get(&batch.definition.id).is_none_or(|job| job.removed) {
            return;
        }
        let [_, output, by_time] = **deadlines;
        let deadlines = [None, output, by_time];
        if deadlines == Deadlines::default() {
            return;
        }
        for kind in KINDS {
            self.timers.set(deadlines[kind as usize], Timer::Deadline(id, kind));
        }
        let (definition, logical_time) = (Arc::clone(&batch.definition), batch.logical_time);
        self.batches.late.by_time.insert((definition.id, logical_time), id);
        self.batches.late.batches.insert(id, LateBatch { definition, logical_time, result, deadlines });
    }

    /// Another run of the logical time takes the place of one that ended without success.
    pub(crate) fn forget_late(&mut self, job: JobId, logical_time: Timestamp) {
        let Some(id) = self.batches.late.by_time.remove(&(job, logical_time)) else { return };
        let Some(late) = self.batches.late.batches.remove(&id) else { return };
        for kind in KINDS {
            self.timers.cancel(late.deadlines[kind as usize], Timer::Deadline(id, kind));
        }
    }

    /// Nobody expects anything of a job that is gone.
    pub(crate) fn forget_late_of(&mut self, job: JobId) {
        let late: Vec<_> = self.batches.late.by_time.range(times_of(job)).map(|(key, _)| *key).collect();
        for (job, time) in late {
            self.forget_late(job, time);
        }
    }

    /// Sets or cancels the timers of these kinds.
    pub(super) fn each_deadline(
        &mut self,
        id: BatchId,
        kinds: &[TimeoutKind],
        then: impl Fn(&mut Timers, Option<Timestamp>, Timer),
    ) {
        let Some(deadlines) = self.batches.get(&id).and_then(|batch| batch.deadlines.as_deref()) else {
            return;
        };
        for kind in kinds {
            then(&mut self.timers, deadlines[*kind as usize], Timer::Deadline(id, *kind));
        }
    }

    pub(crate) fn deadline_passed(&self, id: BatchId, kind: TimeoutKind) -> Vec<Event> {
        let Some(batch) = self.batches.get(&id) else { return self.batches.late_passed(id, kind) };
        let deadline = batch.deadlines.as_deref().and_then(|deadlines| deadlines[kind as usize]);
        let Some(deadline) = deadline else { return Vec::new() };
        let of = (&*batch.definition, batch.logical_time);
        let (mut events, message) = marked(id, of, &stands(batch), (kind, deadline));
        if batch.definition.spec.cancel_on_timeout {
            events.extend(self.killed(id, &Actor::owner(), &message));
        }
        events
    }

    pub(crate) fn timeout_reached(&mut self, id: BatchId, kind: TimeoutKind) {
        let Batches { by_id, late, .. } = &mut self.batches;
        let live = by_id.get_mut(&id).and_then(|batch| batch.deadlines.as_deref_mut());
        let late = late.batches.get_mut(&id).map(|late| &mut late.deadlines);
        let Some(deadlines) = live.or(late) else { return };
        self.timers.cancel(deadlines[kind as usize].take(), Timer::Deadline(id, kind));
        let spent = |late: &&LateBatch| late.deadlines == Deadlines::default();
        if let Some(late) = self.batches.late.batches.get(&id).filter(spent) {
            self.forget_late(late.definition.id, late.logical_time);
        }
    }

    pub(in crate::group) fn apply_alarm(&mut self, event: &AlarmEvent) {
        let AlarmEvent::Raised { kind, batch, .. } = event;
        if let (AlarmKind::BigTask, Some(batch)) = (kind, batch) {
            self.unwatch_duration(*batch);
        }
    }

    /// From its grant on.
    pub(crate) fn watch_duration(&mut self, id: BatchId) {
        let at = self.batches.get(&id).and_then(|batch| too_long_at(&batch.definition, batch.since));
        self.timers.set(at, Timer::BigTask(id));
    }

    /// Its attempt is over, or people have been told.
    pub(crate) fn unwatch_duration(&mut self, id: BatchId) {
        let batch = self.batches.get(&id).filter(|batch| batch.grant().is_some());
        let at = batch.and_then(|batch| too_long_at(&batch.definition, batch.since));
        self.timers.cancel(at, Timer::BigTask(id));
    }

    pub(crate) fn runs_too_long(&self, id: BatchId) -> Vec<Event> {
        let Some(batch) = self.batches.get(&id) else { return Vec::new() };
        let Some(grant) = batch.grant() else { return Vec::new() };
        let message = format!(
            "batch {id} of {} for {} runs on {} since {}, and usually takes {} s",
            batch.definition.full_name(),
            batch.logical_time,
            grant.worker,
            batch.since,
            batch.definition.spec.expected_duration_s.unwrap_or(0),
        );
        let of = (id, &*batch.definition);
        vec![alarm(AlarmKind::BigTask, Severity::Notice, of, Some(&grant.worker), message)]
    }
}

/// When an attempt that was granted at `since` has run for too long.
fn too_long_at(definition: &JobDefinition, since: Timestamp) -> Option<Timestamp> {
    let expected_s = definition.spec.expected_duration_s?;
    let after = SignedDuration::from_secs(expected_s.saturating_mul(FACTOR).max(AT_LEAST_S).into());
    Some(since.saturating_add(after).unwrap_or(Timestamp::MAX))
}

fn stands(batch: &Batch) -> String {
    match &batch.phase {
        Phase::Waiting if !batch.may_run() => {
            let external_dependencies =
                batch.external_dependencies().iter().filter(|need| need.is_unmet()).count();
            match batch.unmet() as usize + external_dependencies {
                0 => "waits for the quality service".to_owned(),
                unmet => format!("waits for {unmet} of its dependencies"),
            }
        }
        Phase::Waiting | Phase::Ready { .. } => "waits for a worker".to_owned(),
        Phase::Pausing { .. } => "waits for its next attempt".to_owned(),
        Phase::Assigned { worker, .. } => format!("is assigned to {worker}"),
        Phase::Granted(grant) => format!("runs on {}", grant.worker),
    }
}

/// What marks a batch, and what people are told.
fn marked(
    id: BatchId,
    (definition, logical_time): (&JobDefinition, Timestamp),
    stands: &str,
    (kind, deadline): (TimeoutKind, Timestamp),
) -> (Vec<Event>, String) {
    let what = format!("batch {id} of {} for {logical_time}", definition.full_name());
    let name = match kind {
        TimeoutKind::Dependency => "dependency timeout",
        TimeoutKind::Output => "output timeout",
        TimeoutKind::ByTime => "not successful in time",
    };
    let message = format!("{name}: {what} {stands}, and had time until {deadline}");
    let alarm = alarm(kind.into(), Severity::Important, (id, definition), None, message.clone());
    (vec![Event::Batch(BatchEvent::TimeoutReached { batch: id, kind, deadline }), alarm], message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(zone: &str, after: &str, time: &str) -> String {
        let zone = tidemill_calendar::Zone::try_from(zone).unwrap();
        let time = TimeOfDay::try_from(time).unwrap();
        next_local(zone.time_zone(), after.parse().unwrap(), time).unwrap().to_string()
    }

    /// TMO-2: the first such time of day after the base time, on the clock of the job's zone.
    #[test]
    fn time_of_day_is_the_first_one_after_the_base_time() {
        let table = [
            ("UTC", "2026-03-02T00:01:00Z", "07:00:00", "2026-03-02T07:00:00.000Z"),
            ("UTC", "2026-03-02T07:00:00Z", "07:00:00", "2026-03-03T07:00:00.000Z"),
            ("UTC", "2026-02-28T23:00:00Z", "07:00:00", "2026-03-01T07:00:00.000Z"),
            ("Asia/Shanghai", "2026-03-01T16:01:00Z", "07:00:00", "2026-03-01T23:00:00.000Z"),
            // Clocks go forward at 02:00 and back at 03:00.
            ("Europe/Berlin", "2026-03-28T23:01:00Z", "02:30:00", "2026-03-29T01:30:00.000Z"),
            ("Europe/Berlin", "2026-10-24T22:01:00Z", "02:30:00", "2026-10-25T00:30:00.000Z"),
            ("Europe/Berlin", "2026-10-25T00:31:00Z", "02:30:00", "2026-10-26T01:30:00.000Z"),
        ];
        for (zone, after, time, expected) in table {
            assert_eq!(next(zone, after, time), expected, "{zone} {after} {time}");
        }
    }
}
