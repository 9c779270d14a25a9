//! What comes from other shards, and what goes to them: copies of facts of the catalogue and of other shards.

mod deliver;

use tidemill_model::{ReplicationEvent, Timestamp};

use crate::group::{Group, GroupShard};

impl GroupShard {
    pub(in crate::group) fn apply_replication(&mut self, now: Timestamp, event: &ReplicationEvent) {
        match event {
            ReplicationEvent::GroupReplicated { group, name, worker_key, settings } => {
                self.group = Some(Group {
                    id: *group,
                    name: name.clone(),
                    worker_key: worker_key.clone(),
                    settings: settings.clone(),
                });
                self.set_purge_timer(now);
            }
            ReplicationEvent::JobReplicated { definition, enabled, next } => {
                let before = self.jobs.skips_before(definition.id);
                let known = self.jobs.get(&definition.id).filter(|job| job.enabled == *enabled);
                let same = known.is_some_and(|job| {
                    job.definition.parents == definition.parents
                        && job.definition.spec.schedule == definition.spec.schedule
                });
                self.job_replicated(now, definition, *enabled, *next);
                match before {
                    Some(_) => self.skips_changed(definition.id, before),
                    None if same => {}
                    // It may have other parents now.
                    None => self.skips_moved(definition.id, Timestamp::MIN, Timestamp::MAX),
                }
            }
            ReplicationEvent::JobSwitchReplicated { job, enabled, next } => {
                self.job_switched(now, *job, *enabled, *next);
            }
            ReplicationEvent::JobDropped { job, orphaned_in } => {
                let before = self.jobs.skips_before(*job);
                if let Some(known) = self.jobs.get_mut(job) {
                    known.orphaned_in = orphaned_in.iter().copied().collect();
                    known.is_orphaning = !orphaned_in.is_empty();
                }
                self.job_dropped(now, *job);
                if self.jobs.contains(*job) {
                    self.skips_changed(*job, before);
                    if !orphaned_in.is_empty() {
                        self.skips_moved(*job, Timestamp::MIN, Timestamp::MAX);
                    }
                }
            }
            ReplicationEvent::ParentDeletionReplicated { parent, name, deleted_at, coming, .. } => {
                self.parent_deleted(*parent, name, *deleted_at, *coming);
            }
            ReplicationEvent::ParentReleased { parent } => self.parent_released(*parent),
            ReplicationEvent::CancellationReplicated { job, by } => self.cancellation_replicated(*job, by),
            // Parents in other groups.
            ReplicationEvent::ParentsReplicated { parents } => self.parents_replicated(parents),
            ReplicationEvent::ParentStatusUpdated { parent, standings } => {
                self.parent_status_updated(*parent, standings)
            }
            ReplicationEvent::ParentGenerationsReceived { parent, times, .. } => {
                self.parent_generations_received(*parent, times)
            }
            ReplicationEvent::ParentTimesReceived { parent, times } => {
                self.dependencies.parent_times_received(*parent, times)
            }
            // Pools.
            ReplicationEvent::PoolReplicated { pool } => self.placement.pools_mut().received(pool),
            ReplicationEvent::PoolDropped { name } => self.placement.pools_mut().forgotten(name),
            ReplicationEvent::CalendarReplicated { calendar } => self.calendar_replicated(calendar),
            ReplicationEvent::CalendarDropped { name } => self.jobs.calendar_dropped(name),
            ReplicationEvent::FreezeReplicated { scope, freeze } => {
                self.freeze_replicated(now, *scope, freeze.as_ref())
            }
            ReplicationEvent::TemplateReplicated { template } => self.template_replicated(now, template),
            ReplicationEvent::TemplateDropped { name } => self.template_dropped(now, name),
            // It is the partition's.
            ReplicationEvent::LevelReplicated { .. } => {}
            ReplicationEvent::UsersReplicated { users } => self.users_replicated(now, users),
        }
    }
}
