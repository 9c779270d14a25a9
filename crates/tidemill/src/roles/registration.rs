//! This process as the catalogue knows it, and how it ends where it is too old for the log (OPS-9).

use std::sync::Arc;
use std::time::Duration;

use tidemill_cli::{Done, Exit, Failure};
use tidemill_cluster::{Registrar, instance_id};
use tidemill_log::Log;
use tidemill_model::{InstanceId, Process};

use crate::config::Settings;

/// A registered process.
pub(crate) struct Registration {
    registrar: Registrar,
}

impl Registration {
    /// Begins to register this process with a new id.
    pub(crate) fn start(settings: &Settings, log: &Arc<dyn Log>, roles: &[&str]) -> Done<Self> {
        let id = instance_id(roles.first().copied().unwrap_or("process"));
        Self::start_as(settings, log, roles, id)
    }

    pub(crate) fn start_as(
        settings: &Settings,
        log: &Arc<dyn Log>,
        roles: &[&str],
        id: InstanceId,
    ) -> Done<Self> {
        let process = Process {
            id,
            host: rustix::system::uname().nodename().to_string_lossy().chars().take(200).collect(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reads: settings.process.level(),
            expire_after_ms: settings.process.expire_after_ms,
        };
        let every = Duration::from_millis(settings.process.heartbeat_ms);
        let registrar = Registrar::start(Arc::clone(log), process, every)
            .map_err(|error| Failure::caused("cannot register this process", &error))?;
        Ok(Self { registrar })
    }

    /// Why this process has to stop, if it is too old for the log.
    pub(crate) fn too_old(&self) -> Option<Failure> {
        self.registrar.refusal().map(|refusal| too_old(&refusal.to_string())).or_else(met)
    }

    /// Ends it, after the roles of the process have ended so. That it is too old is why they did, whatever they say.
    pub(crate) fn end<T>(self, outcome: Done<T>) -> Done<T> {
        let too_old = self.too_old();
        self.registrar.stop();
        too_old.map_or(outcome, Err)
    }
}

/// What is told of a process that is too old for the log.
pub(crate) fn too_old(reason: &str) -> Failure {
    Failure::new(Exit::TooOld, format!("this process is too old: {reason}"))
}

/// Why this process cannot go on, if one of its readers met a level that it does not read.
fn met() -> Option<Failure> {
    tidemill_journal::met_too_new().map(too_old)
}

/// The same outcome; where a reader met a level that this process does not read, that is what is told.
pub(crate) fn named<T>(outcome: Done<T>) -> Done<T> {
    outcome.map_err(|failure| if failure.exit == Exit::TooOld { failure } else { met().unwrap_or(failure) })
}
