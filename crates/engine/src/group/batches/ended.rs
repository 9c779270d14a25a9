//! What the end of a batch does to the state.

use crate::group::batches::batch::Phase;
use crate::group::{GroupShard, Timer};
use tidemill_model::{BatchId, BatchResult, JobId, RunOutcome, ShardId, ShardMessage, Timestamp};

impl GroupShard {
    pub(in crate::group) fn batch_finished(&mut self, now: Timestamp, id: BatchId, end: (BatchResult, bool)) {
        let (result, _) = end;
        self.batches.cancelling.remove(&id);
        self.batches.marks.remove(&id);
        self.dependencies.forget(id);
        self.forget_early(id);
        let Some(batch) = self.batches.get(&id) else { return };
        if let Some((token, _)) = batch.holder() {
            self.release(token);
        }
        self.unwatch(id, result);
        self.settle_gate(id);
        let Some(batch) = self.batches.remove(id) else { return };
        match batch.phase {
            Phase::Ready { key } => self.unqueue(&batch.definition, key),
            Phase::Pausing { until, .. } => {
                self.timers.cancel(until, Timer::Retry(id));
            }
            Phase::Waiting | Phase::Assigned { .. } | Phase::Granted(_) => {}
        }
        self.external.leave_external_dependencies(id, &batch);
        for (parent, time) in self.dependencies.wait_no_more(id, &batch) {
            self.newest_changed(parent, time);
        }
        self.leave_counted(id, &batch);
        self.say_of(batch.dependencies.iter().map(|waits_for| &waits_for.declared));
        self.final_called(id, &batch, end, now);
        self.batches.note_ended(id, result);
        if let Some(place) = self.batches.reruns.remove(&id) {
            let end = RunOutcome::Finished { batch: id, result };
            self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportRunFinished { place, end });
        }
        let Some(job) = self.jobs.get_mut(&batch.definition.id) else { return };
        if let Some(newest) = job.history.get_mut(batch.logical_time)
            && newest.batch == id
        {
            newest.result = Some(result);
        }
        if job.submitted {
            self.jobs.note_submission_ended(batch.definition.id);
        }
        let id = batch.definition.id;
        self.newest_changed(id, batch.logical_time);
        let counted: Vec<JobId> = batch.counted.iter().flat_map(|counted| counted.parents()).collect();
        let listed = batch.dependencies.iter().map(|d| d.declared.parent);
        for parent in [id].into_iter().chain(listed).chain(counted) {
            if self.jobs.get(&parent).is_some_and(|job| job.removed) {
                self.forget_removed(parent);
            }
            self.forget_deleted_parent(parent);
        }
        self.forget_submissions(now);
    }
}
