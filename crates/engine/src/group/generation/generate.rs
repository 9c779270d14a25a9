//! Making batches: by schedule, by a parent's generation, with their dependencies resolved.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_calendar::{Timetable, Zone};
use tidemill_model::{
    Actor, BatchEvent, BatchId, CountedParents, Dependency, Event, Fire, JobDefinition, JobId, Mapping,
    MissedRuns, Origin, Overlap, Parent, RerunPlace, ScheduleEvent, SkipReason, Timestamp,
};

use crate::catalogue::MAX_DECLARED_TIMES;
use crate::group::GroupShard;
use crate::group::dependencies::failure::counts;
use crate::group::dependencies::foreign::ForeignJob;
use crate::group::jobs::job::Job;
use crate::schedule::{Facts, required_times};

/// Base times further back than this are skipped, not generated.
const MAX_CATCH_UP: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Of those within it, at most this many, the newest.
const MAX_CATCH_UP_BATCHES: usize = 1_000;
/// A base time this old counts as missed for the policy that skips all missed ones; `MissedRuns::None` tells it
/// to people.
const MISSED_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// Fires that one skip event covers at most, so that one decision stays short.
const MAX_SKIP: usize = 10_000;
/// Batches that one decision ends.
const MAX_ENDED: usize = 100;
/// Logical times of parents that one batch can wait for.
const MAX_TIMES: usize = 3 * MAX_DECLARED_TIMES / 2;

pub(crate) struct NewBatch<'a> {
    pub(crate) job: &'a Job,
    /// Today's, or an earlier one of the job.
    pub(crate) definition: &'a JobDefinition,
    pub(crate) logical_time: Timestamp,
    pub(crate) run: u32,
    pub(crate) origin: Origin,
    /// Over those of the definition.
    pub(crate) parameters: BTreeMap<String, String>,
    /// What the schedule fires next, where it fired this one.
    pub(crate) next: Option<Fire>,
    /// When the schedule fired that began it, where a parent's batch did.
    pub(crate) base: Option<Timestamp>,
    pub(crate) rerun: Option<RerunPlace>,
    /// Of a run by hand: whether it may run beside others.
    pub(crate) concurrent: Option<bool>,
}

impl<'a> NewBatch<'a> {
    /// By today's definition, of which nothing more is known.
    pub(crate) fn of(job: &'a Job, logical_time: Timestamp, run: u32, origin: Origin) -> Self {
        Self {
            job,
            definition: &job.definition,
            logical_time,
            run,
            origin,
            parameters: BTreeMap::new(),
            next: None,
            base: None,
            rerun: None,
            concurrent: None,
        }
    }
}

#[derive(Clone, Copy)]
pub(in crate::group) enum Known<'a> {
    Here(&'a Job),
    Elsewhere(&'a ForeignJob),
}

impl GroupShard {
    /// The zone in which the times of a definition's batches are written.
    pub(crate) fn zone_of(&self, definition: &JobDefinition) -> Zone {
        self.grid_of(definition).map_or_else(crate::schedule::utc, |grid| grid.zone().clone())
    }

    /// What the batches of a definition follow, which may be an earlier one of its job: its schedule, or that of the
    /// nearest ancestor that has one today.
    pub(crate) fn grid_of(&self, definition: &JobDefinition) -> Option<Arc<Timetable>> {
        self.schedule_of(definition).or_else(|| self.grid_above(definition))
    }

    /// The schedule of a definition, which may be an earlier one of its job.
    fn schedule_of(&self, definition: &JobDefinition) -> Option<Arc<Timetable>> {
        match self.jobs.get(&definition.id) {
            Some(job) if job.definition.version == definition.version => job.schedule.clone(),
            // The calendar of an earlier one may be forgotten; then days say nothing.
            _ => self.jobs.calendars().timetable(definition).or_else(|| {
                let schedule = crate::schedule::grid_from_spec(&definition.spec.schedule_spec()?).ok()?;
                Some(Arc::new(schedule.into()))
            }),
        }
    }

    /// The job's own schedule, or that of its nearest ancestor that has one.
    pub(crate) fn grid(&self, job: &Job) -> Option<Arc<Timetable>> {
        job.schedule.clone().or_else(|| self.grid_above(&job.definition))
    }

    /// What a due schedule asks for: one batch, or a skip.
    pub(crate) fn fire(&self, id: JobId, now: Timestamp) -> Vec<Event> {
        let Some(job) = self.jobs.get(&id) else { return Vec::new() };
        let (Some(next), Some(schedule)) = (job.next, &job.schedule) else { return Vec::new() };
        if !job.enabled {
            return Vec::new();
        }
        if let Some(skip) = left_out(job, schedule, next).or_else(|| skip_missed(job, schedule, next, now)) {
            return vec![skip];
        }
        if job.has_batch_for(next.logical_time) && !planted!(TimerFiredAgainAfterTakeover) {
            // Two runs of one logical time must never live at once, and the newer one decides.
            return vec![skip(job, schedule, next, next.at, SkipReason::RunByHand)];
        }
        // BYD-1: while an earlier scheduled batch of its job is unfinished.
        let mut events = match job.definition.spec.overlap {
            Overlap::Skip if scheduled(job).next().is_some() => {
                return vec![skip(job, schedule, next, now.next(), SkipReason::Overlap)];
            }
            Overlap::Queue | Overlap::Allow | Overlap::Skip => Vec::new(),
            Overlap::CancelOld => {
                let ended = self.end_old(job, next);
                if ended.len() >= MAX_ENDED {
                    // There are more than one decision can end, and then it is looked again.
                    return ended;
                }
                ended
            }
        };
        let after = schedule.next(next);
        let after = if planted!(FireLost) { after.and_then(|lost| schedule.next(lost)) } else { after };
        events.extend(self.evict_history(job, now));
        let new = NewBatch::of(job, next.logical_time, 0, Origin::Schedule);
        events.extend(self.generated(NewBatch { next: after, ..new }));
        events
    }

    fn end_old(&self, job: &Job, fire: Fire) -> Vec<Event> {
        let (owner, time) = (Actor::owner(), fire.logical_time);
        let reason = format!("the batch for {time} takes its place (overlap: cancel_old)");
        let ended = scheduled(job).map(|batch| self.killed(batch, &owner, &reason));
        ended.filter(|events| !events.is_empty()).take(MAX_ENDED).flatten().collect()
    }

    /// A new batch, with what it waits for resolved at this moment; before it, what nobody waited for yet.
    pub(crate) fn generated(&self, new: NewBatch<'_>) -> Vec<Event> {
        let NewBatch { job, definition, logical_time, run, parameters, .. } = new;
        let batch = self.batches.next_id(self.id);
        let (dependencies, counted_parents) = self.waits_for(job, definition, logical_time);
        let format = crate::schedule::time_format(definition).unwrap_or_default();
        let facts = Facts::of_batch(definition, batch, run, logical_time, format.as_ref());
        let (mut events, external_dependencies) = self.external_dependencies_of(&facts, &parameters);
        let outputs = self.outputs_of(&facts, &parameters);
        events.push(Event::Batch(BatchEvent::Generated {
            batch,
            job: definition.id,
            version: definition.version,
            logical_time,
            run,
            origin: new.origin,
            dependencies,
            counted_parents,
            external_dependencies,
            quality_gate: definition.spec.quality_gate,
            earliest_start: self.earliest_start(definition, logical_time),
            parameters,
            next: new.next,
            calendar: self.schedule_of(definition).and_then(|schedule| schedule.calendar_version()),
            base: new.base,
            rerun: new.rerun,
            concurrent: new.concurrent,
            outputs,
        }));
        events
    }

    /// What a batch of the job would wait for, by one of its definitions: what it lists, and what it counts.
    pub(crate) fn waits_for(
        &self,
        job: &Job,
        definition: &JobDefinition,
        logical_time: Timestamp,
    ) -> (Vec<Dependency>, Option<CountedParents>) {
        let are_counted = self.counts_parents(job, definition);
        let mut counted = CountedParents { parents: 0, unmet: 0 };
        let mut dependencies = Vec::new();
        for parent in &definition.parents {
            let dependency = self.resolve(job, definition, parent, logical_time);
            if are_counted && self.is_countable(definition, parent) {
                counted.parents += 1;
                counted.unmet += u32::from(!dependency.is_satisfied(dependency.met.len()));
            } else {
                dependencies.push(dependency);
            }
        }
        bound_times(&mut dependencies);
        (dependencies, are_counted.then_some(counted))
    }

    fn resolve(
        &self,
        job: &Job,
        definition: &JobDefinition,
        parent: &Parent,
        logical_time: Timestamp,
    ) -> Dependency {
        if job.submitted {
            return self.resolve_newest(definition, parent, logical_time);
        }
        let own_past = parent.job == job.definition.id;
        let known = if own_past { Some(Known::Here(job)) } else { self.known(parent.job) };
        let mut times = match known {
            Some(known) => self.times_of(definition, &known, parent.mapping, logical_time),
            None => vec![logical_time],
        };
        if parent.mapping == Mapping::Latest {
            self.go_back(parent.job, &mut times);
        }
        if own_past {
            // The first batch has no previous one to wait for.
            times.retain(|time| job.has_batch_for(*time));
        }
        let met = |time: &&Timestamp| match known {
            Some(Known::Here(known)) if own_past => counts(definition, parent, known.stand(**time)),
            Some(Known::Here(_) | Known::Elsewhere(_)) => {
                counts(definition, parent, self.stand_of(parent.job, **time))
            }
            None => false,
        };
        let met = times.iter().filter(met).copied().collect();
        Dependency { parent: parent.job, mapping: parent.mapping, times, met }
    }

    /// API-1: an ad-hoc job waits for the newest batch that each of its parents has, whatever its logical time.
    /// For a parent that has none yet it waits for the first one: no times, any of which is enough. Of one that has moved
    /// to another group, or is not known, it waits for its own logical time.
    fn resolve_newest(
        &self,
        definition: &JobDefinition,
        parent: &Parent,
        logical_time: Timestamp,
    ) -> Dependency {
        let Parent { job: id, mapping } = *parent;
        let Some(known) = self.jobs.get(&id) else {
            let is_met =
                self.known(id).is_some() && counts(definition, parent, self.stand_of(id, logical_time));
            let met = is_met.then_some(logical_time).into_iter().collect();
            return Dependency { parent: id, mapping, times: vec![logical_time], met };
        };
        let newest = known.history.last().map(|(time, _)| time);
        let Some(time) = known.newest_upto(logical_time).or(newest) else {
            return Dependency { parent: id, mapping: Mapping::Any, times: Vec::new(), met: Vec::new() };
        };
        let met = if known.has_succeeded(time) { vec![time] } else { Vec::new() };
        Dependency { parent: id, mapping, times: vec![time], met }
    }

    pub(super) fn known(&self, parent: JobId) -> Option<Known<'_>> {
        let here = self.jobs.get(&parent).map(Known::Here);
        here.or_else(|| self.dependencies.foreign().get(parent).map(Known::Elsewhere))
    }

    pub(in crate::group) fn times_of(
        &self,
        definition: &JobDefinition,
        parent: &Known<'_>,
        mapping: Mapping,
        time: Timestamp,
    ) -> Vec<Timestamp> {
        if mapping == Mapping::Same {
            return vec![time];
        }
        let (grid, newest) = match parent {
            Known::Here(parent) => (self.grid(parent), parent.newest_upto(time)),
            Known::Elsewhere(parent) => (parent.schedule.clone(), parent.newest_upto(time)),
        };
        let newest_known = || newest.map(|time| vec![time]);
        match (mapping, self.grid_of(definition), grid) {
            (Mapping::Latest, None, _) | (Mapping::Latest, _, None) => newest_known().unwrap_or_default(),
            (_, Some(own), Some(parents)) => {
                required_times(&own, &parents, mapping, time).unwrap_or_else(|_| vec![time])
            }
            (_, _, _) => vec![time],
        }
    }
}

/// The unfinished batches that the schedule made: those of run 0.
fn scheduled(job: &Job) -> impl Iterator<Item = BatchId> + '_ {
    job.unfinished().filter(|(_, newest)| newest.run == 0).map(|(_, newest)| newest.batch)
}

/// The last resort against a batch that would not fit into an envelope: `apply` refuses what comes near.
/// Of a dependency with too many times the newest stay.
fn bound_times(dependencies: &mut [Dependency]) {
    let mut room = MAX_TIMES;
    for dependency in dependencies {
        let surplus = dependency.times.len().saturating_sub(room);
        dependency.times.drain(..surplus);
        let times = &dependency.times;
        if surplus > 0 {
            dependency.met.retain(|met| times.contains(met));
        }
        room -= times.len();
    }
}

/// GEN-3, GEN-9: what the policy leaves out of the fires that are due by now, oldest first.
fn skip_missed(job: &Job, schedule: &Timetable, next: Fire, now: Timestamp) -> Option<Event> {
    let cutoff = now.saturating_sub(MAX_CATCH_UP).unwrap_or(Timestamp::MIN);
    if next.at < cutoff {
        return Some(skip(job, schedule, next, cutoff, SkipReason::TooOld));
    }
    let missed_runs = job.definition.spec.missed_runs;
    if let Some(most) = missed_runs.max_lateness_s() {
        let latest = now.saturating_sub(SignedDuration::from_secs(most.into())).unwrap_or(Timestamp::MIN);
        if next.at < latest {
            return Some(skip(job, schedule, next, latest, SkipReason::TooLate));
        }
    }
    let missed = now.saturating_sub(MISSED_AFTER).unwrap_or(Timestamp::MIN);
    match missed_runs.policy() {
        MissedRuns::All if job.catching_up => None,
        MissedRuns::All => {
            let due = schedule.following(next, now).take(MAX_SKIP).count() + 1;
            let surplus = due.saturating_sub(MAX_CATCH_UP_BATCHES);
            let first_kept = schedule.following(next, now).nth(surplus.checked_sub(1)?)?;
            Some(skip(job, schedule, next, first_kept.at, SkipReason::TooMany))
        }
        MissedRuns::Latest => {
            let newest = schedule.following(next, now).take(MAX_SKIP).last()?;
            Some(skip(job, schedule, next, newest.at, SkipReason::Policy))
        }
        MissedRuns::None if next.at < missed => Some(skip(job, schedule, next, missed, SkipReason::Policy)),
        MissedRuns::None => None,
    }
}

/// BYD-2: what a calendar left out since the last logical time that was dealt with; once, when the next fire is due.
fn left_out(job: &Job, timetable: &Timetable, next: Fire) -> Option<Event> {
    let mut times = timetable.left_out(job.passed?, next.logical_time).take(MAX_SKIP);
    let from = times.next()?;
    let (count, to) = times.fold((1, from), |(count, _), time| (count + 1, time));
    let (job, reason) = (job.definition.id, SkipReason::Calendar);
    Some(Event::Schedule(ScheduleEvent::Skipped { job, from, to, count, reason, next: Some(next) }))
}

/// One skip of the fires from `next` until before `until`, `next` included in any case.
fn skip(job: &Job, schedule: &Timetable, next: Fire, until: Timestamp, reason: SkipReason) -> Event {
    let mut last = next;
    let mut count = 1;
    let mut following = schedule.next(next);
    while let Some(passed) = following.filter(|fire| fire.at < until && count < MAX_SKIP as u64) {
        last = passed;
        count += 1;
        following = schedule.next(passed);
    }
    Event::Schedule(ScheduleEvent::Skipped {
        job: job.definition.id,
        from: next.logical_time,
        to: last.logical_time,
        count,
        reason,
        next: following,
    })
}
