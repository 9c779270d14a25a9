//! Where each event goes: to the part of the shard that keeps what it says, and checks it.

use tidemill_model::{
    AlarmEvent, AlarmKind, BatchEvent, CatalogueEvent, Event, JobEvent, PartitionEvent, Recorded,
    ReplicationEvent, RerunEvent, ScheduleEvent, ShardId, TransferEvent,
};

use super::Shard;
use crate::at::At;
use crate::findings::Findings;

impl Shard {
    /// Applies one event and checks the rules that concern it.
    pub(crate) fn event(&mut self, at: &At<'_>, recorded: &Recorded, found: &mut Findings) {
        let event = &recorded.event;
        if self.id == ShardId::CATALOGUE {
            self.applies.event(at, event, found);
            self.bulks.event(at, event, found);
            self.removals.event(at, event, found);
            self.reruns.event(at, event, found);
        }
        if !matches!(event, Event::Alarm(_)) {
            self.alarm_is_not_owed(at, found);
        }
        if !matches!(event, Event::Alarm(_) | Event::Partition(PartitionEvent::TimerSuspended { .. })) {
            self.failing_is_not_owed(at, found);
        }
        match event {
            Event::Alarm(of) => self.alarm_event(at, of, found),
            Event::Catalogue(of) => self.catalogue_event(at, (event, of), found),
            Event::Job(of) => self.job_event(at, of, found),
            Event::Replication(of) => self.replication_event(at, (event, of), found),
            Event::Transfer(of) => self.transfer_event(at, (event, of), found),
            Event::Rerun(of) => self.rerun_event(at, of, found),
            Event::Schedule(of) => self.schedule_event(at, of, found),
            Event::Partition(of) => self.partition_event(of),
            Event::Batch(of @ BatchEvent::Generated { batch, .. }) => self.generated(at, *batch, of, found),
            Event::Batch(_) | Event::Attempt(_) => self.batch_event(at, event, found),
            Event::Observation(of) => self.external_dependency_event(at, of, found),
            Event::FinalCommand(of) => self.final_event(at, of, found),
            Event::Worker(of) => self.worker_event(at, of, found),
            Event::Permit(_) => self.pool_event(at, event, found),
            Event::Task(_) => self.pull_event(at, event, found),
            Event::Deletion(_) | Event::Apply(_) | Event::Bulk(_) | Event::Subscription(_) => {}
        }
    }

    fn alarm_event(
        &mut self,
        at: &At<'_>,
        AlarmEvent::Raised { kind, batch, job, worker, .. }: &AlarmEvent,
        found: &mut Findings,
    ) {
        match kind {
            AlarmKind::GenerationFailed | AlarmKind::GenerationsFailing => {
                self.failing_told(at, *kind, *job, found);
            }
            AlarmKind::DependencyTimeout
            | AlarmKind::OutputTimeout
            | AlarmKind::NotSuccessfulBy
            | AlarmKind::FinalCommandFailed => self.alarm_raised(at, *kind, *batch, found),
            AlarmKind::BigTask => self.told_of_duration(at, *batch, found),
            AlarmKind::WorkerUnready => self.told_of_unready(at, worker.as_ref(), found),
            AlarmKind::ProbesLate | AlarmKind::QualityRefused | AlarmKind::QualityUnanswered => {}
            AlarmKind::ColdStartSkipped => {}
        }
    }

    fn catalogue_event(&mut self, at: &At<'_>, (event, of): (&Event, &CatalogueEvent), found: &mut Findings) {
        match of {
            CatalogueEvent::CalendarDefined { calendar } => self.calendar_defined(at, calendar, found),
            CatalogueEvent::PoolDefined { .. } | CatalogueEvent::PoolDeleted { .. } => {
                self.pool_event(at, event, found);
            }
            CatalogueEvent::GroupDefined { .. }
            | CatalogueEvent::KeyDefined { .. }
            | CatalogueEvent::KeyRevoked { .. }
            | CatalogueEvent::FreezeSet { .. }
            | CatalogueEvent::FreezeLifted { .. }
            | CatalogueEvent::CalendarDeleted { .. }
            | CatalogueEvent::TemplateDefined { .. }
            | CatalogueEvent::TemplateDeleted { .. }
            | CatalogueEvent::UsersAssigned { .. }
            | CatalogueEvent::UserMoveRequested { .. }
            | CatalogueEvent::UserMoved { .. }
            | CatalogueEvent::UserMoveRejected { .. } => {}
        }
    }

    fn job_event(&mut self, at: &At<'_>, event: &JobEvent, found: &mut Findings) {
        match event {
            JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. } => {
                self.versions_rise(at, definition.id, definition.version, found);
            }
            JobEvent::Deleted { job } => {
                self.versions.remove(job);
            }
            JobEvent::Submitted { definition } => self.job_submitted(definition),
            JobEvent::Enabled { .. }
            | JobEvent::Disabled { .. }
            | JobEvent::MoveRequested { .. }
            | JobEvent::MoveRejected { .. }
            | JobEvent::ParentDeleted { .. }
            | JobEvent::Cancelled { .. } => {}
        }
    }

    fn replication_event(
        &mut self,
        at: &At<'_>,
        (event, of): (&Event, &ReplicationEvent),
        found: &mut Findings,
    ) {
        match of {
            ReplicationEvent::ParentsReplicated { .. }
            | ReplicationEvent::ParentStatusUpdated { .. }
            | ReplicationEvent::ParentGenerationsReceived { .. } => self.heard(at.offset, event),
            ReplicationEvent::GroupReplicated { settings, .. } => self.settings = Some(settings.clone()),
            ReplicationEvent::JobReplicated { definition, enabled, next } => {
                self.job_replicated(at, definition, *enabled, *next, found);
            }
            ReplicationEvent::ParentDeletionReplicated { parent, .. } => {
                self.deleted_parents.insert(*parent);
            }
            ReplicationEvent::JobSwitchReplicated { job, enabled, next } => {
                self.job_switch_replicated(at, *job, *enabled, *next, found)
            }
            ReplicationEvent::FreezeReplicated { scope, freeze } => {
                self.freezes.received(at, *scope, freeze.as_ref());
            }
            ReplicationEvent::JobDropped { job, .. } => {
                self.late.retain(|_, late| late.job != *job);
                self.job_dropped(*job);
            }
            ReplicationEvent::CalendarReplicated { calendar } => {
                self.calendar_replicated(at, calendar, found)
            }
            ReplicationEvent::CalendarDropped { name } => self.calendar_dropped(at, name, found),
            ReplicationEvent::PoolReplicated { .. } | ReplicationEvent::PoolDropped { .. } => {
                self.pool_event(at, event, found);
            }
            ReplicationEvent::UsersReplicated { .. } => self.pull_event(at, event, found),
            ReplicationEvent::TemplateReplicated { .. }
            | ReplicationEvent::TemplateDropped { .. }
            | ReplicationEvent::CancellationReplicated { .. }
            | ReplicationEvent::ParentTimesReceived { .. } => {}
        }
    }

    fn transfer_event(&mut self, at: &At<'_>, (event, of): (&Event, &TransferEvent), found: &mut Findings) {
        match of {
            TransferEvent::JobDetached { job, moved } => self.job_detached(at, *job, moved, found),
            TransferEvent::JobAttached { definition, enabled, next, moved } => {
                self.job_attached(at, (definition, moved), *enabled, *next, found);
            }
            TransferEvent::UserDetached { .. }
            | TransferEvent::UserDetachRejected { .. }
            | TransferEvent::UserAttached { .. } => self.pull_event(at, event, found),
            TransferEvent::JobDetachRejected { .. } => {}
        }
    }

    fn rerun_event(&mut self, at: &At<'_>, event: &RerunEvent, found: &mut Findings) {
        match event {
            RerunEvent::RunSkipped { job, reason, .. } => self.run_left_out(at, *job, *reason, found),
            RerunEvent::Requested { .. }
            | RerunEvent::RunsQueried { .. }
            | RerunEvent::RunsReceived { .. }
            | RerunEvent::JobsSkipped { .. }
            | RerunEvent::BatchesPlanned { .. }
            | RerunEvent::Planned { .. }
            | RerunEvent::Approved { .. }
            | RerunEvent::RunsRequested { .. }
            | RerunEvent::RunFinished { .. }
            | RerunEvent::RunsBlocked { .. }
            | RerunEvent::Paused { .. }
            | RerunEvent::Resumed { .. }
            | RerunEvent::Cancelled { .. }
            | RerunEvent::Finished { .. }
            | RerunEvent::RunsReported { .. } => {}
        }
    }

    fn schedule_event(&mut self, at: &At<'_>, event: &ScheduleEvent, found: &mut Findings) {
        match event {
            ScheduleEvent::Skipped { job, from, to, count, reason, next } => {
                self.schedule_skipped(at, *job, (*from, *to, *count), (*reason, *next), found);
            }
            ScheduleEvent::Rescheduled { job, next } => self.schedule_rescheduled(at, *job, *next, found),
            ScheduleEvent::GenerationFailed { job, logical_time, failures, retry_at, .. } => {
                self.generation_failed(at, (*job, *logical_time), *failures, *retry_at, found);
            }
        }
    }

    fn partition_event(&mut self, event: &PartitionEvent) {
        match event {
            PartitionEvent::TimerSuspended { entity, .. } => {
                self.failing_suspended(entity);
                self.suspend(entity);
            }
            // What is evicted stays known, time by time.
            PartitionEvent::HistoryEvicted { .. }
            | PartitionEvent::MessageReceived { .. }
            | PartitionEvent::OutboxAcknowledged { .. }
            | PartitionEvent::CommandDeadLettered { .. }
            | PartitionEvent::ClockSet { .. }
            | PartitionEvent::CommandLossAccepted { .. } => {}
        }
    }
}
