//! Opens the hints that the settings name, and keeps them honest beside the projector.

use std::sync::Arc;
use std::thread::JoinHandle;

use tidemill_log::Log;
use tidemill_projector::{Shutdown, keep_hints};
use tidemill_store::hints::{Hints, MemoryHints};

use super::standalone::spawn;
use crate::config::Settings;
use crate::failure::{Done, Failure};

/// Hints of one process.
pub(crate) fn here() -> Arc<dyn Hints> {
    Arc::new(MemoryHints::new())
}

/// Hints that the roles of a cluster share; `None` where no server is named for them.
pub(crate) fn shared(settings: &Settings, log: &dyn Log) -> Done<Option<Arc<dyn Hints>>> {
    settings.redis.url.as_deref().map(|url| server(url, log)).transpose()
}

#[cfg(feature = "redis")]
fn server(url: &str, log: &dyn Log) -> Done<Arc<dyn Hints>> {
    let hints = tidemill_store::hints::RedisHints::open(url, log.log_id().as_str())
        .map_err(|error| Failure::caused("cannot use the server of redis.url", &error))?;
    Ok(Arc::new(hints))
}

#[cfg(not(feature = "redis"))]
fn server(_: &str, _: &dyn Log) -> Done<Arc<dyn Hints>> {
    Err(Failure::bad_input("redis.url is set, and this program was built without Redis")
        .hint("build it with `--features redis`, or leave redis.url out; then every pull asks the owner"))
}

/// Keeps the hints of every partition until shutdown.
pub(crate) fn keep(log: &Arc<dyn Log>, hints: Arc<dyn Hints>, shutdown: &Shutdown) -> Done<JoinHandle<Done>> {
    let (log, told) = (Arc::clone(log), shutdown.clone());
    spawn("keeper of hints", move || {
        keep_hints(&log, &hints, &told).map_err(|error| Failure::caused("keeping hints has failed", &error))
    })
}
