//! Opens the hints that the settings name, and keeps them honest beside the projector.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use tidemill_cli::{Done, Failure};
use tidemill_journal::Shutdown;
use tidemill_log::Log;
use tidemill_projector::keep_hints;
use tidemill_store::hints::{Hints, MemoryHints};

use super::standalone::spawn;
use crate::config::Settings;

/// Hints of one process.
pub(crate) fn here() -> Arc<dyn Hints> {
    Arc::new(MemoryHints::new())
}

/// Hints that the roles of a cluster share; `None` where no server is named for them.
pub(crate) fn shared(settings: &Settings, log: &dyn Log) -> Done<Option<Arc<dyn Hints>>> {
    if settings.redis.is_encrypted() && !cfg!(feature = "tls") {
        let told = "redis.url: rediss://…: needs TLS, and this program was built without it";
        return Err(
            Failure::bad_input(told).hint("build it with `--features tls`, or give a redis:// address")
        );
    }
    settings.redis.url.as_deref().map(|url| server(url, settings.redis.ca_file.as_deref(), log)).transpose()
}

#[cfg(feature = "redis")]
fn server(url: &str, ca_file: Option<&Path>, log: &dyn Log) -> Done<Arc<dyn Hints>> {
    let hints = tidemill_store::hints::RedisHints::open(url, ca_file, log.log_id().as_str())
        .map_err(|error| {
            Failure::caused("redis.url", &error).hint(
                "redis.url has user and password, and begins with rediss:// where the server's port is encrypted; \
                 redis.ca_file names who signed its certificate",
            )
        })?;
    Ok(Arc::new(hints))
}

#[cfg(not(feature = "redis"))]
fn server(_: &str, _: Option<&Path>, _: &dyn Log) -> Done<Arc<dyn Hints>> {
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
