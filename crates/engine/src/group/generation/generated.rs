//! What a generated batch does to the state.

use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, Phase, WaitsFor};
use crate::group::external::external_dependencies::Needs;
use crate::group::generation::triggers::Trigger;
use crate::group::jobs::history::Newest;
use std::sync::Arc;
use tidemill_model::{BatchEvent, JobId, Timestamp};

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
        let fired = job
            .next
            .filter(|next| *origin == tidemill_model::Origin::Schedule && next.logical_time == *logical_time);
        let fired = fired.map(|fire| fire.at).or(*base);
        let base = fired.unwrap_or(now);
        let definition = Arc::clone(job.definition_of(*version, *logical_time));
        let newest = Newest {
            run: *run,
            batch: *id,
            result: None,
            parameters: parameters.clone(),
            values: None,
            definition: Arc::clone(&definition),
        };
        let is_newest = job.history.get(*logical_time).is_none_or(|old| old.run < *run);
        if is_newest {
            job.history.insert(*logical_time, newest);
        }
        let listed = dependencies.iter().map(|dependency| dependency.parent);
        let counted = self.counted_parents(&definition, *logical_time, counted_parents.as_ref(), listed);
        let batch = Batch {
            definition,
            logical_time: *logical_time,
            run: *run,
            origin: *origin,
            parameters,
            dependencies: dependencies.iter().cloned().map(WaitsFor::new).collect(),
            counted,
            attempts: 0,
            excluded: Vec::new(),
            generated: now,
            since: now,
            phase: Phase::Waiting,
            deadlines: None,
            needs: None,
        };
        if *origin == tidemill_model::Origin::Schedule
            && let Some(job) = self.jobs.get_mut(job_id)
        {
            job.catching_up = next.is_some_and(|next| next.at <= now);
            job.pass(*logical_time);
            self.set_next(*job_id, *next);
        }
        for (index, dependency) in batch.dependencies.iter().enumerate() {
            for time in &dependency.declared.times {
                let key = (dependency.declared.parent, *time);
                self.dependencies.waiters_mut().join(key, (*id, index as u16));
                if !self.dependencies.foreign().is_empty() {
                    self.dependencies.wait_for_foreign(key.0, key.1);
                }
            }
            if submitted && dependency.is_open() {
                self.dependencies.waiters_mut().join_first(dependency.declared.parent, (*id, index as u16));
            }
        }
        let triggered_by = match origin {
            tidemill_model::Origin::Parent => batch.definition.parents.iter().map(|p| p.job).collect(),
            _ => Vec::new(),
        };
        let mut batch = batch;
        if !external_dependencies.is_empty() || *quality_gate {
            let gate = quality_gate.then(Default::default);
            let external_dependencies = self.external.join_external_dependencies(*id, external_dependencies);
            batch.needs = Some(Box::new(Needs { external_dependencies, gate, ..Needs::default() }));
        }
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
        if let Some(place) = rerun {
            // Its plan says what is run after it, here and in other groups.
            self.batches.note_rerun(*id, *place);
            return;
        }
        self.tell_followers(*job_id, *logical_time);
        let trigger = Trigger { base: fired, parent: *job_id, logical_time: *logical_time, after: None };
        self.trigger(trigger);
    }

    /// Ad-hoc jobs that waited for any batch of `parent` wait for this one from now on.
    fn first_batch(&mut self, parent: JobId, time: Timestamp) {
        for (id, index) in self.dependencies.waiters_mut().take_first(parent) {
            let batch = self.batches.get_mut(&id);
            let dependency = batch.and_then(|batch| batch.dependencies.get_mut(usize::from(index)));
            if let Some(dependency) = dependency.filter(|dependency| dependency.is_open()) {
                dependency.wait_for(time);
                self.dependencies.waiters_mut().join((parent, time), (id, index));
            }
        }
    }
}
