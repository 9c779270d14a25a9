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
        Event::UsersReceived { users } => users.iter().for_each(|user| tell(Marked::One(of(shard, user)))),
        Event::UserReleased { user, .. } | Event::UserReceived { user, .. } => {
            tell(Marked::One(of(shard, user)))
        }
        // Its window may reach further back.
        Event::GroupReceived { .. } => tell(Marked::One(Mark::Group { shard })),
        // The present is another one, or facts are missing.
        Event::TimeSet { .. } | Event::LossAccepted { .. } => tell(Marked::Everything),
        // These take away, or shards that nobody pulls from know of them.
        Event::TaskDeleted { .. }
        | Event::TasksPurged { .. }
        | Event::TemplateDefined { .. }
        | Event::TemplateRemoved { .. }
        | Event::TemplateReceived { .. }
        | Event::TemplateForgotten { .. }
        | Event::UsersAssigned { .. }
        | Event::UserMoveAsked { .. }
        | Event::UserMoved { .. }
        | Event::UserMoveRefused { .. }
        | Event::UserKept { .. } => {}
        // These are not about tasks that clients pull.
        Event::GroupDefined { .. }
        | Event::KeyDefined { .. }
        | Event::KeyRevoked { .. }
        | Event::JobDefined { .. }
        | Event::JobEnabled { .. }
        | Event::JobDisabled { .. }
        | Event::JobDeleted { .. }
        | Event::UnfinishedAsked { .. }
        | Event::UnfinishedHeard { .. }
        | Event::RemovalDecided { .. }
        | Event::JobCancelled { .. }
        | Event::JobsStaged { .. }
        | Event::StagingDropped { .. }
        | Event::ApplyCommitted { .. }
        | Event::ApplyAdvanced { .. }
        | Event::ApplyFinished { .. }
        | Event::PoolDefined { .. }
        | Event::PoolRemoved { .. }
        | Event::PoolReceived { .. }
        | Event::PoolForgotten { .. }
        | Event::RateOpened { .. }
        | Event::PermitsReported { .. }
        | Event::PermitsHeard { .. }
        | Event::PermitsGranted { .. }
        | Event::PermitsReceived { .. }
        | Event::CalendarDefined { .. }
        | Event::CalendarRemoved { .. }
        | Event::CalendarReceived { .. }
        | Event::CalendarForgotten { .. }
        | Event::FireMoved { .. }
        | Event::GenerationFailed { .. }
        | Event::Frozen { .. }
        | Event::Thawed { .. }
        | Event::FreezeReceived { .. }
        | Event::RerunRequested { .. }
        | Event::RunsAsked { .. }
        | Event::RunsHeard { .. }
        | Event::JobsSkipped { .. }
        | Event::BatchesPlanned { .. }
        | Event::RerunPlanned { .. }
        | Event::RerunApproved { .. }
        | Event::RunsOrdered { .. }
        | Event::RunEnded { .. }
        | Event::RunsBlocked { .. }
        | Event::BulkRequested { .. }
        | Event::BulkAdvanced { .. }
        | Event::RerunPaused { .. }
        | Event::RerunResumed { .. }
        | Event::RerunCancelled { .. }
        | Event::RerunEnded { .. }
        | Event::MessageReceived { .. }
        | Event::OutboxAcknowledged { .. }
        | Event::JobReceived { .. }
        | Event::JobSwitched { .. }
        | Event::JobRemoved { .. }
        | Event::JobMoveAsked { .. }
        | Event::JobMoved { .. }
        | Event::JobMoveRefused { .. }
        | Event::JobReleased { .. }
        | Event::JobKept { .. }
        | Event::JobTaken { .. }
        | Event::UnfinishedTold { .. }
        | Event::CancelReceived { .. }
        | Event::RunsTold { .. }
        | Event::RunSkipped { .. }
        | Event::JobSubmitted { .. }
        | Event::ParentsReceived { .. }
        | Event::StandingsHeard { .. }
        | Event::GenerationsHeard { .. }
        | Event::TimesHeard { .. }
        | Event::ParentFollowed { .. }
        | Event::ParentWatched { .. }
        | Event::ParentUnwatched { .. }
        | Event::BatchGenerated { .. }
        | Event::FiresSkipped { .. }
        | Event::StartDue { .. }
        | Event::DependencySatisfied { .. }
        | Event::DependencyWithdrawn { .. }
        | Event::BatchAssigned { .. }
        | Event::AssignmentReturned { .. }
        | Event::StartGranted { .. }
        | Event::AttemptStarted { .. }
        | Event::CodeReported { .. }
        | Event::AttemptFinished { .. }
        | Event::RetryScheduled { .. }
        | Event::RetryDue { .. }
        | Event::KillRequested { .. }
        | Event::BatchFinished { .. }
        | Event::BatchMarked { .. }
        | Event::FinalCommandAssigned { .. }
        | Event::FinalCommandGranted { .. }
        | Event::FinalCommandEnded { .. }
        | Event::FinalCommandNotRun { .. }
        | Event::BatchBlocked { .. }
        | Event::BatchUnblocked { .. }
        | Event::TimeoutMarked { .. }
        | Event::AlarmRaised { .. }
        | Event::ThingWaited { .. }
        | Event::ThingSatisfied { .. }
        | Event::ThingWithdrawn { .. }
        | Event::ThingsForgotten { .. }
        | Event::DependencyOverridden { .. }
        | Event::ChecksRequested { .. }
        | Event::QualityRequested { .. }
        | Event::QualityTaken { .. }
        | Event::QualityAnswered { .. }
        | Event::ThirdPartyReported { .. }
        | Event::ThirdPartyForgotten { .. }
        | Event::ChecksLate { .. }
        | Event::ChecksRecovered { .. }
        | Event::HistoryEvicted { .. }
        | Event::WorkerRegistered { .. }
        | Event::WorkerMeasured { .. }
        | Event::WorkerLost { .. }
        | Event::WorkerFound { .. }
        | Event::LeaseExpired { .. }
        | Event::WorkerDrained { .. }
        | Event::WorkerResumed { .. }
        | Event::WorkerUnfit { .. }
        | Event::WorkerFit { .. }
        | Event::CommandQuarantined { .. }
        | Event::TimerSuspended { .. } => {}
    }
}

fn of(shard: u16, user: &UserName) -> Mark {
    Mark::User { shard, user: user.as_str().into() }
}
