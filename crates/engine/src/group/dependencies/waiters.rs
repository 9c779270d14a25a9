//! Who waits for which logical time of a parent in this group.

use crate::group::GroupShard;
use crate::group::dependencies::counted::COUNTED;
use tidemill_model::{BatchId, JobId, Timestamp};

impl GroupShard {
    /// Whether a batch waits for one of the job, here or in another group, or a job of another group names it.
    pub(crate) fn is_waited_for(&self, id: JobId) -> bool {
        self.waits_for_any_of(id) || self.first_waiters.contains_key(&id) || self.followers.concern(id)
    }

    /// Whether a batch of this shard waits for a time of the job.
    pub(crate) fn waits_for_any_of(&self, id: JobId) -> bool {
        let mut listed = self.waiters.range((id, Timestamp::MIN)..=(id, Timestamp::MAX));
        listed.next().is_some() || self.is_counted(id)
    }

    pub(in crate::group) fn dependency_changed(
        &mut self,
        now: Timestamp,
        id: BatchId,
        parent: JobId,
        time: Timestamp,
        met: bool,
    ) {
        let mut told = None;
        if let Some(batch) = self.batches.get_mut(&id) {
            for (index, dependency) in batch.dependencies.iter_mut().enumerate() {
                if dependency.declared.parent != parent {
                    continue;
                }
                if let Some(position) = dependency.position(time) {
                    dependency.met[position] = met;
                    told = Some((id, index as u16));
                }
            }
            batch.note_withdrawn(now, (parent, time), met);
        }
        if self.counted_changed(id, parent, time, met) {
            told = Some((id, COUNTED));
        }
        if met {
            self.make_ready(now, id);
        } else {
            self.make_unready(now, id);
        }
        self.reconsider_rule(id);
        let may_block = !met && self.may_block(parent, time);
        self.look_for_block_by(id, may_block);
        let key = (parent, time);
        if let Some(last) = self.changed.get_mut(&key) {
            *last = told;
            if self.next_untold(parent, time, told).is_none() {
                self.changed.remove(&key);
            }
        }
    }

    /// The newest run of (job, time) is another one, or ended: whoever waits for it must be told.
    pub(crate) fn newest_changed(&mut self, job: JobId, time: Timestamp) {
        self.note_lost(job, time);
        self.tell_watchers(job, time);
        if self.next_untold(job, time, None).is_some() {
            self.changed.insert((job, time), None);
        } else {
            self.changed.remove(&(job, time));
        }
        self.reconsider_waiters(job, time);
    }
}
