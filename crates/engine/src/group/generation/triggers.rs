//! Dependency-triggered children of a generated batch, one after the other.

use std::collections::VecDeque;

use tidemill_model::{JobId, Timestamp};

use crate::group::GroupShard;

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
