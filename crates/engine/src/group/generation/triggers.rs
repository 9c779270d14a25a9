//! Dependency-triggered children of a generated batch, one after the other.

use std::collections::VecDeque;
use std::ops::Bound;
use tidemill_model::{Event, JobId, Origin, Timestamp};

use crate::group::GroupShard;
use crate::group::generation::generate::NewBatch;

/// A batch was generated, and these of its job's children are still to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trigger {
    /// When the schedule fired that began it; absent: a person or a plan did, or it comes from another group.
    pub(crate) base: Option<Timestamp>,
    pub(crate) parent: JobId,
    pub(crate) logical_time: Timestamp,
    /// The last child that has been dealt with.
    pub(crate) after: Option<JobId>,
}

/// In the order in which they came.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Triggers(VecDeque<Trigger>);

impl Triggers {
    pub(crate) fn oldest(&self) -> Option<&Trigger> {
        self.0.front()
    }
}

impl GroupShard {
    /// Nothing, where no child is to be generated.
    pub(in crate::group) fn trigger(&mut self, trigger: Trigger) {
        if self.next_child(&trigger).is_some() {
            self.generation.triggers.0.push_back(trigger);
        }
    }

    /// After `child` was generated for `time`: the triggers of its parents for that time go on behind it.
    pub(in crate::group) fn advance_triggers(&mut self, parents: &[JobId], child: JobId, time: Timestamp) {
        if let Some(front) = self.generation.triggers.0.front_mut()
            && front.logical_time == time
            && parents.contains(&front.parent)
        {
            front.after = Some(child);
        }
        self.drop_spent_trigger();
    }

    pub(in crate::group) fn drop_spent_trigger(&mut self) {
        while let Some(front) = self.generation.triggers.0.front()
            && self.next_child(front).is_none()
        {
            self.generation.triggers.0.pop_front();
        }
    }

    pub(in crate::group) fn prune_triggers(&mut self) {
        let triggers = std::mem::take(&mut self.generation.triggers.0);
        self.generation.triggers.0 =
            triggers.into_iter().filter(|trigger| self.next_child(trigger).is_some()).collect();
    }
}

impl GroupShard {
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

    /// What the oldest trigger asks for.
    pub(crate) fn triggered(&self, now: Timestamp) -> Option<Vec<Event>> {
        let trigger = self.generation.triggers.oldest()?;
        let child = self.jobs.get(&self.next_child(trigger)?)?;
        let time = trigger.logical_time;
        let new = NewBatch::of(child, time, child.next_run(time), Origin::Parent);
        let mut events = self.evict_history(child, now);
        events.extend(self.generated(NewBatch { base: trigger.base, ..new }));
        Some(events)
    }
}
