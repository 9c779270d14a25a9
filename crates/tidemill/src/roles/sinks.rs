//! The sinks of task logs that the settings name.

use std::sync::Arc;
use std::thread::JoinHandle;

use tidemill_log::Log;
use tidemill_projector::Shutdown;
use tidemill_sinks::{Config, Progress};
use tidemill_store::Tables;

use super::standalone::spawn;
use crate::failure::{Done, Failure};

/// Starts them on a thread, which ends when all of them have.
pub(super) fn start(
    config: &Config,
    log: &Arc<dyn Log>,
    tables: &Arc<dyn Tables>,
    progress: &Progress,
    shutdown: &Shutdown,
) -> Done<JoinHandle<Done>> {
    let sinks = tidemill_sinks::openers(config)
        .map_err(|error| Failure::caused("cannot open the sinks of task logs", &error))?;
    let (log, tables) = (Arc::clone(log), Arc::clone(tables));
    let (progress, shutdown) = (progress.clone(), shutdown.clone());
    spawn("sinks", move || {
        tidemill_sinks::run_with(sinks, &log, &tables, &progress, &shutdown)
            .map_err(|error| Failure::caused("a sink of task logs has failed", &error))
    })
}
