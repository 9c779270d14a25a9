//! What the interface asks, answered by the roles of the same process.

use std::sync::{Arc, OnceLock};

use tidemill_api::ports::{Cluster, ClusterStatus, PartitionStatus};
use tidemill_cluster::{AskOwner, BoxFuture, OpenLine};
use tidemill_dispatcher::LiveHandle;
use tidemill_journal::Progress;
use tidemill_log::{Log, Topic};
use tidemill_model::ProberStatus;
use tidemill_serving::Limits;
use tidemill_store::Tables;

use super::cluster::blocking;
use super::lag::lag_ms;
use super::storage::Storage;

/// Questions to the owners of this process.
pub(crate) fn owners(live: LiveHandle, partitions: u32) -> AskOwner {
    Arc::new(move |shard, query| live.query(shard, partitions, query).map_err(|error| error.to_string()))
}

/// Lines from the owners of this process to others, which take no more than half of the connections there may be.
pub(crate) fn lines(live: LiveHandle, limits: &Limits) -> OpenLine {
    let most = limits.connections / 2;
    Arc::new(move |instance, take| Some(Box::new(live.open_line(instance, most, take)?)))
}

/// Dispatcher and projector of this process.
#[derive(Clone)]
pub(crate) struct LocalCluster {
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) live: LiveHandle,
    pub(crate) progress: Progress,
    pub(crate) probes: Probes,
    pub(crate) sinks: tidemill_sinks::Progress,
    pub(crate) storage: Storage,
}

/// How the prober of this process does, once it runs.
pub(crate) type Probes = Arc<OnceLock<Arc<dyn Fn() -> ProberStatus + Send + Sync>>>;

impl LocalCluster {
    fn look(&self) -> Result<ClusterStatus, String> {
        let owners = self.live.status();
        let progress = self.progress.partitions();
        let partitions = (0..self.log.partitions(Topic::Journal)).map(|partition| {
            let range = self.log.range(Topic::Journal, partition).map_err(|error| error.to_string())?;
            let owner = owners.iter().find(|owner| owner.partition == partition);
            let projection = progress.get(&partition);
            let projected = projection.and_then(|projection| projection.projected);
            let next = projected.map_or(range.start, |at| at + 1);
            let lag_records = range.end.saturating_sub(next);
            Ok(PartitionStatus {
                partition,
                owner: owner.filter(|owner| owner.owning).map(|owner| owner.owner.clone()),
                epoch: owner.map_or(0, |owner| owner.epoch),
                journal_end: range.end,
                projected: projected.unwrap_or(0),
                lag_records,
                lag_ms: lag_ms(&*self.log, partition, next, lag_records),
                void_records: owner.map_or(0, |owner| owner.void_records),
            })
        });
        let partitions = partitions.collect::<Result<Vec<_>, String>>()?;
        let paths = self.probes.get().map(|status| status());
        let sinks = self.sinks.sinks(|number| {
            partitions.iter().find(|it| it.partition == number).map_or(0, |it| it.journal_end)
        });
        let stalled_readers = ClusterStatus::stalled_readers(&*self.log);
        let (log_id, storage) = (self.log.log_id().to_string(), self.storage.look());
        Ok(ClusterStatus { log_id, partitions, paths, sinks, stalled_readers, storage })
    }

    fn check(&self) -> Result<(), String> {
        self.tables.in_use().map_err(|error| error.to_string())?;
        let status = self.look()?;
        if let Some(partition) = status.partitions.iter().find(|partition| partition.owner.is_none()) {
            return Err(format!("partition {} has no owner", partition.partition));
        }
        let progress = self.progress.partitions();
        let failed = progress.iter().find_map(|(number, it)| Some((number, it.error.as_ref()?)));
        match failed {
            Some((number, error)) => Err(format!("partition {number} is not projected: {error}")),
            None => Ok(()),
        }
    }
}

impl Cluster for LocalCluster {
    fn status(&self) -> BoxFuture<'_, Result<ClusterStatus, String>> {
        blocking(self, Self::look)
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        blocking(self, Self::check)
    }
}
