//! Facts. The journal is a sequence of them; everything else is a fold.
//!
//! An event belongs to one aggregate, which has a file here unless it is short. What stands at its variant is all that the vocabulary says of
//! it: its kind, its subject (where it is not that of the aggregate), whether the public feed has it, and its fields. A
//! published variant never changes meaning: another behaviour is another variant.

mod apply;
mod attempt;
mod batch;
mod catalogue;
mod credential;
mod deletion;
mod directory;
mod final_command;
mod job;
mod level;
mod observation;
mod partition;
mod replication;
mod rerun;
mod task;
mod transfer;
mod worker;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{Aggregate, vocabulary};

pub use self::apply::ApplyEvent;
pub use self::attempt::AttemptEvent;
pub use self::batch::BatchEvent;
pub use self::catalogue::CatalogueEvent;
pub use self::credential::CredentialEvent;
pub use self::deletion::DeletionEvent;
pub use self::directory::{AccessEvent, DirectoryEvent};
pub use self::final_command::FinalCommandEvent;
pub use self::job::JobEvent;
pub use self::level::LevelEvent;
pub use self::observation::ObservationEvent;
pub use self::partition::PartitionEvent;
pub use self::replication::ReplicationEvent;
pub use self::rerun::RerunEvent;
pub use self::task::TaskEvent;
pub use self::transfer::TransferEvent;
pub use self::worker::WorkerEvent;
use crate::{
    Actor, AlarmKind, BatchId, BulkAction, BulkId, BulkOutcome, EventKind, Fire, JobId, Level, PermitReport,
    PoolName, PoolUse, Severity, ShardId, SkipReason, Subscription, Timestamp, WorkerId,
};

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $aggregate:ident($event:ident),)+) => {
        /// A fact.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Event {
            $($(#[doc = $doc])+ $aggregate($event),)+
        }

        $(impl From<$event> for Event {
            fn from(event: $event) -> Self {
                Self::$aggregate(event)
            }
        })+

        impl EventKind {
            /// Every kind, each once.
            pub fn all() -> impl Iterator<Item = &'static EventKind> {
                [$($event::KINDS),+].into_iter().flatten()
            }
        }

        impl Event {
            /// Its kind.
            #[must_use]
            pub const fn of_kind(&self) -> EventKind {
                match self {
                    $(Self::$aggregate(event) => event.of_kind(),)+
                }
            }

            /// What it is about, as `noun/id`; the CloudEvents subject.
            #[must_use]
            pub fn subject(&self) -> String {
                match self {
                    $(Self::$aggregate(event) => event.subject(),)+
                }
            }
        }
    };
}

events! {
    /// What the catalogue keeps besides jobs: groups, keys, calendars, pools, freezes, and templates and users of pull tasks.
    Catalogue(CatalogueEvent),
    /// People and departments.
    Directory(DirectoryEvent),
    /// What people sign in with.
    Credential(CredentialEvent),
    /// Calls that were refused.
    Access(AccessEvent),
    /// Definitions of jobs.
    Job(JobEvent),
    /// Deletions that wait for what the groups' shards say of unfinished batches.
    Deletion(DeletionEvent),
    /// Applies that are too large for one record: staged, committed, carried out.
    Apply(ApplyEvent),
    /// Reruns and backfills (cold starts), from the request to the end.
    Rerun(RerunEvent),
    /// One action for many batches or jobs.
    Bulk(BulkEvent),
    /// Runs of schedules for which there is no batch.
    Schedule(ScheduleEvent),
    /// A batch, from its generation to its result.
    Batch(BatchEvent),
    /// An attempt, from the permission to start to the end of its processes.
    Attempt(AttemptEvent),
    /// Final commands (JOB-8): each is run at most once.
    FinalCommand(FinalCommandEvent),
    /// What is found out outside: paths, third parties, and whether probers look in time.
    Observation(ObservationEvent),
    /// Workers.
    Worker(WorkerEvent),
    /// Tasks that clients pull, in the shard of the home group.
    Task(TaskEvent),
    /// Permits of pools that groups share, and of rates.
    Permit(PermitEvent),
    /// Copies that a group's shard has of facts of the catalogue and of other shards.
    Replication(ReplicationEvent),
    /// Jobs and users of pull tasks that leave a group's shard, or arrive there.
    Transfer(TransferEvent),
    /// Jobs of other groups that a shard wants to hear of, and no more.
    Subscription(SubscriptionEvent),
    /// Alarms.
    Alarm(AlarmEvent),
    /// Processes, the levels that they read, and the level of what is written.
    Level(LevelEvent),
    /// The partition itself: its messages, its memory, its clock, what it set aside.
    Partition(PartitionEvent),
}

impl Event {
    /// The name of its kind, `noun.verb`, without version.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.of_kind().name
    }

    /// The level that the partition has from the next record on, if the event says that.
    #[must_use]
    pub const fn raises(&self) -> Option<Level> {
        match self {
            Self::Level(LevelEvent::Raised { level })
            | Self::Replication(ReplicationEvent::LevelReplicated { level }) => Some(*level),
            _ => None,
        }
    }
}

/// One action for many batches or jobs.
#[vocabulary(Aggregate)]
#[event(subject = "bulk/{bulk}")]
pub enum BulkEvent {
    /// A client requests one action for many batches or jobs.
    ///
    /// Interfaces carry it on, item by item.
    #[event(kind = "bulk.requested", public)]
    Requested {
        /// Its id.
        bulk: BulkId,
        /// What is done to each item.
        action: BulkAction,
        /// The ids of the batches or jobs.
        items: Vec<i64>,
        /// Why.
        reason: String,
        /// Who requested it.
        by: Actor,
    },
    /// Some items of a bulk operation are decided; the event lists their outcomes.
    #[event(kind = "bulk.advanced", public)]
    Advanced {
        /// Which operation.
        bulk: BulkId,
        /// What came of each.
        outcomes: Vec<BulkOutcome>,
        /// These were the last ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },
}

/// Runs of schedules for which there is no batch.
#[vocabulary(Aggregate)]
#[event(subject = "job/{job}")]
pub enum ScheduleEvent {
    /// The scheduler skips runs of a job's schedule, for which no batch is generated.
    #[event(kind = "schedule.skipped", public)]
    Skipped {
        /// Whose.
        job: JobId,
        /// The first one's logical time.
        from: Timestamp,
        /// The last one's.
        to: Timestamp,
        /// How many.
        count: u64,
        /// Why.
        reason: SkipReason,
        /// The next fire.
        next: Option<Fire>,
    },
    /// The next run of a job's schedule changes, because the job's calendar changed.
    #[event(kind = "schedule.rescheduled", public)]
    Rescheduled {
        /// Whose.
        job: JobId,
        /// The next fire.
        next: Option<Fire>,
    },
    /// The scheduler fails to generate a batch for a run of a job's schedule.
    ///
    /// The timer of the job is suspended when it has failed for the fourth time.
    #[event(kind = "generation.failed", public)]
    GenerationFailed {
        /// Whose.
        job: JobId,
        /// For which logical time.
        logical_time: Timestamp,
        /// How often it has failed, from 1.
        failures: u32,
        /// Why.
        reason: String,
        /// When it is tried again.
        retry_at: Option<Timestamp>,
    },
}

/// Permits of pools that groups share, and of rates.
#[vocabulary(Aggregate)]
pub enum PermitEvent {
    /// Starts that a pool's rate counted are so long ago that more batches may start.
    #[event(kind = "rate_limit.reset", subject = "pool/{name}", internal = "Chore")]
    RateLimitReset {
        /// Whose.
        name: PoolName,
    },
    /// The group's shard has told what became of its permits, and how many it would have.
    #[event(kind = "permits.reported", subject = "pool/{first_name(&report.pools)}", internal = "Permit")]
    Reported {
        /// Since the last one.
        report: PermitReport,
    },
    /// The catalogue has heard that.
    #[event(
        kind = "permits.report_received",
        subject = "pool/{first_name(&report.pools)}",
        internal = "Permit"
    )]
    ReportReceived {
        /// Of which shard.
        from: ShardId,
        /// As it was told.
        report: PermitReport,
    },
    /// The catalogue has given permits to a group's shard.
    #[event(kind = "permits.granted", subject = "pool/{first_name(pools)}", internal = "Permit")]
    Granted {
        /// Which shard.
        to: ShardId,
        /// All shared pools that one batch needs.
        pools: Vec<PoolUse>,
        /// How many more, each for one batch.
        permits: u32,
    },
    /// The group's shard has them.
    #[event(kind = "permits.received", subject = "pool/{first_name(pools)}", internal = "Permit")]
    Received {
        /// All shared pools that one batch needs.
        pools: Vec<PoolUse>,
        /// How many more, each for one batch.
        permits: u32,
    },
}

fn first_name(pools: &[PoolUse]) -> &str {
    pools.first().map_or("", |of| of.name.as_str())
}

/// Jobs of other groups that a shard wants to hear of, and no more.
#[vocabulary(Aggregate)]
#[event(subject = "job/{job}")]
pub enum SubscriptionEvent {
    /// Another shard wants to hear of a job of this one.
    #[event(kind = "parent.subscribed", internal = "Subscription")]
    ParentSubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// What it wants to hear from now on.
        what: Subscription,
    },
    /// Batches of another shard wait for logical times of a job of this one.
    #[event(kind = "parent.times_subscribed", internal = "Subscription")]
    ParentTimesSubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// Its logical times.
        times: Vec<Timestamp>,
    },
    /// Nothing of another shard waits for these any more.
    #[event(kind = "parent.times_unsubscribed", internal = "Subscription")]
    ParentTimesUnsubscribed {
        /// Which job.
        job: JobId,
        /// Which shard.
        by: ShardId,
        /// Its logical times.
        times: Vec<Timestamp>,
    },
}

/// Alarms.
#[vocabulary(Aggregate)]
pub enum AlarmEvent {
    /// The scheduler raises an alarm, once for each cause.
    #[event(kind = "alarm.raised", subject = "{concerned(*batch, *job, worker.as_ref())}", public)]
    Raised {
        /// Of what.
        kind: AlarmKind,
        /// How urgent it is.
        severity: Severity,
        /// The job concerned.
        job: Option<JobId>,
        /// The batch concerned.
        batch: Option<BatchId>,
        /// The worker concerned.
        worker: Option<WorkerId>,
        /// For people.
        message: String,
    },
}

fn concerned(batch: Option<BatchId>, job: Option<JobId>, worker: Option<&WorkerId>) -> String {
    match (batch, job, worker) {
        (Some(batch), _, _) => format!("batch/{batch}"),
        (None, Some(job), _) => format!("job/{job}"),
        (None, None, Some(worker)) => format!("worker/{worker}"),
        (None, None, None) => "partition".to_owned(),
    }
}
