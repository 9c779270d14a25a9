//! What the catalogue and other shards say of parents in other groups.

use crate::group::GroupShard;
use crate::group::dependencies::foreign::{ForeignJob, MAX_TIMES};
use crate::group::generation::triggers::Trigger;
use crate::group::jobs::former::FormerNames;
use std::collections::BTreeSet;
use tidemill_model::{ForeignParent, JobId, ShardId, ShardMessage, Standing, Subscription, Timestamp};

impl GroupShard {
    pub(crate) fn parents_replicated(&mut self, parents: &[ForeignParent]) {
        for told in parents {
            self.parent_went(told.job, told.shard);
            let is_known =
                self.dependencies.foreign.get(told.job).is_some() || self.jobs.orphans_of(told.job).is_some();
            if told.moved && !is_known && !self.waits_for_any_of(told.job) {
                continue;
            }
            let spec = told.schedule.as_ref();
            let schedule =
                spec.and_then(|spec| self.jobs.calendars().timetable_of(spec, told.firing.as_ref()));
            if let Some(known) = self.dependencies.foreign.get_mut(told.job) {
                known.former_names.note(&known.name, &told.name);
                (known.name, known.schedule) = (told.name.clone(), schedule);
            } else {
                let new = ForeignJob {
                    name: told.name.clone(),
                    former_names: FormerNames::default(),
                    shard: told.shard,
                    schedule,
                    children: self.jobs.take_orphans(told.job),
                    expected: false,
                    said: Subscription::Nothing,
                    known: BTreeSet::new(),
                };
                self.dependencies.foreign.parents.insert(told.job, new);
                let times: Vec<Timestamp> = self.dependencies.waiters.times_of(told.job).collect();
                for time in times {
                    self.dependencies.wait_for_foreign(told.job, time);
                }
            }
            if let Some(known) = self.dependencies.foreign.get_mut(told.job) {
                known.expected = known.children.is_empty() && !told.moved;
            }
            self.follow_foreign(told.job);
            self.say(told.shard);
        }
    }

    /// JOB-9: its old shard is told that nothing of here asks there any more, its new one what this one wants.
    pub(crate) fn parent_went(&mut self, parent: JobId, shard: ShardId) {
        let Some((old, was_followed, said)) = self.dependencies.foreign.went_to(parent, shard) else {
            return;
        };
        for times in said.chunks(MAX_TIMES) {
            self.mailbox.send(old, ShardMessage::Unwatch { job: parent, times: times.to_vec() });
        }
        if was_followed {
            self.mailbox.send(old, ShardMessage::Subscription { job: parent, what: Subscription::Nothing });
        }
    }

    pub(crate) fn parent_status_updated(&mut self, parent: JobId, standings: &[Standing]) {
        for standing in standings {
            let time = standing.logical_time;
            if let Some(watched) = self.dependencies.foreign.times.get_mut(&(parent, time)) {
                watched.standing = Some(standing.clone());
                self.newest_changed(parent, time);
            }
        }
    }

    pub(crate) fn parent_generations_received(&mut self, parent: JobId, times: &[Timestamp]) {
        self.dependencies.parent_times_received(parent, times);
        for time in times {
            let trigger = Trigger { parent, logical_time: *time, after: None, base: None };
            self.trigger(trigger);
        }
    }
}
