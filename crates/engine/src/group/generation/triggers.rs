//! Dependency-triggered children of a generated batch, one after the other.

use crate::group::GroupShard;
use tidemill_model::{JobId, Timestamp};

impl GroupShard {
    /// After `child` was generated for `time`: the triggers of its parents for that time go on behind it.
    pub(in crate::group) fn advance_triggers(&mut self, parents: &[JobId], child: JobId, time: Timestamp) {
        if let Some(front) = self.triggers.front_mut()
            && front.logical_time == time
            && parents.contains(&front.parent)
        {
            front.after = Some(child);
        }
        self.drop_spent_trigger();
    }

    pub(in crate::group) fn drop_spent_trigger(&mut self) {
        while let Some(front) = self.triggers.front()
            && self.next_child(front).is_none()
        {
            self.triggers.pop_front();
        }
    }

    pub(in crate::group) fn prune_triggers(&mut self) {
        let triggers = std::mem::take(&mut self.triggers);
        self.triggers = triggers.into_iter().filter(|trigger| self.next_child(trigger).is_some()).collect();
    }
}
