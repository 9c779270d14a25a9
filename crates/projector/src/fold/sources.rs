//! Which rows an event changes or reads: what has to be known before it is applied.

use tidemill_model::{
    AttemptEvent, BatchEvent, BulkEvent, CatalogueEvent, Event, FinalCommandEvent, JobEvent, JobId,
    ObservationEvent, ReplicationEvent, ScheduleEvent, ShardId, TransferEvent, WorkerEvent,
};

use super::Caches;

/// Whether a job is defined in the catalogue, so that its shard holds a copy, or submitted to that shard.
pub(super) fn is_copy(job: JobId) -> bool {
    job.shard() == ShardId::CATALOGUE
}

pub(super) fn need(rows: &mut Caches, shard: i64, event: &Event) {
    match event {
        Event::Catalogue(
            CatalogueEvent::FreezeSet { group, .. } | CatalogueEvent::FreezeLifted { group, .. },
        ) => {
            rows.freezes.need((super::catalogue::scope(group.as_ref()),));
        }
        Event::Catalogue(CatalogueEvent::GroupDefined { group, .. }) => {
            rows.worker_groups.need((i64::from(group.0),))
        }
        Event::Job(JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. }) => {
            rows.jobs.need((definition.id.0,))
        }
        Event::Job(JobEvent::Enabled { job } | JobEvent::Disabled { job } | JobEvent::Deleted { job }) => {
            rows.jobs.need((job.0,));
        }
        Event::Replication(ReplicationEvent::JobSwitchReplicated { job, .. })
        | Event::Schedule(ScheduleEvent::Rescheduled { job, .. } | ScheduleEvent::Skipped { job, .. }) => {
            if is_copy(*job) {
                rows.shard_jobs.need((job.0, shard));
            }
        }
        Event::Replication(ReplicationEvent::JobReplicated { definition, .. })
        | Event::Transfer(TransferEvent::JobAttached { definition, .. }) => {
            rows.shard_jobs.expect_new((definition.id.0, shard));
        }
        Event::Replication(ReplicationEvent::JobDropped { job, .. })
        | Event::Transfer(TransferEvent::JobDetached { job, .. }) => {
            rows.shard_jobs.expect_new((job.0, shard));
        }
        Event::Job(JobEvent::Submitted { definition }) => rows.jobs.expect_new((definition.id.0,)),
        Event::Batch(BatchEvent::Generated { batch, job, .. }) => {
            rows.batches.expect_new((batch.0,));
            if is_copy(*job) {
                rows.shard_jobs.need((job.0, shard));
            } else {
                rows.jobs.need((job.0,));
            }
        }
        Event::Batch(
            BatchEvent::DependencySatisfied { batch, parent, logical_time, .. }
            | BatchEvent::DependencyRevoked { batch, parent, logical_time, .. },
        ) => {
            rows.batches.need((batch.0,));
            rows.batch_dependencies.need((batch.0, parent.0, logical_time.as_millisecond()));
        }
        Event::Attempt(AttemptEvent::StartGranted { batch, token, .. }) => {
            rows.batches.need((batch.0,));
            rows.attempts.expect_new((token.0,));
        }
        Event::Attempt(AttemptEvent::UserCodeReported { token, .. }) => rows.attempts.need((token.0,)),
        Event::Attempt(
            AttemptEvent::Started { batch, token } | AttemptEvent::Finished { batch, token, .. },
        )
        | Event::Batch(BatchEvent::AssignmentReturned { batch, token, .. }) => {
            rows.batches.need((batch.0,));
            rows.attempts.need((token.0,));
        }
        Event::Batch(
            BatchEvent::Assigned { batch, .. }
            | BatchEvent::RetryScheduled { batch, .. }
            | BatchEvent::RetryDue { batch }
            | BatchEvent::StartDue { batch }
            | BatchEvent::ResultOverridden { batch, .. }
            | BatchEvent::Blocked { batch, .. }
            | BatchEvent::Unblocked { batch }
            | BatchEvent::TimeoutReached { batch, .. }
            | BatchEvent::Finished { batch, .. },
        )
        | Event::FinalCommand(
            FinalCommandEvent::Assigned { batch, .. }
            | FinalCommandEvent::Finished { batch, .. }
            | FinalCommandEvent::NotRun { batch, .. },
        )
        | Event::Attempt(AttemptEvent::KillRequested { batch, .. }) => rows.batches.need((batch.0,)),
        Event::Observation(ObservationEvent::ExternalDependencyRegistered {
            external_dependency, ..
        }) => rows.external_dependencies.expect_new((external_dependency.0,)),
        Event::Observation(
            ObservationEvent::ExternalDependencySatisfied { external_dependency, .. }
            | ObservationEvent::ExternalDependencyRevoked { external_dependency, .. },
        ) => {
            rows.external_dependencies.need((external_dependency.0,));
        }
        Event::Observation(ObservationEvent::ExternalDependenciesEvicted { external_dependencies }) => {
            external_dependencies
                .iter()
                .for_each(|external_dependency| rows.external_dependencies.need((external_dependency.0,)))
        }
        Event::Batch(BatchEvent::DependencyOverridden { batch, .. }) => {
            rows.batches.need((batch.0,));
            rows.batch_quality.need((batch.0,));
        }
        Event::Batch(
            BatchEvent::QualityRequested { batch, .. }
            | BatchEvent::QualitySent { batch, .. }
            | BatchEvent::QualityAnswered { batch, .. },
        ) => rows.batch_quality.need((batch.0,)),
        Event::Observation(ObservationEvent::ProbesLate { report }) => {
            rows.late_probes.need((report.authority.clone(), report.prober.clone()));
        }
        Event::Replication(ReplicationEvent::GroupReplicated { .. }) => rows.shards.need((shard,)),
        Event::Worker(WorkerEvent::Registered { worker, .. }) => {
            rows.shards.need((shard,));
            rows.workers.need((worker.0.clone(), shard));
        }
        Event::Worker(
            WorkerEvent::Measured { worker, .. }
            | WorkerEvent::Lost { worker, .. }
            | WorkerEvent::Recovered { worker, .. }
            | WorkerEvent::LeaseExpired { worker, .. }
            | WorkerEvent::Unready { worker, .. }
            | WorkerEvent::Ready { worker, .. }
            | WorkerEvent::Drained { worker }
            | WorkerEvent::Resumed { worker },
        ) => rows.workers.need((worker.0.clone(), shard)),
        Event::Task(event) => super::pull::need(rows, shard, event),
        Event::Catalogue(
            CatalogueEvent::UserMoveRequested { user, .. }
            | CatalogueEvent::UserMoved { user, .. }
            | CatalogueEvent::UserMoveRejected { user, .. },
        ) => rows.pull_users.need(super::pull::user_key(user)),
        Event::Transfer(TransferEvent::UserDetached { tasks, .. }) => {
            for moved in tasks {
                rows.pull_tasks.need((moved.task.0, shard));
            }
        }
        Event::Transfer(TransferEvent::UserAttached { .. }) => rows.shards.need((shard,)),
        Event::Rerun(event) => super::rerun::need(rows, event),
        Event::Bulk(BulkEvent::Requested { bulk, items, .. }) => {
            rows.bulk_operations.expect_new((bulk.0,));
            items.iter().for_each(|item| rows.bulk_items.expect_new((bulk.0, *item)));
        }
        Event::Bulk(BulkEvent::Advanced { bulk, outcomes, .. }) => {
            rows.bulk_operations.need((bulk.0,));
            outcomes.iter().for_each(|outcome| rows.bulk_items.need((bulk.0, outcome.item)));
        }
        Event::Catalogue(
            CatalogueEvent::KeyDefined { .. }
            | CatalogueEvent::TemplateDefined { .. }
            | CatalogueEvent::TemplateDeleted { .. }
            | CatalogueEvent::UsersAssigned { .. }
            | CatalogueEvent::KeyRevoked { .. }
            | CatalogueEvent::CalendarDefined { .. }
            | CatalogueEvent::PoolDefined { .. }
            | CatalogueEvent::PoolDeleted { .. }
            | CatalogueEvent::CalendarDeleted { .. },
        )
        | Event::Partition(_)
        | Event::Replication(
            ReplicationEvent::ParentsReplicated { .. }
            | ReplicationEvent::ParentStatusUpdated { .. }
            | ReplicationEvent::ParentGenerationsReceived { .. }
            | ReplicationEvent::ParentTimesReceived { .. }
            | ReplicationEvent::FreezeReplicated { .. }
            | ReplicationEvent::ParentDeletionReplicated { .. }
            | ReplicationEvent::TemplateReplicated { .. }
            | ReplicationEvent::TemplateDropped { .. }
            | ReplicationEvent::UsersReplicated { .. }
            | ReplicationEvent::PoolReplicated { .. }
            | ReplicationEvent::PoolDropped { .. }
            | ReplicationEvent::CalendarReplicated { .. }
            | ReplicationEvent::CalendarDropped { .. }
            | ReplicationEvent::CancellationReplicated { .. },
        )
        | Event::Subscription(_)
        | Event::Alarm(_)
        | Event::Observation(
            ObservationEvent::ProbesRequested { .. }
            | ObservationEvent::ThirdPartyReported { .. }
            | ObservationEvent::ThirdPartyEvicted { .. }
            | ObservationEvent::ProbesRecovered { .. },
        )
        | Event::FinalCommand(FinalCommandEvent::Granted { .. })
        | Event::Job(
            JobEvent::MoveRequested { .. }
            | JobEvent::MoveRejected { .. }
            | JobEvent::ParentDeleted { .. }
            | JobEvent::Cancelled { .. },
        )
        | Event::Transfer(
            TransferEvent::JobDetachRejected { .. } | TransferEvent::UserDetachRejected { .. },
        )
        | Event::Deletion(_)
        | Event::Apply(_)
        | Event::Permit(_)
        | Event::Schedule(ScheduleEvent::GenerationFailed { .. }) => {}
    }
}
