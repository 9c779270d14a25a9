use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{Fire, JobDefinition, JobId, MovedJob, MovedTask, Rejection, UserHistory, UserName};

/// Jobs and users of pull tasks that leave a group's shard, or arrive there.
#[vocabulary(Aggregate)]
pub enum TransferEvent {
    /// The shard let a job go to another group, and decides nothing of it any more. Its batches stay.
    #[event(kind = "job.detached", subject = "job/{job}", internal = "BetweenShards")]
    JobDetached {
        /// Which job.
        job: JobId,
        /// What was known of it.
        moved: Arc<MovedJob>,
    },
    /// The shard did not let a job go.
    #[event(kind = "job.detach_rejected", subject = "job/{job}", internal = "BetweenShards")]
    JobDetachRejected {
        /// Which job.
        job: JobId,
        /// Why not.
        reason: Rejection,
    },
    /// The shard runs a job that another group had.
    #[event(kind = "job.attached", subject = "job/{definition.id}", internal = "Copy")]
    JobAttached {
        /// As accepted.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// The fire that is to come.
        next: Option<Fire>,
        /// What its old group knew of it.
        moved: Arc<MovedJob>,
    },
    /// The shard let a user go, and knows nothing of it any more.
    #[event(kind = "user.detached", subject = "user/{user}", internal = "BetweenShards")]
    UserDetached {
        /// Who.
        user: UserName,
        /// What the user's next pulls depend on.
        #[serde(default, skip_serializing_if = "UserHistory::is_empty")]
        history: UserHistory,
        /// The user's own tasks, which leave with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<MovedTask>,
    },
    /// The shard did not let a user go.
    #[event(kind = "user.detach_rejected", subject = "user/{user}", internal = "BetweenShards")]
    UserDetachRejected {
        /// Who.
        user: UserName,
        /// Why not.
        reason: Rejection,
    },
    /// The shard is the home of a user who had another one.
    #[event(kind = "user.attached", subject = "user/{user}", internal = "Copy")]
    UserAttached {
        /// Who.
        user: UserName,
        /// What the user's next pulls depend on.
        #[serde(default, skip_serializing_if = "UserHistory::is_empty")]
        history: UserHistory,
        /// The user's own tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<MovedTask>,
    },
}
