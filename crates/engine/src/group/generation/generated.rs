//! What a generated batch does to the state.

use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, WaitsFor};
use crate::group::generation::triggers::Trigger;
use crate::group::jobs::history::Newest;
use std::sync::Arc;
use tidemill_model::{BatchEvent, JobId, Origin, Timestamp};

impl GroupShard {
    pub(in crate::group) fn batch_generated(&mut self, now: Timestamp, event: &BatchEvent) {
        let BatchEvent::Generated {
            batch: id,
            job: job_id,
            logical_time,
            run,
            origin,
            version,
            dependencies,
            counted_parents,
            external_dependencies,
            quality_gate,
            earliest_start,
            parameters,
            next,
            base,
            rerun,
            ..
        } = event
        else {
            return;
        };
        self.batches.note_generated();
        self.forget_late(*job_id, *logical_time);
        self.first_batch(*job_id, *logical_time);
        let Some(job) = self.jobs.get_mut(job_id) else { return };
        let submitted = job.submitted;
        let parameters = (!parameters.is_empty()).then(|| Arc::new(parameters.clone()));
        let fired = job.next.filter(|next| *origin == Origin::Schedule && next.logical_time == *logical_time);
        let fired = fired.map(|fire| fire.at).or(*base);
        let base = fired.unwrap_or(now);
        let definition = Arc::clone(job.definition_of(*version, *logical_time));
        let is_newest = job.history.get(*logical_time).is_none_or(|old| old.run < *run);
        if is_newest {
            let newest = Newest::generated((*id, *run), &definition, parameters.clone());
            job.history.insert(*logical_time, newest);
        }
        let listed = dependencies.iter().map(|dependency| dependency.parent);
        let counted = self.counted_parents(&definition, *logical_time, counted_parents.as_ref(), listed);
        let dependencies_of = dependencies.iter().cloned().map(WaitsFor::new).collect();
        let mut batch = Batch {
            run: *run,
            parameters,
            counted,
            dependencies: dependencies_of,
            ..Batch::new(definition, *logical_time, *origin, now)
        };
        if *origin == Origin::Schedule {
            self.fired(now, *job_id, *logical_time, *next);
        }
        self.dependencies.wait_for_parents(*id, &batch, submitted);
        let parents = batch.definition.parents.iter().map(|parent| parent.job);
        let triggered_by: Vec<JobId> = parents.filter(|_| *origin == Origin::Parent).collect();
        batch.needs = self.external.needs_of(*id, external_dependencies, *quality_gate);
        if batch.counted.is_some() {
            self.dependencies.join_counted(*id, *logical_time);
        }
        self.batches.insert(*id, batch);
        self.say_of(dependencies);
        self.watch(*id, base);
        self.hold_until(*id, *earliest_start, now);
        self.make_ready(now, *id);
        self.reconsider(*id);
        if is_newest {
            self.newest_changed(*job_id, *logical_time);
        }
        self.advance_triggers(&triggered_by, *job_id, *logical_time);
        match rerun {
            // Its plan says what is run after it, here and in other groups.
            Some(place) => self.batches.note_rerun(*id, *place),
            None => self.children_follow(*job_id, *logical_time, fired),
        }
    }

    /// Children of the job that have no schedule of their own get a batch, here and in other groups.
    fn children_follow(&mut self, parent: JobId, logical_time: Timestamp, base: Option<Timestamp>) {
        self.tell_followers(parent, logical_time);
        self.trigger(Trigger { base, parent, logical_time, after: None });
    }

    /// Ad-hoc jobs that waited for any batch of `parent` wait for this one from now on.
    fn first_batch(&mut self, parent: JobId, time: Timestamp) {
        for (id, index) in self.dependencies.first_came(parent, time) {
            let batch = self.batches.get_mut(&id);
            let dependency = batch.and_then(|batch| batch.dependencies.get_mut(usize::from(index)));
            if let Some(dependency) = dependency.filter(|dependency| dependency.is_open()) {
                dependency.wait_for(time);
            }
        }
    }
}
