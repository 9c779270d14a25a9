//! Which facts may make something due that was not (PUL-9).

use tidemill_model::{
    CatalogueEvent, Event, Executor, PartitionEvent, Recorded, ReplicationEvent, TaskEvent, TransferEvent,
    UserName,
};
use tidemill_store::hints::Mark;

/// What a fact ends.
pub(super) enum Marked {
    /// Hints of a group or a user.
    One(Mark),
    /// Every hint of the partition.
    Everything,
}

/// Tells what the fact ends. A hint says that *nothing* is due, so what only takes away leaves it true.
#[expect(clippy::too_many_lines, reason = "one arm for each event")]
pub(super) fn marked(recorded: &Recorded, mut tell: impl FnMut(Marked)) {
    let shard = recorded.shard.0;

    match &recorded.event {
        Event::Task(TaskEvent::Created { spec, .. } | TaskEvent::Changed { spec, .. }) => {
            match &spec.executor {
                Executor::Group(_) => tell(Marked::One(Mark::Group { shard })),
                Executor::User(user) => tell(Marked::One(of(shard, user))),
            }
        }
        // Whoever has a grant is given it again; a completion moves the window.
        Event::Task(TaskEvent::Granted { user, .. } | TaskEvent::Completed { user, .. }) => {
            tell(Marked::One(of(shard, user)))
        }
        // The stock that came back may be the group's, or the user's own.
        Event::Task(TaskEvent::GrantReturned { user, .. } | TaskEvent::GrantExpired { user, .. }) => {
            tell(Marked::One(Mark::Group { shard }));
            tell(Marked::One(of(shard, user)));
        }
        Event::Replication(ReplicationEvent::UsersReplicated { users }) => {
            users.iter().for_each(|user| tell(Marked::One(of(shard, user))))
        }
        Event::Transfer(
            TransferEvent::UserDetached { user, .. } | TransferEvent::UserAttached { user, .. },
        ) => tell(Marked::One(of(shard, user))),
        // Its window may reach further back.
        Event::Replication(ReplicationEvent::GroupReplicated { .. }) => {
            tell(Marked::One(Mark::Group { shard }))
        }
        // The present is another one, or facts are missing.
        Event::Partition(PartitionEvent::ClockSet { .. } | PartitionEvent::CommandLossAccepted { .. }) => {
            tell(Marked::Everything)
        }
        // These take away, or shards that nobody pulls from know of them.
        Event::Task(TaskEvent::Deleted { .. } | TaskEvent::Purged { .. })
        | Event::Catalogue(
            CatalogueEvent::TemplateDefined { .. }
            | CatalogueEvent::TemplateDeleted { .. }
            | CatalogueEvent::UsersAssigned { .. }
            | CatalogueEvent::UserMoveRequested { .. }
            | CatalogueEvent::UserMoved { .. }
            | CatalogueEvent::UserMoveRejected { .. },
        )
        | Event::Replication(
            ReplicationEvent::TemplateReplicated { .. } | ReplicationEvent::TemplateDropped { .. },
        )
        | Event::Transfer(TransferEvent::UserDetachRejected { .. }) => {}
        // These are not about tasks that clients pull.
        Event::Catalogue(
            CatalogueEvent::GroupDefined { .. }
            | CatalogueEvent::KeyDefined { .. }
            | CatalogueEvent::KeyRevoked { .. }
            | CatalogueEvent::PoolDefined { .. }
            | CatalogueEvent::PoolDeleted { .. }
            | CatalogueEvent::CalendarDefined { .. }
            | CatalogueEvent::CalendarDeleted { .. }
            | CatalogueEvent::FreezeSet { .. }
            | CatalogueEvent::FreezeLifted { .. },
        )
        | Event::Job(_)
        | Event::Replication(
            ReplicationEvent::ParentDeletionReplicated { .. }
            | ReplicationEvent::PoolReplicated { .. }
            | ReplicationEvent::PoolDropped { .. }
            | ReplicationEvent::CalendarReplicated { .. }
            | ReplicationEvent::CalendarDropped { .. }
            | ReplicationEvent::FreezeReplicated { .. }
            | ReplicationEvent::JobReplicated { .. }
            | ReplicationEvent::JobSwitchReplicated { .. }
            | ReplicationEvent::JobDropped { .. }
            | ReplicationEvent::CancellationReplicated { .. }
            | ReplicationEvent::ParentsReplicated { .. }
            | ReplicationEvent::ParentStatusUpdated { .. }
            | ReplicationEvent::ParentGenerationsReceived { .. }
            | ReplicationEvent::ParentTimesReceived { .. },
        )
        | Event::Deletion(_)
        | Event::Apply(_)
        | Event::Permit(_)
        | Event::Schedule(_)
        | Event::Rerun(_)
        | Event::Bulk(_)
        | Event::Partition(
            PartitionEvent::MessageReceived { .. }
            | PartitionEvent::OutboxAcknowledged { .. }
            | PartitionEvent::HistoryEvicted { .. }
            | PartitionEvent::CommandDeadLettered { .. }
            | PartitionEvent::TimerSuspended { .. },
        )
        | Event::Transfer(
            TransferEvent::JobDetached { .. }
            | TransferEvent::JobDetachRejected { .. }
            | TransferEvent::JobAttached { .. },
        )
        | Event::Subscription(_)
        | Event::Batch(_)
        | Event::Attempt(_)
        | Event::FinalCommand(_)
        | Event::Alarm(_)
        | Event::Observation(_)
        | Event::Worker(_) => {}
    }
}

fn of(shard: u16, user: &UserName) -> Mark {
    Mark::User { shard, user: user.as_str().into() }
}
