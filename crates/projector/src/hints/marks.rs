//! Which facts may make something due that was not (PUL-9).

use tidemill_model::{Event, Executor, Recorded, UserName};
use tidemill_store::hints::Mark;

/// What a fact ends.
pub(super) enum Marked {
    /// Hints of a group or a user.
    One(Mark),
    /// Every hint of the partition.
    Everything,
}

/// Tells what the fact ends. A hint says that *nothing* is due, so what only takes away leaves it true.
pub(super) fn marked(recorded: &Recorded, mut tell: impl FnMut(Marked)) {
    let shard = recorded.shard.0;

    match &recorded.event {
        Event::TaskCreated { spec, .. } | Event::TaskChanged { spec, .. } => match &spec.executor {
            Executor::Group(_) => tell(Marked::One(Mark::Group { shard })),
            Executor::User(user) => tell(Marked::One(of(shard, user))),
        },
        // Whoever has a grant is given it again; a completion moves the window.
        Event::TaskGranted { user, .. } | Event::TaskCompleted { user, .. } => {
            tell(Marked::One(of(shard, user)))
        }
        // The stock that came back may be the group's, or the user's own.
        Event::GrantReturned { user, .. } | Event::GrantExpired { user, .. } => {
            tell(Marked::One(Mark::Group { shard }));
            tell(Marked::One(of(shard, user)));
        }
        Event::UsersReplicated { users } => users.iter().for_each(|user| tell(Marked::One(of(shard, user)))),
        Event::UserDetached { user, .. } | Event::UserAttached { user, .. } => {
            tell(Marked::One(of(shard, user)))
        }
        // Its window may reach further back.
        Event::GroupReplicated { .. } => tell(Marked::One(Mark::Group { shard })),
        // The present is another one, or facts are missing.
        Event::ClockSet { .. } | Event::CommandLossAccepted { .. } => tell(Marked::Everything),
        // These take away, or shards that nobody pulls from know of them.
        Event::TaskDeleted { .. }
        | Event::TasksPurged { .. }
        | Event::TemplateDefined { .. }
        | Event::TemplateDeleted { .. }
        | Event::TemplateReplicated { .. }
        | Event::TemplateDropped { .. }
        | Event::UsersAssigned { .. }
        | Event::UserMoveRequested { .. }
        | Event::UserMoved { .. }
        | Event::UserMoveRejected { .. }
        | Event::UserDetachRejected { .. } => {}
        // These are not about tasks that clients pull.
        Event::GroupDefined { .. }
        | Event::KeyDefined { .. }
        | Event::KeyRevoked { .. }
        | Event::JobDefined { .. }
        | Event::JobEnabled { .. }
        | Event::JobDisabled { .. }
        | Event::JobDeleted { .. }
        | Event::JobParentDeleted { .. }
        | Event::ParentDeletionReplicated { .. }
        | Event::UnfinishedQueried { .. }
        | Event::UnfinishedReceived { .. }
        | Event::DeletionDecided { .. }
        | Event::JobCancelled { .. }
        | Event::JobsStaged { .. }
        | Event::StagingDiscarded { .. }
        | Event::ApplyCommitted { .. }
        | Event::ApplyAdvanced { .. }
        | Event::ApplyFinished { .. }
        | Event::PoolDefined { .. }
        | Event::PoolDeleted { .. }
        | Event::PoolReplicated { .. }
        | Event::PoolDropped { .. }
        | Event::RateLimitReset { .. }
        | Event::PermitsReported { .. }
        | Event::PermitReportReceived { .. }
        | Event::PermitsGranted { .. }
        | Event::PermitsReceived { .. }
        | Event::CalendarDefined { .. }
        | Event::CalendarDeleted { .. }
        | Event::CalendarReplicated { .. }
        | Event::CalendarDropped { .. }
        | Event::ScheduleRescheduled { .. }
        | Event::GenerationFailed { .. }
        | Event::FreezeSet { .. }
        | Event::FreezeLifted { .. }
        | Event::FreezeReplicated { .. }
        | Event::RerunRequested { .. }
        | Event::RunsQueried { .. }
        | Event::RunsReceived { .. }
        | Event::JobsSkipped { .. }
        | Event::BatchesPlanned { .. }
        | Event::RerunPlanned { .. }
        | Event::RerunApproved { .. }
        | Event::RunsRequested { .. }
        | Event::RunFinished { .. }
        | Event::RunsBlocked { .. }
        | Event::BulkRequested { .. }
        | Event::BulkAdvanced { .. }
        | Event::RerunPaused { .. }
        | Event::RerunResumed { .. }
        | Event::RerunCancelled { .. }
        | Event::RerunFinished { .. }
        | Event::MessageReceived { .. }
        | Event::OutboxAcknowledged { .. }
        | Event::JobReplicated { .. }
        | Event::JobSwitchReplicated { .. }
        | Event::JobDropped { .. }
        | Event::JobMoveRequested { .. }
        | Event::JobMoved { .. }
        | Event::JobMoveRejected { .. }
        | Event::JobDetached { .. }
        | Event::JobDetachRejected { .. }
        | Event::JobAttached { .. }
        | Event::UnfinishedReported { .. }
        | Event::CancellationReplicated { .. }
        | Event::RunsReported { .. }
        | Event::RunSkipped { .. }
        | Event::JobSubmitted { .. }
        | Event::ParentsReplicated { .. }
        | Event::ParentStatusUpdated { .. }
        | Event::ParentGenerationsReceived { .. }
        | Event::ParentTimesReceived { .. }
        | Event::ParentSubscribed { .. }
        | Event::ParentTimesSubscribed { .. }
        | Event::ParentTimesUnsubscribed { .. }
        | Event::BatchGenerated { .. }
        | Event::ScheduleSkipped { .. }
        | Event::StartDue { .. }
        | Event::DependencySatisfied { .. }
        | Event::DependencyRevoked { .. }
        | Event::BatchAssigned { .. }
        | Event::AssignmentReturned { .. }
        | Event::StartGranted { .. }
        | Event::AttemptStarted { .. }
        | Event::UserCodeReported { .. }
        | Event::AttemptFinished { .. }
        | Event::RetryScheduled { .. }
        | Event::RetryDue { .. }
        | Event::KillRequested { .. }
        | Event::BatchFinished { .. }
        | Event::BatchResultOverridden { .. }
        | Event::FinalCommandAssigned { .. }
        | Event::FinalCommandGranted { .. }
        | Event::FinalCommandFinished { .. }
        | Event::FinalCommandNotRun { .. }
        | Event::BatchBlocked { .. }
        | Event::BatchUnblocked { .. }
        | Event::TimeoutReached { .. }
        | Event::AlarmRaised { .. }
        | Event::ExternalDependencyRegistered { .. }
        | Event::ExternalDependencySatisfied { .. }
        | Event::ExternalDependencyRevoked { .. }
        | Event::ExternalDependenciesEvicted { .. }
        | Event::DependencyOverridden { .. }
        | Event::ProbesRequested { .. }
        | Event::QualityRequested { .. }
        | Event::QualitySent { .. }
        | Event::QualityAnswered { .. }
        | Event::ThirdPartyReported { .. }
        | Event::ThirdPartyEvicted { .. }
        | Event::ProbesLate { .. }
        | Event::ProbesRecovered { .. }
        | Event::HistoryEvicted { .. }
        | Event::WorkerRegistered { .. }
        | Event::WorkerMeasured { .. }
        | Event::WorkerLost { .. }
        | Event::WorkerRecovered { .. }
        | Event::LeaseExpired { .. }
        | Event::WorkerDrained { .. }
        | Event::WorkerResumed { .. }
        | Event::WorkerUnready { .. }
        | Event::WorkerReady { .. }
        | Event::CommandDeadLettered { .. }
        | Event::TimerSuspended { .. } => {}
    }
}

fn of(shard: u16, user: &UserName) -> Mark {
    Mark::User { shard, user: user.as_str().into() }
}
