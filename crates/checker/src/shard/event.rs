//! Where each event goes: to the part of the shard that keeps what it says, and checks it. An event that no rule is about
//! is named nowhere.

use tidemill_model::{
    AlarmEvent, AlarmKind, AttemptEvent, BatchEvent, CatalogueEvent, Event, JobEvent, PartitionEvent,
    Recorded, ReplicationEvent, RerunEvent, ScheduleEvent, ShardId, TransferEvent,
};

use super::Shard;
use crate::At;

impl Shard {
    /// Applies one event and checks the rules that concern it.
    pub(crate) fn event(&mut self, at: &At<'_>, recorded: &Recorded) {
        let event = &recorded.event;
        if self.id == ShardId::CATALOGUE {
            self.applies.event(at, event);
            self.bulks.event(at, event);
            self.credentials.event(at, event);
            self.dependence.event(at, event);
            self.directory.event(at, event);
            self.levels.event(at, event);
            self.removals.event(at, event);
            self.reruns.event(at, event);
        }
        if !matches!(event, Event::Alarm(_)) {
            self.alarm_is_not_owed(at);
        }
        if !matches!(event, Event::Alarm(_) | Event::Partition(PartitionEvent::TimerSuspended { .. })) {
            self.failing_is_not_owed(at);
        }
        self.vouched_end_follows(at, event);
        match event {
            Event::Alarm(of) => self.alarm_event(at, of),
            Event::Catalogue(of) => self.catalogue_event(at, of),
            Event::Job(of) => self.job_event(at, of),
            Event::Replication(of) => self.replication_event(at, of),
            Event::Transfer(of) => self.transfer_event(at, of),
            Event::Rerun(RerunEvent::RunSkipped { job, reason, .. }) => self.run_left_out(at, *job, *reason),
            Event::Schedule(of) => self.schedule_event(at, of),
            Event::Partition(PartitionEvent::TimerSuspended { entity, .. }) => {
                self.failing_suspended(entity);
                self.suspend(entity);
            }
            Event::Batch(of @ BatchEvent::Generated { batch, .. }) => self.generated(at, *batch, of),
            Event::Batch(_) | Event::Attempt(_) => self.batch_event(at, event),
            Event::Observation(of) => self.external_dependency_event(at, of),
            Event::FinalCommand(of) => self.final_event(at, of),
            Event::Worker(of) => self.worker_event(at, of),
            Event::Permit(of) => self.pools.permit_event(at, of),
            Event::Task(of) => self.pull_event(at, of),
            Event::Rerun(_) | Event::Partition(_) => {}
            Event::Directory(_)
            | Event::Credential(_)
            | Event::Access(_)
            | Event::Deletion(_)
            | Event::Apply(_)
            | Event::Bulk(_)
            | Event::Level(_)
            | Event::Subscription(_) => {}
        }
        if !matches!(event, Event::Attempt(AttemptEvent::EndVouched { .. })) {
            self.vouched = None;
        }
    }

    fn alarm_event(&mut self, at: &At<'_>, AlarmEvent::Raised { kind, batch, job, worker, .. }: &AlarmEvent) {
        match kind {
            AlarmKind::GenerationFailed | AlarmKind::GenerationsFailing => {
                self.failing_told(at, *kind, *job);
            }
            AlarmKind::DependencyTimeout
            | AlarmKind::OutputTimeout
            | AlarmKind::NotSuccessfulBy
            | AlarmKind::FinalCommandFailed
            | AlarmKind::OverLimit => self.alarm_raised(at, *kind, *batch),
            AlarmKind::BigTask => self.told_of_duration(at, *batch),
            AlarmKind::WorkerUnready => self.told_of_unready(at, worker.as_ref()),
            AlarmKind::LeaseHalfOver => self.warned_of_lease(at, worker.as_ref()),
            AlarmKind::StraysFound => self.told_of_strays(at, worker.as_ref()),
            _ => {}
        }
    }

    fn catalogue_event(&mut self, at: &At<'_>, event: &CatalogueEvent) {
        match event {
            CatalogueEvent::CalendarDefined { calendar } => self.calendar_defined(at, calendar),
            CatalogueEvent::PoolDefined { pool } => self.pools.define(pool),
            CatalogueEvent::PoolDeleted { name } => self.pools.forget(name),
            _ => {}
        }
    }

    fn job_event(&mut self, at: &At<'_>, event: &JobEvent) {
        match event {
            JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. } => {
                self.versions_rise(at, definition.id, definition.version);
            }
            JobEvent::Deleted { job } => {
                self.versions.remove(job);
            }
            JobEvent::Submitted { definition } => self.job_submitted(definition),
            _ => {}
        }
    }

    fn replication_event(&mut self, at: &At<'_>, event: &ReplicationEvent) {
        match event {
            ReplicationEvent::ParentsReplicated { .. }
            | ReplicationEvent::ParentStatusUpdated { .. }
            | ReplicationEvent::ParentGenerationsReceived { .. } => self.heard(at.offset, event),
            ReplicationEvent::GroupReplicated { settings, .. } => self.settings = Some(settings.clone()),
            ReplicationEvent::JobReplicated { definition, enabled, next } => {
                self.job_replicated(at, definition, *enabled, *next);
            }
            ReplicationEvent::ParentDeletionReplicated { parent, .. } => {
                self.deleted_parents.insert(*parent);
            }
            ReplicationEvent::JobSwitchReplicated { job, enabled, next } => {
                self.job_switch_replicated(at, *job, *enabled, *next)
            }
            ReplicationEvent::FreezeReplicated { scope, freeze } => {
                self.freezes.received(at, *scope, freeze.as_ref());
            }
            ReplicationEvent::JobDropped { job, .. } => {
                self.late.retain(|_, late| late.job != *job);
                self.job_dropped(*job);
            }
            ReplicationEvent::CalendarReplicated { calendar } => self.calendar_replicated(at, calendar),
            ReplicationEvent::CalendarDropped { name } => self.calendar_dropped(at, name),
            ReplicationEvent::PoolReplicated { pool } => self.pools.define(pool),
            ReplicationEvent::PoolDropped { name } => self.pools.forget(name),
            ReplicationEvent::UsersReplicated { users } => self.pulls.users_replicated(at, users),
            _ => {}
        }
    }

    fn transfer_event(&mut self, at: &At<'_>, event: &TransferEvent) {
        match event {
            TransferEvent::JobDetached { job, moved } => self.job_detached(at, *job, moved),
            TransferEvent::JobAttached { definition, enabled, next, moved } => {
                self.job_attached(at, (definition, moved), *enabled, *next);
            }
            TransferEvent::UserAttached { user, history, tasks } => {
                self.pulls.user_attached(at, user, (history, tasks));
            }
            TransferEvent::UserDetached { user, history, tasks } => {
                self.pulls.user_detached(at, user, (history, tasks));
            }
            TransferEvent::UserDetachRejected { user, .. } => self.pulls.user_detach_rejected(at, user),
            _ => {}
        }
    }

    fn schedule_event(&mut self, at: &At<'_>, event: &ScheduleEvent) {
        match event {
            ScheduleEvent::Skipped { job, from, to, count, reason, next } => {
                self.schedule_skipped(at, *job, (*from, *to, *count), (*reason, *next));
            }
            ScheduleEvent::Rescheduled { job, next } => self.schedule_rescheduled(at, *job, *next),
            ScheduleEvent::GenerationFailed { job, logical_time, failures, retry_at, .. } => {
                self.generation_failed(at, (*job, *logical_time), *failures, *retry_at);
            }
        }
    }
}
