//! Which rows an event changes or reads: what has to be known before it is applied.

use tidemill_model::{Event, JobId, ShardId};

use super::Caches;

/// Whether a job is defined in the catalogue, so that its shard holds a copy, or submitted to that shard.
pub(super) fn is_copy(job: JobId) -> bool {
    job.shard() == ShardId::CATALOGUE
}

pub(super) fn need(rows: &mut Caches, shard: i64, event: &Event) {
    match event {
        Event::FreezeSet { group, .. } | Event::FreezeLifted { group, .. } => {
            rows.freezes.need((super::group::scope(group.as_ref()),));
        }
        Event::GroupDefined { group, .. } => rows.worker_groups.need((i64::from(group.0),)),
        Event::JobDefined { definition, .. } | Event::JobMoved { definition, .. } => {
            rows.jobs.need((definition.id.0,))
        }
        Event::JobEnabled { job } | Event::JobDisabled { job } | Event::JobDeleted { job } => {
            rows.jobs.need((job.0,));
        }
        Event::JobSwitchReplicated { job, .. }
        | Event::ScheduleRescheduled { job, .. }
        | Event::ScheduleSkipped { job, .. } => {
            if is_copy(*job) {
                rows.shard_jobs.need((job.0, shard));
            }
        }
        Event::JobReplicated { definition, .. } | Event::JobAttached { definition, .. } => {
            rows.shard_jobs.expect_new((definition.id.0, shard));
        }
        Event::JobDropped { job, .. } | Event::JobDetached { job, .. } => {
            rows.shard_jobs.expect_new((job.0, shard));
        }
        Event::JobSubmitted { definition } => rows.jobs.expect_new((definition.id.0,)),
        Event::BatchGenerated { batch, job, .. } => {
            rows.batches.expect_new((batch.0,));
            if is_copy(*job) {
                rows.shard_jobs.need((job.0, shard));
            } else {
                rows.jobs.need((job.0,));
            }
        }
        Event::DependencySatisfied { batch, parent, logical_time, .. }
        | Event::DependencyRevoked { batch, parent, logical_time, .. } => {
            rows.batches.need((batch.0,));
            rows.batch_dependencies.need((batch.0, parent.0, logical_time.as_millisecond()));
        }
        Event::StartGranted { batch, token, .. } => {
            rows.batches.need((batch.0,));
            rows.attempts.expect_new((token.0,));
        }
        Event::UserCodeReported { token, .. } => rows.attempts.need((token.0,)),
        Event::AttemptStarted { batch, token }
        | Event::AttemptFinished { batch, token, .. }
        | Event::AssignmentReturned { batch, token, .. } => {
            rows.batches.need((batch.0,));
            rows.attempts.need((token.0,));
        }
        Event::BatchAssigned { batch, .. }
        | Event::FinalCommandAssigned { batch, .. }
        | Event::FinalCommandFinished { batch, .. }
        | Event::FinalCommandNotRun { batch, .. }
        | Event::RetryScheduled { batch, .. }
        | Event::RetryDue { batch }
        | Event::StartDue { batch }
        | Event::KillRequested { batch, .. }
        | Event::BatchResultOverridden { batch, .. }
        | Event::BatchBlocked { batch, .. }
        | Event::BatchUnblocked { batch }
        | Event::TimeoutReached { batch, .. }
        | Event::BatchFinished { batch, .. } => rows.batches.need((batch.0,)),
        Event::ExternalDependencyRegistered { external_dependency, .. } => {
            rows.external_dependencies.expect_new((external_dependency.0,))
        }
        Event::ExternalDependencySatisfied { external_dependency, .. }
        | Event::ExternalDependencyRevoked { external_dependency, .. } => {
            rows.external_dependencies.need((external_dependency.0,));
        }
        Event::ExternalDependenciesEvicted { external_dependencies } => external_dependencies
            .iter()
            .for_each(|external_dependency| rows.external_dependencies.need((external_dependency.0,))),
        Event::DependencyOverridden { batch, .. } => {
            rows.batches.need((batch.0,));
            rows.batch_quality.need((batch.0,));
        }
        Event::QualityRequested { batch, .. }
        | Event::QualitySent { batch, .. }
        | Event::QualityAnswered { batch, .. } => rows.batch_quality.need((batch.0,)),
        Event::ProbesLate { report } => {
            rows.late_probes.need((report.authority.clone(), report.prober.clone()));
        }
        Event::GroupReplicated { .. } => rows.shards.need((shard,)),
        Event::WorkerRegistered { worker, .. } => {
            rows.shards.need((shard,));
            rows.workers.need((worker.0.clone(), shard));
        }
        Event::WorkerMeasured { worker, .. }
        | Event::WorkerLost { worker, .. }
        | Event::WorkerRecovered { worker, .. }
        | Event::LeaseExpired { worker, .. }
        | Event::WorkerUnready { worker, .. }
        | Event::WorkerReady { worker, .. }
        | Event::WorkerDrained { worker }
        | Event::WorkerResumed { worker } => rows.workers.need((worker.0.clone(), shard)),
        Event::TemplateDefined { .. }
        | Event::TemplateDeleted { .. }
        | Event::UsersAssigned { .. }
        | Event::UserMoveRequested { .. }
        | Event::UserMoved { .. }
        | Event::UserMoveRejected { .. }
        | Event::UserDetached { .. }
        | Event::UserAttached { .. }
        | Event::TaskCreated { .. }
        | Event::TaskChanged { .. }
        | Event::TaskDeleted { .. }
        | Event::TaskGranted { .. }
        | Event::TaskCompleted { .. }
        | Event::GrantReturned { .. }
        | Event::GrantExpired { .. }
        | Event::TasksPurged { .. } => super::pull::need(rows, shard, event),
        Event::RerunRequested { .. }
        | Event::JobsSkipped { .. }
        | Event::BatchesPlanned { .. }
        | Event::RerunPlanned { .. }
        | Event::RerunApproved { .. }
        | Event::RunsRequested { .. }
        | Event::RunFinished { .. }
        | Event::RunsBlocked { .. }
        | Event::RerunPaused { .. }
        | Event::RerunResumed { .. }
        | Event::RerunCancelled { .. }
        | Event::RerunFinished { .. } => super::rerun::need(rows, event),
        Event::BulkRequested { bulk, items, .. } => {
            rows.bulk_operations.expect_new((bulk.0,));
            items.iter().for_each(|item| rows.bulk_items.expect_new((bulk.0, *item)));
        }
        Event::BulkAdvanced { bulk, outcomes, .. } => {
            rows.bulk_operations.need((bulk.0,));
            outcomes.iter().for_each(|outcome| rows.bulk_items.need((bulk.0, outcome.item)));
        }
        Event::KeyDefined { .. }
        | Event::KeyRevoked { .. }
        | Event::MessageReceived { .. }
        | Event::OutboxAcknowledged { .. }
        | Event::ParentsReplicated { .. }
        | Event::ParentStatusUpdated { .. }
        | Event::ParentGenerationsReceived { .. }
        | Event::ParentTimesReceived { .. }
        | Event::ParentSubscribed { .. }
        | Event::ParentTimesSubscribed { .. }
        | Event::ParentTimesUnsubscribed { .. }
        | Event::FreezeReplicated { .. }
        | Event::HistoryEvicted { .. }
        | Event::AlarmRaised { .. }
        | Event::ProbesRequested { .. }
        | Event::ThirdPartyReported { .. }
        | Event::ThirdPartyEvicted { .. }
        | Event::ProbesRecovered { .. }
        | Event::FinalCommandGranted { .. }
        | Event::JobMoveRequested { .. }
        | Event::JobMoveRejected { .. }
        | Event::JobDetachRejected { .. }
        | Event::UnfinishedQueried { .. }
        | Event::JobParentDeleted { .. }
        | Event::ParentDeletionReplicated { .. }
        | Event::UnfinishedReported { .. }
        | Event::UnfinishedReceived { .. }
        | Event::DeletionDecided { .. }
        | Event::JobsStaged { .. }
        | Event::StagingDiscarded { .. }
        | Event::ApplyCommitted { .. }
        | Event::ApplyAdvanced { .. }
        | Event::ApplyFinished { .. }
        | Event::CalendarDefined { .. }
        | Event::PoolDefined { .. }
        | Event::PoolDeleted { .. }
        | Event::TemplateReplicated { .. }
        | Event::TemplateDropped { .. }
        | Event::UsersReplicated { .. }
        | Event::UserDetachRejected { .. }
        | Event::PoolReplicated { .. }
        | Event::PoolDropped { .. }
        | Event::RateLimitReset { .. }
        | Event::PermitReportReceived { .. }
        | Event::PermitsGranted { .. }
        | Event::PermitsReceived { .. }
        | Event::PermitsReported { .. }
        | Event::CalendarDeleted { .. }
        | Event::CalendarReplicated { .. }
        | Event::CalendarDropped { .. }
        | Event::GenerationFailed { .. }
        | Event::RunsQueried { .. }
        | Event::RunsReceived { .. }
        | Event::RunsReported { .. }
        | Event::RunSkipped { .. }
        | Event::JobCancelled { .. }
        | Event::CancellationReplicated { .. }
        | Event::CommandDeadLettered { .. }
        | Event::TimerSuspended { .. }
        | Event::ClockSet { .. }
        | Event::CommandLossAccepted { .. } => {}
    }
}
