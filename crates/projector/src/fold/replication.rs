//! What shards hold of jobs, groups and users.

use super::job::is_copy;
use super::{Caches, Place};
use tidemill_model::{Fire, JobDefinition, ReplicationEvent, TransferEvent};
use tidemill_store::rows::{ShardJobRow, ShardRow};

impl Caches {
    pub(super) fn need_replication(&mut self, shard: i64, event: &ReplicationEvent) {
        match event {
            ReplicationEvent::JobSwitchReplicated { job, .. } => {
                if is_copy(*job) {
                    self.shard_jobs.need((job.0, shard));
                }
            }
            ReplicationEvent::JobReplicated { definition, .. } => {
                self.shard_jobs.expect_new((definition.id.0, shard));
            }
            ReplicationEvent::JobDropped { job, .. } => {
                self.shard_jobs.expect_new((job.0, shard));
            }
            ReplicationEvent::GroupReplicated { .. } => self.shards.need((shard,)),
            ReplicationEvent::ParentsReplicated { .. }
            | ReplicationEvent::ParentStatusUpdated { .. }
            | ReplicationEvent::ParentGenerationsReceived { .. }
            | ReplicationEvent::ParentTimesReceived { .. }
            | ReplicationEvent::LevelReplicated { .. }
            | ReplicationEvent::FreezeReplicated { .. }
            | ReplicationEvent::ParentDeletionReplicated { .. }
            | ReplicationEvent::ParentReleased { .. }
            | ReplicationEvent::TemplateReplicated { .. }
            | ReplicationEvent::TemplateDropped { .. }
            | ReplicationEvent::UsersReplicated { .. }
            | ReplicationEvent::PoolReplicated { .. }
            | ReplicationEvent::PoolDropped { .. }
            | ReplicationEvent::CalendarReplicated { .. }
            | ReplicationEvent::CalendarDropped { .. }
            | ReplicationEvent::CancellationReplicated { .. } => {}
        }
    }

    pub(super) fn apply_replication(&mut self, at: Place, event: &ReplicationEvent) {
        match event {
            ReplicationEvent::JobReplicated { definition, enabled, next } => {
                self.hold(at, definition, *enabled, *next);
            }
            ReplicationEvent::JobSwitchReplicated { job, enabled, next } => {
                self.shard_jobs.change((job.0, at.shard), |row| row.enabled = *enabled);
                self.fires_next(at, job.0, *next);
            }
            ReplicationEvent::JobDropped { job, .. } => {
                self.shard_jobs.remove((job.0, at.shard));
            }
            ReplicationEvent::GroupReplicated { group, name, .. } => {
                let pull_horizon = self.shards.get(&(at.shard,)).and_then(|row| row.pull_horizon);
                self.shards.put(ShardRow {
                    id: at.shard,
                    group_id: i64::from(group.0),
                    group_name: name.as_str().into(),
                    received_at: at.now,
                    pull_horizon,
                });
            }
            // No table shows these.
            ReplicationEvent::ParentDeletionReplicated { .. }
            | ReplicationEvent::ParentReleased { .. }
            | ReplicationEvent::CancellationReplicated { .. }
            | ReplicationEvent::TemplateReplicated { .. }
            | ReplicationEvent::TemplateDropped { .. }
            | ReplicationEvent::UsersReplicated { .. }
            | ReplicationEvent::PoolReplicated { .. }
            | ReplicationEvent::PoolDropped { .. }
            | ReplicationEvent::CalendarReplicated { .. }
            | ReplicationEvent::CalendarDropped { .. }
            | ReplicationEvent::FreezeReplicated { .. }
            | ReplicationEvent::ParentsReplicated { .. }
            | ReplicationEvent::ParentStatusUpdated { .. }
            | ReplicationEvent::ParentGenerationsReceived { .. }
            | ReplicationEvent::LevelReplicated { .. }
            | ReplicationEvent::ParentTimesReceived { .. } => {}
        }
    }

    fn hold(&mut self, at: Place, definition: &JobDefinition, enabled: bool, next: Option<Fire>) {
        self.shard_jobs.put(ShardJobRow {
            job_id: definition.id.0,
            shard_no: at.shard,
            version: i64::from(definition.version),
            group_name: definition.spec.group.as_str().into(),
            name: definition.spec.name.as_str().into(),
            job_type: definition.spec.job_type.as_str().into(),
            enabled,
            next_fire_at: next.map(|next| next.at.as_millisecond()),
            next_logical_time: next.map(|next| next.logical_time.as_millisecond()),
        });
    }

    pub(super) fn need_transfer(&mut self, shard: i64, event: &TransferEvent) {
        match event {
            TransferEvent::JobAttached { definition, .. } => {
                self.shard_jobs.expect_new((definition.id.0, shard));
            }
            TransferEvent::JobDetached { job, .. } => {
                self.shard_jobs.expect_new((job.0, shard));
            }
            TransferEvent::UserDetached { tasks, .. } => {
                for moved in tasks {
                    self.pull_tasks.need((moved.task.0, shard));
                }
            }
            TransferEvent::UserAttached { .. } => self.shards.need((shard,)),
            TransferEvent::JobDetachRejected { .. } | TransferEvent::UserDetachRejected { .. } => {}
        }
    }

    pub(super) fn apply_transfer(&mut self, at: Place, event: &TransferEvent) {
        match event {
            TransferEvent::JobAttached { definition, enabled, next, .. } => {
                self.hold(at, definition, *enabled, *next);
            }
            TransferEvent::JobDetached { job, .. } => {
                self.shard_jobs.remove((job.0, at.shard));
            }
            TransferEvent::UserDetached { tasks, .. } => {
                tasks.iter().for_each(|moved| self.release(at, moved))
            }
            TransferEvent::UserAttached { tasks, .. } => {
                tasks.iter().for_each(|moved| self.receive(at, moved))
            }
            // No table shows these.
            TransferEvent::JobDetachRejected { .. } | TransferEvent::UserDetachRejected { .. } => {}
        }
    }
}
