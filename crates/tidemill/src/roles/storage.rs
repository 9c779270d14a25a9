//! What log and archive take, for whoever asks for the status.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_api::ports::{
    ArchiveStatus, ArchivedPartition, PartitionSnapshots, SnapshotsStatus, StorageStatus, TopicStorage,
};
use tidemill_archive::{Archive, ArchivedLog, Error};
use tidemill_cli::Failure;
use tidemill_log::{Log, Readers, Topic};
use tidemill_model::Timestamp;
use tidemill_snapshots::{Error as SnapshotError, Snapshots};

use super::archive::Archiving;

/// Everybody who may read the status may ask, so all who ask within this time share one look.
const LOOKED_FOR: Duration = Duration::from_secs(2);

/// Looks at log and archive.
#[derive(Clone)]
pub(crate) struct Storage {
    log: Arc<ArchivedLog>,
    archiving: Archiving,
    snapshots: Option<Snapshots>,
    last: Arc<Mutex<Option<(Instant, StorageStatus)>>>,
}

impl Storage {
    /// Of this log, and what this process's archiver says.
    pub(crate) fn new(log: Arc<ArchivedLog>, archiving: Archiving, snapshots: Option<Snapshots>) -> Self {
        Self { log, archiving, snapshots, last: Arc::default() }
    }

    /// As it is now, or was a moment ago.
    pub(crate) fn look(&self) -> StorageStatus {
        // One assignment; who asks meanwhile waits for the same look.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, status)) if at.elapsed() < LOOKED_FOR => status.clone(),
            _ => {
                let status = self.look_now();
                *last = Some((Instant::now(), status.clone()));
                status
            }
        }
    }

    fn look_now(&self) -> StorageStatus {
        let usage = self.log.usage().unwrap_or_else(|error| {
            tracing::warn!(%error, "what the log takes cannot be told");
            tidemill_log::Usage::default()
        });
        let topic = |(topic, usage): (Topic, tidemill_log::TopicUsage)| TopicStorage {
            topic: topic.to_string(),
            records: usage.records,
            bytes: usage.bytes,
            bytes_per_day: usage.bytes_per_day,
        };
        StorageStatus {
            log_bytes: usage.bytes,
            free_bytes: usage.free_bytes,
            topics: usage.topics.into_iter().map(topic).collect(),
            archive: self.log.archive().map(|archive| self.archive(archive)),
            snapshots: self.snapshots.as_ref().map(|snapshots| self.snapshots(snapshots)),
        }
    }

    fn snapshots(&self, snapshots: &Snapshots) -> SnapshotsStatus {
        let partitions = 0..self.log.partitions(Topic::Journal);
        let listed: Result<Vec<_>, _> = partitions.map(|number| snapshots_of(snapshots, number)).collect();
        let (partitions, error) = match listed {
            Ok(partitions) => (partitions.into_iter().flatten().collect(), None),
            Err(error) => (Vec::new(), Some(Failure::caused("they cannot be listed", &error).message)),
        };
        SnapshotsStatus { place: snapshots.place(), partitions, error }
    }

    fn archive(&self, archive: &Archive) -> ArchiveStatus {
        let partitions = 0..self.log.partitions(Topic::Journal);
        let listed: Result<Vec<_>, Error> =
            partitions.map(|number| self.partition(archive, number)).collect();
        let (partitions, error) = match listed {
            Ok(partitions) => (partitions, self.archiving.error()),
            Err(error) => (Vec::new(), Some(Failure::caused("it cannot be listed", &error).message)),
        };
        let bytes = partitions.iter().map(|partition| partition.bytes).sum();
        ArchiveStatus { place: archive.place(), bytes, partitions, error }
    }

    fn partition(&self, archive: &Archive, partition: u32) -> Result<ArchivedPartition, Error> {
        let range = self.log.inner().range(Topic::Journal, partition);
        let log_begins = range.map_err(|source| Error::Log { partition, source })?.start;
        let catalog = archive.catalog(partition)?;
        Ok(ArchivedPartition {
            partition,
            log_begins,
            archived_to: catalog.reaches(log_begins),
            segments: catalog.segments().count() as u64,
            bytes: catalog.bytes(),
        })
    }
}

/// Those that this version reads, if there are any.
pub(super) fn snapshots_of(
    snapshots: &Snapshots,
    partition: u32,
) -> Result<Option<PartitionSnapshots>, SnapshotError> {
    let mut listed = snapshots.list(partition)?;
    listed.retain(|(name, _)| name.is_readable());
    let Some((newest, newest_bytes)) = listed.first() else { return Ok(None) };
    let ms = i64::try_from(newest.latest_ms).unwrap_or(i64::MAX);
    Ok(Some(PartitionSnapshots {
        partition,
        snapshots: listed.len() as u64,
        newest_offset: newest.offset,
        newest_at: Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX),
        newest_bytes: *newest_bytes,
        bytes: listed.iter().map(|(_, bytes)| bytes).sum(),
    }))
}
