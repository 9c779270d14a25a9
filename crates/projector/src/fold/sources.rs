//! Which rows an event changes or reads: what has to be known before it is applied.

use tidemill_model::{Event, JobId, ShardId};

use super::Caches;

/// Whether a job is defined in the catalogue, so that its shard holds a copy, or submitted to that shard.
pub(super) fn is_copy(job: JobId) -> bool {
    job.shard() == ShardId::CATALOGUE
}

pub(super) fn need(rows: &mut Caches, shard: i64, event: &Event) {
    match event {
        Event::Frozen { group, .. } | Event::Thawed { group, .. } => {
            rows.freezes.need((super::group::scope(group.as_ref()),));
        }
        Event::GroupDefined { group, .. } => rows.worker_groups.need((i64::from(group.0),)),
        Event::JobDefined { definition, .. } | Event::JobMoved { definition, .. } => {
            rows.jobs.need((definition.id.0,))
        }
        Event::JobEnabled { job } | Event::JobDisabled { job } | Event::JobDeleted { job } => {
            rows.jobs.need((job.0,));
        }
        Event::JobSwitched { job, .. } | Event::FireMoved { job, .. } | Event::FiresSkipped { job, .. } => {
            if is_copy(*job) {
                rows.shard_jobs.need((job.0, shard));
            }
        }
        Event::JobReceived { definition, .. } | Event::JobTaken { definition, .. } => {
            rows.shard_jobs.expect_new((definition.id.0, shard));
        }
        Event::JobRemoved { job } | Event::JobReleased { job, .. } => {
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
        | Event::DependencyWithdrawn { batch, parent, logical_time, .. } => {
            rows.batches.need((batch.0,));
            rows.batch_dependencies.need((batch.0, parent.0, logical_time.as_millisecond()));
        }
        Event::StartGranted { batch, token, .. } => {
            rows.batches.need((batch.0,));
            rows.attempts.expect_new((token.0,));
        }
        Event::CodeReported { token, .. } => rows.attempts.need((token.0,)),
        Event::AttemptStarted { batch, token }
        | Event::AttemptFinished { batch, token, .. }
        | Event::AssignmentReturned { batch, token, .. } => {
            rows.batches.need((batch.0,));
            rows.attempts.need((token.0,));
        }
        Event::BatchAssigned { batch, .. }
        | Event::FinalCommandAssigned { batch, .. }
        | Event::FinalCommandEnded { batch, .. }
        | Event::FinalCommandNotRun { batch, .. }
        | Event::RetryScheduled { batch, .. }
        | Event::RetryDue { batch }
        | Event::StartDue { batch }
        | Event::KillRequested { batch, .. }
        | Event::BatchMarked { batch, .. }
        | Event::BatchBlocked { batch, .. }
        | Event::BatchUnblocked { batch }
        | Event::TimeoutMarked { batch, .. }
        | Event::BatchFinished { batch, .. } => rows.batches.need((batch.0,)),
        Event::ThingWaited { thing, .. } => rows.things.expect_new((thing.0,)),
        Event::ThingSatisfied { thing, .. } | Event::ThingWithdrawn { thing, .. } => {
            rows.things.need((thing.0,));
        }
        Event::ThingsForgotten { things } => things.iter().for_each(|thing| rows.things.need((thing.0,))),
        Event::DependencyOverridden { batch, .. } => {
            rows.batches.need((batch.0,));
            rows.batch_quality.need((batch.0,));
        }
        Event::QualityRequested { batch, .. }
        | Event::QualityTaken { batch, .. }
        | Event::QualityAnswered { batch, .. } => rows.batch_quality.need((batch.0,)),
        Event::ChecksLate { report } => {
            rows.late_checks.need((report.authority.clone(), report.prober.clone()));
        }
        Event::GroupReceived { .. } => rows.shards.need((shard,)),
        Event::WorkerRegistered { worker, .. } => {
            rows.shards.need((shard,));
            rows.workers.need((worker.0.clone(), shard));
        }
        Event::WorkerMeasured { worker, .. }
        | Event::WorkerLost { worker, .. }
        | Event::WorkerFound { worker, .. }
        | Event::LeaseExpired { worker, .. }
        | Event::WorkerUnfit { worker, .. }
        | Event::WorkerFit { worker, .. }
        | Event::WorkerDrained { worker }
        | Event::WorkerResumed { worker } => rows.workers.need((worker.0.clone(), shard)),
        Event::TemplateDefined { .. }
        | Event::TemplateRemoved { .. }
        | Event::UsersAssigned { .. }
        | Event::UserMoveAsked { .. }
        | Event::UserMoved { .. }
        | Event::UserMoveRefused { .. }
        | Event::UserReleased { .. }
        | Event::UserReceived { .. }
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
        | Event::RunsOrdered { .. }
        | Event::RunEnded { .. }
        | Event::RunsBlocked { .. }
        | Event::RerunPaused { .. }
        | Event::RerunResumed { .. }
        | Event::RerunCancelled { .. }
        | Event::RerunEnded { .. } => super::rerun::need(rows, event),
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
        | Event::ParentsReceived { .. }
        | Event::StandingsHeard { .. }
        | Event::GenerationsHeard { .. }
        | Event::TimesHeard { .. }
        | Event::ParentFollowed { .. }
        | Event::ParentWatched { .. }
        | Event::ParentUnwatched { .. }
        | Event::FreezeReceived { .. }
        | Event::HistoryEvicted { .. }
        | Event::AlarmRaised { .. }
        | Event::ChecksRequested { .. }
        | Event::ThirdPartyReported { .. }
        | Event::ThirdPartyForgotten { .. }
        | Event::ChecksRecovered { .. }
        | Event::FinalCommandGranted { .. }
        | Event::JobMoveAsked { .. }
        | Event::JobMoveRefused { .. }
        | Event::JobKept { .. }
        | Event::UnfinishedAsked { .. }
        | Event::UnfinishedTold { .. }
        | Event::UnfinishedHeard { .. }
        | Event::RemovalDecided { .. }
        | Event::JobsStaged { .. }
        | Event::StagingDropped { .. }
        | Event::ApplyCommitted { .. }
        | Event::ApplyAdvanced { .. }
        | Event::ApplyFinished { .. }
        | Event::CalendarDefined { .. }
        | Event::PoolDefined { .. }
        | Event::PoolRemoved { .. }
        | Event::TemplateReceived { .. }
        | Event::TemplateForgotten { .. }
        | Event::UsersReceived { .. }
        | Event::UserKept { .. }
        | Event::PoolReceived { .. }
        | Event::PoolForgotten { .. }
        | Event::RateOpened { .. }
        | Event::PermitsHeard { .. }
        | Event::PermitsGranted { .. }
        | Event::PermitsReceived { .. }
        | Event::PermitsReported { .. }
        | Event::CalendarRemoved { .. }
        | Event::CalendarReceived { .. }
        | Event::CalendarForgotten { .. }
        | Event::GenerationFailed { .. }
        | Event::RunsAsked { .. }
        | Event::RunsHeard { .. }
        | Event::RunsTold { .. }
        | Event::RunSkipped { .. }
        | Event::JobCancelled { .. }
        | Event::CancelReceived { .. }
        | Event::CommandQuarantined { .. }
        | Event::TimerSuspended { .. }
        | Event::TimeSet { .. }
        | Event::LossAccepted { .. } => {}
    }
}
