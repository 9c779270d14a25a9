//! What an interface in a process of its own learns of the rest: from the log and the tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_api::ports::{Cluster, ClusterStatus, PartitionStatus, StorageStatus};
use tidemill_cluster::{BoxFuture, OwnerAddress, OwnerAddresses};
use tidemill_directory::Known;
use tidemill_log::{Chain, From, Head, Log, Topic};
use tidemill_store::{Position, Tables};

use super::lag::lag_ms;
use super::storage::Storage;

/// A lag this short is looked into: it may be no lag at all.
const SHORT: u64 = 64;
/// Records taken at once.
const RECORDS: usize = 64;
/// The end of a journal can be read within this; else it is a lag.
const TAIL_PATIENCE: Duration = Duration::from_secs(1);
/// What is known of the catalogue is of late if it is not older.
const OF_LATE: Duration = Duration::from_secs(2);

/// The partitions, as log and tables show them.
#[derive(Clone)]
pub(crate) struct SharedCluster {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) storage: Storage,
    /// What this process knows without the tables.
    pub(crate) known: Known,
}

impl SharedCluster {
    /// Where the owner of a partition listens, as its claim says.
    pub(crate) fn owner_address(&self) -> OwnerAddress {
        let tables = Arc::clone(&self.tables);
        Arc::new(move |partition| {
            let positions = positions(&*tables).ok()?;
            let head = head_of(positions.get(&partition)?)?;
            head.owner.filter(|_| !head.resigned && !head.stopped).map(|claim| claim.address)
        })
    }

    /// Where the owners of all partitions listen.
    pub(crate) fn owner_addresses(&self) -> OwnerAddresses {
        let tables = Arc::clone(&self.tables);
        Arc::new(move || {
            let heads = positions(&*tables).unwrap_or_default();
            let heads = heads.values().filter_map(head_of).filter(|head| !head.resigned && !head.stopped);
            heads.filter_map(|head| head.owner).map(|claim| claim.address).collect()
        })
    }

    /// With the lag in time, for which the journals of partitions that lag are read, or without.
    fn look(&self, in_time: bool) -> Result<ClusterStatus, String> {
        let positions = positions(&*self.tables)?;
        let partitions = (0..self.log.partitions(Topic::Journal)).map(|partition| {
            let range = self.log.range(Topic::Journal, partition).map_err(|error| error.to_string())?;
            let position = positions.get(&partition);
            let head = position.and_then(head_of);
            let next = position.map_or(range.start, |position| position.offset + 1);
            let tail = match &head {
                Some(head) if range.end.saturating_sub(next) <= SHORT => self.void_tail(head, range.end)?,
                _ => 0,
            };
            let lag_records = range.end.saturating_sub(next + tail);
            let owner = head.as_ref().filter(|head| !head.resigned && !head.stopped);
            Ok(PartitionStatus {
                partition,
                owner: owner.and_then(|head| head.owner.as_ref()).map(|claim| claim.address.clone()),
                epoch: head.as_ref().map_or(0, |head| head.epoch),
                journal_end: range.end,
                projected: position.map_or(0, |position| position.offset),
                lag_records,
                lag_ms: in_time.then(|| lag_ms(&*self.log, partition, next + tail, lag_records)).flatten(),
                // The genesis has offset 0 and number 0; every accepted record since has a number, a void one
                // has only an offset.
                void_records: head.as_ref().map_or(0, |head| head.offset.saturating_sub(head.seq) + tail),
            })
        });
        let partitions = partitions.collect::<Result<Vec<_>, String>>()?;
        let notes = self.tables.sinks().map_err(|error| error.to_string())?;
        let end = |number| {
            let partition = partitions.iter().find(|it: &&PartitionStatus| it.partition == number);
            partition.map_or(0, |it| it.journal_end)
        };
        let sinks = tidemill_sinks::noted(notes, end);
        let stalled_readers = ClusterStatus::stalled_readers(&*self.log);
        Ok(ClusterStatus {
            log_id: self.log.log_id().to_string(),
            partitions,
            paths: None,
            sinks,
            stalled_readers,
            storage: if in_time { self.storage.look() } else { StorageStatus::default() },
        })
    }

    /// Whether this process hears of the log, and knows the catalogue.
    fn follows(&self) -> bool {
        Instant::now().checked_sub(OF_LATE).is_some_and(|lately| self.known.is_as_of(lately))
    }

    /// How many records right after the head do not count: a position is that of the last one that does, so a
    /// deposed owner's late records would else be a lag for as long as nothing is decided.
    fn void_tail(&self, head: &Head, end: u64) -> Result<u64, String> {
        let first = head.offset + 1;
        if first >= end {
            return Ok(0);
        }
        let reader = self.log.reader(Topic::Journal, head.partition, From::Offset(first));
        let mut reader = reader.map_err(|error| error.to_string())?;
        let mut chain = Chain::resume(head.clone());
        let mut next = first;
        while next < end {
            let records = reader.poll(RECORDS, TAIL_PATIENCE).map_err(|error| error.to_string())?;
            if records.is_empty() {
                break;
            }
            for record in records {
                if chain.accept(record.offset, &record.value).accepted().is_some() {
                    return Ok(record.offset - first);
                }
                next = record.offset + 1;
            }
        }
        Ok(next - first)
    }
}

impl Cluster for SharedCluster {
    fn status(&self) -> BoxFuture<'_, Result<ClusterStatus, String>> {
        blocking(self, |cluster| cluster.look(true))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        blocking(self, |cluster| match cluster.tables.in_use() {
            // It does without the tables what clients cannot put off: whoever sends them elsewhere helps nobody (OPS-4).
            Err(error) if error.is_outage() && cluster.follows() => Ok(()),
            Ok(_) | Err(_) => cluster.look(false).map(drop),
        })
    }
}

/// Looks at what is asked of log, tables and owners, which blocks its thread.
pub(super) fn blocking<C: Clone + Send + 'static, T: Send + 'static>(
    of: &C,
    look: impl FnOnce(&C) -> Result<T, String> + Send + 'static,
) -> BoxFuture<'static, Result<T, String>> {
    let of = of.clone();
    Box::pin(async move {
        let looked = tokio::task::spawn_blocking(move || look(&of)).await;
        looked.unwrap_or_else(|error| Err(error.to_string()))
    })
}

/// How far the tables in use are, by partition.
pub(super) fn positions(tables: &dyn Tables) -> Result<BTreeMap<u32, Position>, String> {
    let active = tables.in_use().map_err(|error| match error {
        tidemill_store::Error::NoGeneration => "there are no tables yet: start a projector".to_owned(),
        error => error.to_string(),
    })?;
    tables.positions(active.number).map_err(|error| error.to_string())
}

fn head_of(position: &Position) -> Option<Head> {
    serde_json::from_str(&position.head).ok()
}
