//! JOB-9: what is unfinished of a job is told to the catalogue before it is deleted, or ended after it was.

use tidemill_model::{Actor, BatchId, DeletionEvent, Event, JobId, ShardId, ShardMessage, UnfinishedJob};

use crate::group::GroupShard;

impl GroupShard {
    pub(in crate::group) fn apply_deletion(&mut self, event: &DeletionEvent) {
        match event {
            DeletionEvent::UnfinishedReported { question, jobs } => {
                let message = ShardMessage::ReportUnfinished { question: *question, jobs: jobs.clone() };
                self.mailbox.send(ShardId::CATALOGUE, message);
            }
            // What the catalogue decides.
            DeletionEvent::UnfinishedQueried { .. }
            | DeletionEvent::UnfinishedReceived { .. }
            | DeletionEvent::Decided { .. } => {}
        }
    }

    /// The catalogue asks which of the jobs have unfinished batches.
    pub(crate) fn report_unfinished(&self, question: u64, jobs: &[JobId]) -> Event {
        Event::Deletion(DeletionEvent::UnfinishedReported { question, jobs: self.unfinished_of(jobs) })
    }

    /// Those of the jobs that have unfinished batches.
    pub(crate) fn unfinished_of(&self, jobs: &[JobId]) -> Vec<UnfinishedJob> {
        let unfinished = |id: &JobId| {
            let job = self.jobs.get(id)?;
            let newest = job.unfinished().last().map(|(_, newest)| newest.batch)?;
            let batches = u32::try_from(job.unfinished().count()).unwrap_or(u32::MAX);
            Some(UnfinishedJob { job: *id, batches, newest })
        };
        jobs.iter().filter_map(unfinished).collect()
    }

    /// What is unfinished of the job is to be ended, one batch after another.
    pub(crate) fn cancellation_replicated(&mut self, id: JobId, by: &Actor) {
        let Some(job) = self.jobs.get(&id) else { return };
        let batches: Vec<BatchId> = job.unfinished().map(|(_, newest)| newest.batch).collect();
        for batch in batches {
            let known = self.batches.get(&batch);
            let is_left = known.is_some_and(|known| known.grant().is_none_or(|grant| grant.kill.is_none()));
            if is_left {
                self.batches.cancelling.insert(batch, by.clone());
            }
        }
    }

    /// The next of them.
    pub(crate) fn cancel(&self, batch: BatchId) -> Vec<Event> {
        let Some(by) = self.batches.cancelling.get(&batch) else { return Vec::new() };
        self.killed(batch, by, "its job was deleted")
    }
}
