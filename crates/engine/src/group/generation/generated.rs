//! What a generated batch does to the state, and its dependency-triggered children, one after the other.

use std::ops::Bound;
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{BatchEvent, Event, JobId, Origin, Timestamp};

use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, WaitsFor};
use crate::group::generation::generate::NewBatch;
use crate::group::jobs::history::Newest;

/// A batch was generated, and these of its job's children are still to be.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Trigger {
    /// When the schedule fired that began it; absent: a person or a plan did, or it comes from another group.
    pub(crate) base: Option<Timestamp>,
    pub(crate) parent: JobId,
    pub(crate) logical_time: Timestamp,
    /// The last child that has been dealt with.
    pub(crate) after: Option<JobId>,
}

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
        let definition = Arc::clone(job.definition_of(*version, *logical_time));
        let is_newest = job.history.get(*logical_time).is_none_or(|old| old.run < *run);
        if is_newest {
            let newest = Newest::generated((*id, *run), &definition, parameters.clone());
            job.history.insert(*logical_time, newest);
        }
        let listed = dependencies.iter().map(|dependency| dependency.parent);
        let counted = self.counted_parents(&definition, *logical_time, counted_parents.as_ref(), listed);
        let mut batch = Batch {
            run: *run,
            parameters,
            counted,
            dependencies: dependencies.iter().cloned().map(WaitsFor::new).collect(),
            ..Batch::new(definition, *logical_time, *origin, now)
        };
        if *origin == Origin::Schedule {
            self.fired(now, *job_id, *logical_time, *next);
        }
        self.dependencies.wait_for_parents(*id, &batch, submitted);
        let parents = batch.definition.parents.iter().map(|parent| parent.job);
        let triggered_by: Vec<JobId> = parents.filter(|_| *origin == Origin::Parent).collect();
        batch.needs = self.external.needs_of(*id, external_dependencies, *quality_gate);
        self.batches.insert(*id, batch);
        self.say_of(dependencies);
        self.watch(*id, fired.unwrap_or(now));
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
            // Children of the job that have no schedule of their own get a batch, here and in other groups.
            None => {
                let (parent, logical_time) = (*job_id, *logical_time);
                self.tell_followers(parent, logical_time);
                self.trigger(Trigger { base: fired, parent, logical_time, after: None });
            }
        }
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

    /// Nothing, where no child is to be generated.
    pub(in crate::group) fn trigger(&mut self, trigger: Trigger) {
        if self.next_child(&trigger).is_some() {
            self.generation.triggers.push_back(trigger);
        }
    }

    /// After `child` was generated for `time`: the triggers of its parents for that time go on behind it.
    pub(in crate::group) fn advance_triggers(&mut self, parents: &[JobId], child: JobId, time: Timestamp) {
        if let Some(front) = self.generation.triggers.front_mut()
            && front.logical_time == time
            && parents.contains(&front.parent)
        {
            front.after = Some(child);
        }
        self.drop_spent_trigger();
    }

    pub(in crate::group) fn drop_spent_trigger(&mut self) {
        while let Some(front) = self.generation.triggers.front()
            && self.next_child(front).is_none()
        {
            self.generation.triggers.pop_front();
        }
    }

    pub(in crate::group) fn prune_triggers(&mut self) {
        let mut triggers = std::mem::take(&mut self.generation.triggers);
        triggers.retain(|trigger| self.next_child(trigger).is_some());
        self.generation.triggers = triggers;
    }

    /// Which child a trigger generates next: the first behind `after` that has no batch for the time yet.
    pub(crate) fn next_child(&self, trigger: &Trigger) -> Option<JobId> {
        let children = self.children_of(trigger.parent)?;
        let behind = trigger.after.map_or(Bound::Unbounded, Bound::Excluded);
        children.range((behind, Bound::Unbounded)).copied().find(|child| {
            self.jobs.get(child).is_some_and(|child| {
                child.enabled && child.is_dependency_triggered() && !child.has_batch_for(trigger.logical_time)
            })
        })
    }

    pub(crate) fn triggered(&self, now: Timestamp) -> Option<Vec<Event>> {
        let trigger = self.generation.triggers.front()?;
        let child = self.jobs.get(&self.next_child(trigger)?)?;
        let time = trigger.logical_time;
        let new = NewBatch::of(child, time, child.next_run(time), Origin::Parent);
        let mut events = self.evict_history(child, now);
        events.extend(self.generated(NewBatch { base: trigger.base, ..new }));
        Some(events)
    }
}
