//! A definition as far as rules depend on it, and what is known of its logical times.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_model::{
    Account, Backoff, BatchId, BatchResult, ExitCodes, Fire, Firing, JobDefinition, JobId, JobType, Mapping,
    Overlap, PoolUse, Priority, ScheduleSpec, SuccessCheck, Timestamp, WorkerLabel,
};

use super::Shard;
use super::failure::Rule;
use super::outputs::Outputs;
use super::skipped::Skips;
use super::timeouts::Limits;
use super::values::Templates;
use crate::Invariant;
use crate::at::At;
use crate::calendar::Calendar;

/// One version of a definition.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) max_concurrent: u32,
    pub(super) retries: u32,
    pub(super) retry_interval_s: u32,
    pub(super) backoff: Option<Backoff>,
    pub(super) earliest_minutes: Option<u32>,
    pub(super) rule: Rule,
    /// Where its templates name values of parents, which may be missing when it starts.
    pub(super) templates: Templates,
    pub(super) exit_codes: Option<ExitCodes>,
    pub(super) host: Option<String>,
    pub(super) priority: Priority,
    pub(super) memory_mb: u32,
    pub(super) pools: Vec<PoolUse>,
    pub(super) job_type: JobType,
    pub(super) parents: Vec<JobId>,
    /// Those with mapping `same`, itself left out.
    pub(super) same: Vec<JobId>,
    pub(super) schedule: Option<ScheduleSpec>,
    pub(super) calendar: Option<Calendar>,
    pub(super) limits: Limits,
    pub(super) firing: Option<Firing>,
    pub(super) overlap: Overlap,
    pub(super) max_lateness_s: Option<u32>,
    pub(super) label: Option<WorkerLabel>,
    /// The account to run as.
    pub(super) account: Option<RunAs>,
    pub(super) final_command: bool,
    pub(super) outputs: Option<Outputs>,
    /// Its program says whether an attempt has succeeded.
    pub(super) by_code: bool,
    /// When an attempt has run far longer than usual.
    pub(super) long_after: Option<SignedDuration>,
}

/// DSP-2: an account, and by what right.
#[derive(Debug, PartialEq)]
pub(super) struct RunAs {
    pub(super) account: Account,
    /// It counted in records without a key.
    pub(super) owner: String,
    /// A key was found to have the account.
    pub(super) has_key: bool,
}

impl Version {
    /// Whether both have the same fires.
    fn fires_like(&self, other: &Version) -> bool {
        let bounds = |version: &Version| {
            let firing = version.firing.clone().unwrap_or_default();
            (firing.valid_from, firing.valid_until, firing.calendar)
        };
        self.schedule == other.schedule && bounds(self) == bounds(other)
    }

    fn of(definition: &JobDefinition) -> Arc<Self> {
        let spec = &definition.spec;
        Arc::new(Self {
            max_concurrent: definition.spec.max_concurrent,
            retries: definition.spec.retries,
            retry_interval_s: definition.spec.retry_interval_s,
            backoff: definition.spec.retry_backoff.clone(),
            earliest_minutes: definition.spec.earliest_start_minutes,
            rule: Rule::of(definition),
            templates: Templates::of(definition),
            exit_codes: definition.spec.exit_codes.clone(),
            host: definition.spec.host.clone(),
            priority: definition.spec.priority,
            memory_mb: definition.spec.memory_mb.unwrap_or(0),
            pools: definition.spec.pools.clone(),
            job_type: definition.spec.job_type.clone(),
            parents: definition.parents.iter().map(|parent| parent.job).collect(),
            same: definition
                .parents
                .iter()
                .filter(|parent| parent.mapping == Mapping::Same && parent.job != definition.id)
                .map(|parent| parent.job)
                .collect(),
            schedule: spec.schedule_spec(),
            calendar: spec.schedule_spec().as_ref().map(Calendar::of),
            limits: Limits::of(definition),
            firing: spec.firing(),
            overlap: spec.overlap,
            max_lateness_s: spec.missed_runs.max_lateness_s(),
            label: spec.worker_label.clone(),
            account: spec.run_as.clone().map(|account| RunAs {
                account,
                owner: spec.owner.clone(),
                has_key: definition.run_as_by.is_some(),
            }),
            final_command: spec.final_command.is_some(),
            outputs: Outputs::of(definition),
            by_code: spec.success_check == SuccessCheck::UserCode,
            long_after: super::big_task::bound(definition),
        })
    }
}

/// A job that the shard knows.
#[derive(Debug)]
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
    fn new(definition: &JobDefinition, enabled: bool) -> Self {
        Self {
            versions: BTreeMap::from([(definition.version, Version::of(definition))]),
            enabled,
            skips_off: Skips::default(),
            next: None,
            next_said: 0,
            suspended: false,
            failures: 0,
            removed: false,
            tenure: None,
            once: Once::default(),
        }
    }

    pub(super) fn newest(&self) -> Option<(u32, &Arc<Version>)> {
        self.versions.last_key_value().map(|(version, of)| (*version, of))
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
        definition: &JobDefinition,
        enabled: bool,
        next: Option<Fire>,
    ) {
        let id = definition.id;
        let version = Version::of(definition);
        let before = self.jobs.get(&id).and_then(|job| job.newest().map(|(n, _)| n)).unwrap_or(0);
        if definition.version <= before {
            let why = format!("job {id} is received in version {} after {before}", definition.version);
            at.breaks(Invariant::VersionsRise, why);
        }
        // One whose timer was suspended goes on where it stood, so that nothing due is left out.
        let old = self.jobs.get(&id).filter(|job| job.enabled);
        let kept = old.filter(|job| job.newest().is_some_and(|(_, old)| old.fires_like(&version)));
        let kept = kept.and_then(|job| job.next);
        self.job_known(at, definition, enabled, (kept, next));
    }

    /// The shard runs a job by this definition. `kept` is the fire that was to come before.
    pub(super) fn job_known(
        &mut self,
        at: &At<'_>,
        definition: &JobDefinition,
        enabled: bool,
        (kept, next): (Option<Fire>, Option<Fire>),
    ) {
        let id = definition.id;
        let version = Version::of(definition);
        self.relate(id, &version);
        self.first_fire(at, (id, &version), enabled, (kept, next));
        let skips_off = self.jobs.get(&id).map(|job| job.skips_when_off(id)).unwrap_or_default();
        let job = self.jobs.entry(id).or_insert_with(|| Job::new(definition, enabled));
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
        if let Some(version) = job.newest().map(|(_, version)| Arc::clone(version)) {
            self.first_fire(at, (id, &version), enabled, (kept, next));
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.skips_off = job.skips_when_off(id);
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
            job.skips_off = job.skips_when_off(id);
            (job.enabled, job.next, job.removed) = (false, None, true);
        }
        self.fire_settled(id);
        self.unrelate(id);
    }

    pub(super) fn job_submitted(&mut self, definition: &JobDefinition) {
        self.jobs.insert(definition.id, Job::new(definition, true));
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
        let newest = self.jobs.get(&id).and_then(|job| job.newest());
        let parents = newest.map(|(_, version)| version.parents.clone()).unwrap_or_default();
        for parent in parents {
            if let Some(children) = self.children.get_mut(&parent) {
                children.remove(&id);
            }
        }
    }
}
