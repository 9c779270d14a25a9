//! The executor's role: runs jobs of one group.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tidemill_cli::{Done, Exit, Failure};
use tidemill_executor::{Config, Required};
use tidemill_log::Log;
use tidemill_model::{GroupName, JobType, ShardId};

use crate::config::Settings;
use crate::keys::Keys;
use crate::roles::registration::Registration;
use crate::roles::tls::Tls;
use crate::roles::{first_start, groups, snapshots};

/// Where the worker keeps its identity and its attempts in the data directory.
const DIRECTORY: &str = "worker";

/// Between two looks whether the process is too old.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the role by itself until it is told to stop.
pub(crate) fn run(settings: &Settings, tls: &Tls, log: Arc<dyn Log>, shutdown: Receiver<()>) -> Done<Exit> {
    let keys = settings.keys()?;
    let name = group_name(settings)?;
    let private = keys.existing_group_private(name.as_str())?;
    let kept = snapshots::of(settings, &*log)?;
    let group = groups::find(&*log, kept.as_ref(), &name)?.ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("the catalogue has no group {name}")).hint(format!(
            "define it with `tidemill group apply {name}`, or name another with executor.group"
        ))
    })?;
    let group = first_start::same_key(group, &name, &crate::keys::public_half(&private)?)?;
    let mut config = config(settings, &keys, group.shard, private)?;
    config.tls = tls.for_roles();
    let registration = Registration::start(settings, &log, &["executor"])?;
    let (stop, stopped) = bounded(2);
    let watch = Watch { shutdown, stop, is_over: Arc::default() };
    let over = Arc::clone(&watch.is_over);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| watch.run(&registration));
        let ended = tidemill_executor::run(config, Arc::clone(&log), stopped);
        over.store(true, Ordering::Relaxed);
        ended.map_err(|error| Failure::caused("the executor has failed", &error))
    });
    registration.end(outcome.map(|()| Exit::Success))
}

/// Tells the worker to stop: when a signal says so, or when the process is too old for the log.
struct Watch {
    shutdown: Receiver<()>,
    stop: Sender<()>,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    fn run(&self, registration: &Registration) {
        let mut is_told = false;
        while !self.is_over.load(Ordering::Relaxed) {
            if !is_told && let Some(failure) = registration.too_old() {
                is_told = true;
                tracing::error!("{}", failure.message);
                let _ = self.stop.try_send(());
            }
            match self.shutdown.recv_timeout(LOOK) {
                // Of three signals the worker hears two.
                Ok(()) => drop(self.stop.try_send(())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
        }
    }
}

/// The name of the group that the settings name.
pub(crate) fn group_name(settings: &Settings) -> Done<GroupName> {
    GroupName::try_from(settings.executor.group.as_str())
        .map_err(|error| Failure::bad_input(format!("executor.group: {error}")))
}

/// The crate's configuration from the settings and keys.
pub(crate) fn config(settings: &Settings, keys: &Keys, shard: ShardId, private: String) -> Done<Config> {
    let logs_key = settings.logs_key(keys)?;
    let executor = &settings.executor;
    let mut config = Config::new(Required {
        group: group_name(settings)?,
        shard,
        data_dir: data_dir(settings)?,
        slots: slots(&executor.slots)?,
        logs_key,
        worker_private_key: private,
    });
    config.listen = executor.listen.parse::<SocketAddr>().map_err(|_| {
        Failure::bad_input(format!("executor.listen: {:?}: must be ip:port", executor.listen))
    })?;
    config.advertise.clone_from(&executor.advertise);
    config.host.clone_from(&executor.host);
    config.types.clone_from(&executor.types);
    config.reserved.clone_from(&executor.reserved);
    config.memory_mb = executor.memory_mb;
    config.cgroup.clone_from(&executor.cgroup);
    config.stop_grace_ms = executor.stop_grace_ms;
    config.keep_jobs_on_stop =
        executor.keep_jobs_on_stop.unwrap_or_else(tidemill_executor::jobs_can_outlive_their_worker);
    config.heartbeat_ms = executor.heartbeat_ms;
    config.log_retention_days = executor.log_retention_days;
    config.sweep_at = executor.sweep_at;
    config.sweep_zone.clone_from(&executor.sweep_zone);
    config.max_load_percent = executor.max_load_percent;
    config.labels.clone_from(&executor.labels);
    config.disk_reserve_mb = executor.disk_reserve_mb;
    config.output_max_mb = executor.output_max_mb;
    config.mask_env.clone_from(&executor.mask_env);
    config.default_run_as.clone_from(&executor.default_run_as);
    config.job_umask = crate::privacy::umask_of_start();
    config.api_url.clone_from(&executor.api_url);
    config.probe.clone_from(&settings.prober.paths);
    config.http.clone_from(&settings.http);
    Ok(config)
}

/// Where the worker keeps what must survive. From the root on, for a shim runs in a directory of its own.
fn data_dir(settings: &Settings) -> Done<PathBuf> {
    crate::privacy::make_dir(&settings.data_dir)?;
    let dir = settings.data_dir.join(DIRECTORY);
    std::path::absolute(&dir)
        .map_err(|error| Failure::caused(format!("cannot find the directory {}", dir.display()), &error))
}

fn slots(slots: &BTreeMap<String, u32>) -> Done<BTreeMap<JobType, u32>> {
    slots
        .iter()
        .map(|(name, count)| {
            let name = JobType::try_from(name.as_str())
                .map_err(|error| Failure::bad_input(format!("executor.slots: {error}")))?;
            Ok((name, *count))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// OPS-1: each setting of an executor reaches it; one that is only shown has no effect.
    #[test]
    fn every_setting_of_an_executor_reaches_it() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { data_dir: dir.path().to_owned(), keys_dir: None, ..Settings::default() };
        let keys = Keys::open(dir.path()).unwrap();
        let reaches = |settings: &Settings| {
            let config = config(settings, &keys, ShardId(1), "0f".repeat(32)).unwrap();
            serde_json::to_value(config).unwrap()
        };
        let plain = reaches(&settings);
        let fields = serde_json::to_value(&settings.executor).unwrap();
        for (field, default) in fields.as_object().unwrap() {
            let value = match field.as_str() {
                "listen" => json!("127.0.0.1:9"),
                "memory_mb" => json!(77),
                "sweep_at" => json!("03:30"),
                "sweep_zone" => json!("Europe/Berlin"),
                "keep_jobs_on_stop" => json!(!plain[field].as_bool().unwrap()),
                "reserved" => json!({"shell": {"slots": 1}}),
                "slots" => json!({"shell": 3}),
                "types" => json!({"r": {"command": ["Rscript", "{script}"]}}),
                "labels" => json!(["big"]),
                "mask_env" => json!(["PASSWORD"]),
                _ if default.is_boolean() => json!(!default.as_bool().unwrap()),
                _ if default.is_u64() => json!(default.as_u64().unwrap() + 1),
                _ => json!("other"),
            };
            let mut changed = fields.clone();
            changed[field] = value.clone();
            let executor = serde_json::from_value(changed).unwrap();
            let reached = reaches(&Settings { executor, ..settings.clone() });
            assert_ne!(reached[field], plain[field], "executor.{field} does not reach the executor");
            assert_eq!(reached[field], value);
        }
    }
}
