//! The store of logs of attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_cli::{Done, Failure};
use tidemill_log::Log;
use tidemill_logs::{Outside, Running, WorkerPlace, WorkerState, Workers};
use tidemill_model::{InstanceId, ShardId};
use tidemill_store::rows::WorkerRow;
use tidemill_store::{PageRequest, ReadTables, Tables, WorkerFilter};

use super::tls::Tls;
use crate::config::Settings;
use crate::keys::Keys;

/// Where logs are kept in the data directory, where no other place is named.
const DIRECTORY: &str = "logs";
/// Workers of one look.
const PAGE: usize = 1_000;

/// Starts it: it asks the workers that the tables know.
pub(super) fn start(
    settings: &Settings,
    (keys, internal_key): (&Keys, String),
    log: &Arc<dyn Log>,
    tables: &Arc<dyn Tables>,
    instance: InstanceId,
    tls: &Tls,
) -> Done<Running> {
    let cannot = |error: &dyn std::error::Error| Failure::caused("cannot start the store of logs", error);
    let mut config = settings.logs.clone();
    if config.place.is_empty() {
        crate::privacy::make_dir(&settings.data_dir)?;
        let directory =
            std::path::absolute(settings.data_dir.join(DIRECTORY)).map_err(|error| cannot(&error))?;
        config.place = directory.to_string_lossy().into_owned();
    }
    let outside = Outside {
        log: Arc::clone(log),
        instance,
        workers: workers(Arc::clone(tables)),
        logs_key: settings.logs_key(keys)?,
        internal_key,
        roles: tls.roles.clone(),
        tls: tls.for_roles(),
        limits: settings.http.for_own_roles(),
    };
    Running::start(config, outside).map_err(|error| cannot(&error))
}

/// Ends it.
pub(super) fn stop(running: Running) -> Done {
    running.stop().map_err(|error| Failure::caused("the store of logs has failed", &error))
}

/// All that the tables know.
fn workers(tables: Arc<dyn Tables>) -> Workers {
    Arc::new(move || {
        let (mut found, mut request) = (Vec::new(), PageRequest::first(PAGE));
        loop {
            let page =
                tables.workers(&WorkerFilter::default(), &request).map_err(|error| error.to_string())?;
            found.extend(page.items);
            match page.next {
                Some(next) => request.after = Some(next),
                None => return Ok(places(found)),
            }
        }
    })
}

/// A worker has a row for each shard that it has ever worked for, and after a reboot of its host another one has its address; the newest
/// registration counts.
fn places(mut rows: Vec<WorkerRow>) -> Vec<WorkerPlace> {
    rows.sort_by_key(|row| std::cmp::Reverse(row.registered_at));
    let mut found: BTreeMap<Arc<str>, WorkerPlace> = BTreeMap::new();
    let mut addresses = BTreeSet::new();
    for row in rows {
        let shard = u16::try_from(row.shard).ok().map(ShardId);
        let Some((shard, group)) = shard.zip(row.group_name.as_ref().try_into().ok()) else { continue };
        let worker = found.entry(Arc::clone(&row.id)).or_insert_with(|| {
            let state = match &*row.state {
                "gone" => WorkerState::Gone,
                "left" => WorkerState::Left,
                _ if addresses.insert(Arc::clone(&row.address)) => WorkerState::There,
                _ => WorkerState::Left,
            };
            let (worker, address) = (Arc::clone(&row.id), Arc::clone(&row.address));
            WorkerPlace { worker, shard, groups: Vec::new(), address, state }
        });
        worker.groups.push((shard, group));
    }
    found.into_values().collect()
}
