//! The sinks of task logs that the settings name.

use std::sync::Arc;
use std::thread::JoinHandle;

use tidemill_cli::{Done, Failure};
use tidemill_journal::Shutdown;
use tidemill_log::Log;
use tidemill_sinks::{Config, Error, Opener, Progress};
use tidemill_store::Tables;

use super::standalone::spawn;

/// What the settings name; nothing is connected yet. Asked for first of all, so that a program that cannot do it does
/// nothing else either.
pub(super) fn openers(config: &Config) -> Done<Vec<Opener>> {
    tidemill_sinks::openers(config).map_err(|error| match &error {
        Error::NotBuilt { setting, feature } => Failure::bad_input(error.to_string())
            .hint(format!("build it with `--features {feature}`, or leave {setting} out")),
        _ => Failure::caused("cannot open the sinks of task logs", &error),
    })
}

/// Starts them on a thread, which ends when all of them have.
pub(super) fn start(
    sinks: Vec<Opener>,
    log: &Arc<dyn Log>,
    tables: &Arc<dyn Tables>,
    progress: &Progress,
    shutdown: &Shutdown,
) -> Done<JoinHandle<Done>> {
    let (log, tables) = (Arc::clone(log), Arc::clone(tables));
    let (progress, shutdown) = (progress.clone(), shutdown.clone());
    spawn("sinks", move || {
        tidemill_sinks::run_with(sinks, &log, &tables, &progress, &shutdown)
            .map_err(|error| Failure::caused("a sink of task logs has failed", &error))
    })
}
