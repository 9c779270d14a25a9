//! A batch comes to be.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_model::{BatchEvent, BatchId, JobId, Origin, Timestamp};

use super::Shard;
use super::batch::{Batch, Phase, Waits};
use super::job::{Job, Run, Version};
use super::outputs::OwnParameters;
use crate::requests::fingerprint;
use crate::{At, Invariant};

impl Shard {
    pub(super) fn generated(&mut self, at: &At<'_>, batch: BatchId, event: &BatchEvent) {
        let BatchEvent::Generated {
            job,
            logical_time,
            origin,
            quality_gate,
            external_dependencies,
            earliest_start,
            parameters,
            ..
        } = event
        else {
            return;
        };
        let (job, time) = (*job, *logical_time);
        let (of, fired) = self.generated_by_its_rules(at, batch, event);
        self.late.retain(|_, late| (late.job, late.time) != (job, time));
        let waits = self.waits_of(at, (batch, of.as_deref()), event);
        self.run_begins(at, batch, event, fired);
        if job.shard() == self.id {
            for waits in waits.iter().filter(|waits| waits.is_open()) {
                self.first_waiters.entry(waits.dependency.parent).or_default().push(batch);
            }
        }
        let base = fired.unwrap_or(at.now);
        let deadlines = of.as_ref().map(|of| of.deadlines(base)).unwrap_or_default();
        let needs = self.needs_of(at, batch, external_dependencies, *quality_gate);
        let generated = Batch {
            job,
            of,
            time,
            origin: *origin,
            phase: Phase::Waiting,
            attempts: 0,
            interrupted: 0,
            interrupting: None,
            was_interrupted: false,
            waits,
            kill: None,
            rejected: None,
            events: 1,
            deadlines,
            // A clock that is set back later holds nothing back again.
            earliest: earliest_start.filter(|earliest| *earliest > at.now),
            last_worker: None,
            zero: false,
            over: Default::default(),
            external: Default::default(),
            lost_output: Default::default(),
            long_at: None,
            suspended: false,
            blocked: None,
            said: at.offset,
            needs,
            parameters: OwnParameters::of(parameters),
        };
        self.unfinished.entry(job).or_default().insert(batch);
        self.batches.insert(batch, generated);
    }

    /// Whether it may be generated, and so. Gives the version that it is of, and the fire that brought it forth.
    fn generated_by_its_rules(
        &mut self,
        at: &At<'_>,
        batch: BatchId,
        event: &BatchEvent,
    ) -> (Option<Arc<Version>>, Option<Timestamp>) {
        let BatchEvent::Generated {
            job,
            version,
            logical_time,
            run,
            origin,
            calendar,
            next,
            earliest_start,
            parameters,
            concurrent,
            base,
            outputs,
            ..
        } = event
        else {
            return (None, None);
        };
        let (job, time) = (*job, *logical_time);
        self.minted_ids_grow(at, "batch", (batch.0, batch.shard()));
        self.one_generated_per_run(at, job, time, *run);
        self.rerun_as_it_was(at, event);
        self.generated_only_when_enabled(at, job, *origin);
        self.manual_runs_alone(at, job, *concurrent);
        let of = self.generated_from_known_version(at, job, *version, *origin);
        Self::earliest_is_as_declared(at, batch, of.as_deref(), (time, *earliest_start));
        Self::outputs_are_as_declared(at, batch, of.as_deref(), (time, parameters, outputs));
        let fires = self.jobs.get(&job).and_then(|job| job.next);
        let fires = fires.filter(|fire| *origin == Origin::Schedule && fire.logical_time == time);
        let fired = fires.map(|fire| fire.at).or(*base);
        self.base_is_an_ancestors(at, (batch, *origin, *base), of.as_deref(), time);
        if let Some(of) = &of {
            self.calendar_on_record(at, (job, of), *calendar);
        }
        let newest = self.jobs.get(&job).and_then(Job::newest).cloned();
        if let Some(newest) = newest.filter(|_| *origin == Origin::Schedule) {
            self.overlaps(at, (job, &newest));
        }
        match origin {
            Origin::Schedule => self.due_times_generated_or_skipped(at, job, (time, time), *next),
            Origin::Parent | Origin::Manual | Origin::Rerun | Origin::ColdStart | Origin::Submission => {}
        }
        (of, fired)
    }

    /// What it waits for: what it names, and what it only counts.
    fn waits_of(
        &mut self,
        at: &At<'_>,
        (batch, of): (BatchId, Option<&Version>),
        event: &BatchEvent,
    ) -> Vec<Waits> {
        let BatchEvent::Generated { job, logical_time, dependencies, counted_parents, .. } = event else {
            return Vec::new();
        };
        let (job, time) = (*job, *logical_time);
        let mut waits: Vec<Waits> = dependencies.iter().map(Waits::of).collect();
        self.met_at_generation(at, (batch, job, of), &waits);
        if let Some(said) = counted_parents {
            let counted = self.counted(at, (batch, job, of), (time, dependencies, *said));
            waits.extend(counted);
        }
        for dependency in dependencies {
            if self.is_elsewhere(dependency.parent) {
                self.elsewhere.wait(dependency);
            }
        }
        waits
    }

    /// It is the newest run of its logical time, and brings forth what follows its job.
    fn run_begins(&mut self, at: &At<'_>, batch: BatchId, event: &BatchEvent, fired: Option<Timestamp>) {
        let BatchEvent::Generated { job, version, logical_time, run, rerun, parameters, .. } = event else {
            return;
        };
        let (job, time) = (*job, *logical_time);
        let fired = fired.or_else(|| self.runs.get(&(job, time)).and_then(|run| run.fired));
        let newest = Run {
            number: *run,
            batch,
            version: *version,
            parameters: fingerprint(parameters),
            succeeded: false,
            result: None,
            fired,
            said: at.offset,
        };
        match self.runs.insert((job, time), newest) {
            Some(old) => {
                self.older_runs.entry((job, time)).or_default().push((old.batch, old.parameters));
            }
            None if rerun.is_none() => self.trigger_children(job, time),
            None => {}
        }
        self.triggered.remove(&(job, time));
        if let Some(known) = self.jobs.get_mut(&job).filter(|_| job.shard() == self.id) {
            known.once.times.push(time);
            known.once.unfinished += 1;
        }
        self.first_batch(job, time);
    }

    /// `timeouts_marked_once`: they count from the fire of the parent's batch that brought this one forth.
    fn base_is_an_ancestors(
        &self,
        at: &At<'_>,
        (batch, origin, base): (BatchId, Origin, Option<Timestamp>),
        of: Option<&Version>,
        time: Timestamp,
    ) {
        let (Some(base), Some(of)) = (base, of) else { return };
        let mut runs = of.parents.iter().filter_map(|parent| self.runs.get(&(*parent, time)));
        if origin != Origin::Parent || !runs.any(|run| run.fired == Some(base)) {
            let why = format!("batch {batch} counts from {base}, which no parent's batch for {time} does");
            at.breaks(Invariant::TimeoutsMarkedOnce, why);
        }
    }

    /// Ad-hoc jobs that waited for any batch of `parent` wait for this one from now on.
    fn first_batch(&mut self, parent: JobId, time: Timestamp) {
        for id in self.first_waiters.remove(&parent).unwrap_or_default() {
            let waits = self.batches.get_mut(&id).into_iter().flat_map(|batch| &mut batch.waits);
            for open in waits.filter(|waits| waits.dependency.parent == parent && waits.is_open()) {
                open.dependency.times.push(time);
            }
        }
    }

    /// `one_generated_per_run` and `run_numbers_without_gaps`
    fn one_generated_per_run(&self, at: &At<'_>, job: JobId, time: Timestamp, run: u32) {
        match self.runs.get(&(job, time)) {
            Some(last) if run <= last.number => {
                let why = format!(
                    "job {job} gets run {run} for {time}, and had run {} with batch {}",
                    last.number, last.batch
                );
                at.contradicts(Invariant::OneGeneratedPerRun, why, &[last.said]);
            }
            Some(last) if run > last.number + 1 => {
                let why = format!("job {job} gets run {run} for {time} after run {}", last.number);
                at.contradicts(Invariant::RunNumbersWithoutGaps, why, &[last.said]);
            }
            None if run > 1 => {
                let why = format!("job {job} gets run {run} for {time} as its first");
                at.breaks(Invariant::RunNumbersWithoutGaps, why);
            }
            Some(_) | None => {}
        }
    }

    /// `generated_only_when_enabled`
    fn generated_only_when_enabled(&self, at: &At<'_>, id: JobId, origin: Origin) {
        if !origin.waits_while_disabled() {
            return;
        }
        if let Some(job) = self.jobs.get(&id).filter(|job| !job.enabled) {
            let why = format!("job {id} is switched off, and gets a batch by {origin:?}");
            at.contradicts(Invariant::GeneratedOnlyWhenEnabled, why, &[job.next_said]);
        }
    }

    /// `manual_runs_alone`: GEN-5, for those that say whether they may run beside others.
    fn manual_runs_alone(&self, at: &At<'_>, id: JobId, concurrent: Option<bool>) {
        if concurrent != Some(false) {
            return;
        }
        if let Some(other) = self.unfinished.get(&id).and_then(BTreeSet::last) {
            let earlier: Vec<u64> = self.batches.get(other).map(|batch| batch.said).into_iter().collect();
            let why =
                format!("job {id} is run by hand, not beside others, while batch {other} is unfinished");
            at.contradicts(Invariant::ManualRunsAlone, why, &earlier);
        }
    }

    /// `generated_from_known_version`: the newest one, but for a rerun, which may keep its batch's.
    fn generated_from_known_version(
        &self,
        at: &At<'_>,
        id: JobId,
        version: u32,
        origin: Origin,
    ) -> Option<Arc<Version>> {
        let rule = Invariant::GeneratedFromKnownVersion;
        let Some(job) = self.jobs.get(&id) else {
            at.breaks(rule, format!("job {id} gets a batch, and is not known to shard {}", self.id));
            return None;
        };
        let Some(of) = job.versions.get(&version) else {
            at.breaks(rule, format!("job {id} is not known in version {version}"));
            return None;
        };
        let newest = job.newest().map_or(version, |newest| newest.definition.version);
        if version != newest && origin != Origin::Rerun {
            at.breaks(rule, format!("job {id} gets a batch of version {version}, though {newest} is known"));
        }
        Some(Arc::clone(of))
    }

    /// The first batch of a logical time asks for its children's.
    pub(super) fn trigger_children(&mut self, parent: JobId, time: Timestamp) {
        let Some(children) = self.children.get(&parent) else { return };
        for child in children {
            let enabled = self.jobs.get(child).is_some_and(|job| job.enabled);
            if enabled && !self.runs.contains_key(&(*child, time)) {
                self.triggered.insert((*child, time));
            }
        }
    }
}
