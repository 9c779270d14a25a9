//! A definition as far as rules depend on it, and what is known of its logical times.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tidemill_model::{
    BatchId, BatchResult, CalendarUse, Fire, Firing, JobDefinition, JobId, JobSpec, Mapping, Parent,
    ScheduleSpec, Timestamp,
};

use super::Shard;
use super::outputs::Templates;
use super::skipped::Skips;
use crate::calendar::Calendar;
use crate::{At, Invariant};

#[derive(Debug)]
pub(super) struct Version {
    pub(super) definition: Arc<JobDefinition>,
    /// Where its templates name values of parents, which may be missing when it starts.
    pub(super) templates: Templates,
    pub(super) parents: Vec<JobId>,
    /// Those with mapping `same`, itself left out.
    pub(super) same: Vec<JobId>,
    pub(super) schedule: Option<ScheduleSpec>,
    pub(super) calendar: Option<Calendar>,
    pub(super) firing: Option<Firing>,
    /// That of its logical times and times of day; `None`: it follows the schedule of its parents.
    pub(super) zone: Option<TimeZone>,
}

impl Version {
    fn fires_like(&self, other: &Version) -> bool {
        let bounds = |version: &Version| {
            let firing = version.firing.clone().unwrap_or_default();
            (firing.valid_from, firing.valid_until, firing.calendar)
        };
        self.schedule == other.schedule && bounds(self) == bounds(other)
    }

    pub(super) fn spec(&self) -> &JobSpec {
        &self.definition.spec
    }

    /// The calendar that decides which of its fires count.
    pub(super) fn days(&self) -> Option<&CalendarUse> {
        self.firing.as_ref()?.calendar.as_ref()
    }

    fn of(definition: &Arc<JobDefinition>) -> Arc<Self> {
        let schedule = definition.spec.schedule_spec();
        let is_same = |parent: &&Parent| parent.mapping == Mapping::Same && parent.job != definition.id;
        Arc::new(Self {
            definition: Arc::clone(definition),
            templates: Templates::of(definition),
            parents: definition.parents.iter().map(|parent| parent.job).collect(),
            same: definition.parents.iter().filter(is_same).map(|parent| parent.job).collect(),
            calendar: schedule.as_ref().map(Calendar::of),
            firing: definition.spec.firing(),
            zone: match &schedule {
                Some(schedule) => TimeZone::get(&schedule.zone).ok(),
                None => definition.parents.is_empty().then_some(TimeZone::UTC),
            },
            schedule,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) versions: BTreeMap<u32, Arc<Version>>,
    pub(super) enabled: bool,
    /// While it is switched off: what it skipped when it was switched off.
    pub(super) skips_off: Skips,
    /// The fire that is to come, and the record that says so.
    pub(super) next: Option<Fire>,
    pub(super) next_said: u64,
    pub(super) suspended: bool,
    /// How often the next fire has failed.
    pub(super) failures: u32,
    pub(super) removed: bool,
    /// It came from another group, whose versions of it are not known here, with this one.
    pub(super) tenure: Option<u32>,
    /// Of an ad-hoc job: its logical times, its unfinished batches, and how often one has ended.
    pub(super) once: Once,
}

/// What has to be known of an ad-hoc job, so that it can be forgotten.
#[derive(Debug, Default)]
pub(super) struct Once {
    pub(super) times: Vec<Timestamp>,
    pub(super) unfinished: u32,
    pub(super) ended: u32,
}

impl Job {
    pub(super) fn newest(&self) -> Option<&Arc<Version>> {
        self.versions.values().next_back()
    }
}

/// The newest run of one logical time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) number: u32,
    pub(super) batch: BatchId,
    pub(super) version: u32,
    /// As a fingerprint.
    pub(super) parameters: u64,
    pub(super) succeeded: bool,
    /// How it ended, once it has.
    pub(super) result: Option<BatchResult>,
    /// When the schedule fired that began it, its own or an ancestor's.
    pub(super) fired: Option<Timestamp>,
    pub(super) said: u64,
}

impl Shard {
    pub(super) fn job_replicated(
        &mut self,
        at: &At<'_>,
        definition: &Arc<JobDefinition>,
        enabled: bool,
        next: Option<Fire>,
    ) {
        let id = definition.id;
        let version = Version::of(definition);
        let before = self.jobs.get(&id).and_then(Job::newest).map_or(0, |newest| newest.definition.version);
        if definition.version <= before {
            let why = format!("job {id} is received in version {} after {before}", definition.version);
            at.breaks(Invariant::VersionsRise, why);
        }
        // One whose timer was suspended goes on where it stood, so that nothing due is left out.
        let old = self.jobs.get(&id).filter(|job| job.enabled);
        let kept = old.filter(|job| job.newest().is_some_and(|old| old.fires_like(&version)));
        let kept = kept.and_then(|job| job.next);
        self.job_known(at, definition, enabled, (kept, next));
    }

    /// The shard runs a job by this definition. `kept` is the fire that was to come before.
    pub(super) fn job_known(
        &mut self,
        at: &At<'_>,
        definition: &Arc<JobDefinition>,
        enabled: bool,
        (kept, next): (Option<Fire>, Option<Fire>),
    ) {
        let id = definition.id;
        let version = Version::of(definition);
        self.relate(id, &version);
        self.first_fire(at, (id, &version), enabled, (kept, next));
        let skips_off =
            self.jobs.get(&id).map(|job| job.skips_when_off(id, &self.calendars)).unwrap_or_default();
        let job = self.jobs.entry(id).or_default();
        job.skips_off = skips_off;
        job.versions.insert(definition.version, version);
        (job.enabled, job.next, job.next_said) = (enabled, next, at.offset);
        (job.removed, job.suspended, job.failures) = (false, false, 0);
        self.fire_settled(id);
    }

    pub(super) fn job_switch_replicated(
        &mut self,
        at: &At<'_>,
        id: JobId,
        enabled: bool,
        next: Option<Fire>,
    ) {
        let Some(job) = self.jobs.get(&id) else { return };
        let kept = job.next.filter(|_| job.enabled);
        if let Some(version) = job.newest().cloned() {
            self.first_fire(at, (id, &version), enabled, (kept, next));
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.skips_off = job.skips_when_off(id, &self.calendars);
            (job.enabled, job.next, job.next_said, job.suspended) = (enabled, next, at.offset, false);
            job.failures = 0;
        }
        self.fire_settled(id);
        if !enabled {
            self.triggered.retain(|(child, _)| *child != id);
        }
    }

    pub(super) fn job_dropped(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.skips_off = job.skips_when_off(id, &self.calendars);
            (job.enabled, job.next, job.removed) = (false, None, true);
        }
        self.fire_settled(id);
        self.unrelate(id);
    }

    pub(super) fn job_submitted(&mut self, definition: &Arc<JobDefinition>) {
        let versions = BTreeMap::from([(definition.version, Version::of(definition))]);
        self.jobs.insert(definition.id, Job { versions, enabled: true, ..Job::default() });
    }

    /// Notes whose batches bring forth this one's.
    fn relate(&mut self, id: JobId, version: &Version) {
        self.unrelate(id);
        if version.schedule.is_none() {
            for parent in &version.parents {
                self.children.entry(*parent).or_default().insert(id);
            }
        }
    }

    fn unrelate(&mut self, id: JobId) {
        self.triggered.retain(|(child, _)| *child != id);
        let newest = self.jobs.get(&id).and_then(Job::newest);
        let parents = newest.map(|version| version.parents.clone()).unwrap_or_default();
        for parent in parents {
            if let Some(children) = self.children.get_mut(&parent) {
                children.remove(&id);
            }
        }
    }
}
