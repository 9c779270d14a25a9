use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{
    Actor, Calendar, CalendarName, Fire, ForeignParent, Freeze, FreezeScope, GroupId, GroupName,
    GroupSettings, JobDefinition, JobId, Level, Pool, PoolName, ShardId, Standing, Template, TemplateName,
    Timestamp, UserName,
};

/// Copies that a group's shard has of facts of the catalogue and of other shards.
#[vocabulary(Aggregate)]
pub enum ReplicationEvent {
    /// The shard knows its group.
    #[event(kind = "group.replicated", subject = "group/{group}", internal = "Copy")]
    GroupReplicated {
        /// Its number.
        group: GroupId,
        /// Its name.
        name: GroupName,
        /// Ed25519 public key of its workers, hex.
        worker_key: String,
        /// Its bounds.
        settings: GroupSettings,
    },
    /// The shard knows a definition.
    #[event(kind = "job.replicated", subject = "job/{definition.id}", internal = "Copy")]
    JobReplicated {
        /// As accepted.
        definition: Arc<JobDefinition>,
        /// Whether it generates batches.
        enabled: bool,
        /// The first fire.
        next: Option<Fire>,
    },
    /// The shard switched generation on or off.
    #[event(kind = "job.switch_replicated", subject = "job/{job}", internal = "Copy")]
    JobSwitchReplicated {
        /// Which job.
        job: JobId,
        /// Whether it generates batches.
        enabled: bool,
        /// The first fire.
        next: Option<Fire>,
    },
    /// The shard forgot a definition, as far as no unfinished batch needs it.
    #[event(kind = "job.dropped", subject = "job/{job}", internal = "Copy")]
    JobDropped {
        /// Which job.
        job: JobId,
        /// Shards with jobs that name it as parent and go on waiting for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        orphaned_in: Vec<ShardId>,
    },
    /// The catalogue deleted a job that jobs of this shard name as parent: their batches go on waiting for it until a
    /// new definition does not name it any more, or somebody overrides that.
    #[event(kind = "parent_deletion.replicated", subject = "job/{parent}", internal = "Copy")]
    ParentDeletionReplicated {
        /// The deleted job.
        parent: JobId,
        /// As `group/name`.
        name: String,
        /// When it was deleted.
        deleted_at: Timestamp,
        /// The jobs of this shard that name it, the first 100 by id.
        jobs: Vec<JobId>,
        /// A job that names it and comes next, from another group.
        coming: Option<JobId>,
    },
    /// No definition names a deleted job of the shard as parent any more: the shard forgot it, as far as no unfinished batch
    /// needs it.
    #[event(kind = "parent.released", subject = "job/{parent}", internal = "Copy")]
    ParentReleased {
        /// The deleted job.
        parent: JobId,
    },
    /// The shard ends what is unfinished of a removed job.
    #[event(kind = "cancellation.replicated", subject = "job/{job}", internal = "Copy")]
    CancellationReplicated {
        /// Which job.
        job: JobId,
        /// Who wants it.
        by: Actor,
    },
    /// The shard knows a template.
    #[event(kind = "template.replicated", subject = "template/{template.spec.name}", internal = "Copy")]
    TemplateReplicated {
        /// As accepted.
        template: Arc<Template>,
    },
    /// The shard forgot a template.
    #[event(kind = "template.dropped", subject = "template/{name}", internal = "Copy")]
    TemplateDropped {
        /// Its name.
        name: TemplateName,
    },
    /// The shard is the home of these users, who have no history.
    #[event(kind = "users.replicated", subject = "users", internal = "Copy")]
    UsersReplicated {
        /// In order.
        users: Vec<UserName>,
    },
    /// The shard knows a pool that its jobs may use.
    #[event(kind = "pool.replicated", subject = "pool/{pool.spec.name}", internal = "Copy")]
    PoolReplicated {
        /// As accepted.
        pool: Arc<Pool>,
    },
    /// The shard forgot a pool.
    #[event(kind = "pool.dropped", subject = "pool/{name}", internal = "Copy")]
    PoolDropped {
        /// Its name.
        name: PoolName,
    },
    /// The shard knows a calendar that its jobs use.
    #[event(kind = "calendar.replicated", subject = "calendar/{calendar.spec.name}", internal = "Copy")]
    CalendarReplicated {
        /// As accepted.
        calendar: Arc<Calendar>,
    },
    /// The shard forgot a calendar.
    #[event(kind = "calendar.dropped", subject = "calendar/{name}", internal = "Copy")]
    CalendarDropped {
        /// Its name.
        name: CalendarName,
    },
    /// The shard knows of a freeze, or of its end.
    #[event(kind = "freeze.replicated", subject = "freeze", internal = "Copy")]
    FreezeReplicated {
        /// Of what.
        scope: FreezeScope,
        /// Absent: there is none any more.
        freeze: Option<Freeze>,
    },
    /// The shard knows that the level was raised: from the next record on its partition may hold what is new in it.
    #[event(kind = "level.replicated", subject = "level", internal = "Copy")]
    LevelReplicated {
        /// The new one.
        level: Level,
    },
    /// The shard knows jobs of other groups that are parents here.
    #[event(kind = "parents.replicated", subject = "shard/{ShardId::CATALOGUE}", internal = "Copy")]
    ParentsReplicated {
        /// As the catalogue told them.
        parents: Vec<ForeignParent>,
    },
    /// The shard was told how logical times of a parent in another group stand.
    #[event(kind = "parent_status.updated", subject = "job/{parent}", internal = "Copy")]
    ParentStatusUpdated {
        /// Which parent.
        parent: JobId,
        /// Time by time.
        standings: Vec<Standing>,
    },
    /// The shard was told that batches of a parent in another group were generated (GEN-9).
    #[event(kind = "parent_generations.received", subject = "job/{parent}", internal = "Copy")]
    ParentGenerationsReceived {
        /// Which parent.
        parent: JobId,
        /// For which logical times.
        times: Vec<Timestamp>,
        /// How many more were generated before these, of which this shard could not be told in time.
        #[serde(default, skip_serializing_if = "crate::is_default")]
        left_out: u64,
    },
    /// The shard was told the newest logical times of a parent in another group.
    #[event(kind = "parent_times.received", subject = "job/{parent}", internal = "Copy")]
    ParentTimesReceived {
        /// Which parent.
        parent: JobId,
        /// Oldest first.
        times: Vec<Timestamp>,
    },
}
