//! Parents in other groups: what their shards and those of the children tell each other (DEP-3, GEN-9).

use std::collections::BTreeMap;

use tidemill_derive::vocabulary;

use crate::{BatchId, BatchResult, Firing, JobId, ScheduleSpec, ShardId, Timestamp};

/// A job of another group that is a parent here, as the catalogue tells it.
#[vocabulary(Eq)]
pub struct ForeignParent {
    /// Which.
    pub job: JobId,
    /// As `group/name`.
    pub name: String,
    /// The shard that runs it.
    pub shard: ShardId,
    /// What gives it its logical times: its own schedule, or that of its nearest ancestor. Absent: it runs by
    /// hand only.
    pub schedule: Option<ScheduleSpec>,
    /// Its validity and the days of its calendar, where they leave some of those out.
    pub firing: Option<Firing>,
    /// It has come from another group (JOB-9): where it is known as a parent, it is to be asked there from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
}

/// How one logical time of a job stands: its newest run decides.
#[vocabulary(Eq)]
pub struct Standing {
    /// Which logical time.
    pub logical_time: Timestamp,
    /// Whoever waits for it waits no longer.
    pub succeeded: bool,
    /// The newest run's number. Absent: there is no batch for this time.
    pub run: Option<u32>,
    /// Its batch. Absent where it ended long ago.
    pub batch: Option<BatchId>,
    /// How it ended. Absent: it has not, or so long ago that only its success was remembered.
    pub result: Option<BatchResult>,
    /// There is no batch for this time, and the job's schedule makes none. Absent: one may come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// The job was deleted though jobs of the receiving group name it: a time without a batch gets none any more, and is
    /// not skipped by that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// Its newest run waits, blocked by a failed parent. Absent: it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
    /// Small values that its newest attempt passed on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// It passed some on so long ago that they are not kept any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub values_dropped: bool,
}

/// Jobs that name a deleted job as parent, in one shard.
#[vocabulary(Copy, Eq)]
pub struct OrphanedChildren {
    /// The shard that runs them.
    pub shard: ShardId,
    /// How many.
    pub jobs: u32,
}

impl Standing {
    /// Whether the newest run has ended, however.
    pub fn has_ended(&self) -> bool {
        self.run.is_some() && (self.result.is_some() || self.batch.is_none())
    }
}

/// What the shard of a job's children wants to hear of it.
#[vocabulary(Copy, Eq, PartialOrd, Ord)]
pub enum Subscription {
    /// Nothing any more.
    Nothing,
    /// How the times that it watches stand.
    Standings,
    /// Each generation of a batch as well.
    Generations,
}
