//! Questions to the owners of this process: about the present of a batch, and about the partitions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{InstanceId, LiveAnswer, LiveQuery, ShardId};
use tidemill_snapshots::{Mark, Taken};

use crate::lines::{Lines, OpenLine, TakeReply};
use crate::owner::NamedSnapshot;

/// How one partition stands at this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionStatus {
    /// Which.
    pub partition: u32,
    /// Whether this process decides for it.
    pub owning: bool,
    /// The current ownership's number.
    pub epoch: u64,
    /// Who owns it, as its claim says.
    pub owner: String,
    /// The journal's last accepted offset.
    pub journal_offset: u64,
    /// Journal records that were void.
    pub void_records: u64,
    /// Commands read and not decided.
    pub backlog: u64,
    /// Unfinished batches of its shards.
    pub unfinished_batches: u64,
    /// Ready batches that wait for a slot.
    pub queued_batches: u64,
    /// The newest snapshot that the journal names, as far as this process has read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<NamedSnapshot>,
    /// The snapshot that this process began with; absent: it has folded the whole journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_with: Option<NamedSnapshot>,
    /// Events since the newest snapshot: what a start would have to fold.
    #[serde(default)]
    pub events_since_snapshot: u64,
}

pub(crate) enum Question {
    Live {
        shard: ShardId,
        query: LiveQuery,
        answer: Sender<LiveAnswer>,
    },
    Status {
        answer: Sender<PartitionStatus>,
    },
    /// For a snapshot: the last record that was read back.
    Mark {
        answer: Sender<Option<Mark>>,
    },
    /// The snapshot of that record is there.
    Taken {
        taken: Box<Taken>,
        answer: Sender<()>,
    },
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// This process does not own the shard's partition.
    #[error("partition {0} is not owned here")]
    NotOwned(u32),
    /// The owner is too busy, or has just gone.
    #[error("partition {0} did not answer in time")]
    NoAnswer(u32),
}

/// Asks the owners of this process, and takes their replies. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LiveHandle {
    owners: Arc<Mutex<BTreeMap<u32, Sender<Question>>>>,
    pub(crate) lines: Lines,
}

const PATIENCE: Duration = Duration::from_secs(2);
/// For a plan, whose answer takes time by itself where it names thousands of jobs.
const PLAN_PATIENCE: Duration = Duration::from_secs(20);

impl LiveHandle {
    /// Asks the owner of the shard; blocks for at most 2 s, for a plan for at most 20 s.
    ///
    /// # Errors
    /// The partition is not owned here, or its owner does not answer.
    pub fn query(&self, shard: ShardId, count: u32, query: LiveQuery) -> Result<LiveAnswer, LiveError> {
        let partition = shard.partition(count);
        let patience = match &query {
            LiveQuery::PlanApply { .. } | LiveQuery::CheckDirectory { .. } => PLAN_PATIENCE,
            LiveQuery::Why { .. }
            | LiveQuery::NewestBatch { .. }
            | LiveQuery::WantedExternalDependencies { .. }
            | LiveQuery::WantedQuality { .. }
            | LiveQuery::TaskLedger { .. }
            | LiveQuery::User { .. }
            | LiveQuery::Worker { .. }
            | LiveQuery::Notified { .. }
            | LiveQuery::Level
            | LiveQuery::Mailboxes { .. }
            | LiveQuery::Pool { .. } => PATIENCE,
        };
        self.ask(partition, patience, |answer| Question::Live { shard, query, answer })
    }

    /// As long as the line is open, `take` is given the replies of this process's owners to a caller; what it does not take
    /// goes to the topic. `None`: others have `most` lines.
    pub fn open_line(&self, instance: InstanceId, most: usize, take: TakeReply) -> Option<OpenLine> {
        self.lines.open(instance, most, take)
    }

    /// How the partitions stand that this process has to do with; blocks for at most 2 s each.
    pub fn status(&self) -> Vec<PartitionStatus> {
        let partitions: Vec<u32> = self.lock().keys().copied().collect();
        let ask = |partition| self.ask(partition, PATIENCE, |answer| Question::Status { answer }).ok();
        partitions.into_iter().filter_map(ask).collect()
    }

    /// For a snapshot: the last record that the owner has read back; `None` where it may not record one now.
    pub(crate) fn mark(&self, partition: u32) -> Result<Option<Mark>, LiveError> {
        self.ask(partition, PATIENCE, |answer| Question::Mark { answer })
    }

    /// The snapshot of that record is there.
    pub(crate) fn snapshot_taken(&self, taken: Taken) -> Result<(), LiveError> {
        let taken = Box::new(taken);
        self.ask(taken.name.partition, PATIENCE, |answer| Question::Taken { taken, answer })
    }

    pub(crate) fn enter(&self, partition: u32, owner: Sender<Question>) {
        self.lock().insert(partition, owner);
    }

    pub(crate) fn leave(&self, partition: u32) {
        self.lock().remove(&partition);
    }

    fn ask<T>(
        &self,
        partition: u32,
        patience: Duration,
        question: impl FnOnce(Sender<T>) -> Question,
    ) -> Result<T, LiveError> {
        let owner = self.lock().get(&partition).cloned().ok_or(LiveError::NotOwned(partition))?;
        let (answer, answered) = bounded(1);
        owner.send_timeout(question(answer), patience).map_err(|_| LiveError::NoAnswer(partition))?;
        answered.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => LiveError::NoAnswer(partition),
            RecvTimeoutError::Disconnected => LiveError::NotOwned(partition),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Sender<Question>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
