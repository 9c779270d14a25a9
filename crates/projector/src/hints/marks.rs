//! Which facts may make something due that was not (PUL-9).

use tidemill_model::{
    Event, Executor, PartitionEvent, Recorded, ReplicationEvent, TaskEvent, TransferEvent, UserName,
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
pub(super) fn marked(recorded: &Recorded, mut tell: impl FnMut(Marked)) {
    let shard = recorded.shard.0;
    match &recorded.event {
        Event::Task(event) => by_task(shard, event, &mut tell),
        Event::Replication(event) => by_replication(shard, event, &mut tell),
        Event::Transfer(event) => by_transfer(shard, event, &mut tell),
        Event::Partition(event) => by_partition(event, &mut tell),
        // Nobody pulls from the catalogue: whom it concerns hears of it by a replication or a transfer.
        Event::Catalogue(_) => {}
        // These are not about tasks that clients pull.
        Event::Directory(_)
        | Event::Credential(_)
        | Event::Access(_)
        | Event::Job(_)
        | Event::Deletion(_)
        | Event::Apply(_)
        | Event::Permit(_)
        | Event::Schedule(_)
        | Event::Rerun(_)
        | Event::Bulk(_)
        | Event::Level(_)
        | Event::Subscription(_)
        | Event::Batch(_)
        | Event::Attempt(_)
        | Event::FinalCommand(_)
        | Event::Alarm(_)
        | Event::Observation(_)
        | Event::Worker(_) => {}
    }
}

fn by_task(shard: u16, event: &TaskEvent, tell: &mut impl FnMut(Marked)) {
    match event {
        TaskEvent::Created { spec, .. } | TaskEvent::Changed { spec, .. } => match &spec.executor {
            Executor::Group(_) => tell(Marked::One(Mark::Group { shard })),
            Executor::User(user) => tell(Marked::One(of(shard, user))),
        },
        // Whoever has a grant is given it again; a completion moves the window.
        TaskEvent::Granted { user, .. } | TaskEvent::Completed { user, .. } => {
            tell(Marked::One(of(shard, user)));
        }
        // The stock that came back may be the group's, or the user's own.
        TaskEvent::GrantReturned { user, .. } | TaskEvent::GrantExpired { user, .. } => {
            tell(Marked::One(Mark::Group { shard }));
            tell(Marked::One(of(shard, user)));
        }
        // These take away.
        TaskEvent::Deleted { .. } | TaskEvent::Purged { .. } => {}
    }
}

fn by_replication(shard: u16, event: &ReplicationEvent, tell: &mut impl FnMut(Marked)) {
    match event {
        ReplicationEvent::UsersReplicated { users } => {
            users.iter().for_each(|user| tell(Marked::One(of(shard, user))));
        }
        // Its window may reach further back.
        ReplicationEvent::GroupReplicated { .. } => tell(Marked::One(Mark::Group { shard })),
        // Tasks that are there were checked against it, and stay.
        ReplicationEvent::TemplateReplicated { .. } | ReplicationEvent::TemplateDropped { .. } => {}
        // These are not about tasks that clients pull.
        ReplicationEvent::ParentDeletionReplicated { .. }
        | ReplicationEvent::ParentReleased { .. }
        | ReplicationEvent::PoolReplicated { .. }
        | ReplicationEvent::PoolDropped { .. }
        | ReplicationEvent::CalendarReplicated { .. }
        | ReplicationEvent::CalendarDropped { .. }
        | ReplicationEvent::FreezeReplicated { .. }
        | ReplicationEvent::LevelReplicated { .. }
        | ReplicationEvent::JobReplicated { .. }
        | ReplicationEvent::JobSwitchReplicated { .. }
        | ReplicationEvent::JobDropped { .. }
        | ReplicationEvent::CancellationReplicated { .. }
        | ReplicationEvent::ParentsReplicated { .. }
        | ReplicationEvent::ParentStatusUpdated { .. }
        | ReplicationEvent::ParentGenerationsReceived { .. }
        | ReplicationEvent::ParentTimesReceived { .. } => {}
    }
}

fn by_transfer(shard: u16, event: &TransferEvent, tell: &mut impl FnMut(Marked)) {
    match event {
        TransferEvent::UserDetached { user, .. } | TransferEvent::UserAttached { user, .. } => {
            tell(Marked::One(of(shard, user)));
        }
        TransferEvent::UserDetachRejected { .. } => {}
        // These are not about tasks that clients pull.
        TransferEvent::JobDetached { .. }
        | TransferEvent::JobDetachRejected { .. }
        | TransferEvent::JobAttached { .. } => {}
    }
}

fn by_partition(event: &PartitionEvent, tell: &mut impl FnMut(Marked)) {
    match event {
        // The present is another one, or facts are missing.
        PartitionEvent::ClockSet { .. }
        | PartitionEvent::CommandLossAccepted { .. }
        | PartitionEvent::Restored { .. } => {
            tell(Marked::Everything);
        }
        PartitionEvent::MessageReceived { .. }
        | PartitionEvent::OutboxAcknowledged { .. }
        | PartitionEvent::HistoryEvicted { .. }
        | PartitionEvent::SnapshotTaken { .. }
        | PartitionEvent::CommandDeadLettered { .. }
        | PartitionEvent::TimerSuspended { .. } => {}
    }
}

fn of(shard: u16, user: &UserName) -> Mark {
    Mark::User { shard, user: user.as_str().into() }
}
