//! What log and archive take.

use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::Timestamp;

/// What log and archive take, as far as it is known here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Default)]
pub struct StorageStatus {
    /// Bytes of the embedded log on disk; null: a broker has the log.
    pub log_bytes: Option<u64>,
    /// Those of them that new records take before the log grows; null where it is not known.
    pub free_bytes: Option<u64>,
    /// What each topic of the embedded log takes of them; empty where a broker has the log.
    pub topics: Vec<TopicStorage>,
    /// The archive; absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveStatus>,
    /// Snapshots of partitions; absent: there is no place for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<SnapshotsStatus>,
}

/// What a topic takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Default)]
pub struct TopicStorage {
    /// Its name.
    pub topic: String,
    /// Records that the log has of it.
    pub records: u64,
    /// About how many bytes they take, by samples.
    pub bytes: u64,
    /// About how many bytes come in a day: as in the last 24 hours, or as since its first record where that is younger. A topic
    /// that is younger than an hour counts as of one hour.
    pub bytes_per_day: u64,
}

/// The archive of journals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Default)]
pub struct ArchiveStatus {
    /// Where it is.
    pub place: String,
    /// Bytes of all its segments of this log.
    pub bytes: u64,
    /// Each journal.
    pub partitions: Vec<ArchivedPartition>,
    /// Why it cannot be listed, or why the archiver of this process did not come to the end of its last cycle; null: all is
    /// well.
    pub error: Option<String>,
}

/// What of a journal is archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Default)]
pub struct ArchivedPartition {
    /// Its number.
    pub partition: u32,
    /// The first record that the log itself still has.
    pub log_begins: u64,
    /// The record after the last one that is archived.
    pub archived_to: u64,
    /// How many segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Snapshots of partitions, from which owners and questions about the past begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, Default)]
pub struct SnapshotsStatus {
    /// Where they are.
    pub place: String,
    /// Each partition that has one which this version reads.
    pub partitions: Vec<PartitionSnapshots>,
    /// Why they cannot be listed; null: all is well.
    pub error: Option<String>,
}

/// The snapshots of one partition that this version reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartitionSnapshots {
    /// Its number.
    pub partition: u32,
    /// How many.
    pub snapshots: u64,
    /// The last record of the journal that the newest one holds.
    pub newest_offset: u64,
    /// The time of that record.
    pub newest_at: Timestamp,
    /// How many bytes the newest one takes.
    pub newest_bytes: u64,
    /// How many bytes all of them take.
    pub bytes: u64,
}
