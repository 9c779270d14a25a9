//! When a batch gets into the queue, and out of it: its own conditions, and its job's limit.

use crate::group::GroupShard;
use crate::group::batches::batch::Phase;
use crate::group::placement::queue::ReadyKey;
use std::sync::Arc;
use tidemill_model::{BatchId, JobDefinition, JobId, Timestamp};

impl GroupShard {
    /// Puts a batch whose own conditions are all met into the queue, or parks it behind its job's limit.
    pub(crate) fn make_ready(&mut self, now: Timestamp, id: BatchId) {
        let Some(batch) = self.batches.get(&id) else { return };
        let unmet = batch.unmet() > u32::from(planted!(DependencyForgotten));
        if batch.phase != Phase::Waiting || unmet || !batch.has_its_external_dependencies() {
            return;
        }
        if self.lacks_a_failure(batch) {
            return;
        }
        if batch.gate().is_some_and(|gate| !gate.is_open()) {
            return self.request_quality_check(id);
        }
        if self.holds_back(id, batch) {
            return;
        }
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let key = ReadyKey::new(now, batch.definition.spec.priority, id);
        batch.phase = Phase::Ready { key };
        batch.since = now;
        let waits_while_disabled = batch.origin.waits_while_disabled();
        let definition = Arc::clone(&batch.definition);
        let Some(job) = self.jobs.get_mut(&definition.id) else {
            self.placement.queue.insert(&definition, key);
            return;
        };
        let has_room = match planted!(LimitCheckedBeforeApply) {
            true => job.limit.active < job.definition.spec.max_concurrent,
            false => job.has_room(),
        };
        let is_kept = job.is_off() && waits_while_disabled;
        if has_room && !is_kept && !job.limit.has_parked() {
            job.limit.queued += 1;
            self.placement.queue.insert(&definition, key);
        } else {
            job.limit.park(key, waits_while_disabled);
            self.promote(definition.id);
        }
    }

    pub(crate) fn make_unready(&mut self, now: Timestamp, id: BatchId) {
        self.external.quality_not_due(id);
        if self.batches.get(&id).is_some_and(|batch| !batch.may_run()) {
            self.hold_ready(now, id);
        }
    }

    /// A ready batch waits again.
    pub(in crate::group) fn hold_ready(&mut self, now: Timestamp, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let Phase::Ready { key } = batch.phase else { return };
        batch.phase = Phase::Waiting;
        batch.since = now;
        let definition = Arc::clone(&batch.definition);
        self.unqueue(&definition, key);
    }

    /// Takes a ready batch out of the queue or out of its job's parking.
    pub(crate) fn unqueue(&mut self, definition: &JobDefinition, key: ReadyKey) {
        let was_queued = self.placement.queue.remove(definition, key);
        self.left_queue(definition, key, was_queued);
    }

    pub(in crate::group) fn left_queue(
        &mut self,
        definition: &JobDefinition,
        key: ReadyKey,
        was_queued: bool,
    ) {
        if let Some(job) = self.jobs.get_mut(&definition.id) {
            if was_queued {
                job.limit.queued = job.limit.queued.saturating_sub(1);
            } else {
                job.limit.unpark(key);
            }
        }
        self.promote(definition.id);
    }

    /// A lowered maximum takes the last of the queue out again, and a job switched off all that waits while it is.
    pub(in crate::group) fn demote(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let is_above = job.limit.active + job.limit.queued > job.definition.spec.max_concurrent;
        if job.limit.queued == 0 || !(is_above || job.is_off()) {
            return;
        }
        let of_job = |key: &ReadyKey| self.batches.get(&key.batch).is_some_and(|b| b.definition.id == id);
        let mut queued: Vec<ReadyKey> = self.placement.queue.keys().filter(of_job).collect();
        queued.sort();
        for key in queued.into_iter().rev() {
            let Some(batch) = self.batches.get(&key.batch) else { continue };
            let waits_while_disabled = batch.origin.waits_while_disabled();
            let is_above = job.limit.active + job.limit.queued > job.definition.spec.max_concurrent;
            if is_above || (job.is_off() && waits_while_disabled) {
                self.placement.queue.remove(&batch.definition, key);
                job.limit.queued -= 1;
                job.limit.park(key, waits_while_disabled);
            }
        }
    }

    /// Moves parked batches into the queue while the job's limit has room.
    pub(crate) fn promote(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        while job.has_room() {
            let Some(key) = job.take_parked() else { return };
            let definition = self.batches.get(&key.batch).map(|batch| &batch.definition);
            self.placement.queue.insert(definition.unwrap_or(&job.definition), key);
            job.limit.queued += 1;
        }
    }
}
