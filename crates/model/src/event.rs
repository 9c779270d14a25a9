//! Facts. The journal is a sequence of them; everything else is a fold.
//!
//! An event belongs to one aggregate, which has a file here. What stands at its variant is all that the vocabulary says of
//! it: its kind, its subject (where it is not that of the aggregate), whether the public feed has it, and its fields. A
//! published variant never changes meaning: another behaviour is another variant.

mod alarm;
mod apply;
mod attempt;
mod batch;
mod bulk;
mod catalogue;
mod deletion;
mod final_command;
mod job;
mod observation;
mod partition;
mod permit;
mod replication;
mod rerun;
mod schedule;
mod subscription;
mod task;
mod transfer;
mod worker;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::alarm::AlarmEvent;
pub use self::apply::ApplyEvent;
pub use self::attempt::AttemptEvent;
pub use self::batch::BatchEvent;
pub use self::bulk::BulkEvent;
pub use self::catalogue::CatalogueEvent;
pub use self::deletion::DeletionEvent;
pub use self::final_command::FinalCommandEvent;
pub use self::job::JobEvent;
pub use self::observation::ObservationEvent;
pub use self::partition::PartitionEvent;
pub use self::permit::PermitEvent;
pub use self::replication::ReplicationEvent;
pub use self::rerun::RerunEvent;
pub use self::schedule::ScheduleEvent;
pub use self::subscription::SubscriptionEvent;
pub use self::task::TaskEvent;
pub use self::transfer::TransferEvent;
pub use self::worker::WorkerEvent;
use crate::EventKind;

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
    /// The partition itself: its messages, its memory, its clock, what it set aside.
    Partition(PartitionEvent),
}

impl Event {
    /// The name of its kind, `noun.verb`, without version.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.of_kind().name
    }
}
