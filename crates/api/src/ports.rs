//! What the interface needs from the rest: small traits, whose makes the binary chooses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tidemill_cluster::BoxFuture;
use tidemill_log::Payload;
use tidemill_model::{LiveAnswer, LiveQuery, ProberStatus, ShardId, SinkStatus, Timestamp};

use crate::JournalPosition;
pub use crate::storage::{
    ArchiveStatus, ArchivedPartition, PartitionSnapshots, SnapshotsStatus, StorageStatus, TopicStorage,
};

/// Questions about the past, which no owner is asked.
pub trait Past: Send + Sync {
    /// What the shard's owner would have answered then. Blocks for as long as folding the journal takes, which is
    /// bounded.
    ///
    /// # Errors
    /// The journal does not say it, or it would take too long.
    fn query(&self, shard: ShardId, query: &LiveQuery, moment: Moment) -> Result<LiveAnswer, PastError>;
}

/// A moment of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// After everything that was decided up to this time.
    Time(Timestamp),
    /// After this record of the journal.
    Position(JournalPosition),
}

/// Why there is no answer about the past.
#[derive(Debug, Error)]
pub enum PastError {
    /// Another such question is being answered.
    #[error("another question about the past is being answered by this instance")]
    Busy,
    /// It takes longer than it may.
    #[error(
        "{read} of {end} records of the journal of partition {partition} were read in {seconds} s, which is the bound"
    )]
    TooLong {
        /// Which partition.
        partition: u32,
        /// Records read.
        read: u64,
        /// Records that there are up to then.
        end: u64,
        /// The bound.
        seconds: u64,
    },
    /// The beginning of the journal is not there any more, so nothing can be folded.
    #[error("the journal of partition {partition} begins with record {first}; what was before it is gone")]
    Gone {
        /// Which partition.
        partition: u32,
        /// The first record that is kept.
        first: u64,
    },
    /// The position is of another partition.
    #[error("the batch is in partition {partition}; its journal has positions {partition}:0 and so on")]
    OtherPartition {
        /// That of the batch.
        partition: u32,
    },
    /// The position is not there yet.
    #[error("the journal of partition {partition} ends before record {end}")]
    Ahead {
        /// Which partition.
        partition: u32,
        /// The next record.
        end: u64,
    },
    /// The journal cannot be read.
    #[error("the journal of partition {partition} cannot be read")]
    Read {
        /// Which partition.
        partition: u32,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Commands as they were sent.
pub trait SentCommands: Send + Sync {
    /// The record at this offset of the commands of a partition; `None`: the log does not keep it any more. Blocks for
    /// as long as the log takes to read it.
    ///
    /// # Errors
    /// The log cannot be read.
    fn command(&self, partition: u32, offset: u64) -> Result<Option<Payload>, tidemill_log::Error>;
}

/// How far the read tables are.
pub trait Freshness: Send + Sync {
    /// Waits until the tables hold what stands in the journal's partition up to `offset`, at most `timeout`;
    /// whether they do.
    fn wait(&self, partition: u32, offset: u64, timeout: Duration) -> BoxFuture<'_, bool>;
}

/// The public feed.
pub trait Feed: Send + Sync {
    /// Opens the feed for an application key. Where readers take turns, keys do so first.
    ///
    /// # Errors
    /// The cursor is not one of this feed, or the log cannot be read.
    fn open(&self, key: &Arc<str>, from: FeedFrom) -> Result<Box<dyn FeedReader>, FeedError>;
}

/// An open feed. Read by one thread at a time.
pub trait FeedReader: Send {
    /// Waits for events, at most `timeout`; gives at most `max`.
    ///
    /// # Errors
    /// The log cannot be read.
    fn poll(&mut self, max: usize, timeout: Duration) -> Result<Vec<FeedEvent>, FeedError>;

    /// Whether it is on its way to the first event: then there is more to read, though it gave none.
    fn is_skipping(&self) -> bool {
        false
    }
}

/// Where to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedFrom {
    /// With the first event that is kept.
    Start,
    /// With the next one that happens.
    End,
    /// With the first event of this time or later, in each partition.
    Time(Timestamp),
    /// After the event that this cursor came with.
    Cursor(String),
}

/// One event of the public feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEvent {
    /// Opens the feed after this event.
    pub cursor: String,
    /// The shard that it belongs to.
    pub shard: ShardId,
    /// As in `batch.finished`.
    pub event_type: String,
    /// As in `batch/4097`.
    pub subject: String,
    /// CloudEvents JSON, on one line.
    pub json: String,
}

/// Why the feed cannot be read.
#[derive(Debug, Error)]
pub enum FeedError {
    /// The cursor is not one of this feed.
    #[error("the cursor {cursor:?} is not one of this feed")]
    BadCursor {
        /// As given.
        cursor: String,
    },
    /// The log cannot be read.
    #[error("the feed cannot be read")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What is known of the whole.
pub trait Cluster: Send + Sync {
    /// The partitions and how far each is.
    fn status(&self) -> BoxFuture<'_, Result<ClusterStatus, String>>;

    /// Whether this process can do its work; else why not.
    ///
    /// # Errors
    /// What is missing, for people.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// Work on the whole that takes a while. One goes on at a time.
pub trait Admin: Send + Sync {
    /// Begins it, where nothing else goes on.
    ///
    /// # Errors
    /// What goes on already.
    fn begin(&self, task: Task) -> Result<OperationStatus, Box<OperationStatus>>;

    /// What goes on, or went on last.
    fn status(&self) -> Option<OperationStatus>;
}

/// What can be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// The read tables are rebuilt from the journal, beside those in use; or hints are.
    Rebuild,
    /// The read tables are compared with the journal, row by row.
    Verify,
}

impl Operation {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Rebuild => "rebuild",
            Operation::Verify => "verify",
        }
    }
}

/// What is rebuilt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RebuildScope {
    /// The read tables.
    #[default]
    Tables,
    /// The hints of pulls.
    Hints,
    /// Both.
    All,
}

/// How something is rebuilt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RebuildRequest {
    /// What. Default `tables`.
    pub what: RebuildScope,
    /// RFC 3339. Rows of history that nothing has changed since then are copied from the tables in use, as they are; all else
    /// is folded from the journal. Absent: everything is folded.
    pub from: Option<Timestamp>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// With `dry_run`: also compare with the journal, and say what would be mended. Takes about as long as a rebuild.
    pub compare: bool,
}

impl RebuildRequest {
    /// The first field that does not go with the others: its name, its value and the rule.
    #[must_use]
    pub fn conflict(&self) -> Option<(&'static str, String, &'static str)> {
        match self {
            Self { what: RebuildScope::Hints, from: Some(from), .. } => Some((
                "from",
                from.to_string(),
                "must be absent for hints: they hold nothing of the journal, and are rebuilt as a whole",
            )),
            Self { compare: true, dry_run: false, .. } => {
                Some(("compare", "true".to_owned(), "needs dry_run; `verify` compares tables in use"))
            }
            _ => None,
        }
    }
}

/// An operation with what it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Rebuild tables or hints.
    Rebuild(RebuildRequest),
    /// Compare tables and hints.
    Verify,
}

impl Task {
    /// What it is.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Rebuild(_) => Operation::Rebuild,
            Self::Verify => Operation::Verify,
        }
    }
}

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// It goes on.
    Running,
    /// It is done; `report` says what came of it.
    Done,
    /// It failed; `error` says why.
    Failed,
}

/// An operation and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperationStatus {
    /// Counts the operations of this instance.
    pub number: u64,
    /// What it is.
    pub operation: Operation,
    /// Where it stands.
    pub state: OperationState,
    /// Journal records folded.
    pub records: u64,
    /// Journal records that there are.
    pub total_records: u64,
    /// What came of it.
    pub report: Option<serde_json::Value>,
    /// Why it failed.
    pub error: Option<String>,
}

/// The partitions and how far each is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Default)]
pub struct ClusterStatus {
    /// Which log this is.
    pub log_id: String,
    /// Each partition.
    pub partitions: Vec<PartitionStatus>,
    /// How paths are looked for, where this process does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<ProberStatus>,
    /// How far task logs have gone to each sink.
    pub sinks: Vec<SinkStatus>,
    /// How often a reader of the log in this process got nothing more though there was more, and began anew, since the process
    /// began: a count for each of `commands`, `journal`, `events`, `work`, `replies` and `dead-letters` where it happened.
    pub stalled_readers: BTreeMap<String, u64>,
    /// What log and archive take.
    pub storage: StorageStatus,
}

impl ClusterStatus {
    /// What the log says of its readers, as it stands here.
    #[must_use]
    pub fn stalled_readers(log: &dyn tidemill_log::Log) -> BTreeMap<String, u64> {
        log.stalled_readers().into_iter().map(|(topic, count)| (topic.to_string(), count)).collect()
    }
}

/// How far a partition is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Default)]
pub struct PartitionStatus {
    /// Its number.
    pub partition: u32,
    /// Where its owner listens, or its name; absent: it has none.
    pub owner: Option<String>,
    /// Counts the owners that it has had.
    pub epoch: u64,
    /// Where its journal ends.
    pub journal_end: u64,
    /// Up to where the tables hold it.
    pub projected: u64,
    /// Records that the tables lack.
    pub lag_records: u64,
    /// How many milliseconds ago the first of them was decided; 0 where the tables lack none; null: it cannot be read at the moment.
    pub lag_ms: Option<u64>,
    /// Records that readers dropped because they are not of the chain.
    pub void_records: u64,
}
