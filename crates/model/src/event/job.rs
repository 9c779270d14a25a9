use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{
    Actor, GroupName, InstanceId, JobDefinition, JobId, JobName, MovedJob, OrphanedChildren, Rejection,
    RequestId, ShardId, Timestamp,
};

/// Definitions of jobs.
#[vocabulary(Aggregate)]
#[event(subject = "job/{job}")]
pub enum JobEvent {
    /// The catalogue accepts a new job, or a new version of a job.
    #[event(kind = "job.defined", subject = "job/{definition.id}", public)]
    Defined {
        /// As accepted; version 1 is new.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// Known by its id only: its name is not unique.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unnamed: bool,
        /// The name that it had until now; absent: it keeps its name, or is new.
        previous_name: Option<JobName>,
    },
    /// A client enables a job, so that it generates batches again.
    #[event(kind = "job.enabled", public)]
    Enabled {
        /// Which.
        job: JobId,
    },
    /// A client disables a job, so that it generates no more batches.
    #[event(kind = "job.disabled", public)]
    Disabled {
        /// Which.
        job: JobId,
    },
    /// The catalogue deletes a job.
    #[event(kind = "job.deleted", public)]
    Deleted {
        /// Which.
        job: JobId,
    },
    /// A client deletes a job although other jobs name it as their parent.
    ///
    /// With `orphan_children`: these keep their definitions, and their batches go on waiting for it until a new definition
    /// does not name it any more, or somebody overrides that.
    #[event(kind = "job.parent_deleted", subject = "job/{parent}", public)]
    ParentDeleted {
        /// The job that is deleted.
        parent: JobId,
        /// As `group/name`.
        name: String,
        /// Where its children are, in order of shard.
        children: Vec<OrphanedChildren>,
    },
    /// The shard of a job's group is asked to let it go to another group (JOB-9).
    #[event(kind = "job.move_requested", internal = "BetweenShards")]
    MoveRequested {
        /// Which.
        job: JobId,
        /// The shard that is asked.
        from: ShardId,
        /// The group it is to have.
        to: GroupName,
        /// After this the job stays.
        until: Timestamp,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
        /// Who wants it.
        by: Option<Actor>,
    },
    /// The catalogue assigns a job to another group, after the old group's shard released it.
    #[event(kind = "job.moved", subject = "job/{definition.id}", public)]
    Moved {
        /// As it is in its new group.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// It is known by its id only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unnamed: bool,
        /// The group that it was of.
        previous_group: GroupName,
        /// The shard that let it go.
        from: ShardId,
        /// What was known of it there.
        moved: Arc<MovedJob>,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
        /// Who wanted it.
        by: Option<Actor>,
    },
    /// A group's shard refuses to release a job to another group; the job stays as it was.
    #[event(kind = "job.move_rejected", public)]
    MoveRejected {
        /// Which.
        job: JobId,
        /// Why not.
        reason: Rejection,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
    },
    /// A client deletes a job together with its unfinished batches, which are then ended.
    #[event(kind = "job.cancelled", public)]
    Cancelled {
        /// Which job.
        job: JobId,
        /// The shard that runs it.
        shard: ShardId,
        /// Who wants it.
        by: Actor,
    },
    /// A client submits an ad-hoc job, which runs once.
    #[event(kind = "job.submitted", subject = "job/{definition.id}", public)]
    Submitted {
        /// As accepted.
        definition: Arc<JobDefinition>,
    },
}
