//! What the facts about a schedule, and the eviction of old logical times, do to a job.

use crate::group::GroupShard;
use tidemill_model::{Fire, JobId, ScheduleEvent, Timestamp};

impl GroupShard {
    pub(in crate::group) fn apply_schedule(&mut self, now: Timestamp, event: &ScheduleEvent) {
        match event {
            ScheduleEvent::Skipped { job: id, to, next, .. } => {
                let (job, before) = (id, self.jobs.skips_before(*id));
                self.set_next(*job, *next);
                if let Some(job) = self.jobs.get_mut(job) {
                    job.catching_up = false;
                    job.pass(*to);
                }
                self.skips_changed(*id, before);
            }
            ScheduleEvent::Rescheduled { job, next } => {
                let before = self.jobs.skips_before(*job);
                self.apply_fire_moved(*job, *next);
                self.skips_changed(*job, before);
            }
            ScheduleEvent::GenerationFailed { job, failures, retry_at, .. } => {
                self.apply_generation_failed(now, *job, *failures, *retry_at);
            }
        }
    }

    pub(in crate::group) fn history_evicted(&mut self, id: JobId, upto: Timestamp) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        for (time, newest) in job.history.take_upto(upto) {
            job.evicted.add(time, &newest);
        }
        self.drop_spent_trigger();
    }

    /// Its schedule made a batch for the time.
    pub(in crate::group) fn fired(&mut self, now: Timestamp, id: JobId, time: Timestamp, next: Option<Fire>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.catching_up = next.is_some_and(|next| next.at <= now);
        job.pass(time);
        self.set_next(id, next);
    }
}
