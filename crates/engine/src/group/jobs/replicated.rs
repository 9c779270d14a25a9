//! A definition comes, changes and goes, as the catalogue decided, and its next fire moves.

use crate::group::jobs::job::Job;
use crate::group::{GroupShard, Timer, leave};
use std::sync::Arc;
use tidemill_model::{Fire, JobDefinition, JobId, ScheduleEvent, Timestamp};

impl GroupShard {
    pub(in crate::group) fn apply_schedule(&mut self, now: Timestamp, event: &ScheduleEvent) {
        match event {
            ScheduleEvent::Skipped { job: id, to, next, .. } => {
                let before = self.jobs.skips_before(*id);
                self.set_next(*id, *next);
                if let Some(job) = self.jobs.get_mut(id) {
                    job.catching_up = false;
                    job.pass(*to);
                }
                self.skips_changed(*id, before);
            }
            ScheduleEvent::Rescheduled { job, next } => {
                let before = self.jobs.skips_before(*job);
                self.jobs.calendars.settled(*job);
                self.set_next(*job, *next);
                self.skips_changed(*job, before);
            }
            ScheduleEvent::GenerationFailed { job, failures, retry_at, .. } => {
                self.apply_generation_failed(now, *job, *failures, *retry_at);
            }
        }
    }

    pub(in crate::group) fn job_replicated(
        &mut self,
        now: Timestamp,
        definition: &Arc<JobDefinition>,
        enabled: bool,
        next: Option<Fire>,
    ) {
        self.generation.grids.forget();
        let id = definition.id;
        let mut job = Job::new(Arc::clone(definition), enabled, false);
        let mut before: Vec<JobId> = Vec::new();
        let mut old_definition = None;
        job.schedule = self.jobs.calendars.timetable(definition);
        job.pass(now);
        self.jobs.calendars.settled(id);
        if let Some(old) = self.jobs.remove(id) {
            before.extend(old.parents());
            self.leave_parents(&old);
            old_definition = Some(Arc::clone(&old.definition));
            let old = *old;
            job.skipped_before_off = old.skips_when_off();
            job.former_names = old.former_names;
            job.former_names.note(&old.definition.full_name(), &definition.full_name());
            job.next = old.next;
            job.failed = old.failed;
            if let Some(passed) = old.passed.filter(|_| old.next == next) {
                job.pass(passed);
            }
            job.catching_up = old.catching_up;
            job.children = old.children;
            job.history = old.history;
            job.evicted = old.evicted;
            job.limit = old.limit;
            job.disabled_since = old.disabled_since;
        } else {
            job.children = self.jobs.orphans.remove(&id).unwrap_or_default();
        }
        job.switch(enabled, now);
        let parents: Vec<JobId> = job.parents().collect();
        self.jobs.insert(id, job);
        for parent in parents {
            if let Some(parent) = self.jobs.get_mut(&parent) {
                parent.children.insert(id);
            } else if !self.dependencies.join_foreign(parent, id) {
                self.jobs.orphans.entry(parent).or_default().insert(id);
            }
            self.names_deleted(id, parent);
            before.push(parent);
        }
        for parent in before {
            self.follow_foreign(parent);
        }
        if let Some(old) = old_definition {
            self.adopted(id, &old);
        }
        self.set_next(id, next);
        self.prune_triggers();
        self.demote(id);
        self.promote(id);
    }

    pub(in crate::group) fn job_switched(
        &mut self,
        now: Timestamp,
        id: JobId,
        enabled: bool,
        next: Option<Fire>,
    ) {
        let before = self.jobs.skips_before(id);
        if let Some(known) = self.jobs.get_mut(&id) {
            known.switch(enabled, now);
            if known.next != next {
                known.pass(now);
            }
        }
        self.jobs.calendars.settled(id);
        self.set_next(id, next);
        self.prune_triggers();
        self.demote(id);
        self.promote(id);
        self.skips_changed(id, before);
    }

    pub(crate) fn job_dropped(&mut self, now: Timestamp, id: JobId) {
        // What it skipped until now goes by the fire that was to come.
        if let Some(job) = self.jobs.get_mut(&id) {
            job.switch(false, now);
            job.removed = true;
        }
        self.set_next(id, None);
        self.jobs.calendars.settled(id);
        self.forget_late_of(id);
        let parents: Vec<JobId> = self.jobs.get(&id).into_iter().flat_map(|job| job.parents()).collect();
        self.promote(id);
        self.forget_removed(id);
        for parent in parents {
            self.follow_foreign(parent);
        }
        self.prune_triggers();
    }

    /// A removed job leaves the state when nothing unfinished is of it or waits for it, and no definition names it.
    pub(crate) fn forget_removed(&mut self, id: JobId) {
        let removed = self.jobs.get(&id).is_some_and(|job| job.removed && !self.is_needed(id, job));
        if let Some(job) = removed.then(|| self.jobs.remove(id)).flatten() {
            self.generation.grids.forget();
            self.leave_parents(&job);
            for parent in job.parents() {
                self.follow_foreign(parent);
            }
            if !job.children.is_empty() {
                self.jobs.orphans.insert(id, job.children);
            }
            self.adopted(id, &job.definition);
            // Its last batch may have been killed before its children got theirs.
            self.prune_triggers();
        }
    }

    pub(in crate::group) fn is_needed(&self, id: JobId, job: &Job) -> bool {
        self.is_waited_for(id)
            || job.unfinished().next().is_some()
            || job.removed && (job.is_named || job.is_orphaning)
    }

    fn leave_parents(&mut self, job: &Job) {
        let id = job.definition.id;
        for parent in job.parents() {
            if let Some(parent) = self.jobs.get_mut(&parent) {
                parent.children.remove(&id);
            } else if !self.dependencies.leave_foreign(parent, id) {
                leave(&mut self.jobs.orphans, &parent, &id);
            }
        }
    }

    /// Its schedule made a batch for the time.
    pub(in crate::group) fn fired(&mut self, now: Timestamp, id: JobId, time: Timestamp, next: Option<Fire>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.catching_up = next.is_some_and(|next| next.at <= now);
        job.pass(time);
        self.set_next(id, next);
    }

    pub(crate) fn set_next(&mut self, id: JobId, next: Option<Fire>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.timers.cancel(job.fires_at(), Timer::Fire(id));
        job.failed = None;
        job.next = next;
        if let Some(next) = next {
            self.timers.resume(Timer::Fire(id));
            self.timers.set(next.at, Timer::Fire(id));
        }
    }
}
