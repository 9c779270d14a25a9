//! What a fact does to the state. Total: whatever the journal holds, this folds it.

use tidemill_model::{Event, PartitionEvent, Timestamp};

use super::GroupShard;

impl GroupShard {
    /// Folds one fact, recorded at `now`.
    pub fn apply(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Replication(event) => self.apply_replication(now, event),
            Event::Transfer(event) => self.apply_transfer(now, event),
            Event::Deletion(event) => self.apply_deletion(event),
            Event::Rerun(event) => self.apply_rerun(event),
            Event::Subscription(event) => self.apply_subscription(event),
            Event::Job(event) => self.jobs.apply_job(event),
            Event::Batch(event) => self.apply_batch(now, event),
            Event::Schedule(event) => self.apply_schedule(now, event),
            Event::Task(event) => self.apply_task(now, event),
            Event::Permit(event) => self.apply_permit(now, event),
            Event::Attempt(event) => self.apply_attempt(now, event),
            Event::FinalCommand(event) => self.apply_final_command(event),
            Event::Partition(event) => self.apply_partition(event),
            Event::Worker(event) => self.apply_worker(now, event),
            Event::Observation(event) => self.apply_observation(now, event),
            Event::Alarm(event) => self.apply_alarm(event),
            Event::Catalogue(_)
            | Event::Directory(_)
            | Event::Credential(_)
            | Event::Access(_)
            | Event::Apply(_)
            | Event::Bulk(_)
            | Event::Level(_) => {}
        }
    }

    fn apply_partition(&mut self, event: &PartitionEvent) {
        match event {
            PartitionEvent::HistoryEvicted { job, upto } => self.history_evicted(*job, *upto),
            PartitionEvent::MessageReceived { from, number } => self.mailbox.receive(*from, *number),
            PartitionEvent::OutboxAcknowledged { to, upto } => {
                self.mailbox.acknowledge(*to, *upto);
                self.say(*to);
                self.tell_shard(*to);
            }
            PartitionEvent::TimerSuspended { entity, .. } => {
                self.timers.suspend(entity);
            }
            // What concerns no shard.
            PartitionEvent::CommandDeadLettered { .. }
            | PartitionEvent::ClockSet { .. }
            | PartitionEvent::CommandLossAccepted { .. }
            | PartitionEvent::Restored { .. }
            | PartitionEvent::SnapshotTaken { .. } => {}
        }
    }
}
