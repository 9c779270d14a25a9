//! The configuration of an executor.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use ed25519_dalek::SigningKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{Account, GroupName, HourMinute, JobType, Reserved, ShardId, WorkerLabel, from_hex};

use crate::sweep::Daily;
use crate::{Error, TypeConfig, types};

/// The configuration of an executor. Unknown fields are refused.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The group it works for. Required.
    pub group: GroupName,
    /// The number of the shard that does the group's work, 1 to 4095, as the catalogue has it. Required.
    pub shard: ShardId,
    /// The name of this host, which jobs can be pinned to; default: what the system says.
    #[serde(default)]
    pub host: Option<String>,
    /// Where attempts, their output and the worker's identity are kept. One executor, one directory, on a
    /// local disk. Required.
    pub data_dir: PathBuf,
    /// Attempts at once, by job type, 1 to 10,000 each. Required, at least one type.
    pub slots: BTreeMap<JobType, u32>,
    /// Of these slots, those that are kept for some jobs, by job type: `{slots: 2, priority: 1}` keeps two for jobs
    /// pinned to this host and for those of priority 0 and 1; without `priority`, for pinned jobs only. Default
    /// none.
    #[serde(default)]
    pub reserved: BTreeMap<JobType, Reserved>,
    /// Memory that jobs may have of this machine's, MiB, 1 to 16,777,216; default: all of it.
    #[serde(default)]
    pub memory_mb: Option<u32>,
    /// The control group below which attempts with limits get groups of their own, as a path from the root of each tree, such as
    /// `/system.slice/tidemill.service`; `none`: use no control groups. Default: the executor's own group, where that is handed
    /// over to it.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// What jobs can ask for it by, as their `worker_label`, at most 64; default none.
    #[serde(default)]
    pub labels: BTreeSet<WorkerLabel>,
    /// Milliseconds from one heartbeat to the next, 50 to 60,000; default 3,000. It has to be well below
    /// the group's `lost_after_ms` and `lease_ms`.
    #[serde(default = "default_heartbeat")]
    pub heartbeat_ms: u64,
    /// Milliseconds that running attempts get to end by themselves when the executor is stopped and keeps no jobs, 0 to
    /// 86,400,000; default 30,000.
    #[serde(default = "default_stop_grace")]
    pub stop_grace_ms: u64,
    /// Where logs are served, `ip:port`; default `127.0.0.1:0`, a free port that only this host reaches.
    #[serde(default = "default_listen")]
    pub listen: SocketAddr,
    /// What is registered as the address of the logs, `host:port`; default: `listen` with its real port,
    /// and with the host's name where it listens on every address.
    #[serde(default)]
    pub advertise: Option<String>,
    /// How programs of each type are started, beside (or in place of) `shell` and `python`; `noop` is
    /// built in. Default none.
    #[serde(default)]
    pub types: BTreeMap<JobType, TypeConfig>,
    /// The secret that readers of logs have to present, 16 characters or more. Required.
    pub logs_key: String,
    /// The group's Ed25519 private key, 64 hexadecimal digits. Required.
    pub worker_private_key: String,
    /// The account of jobs that name none; default: the executor's own, which only root can change.
    #[serde(default)]
    pub default_run_as: Option<Account>,
    /// The umask of jobs; absent: the executor's own. The program that runs the executor sets it, where it has taken
    /// a stricter one itself.
    #[serde(skip)]
    pub job_umask: Option<u32>,
    /// Address of the API that jobs see as `TIDEMILL_API`; default empty.
    #[serde(default)]
    pub api_url: String,
    /// Whether jobs go on when the executor is told to stop, so that the next one with the same data directory takes them
    /// over; a second signal ends them. Default: they get `stop_grace_ms`, and are ended then.
    #[serde(default)]
    pub keep_jobs_on_stop: bool,
    /// Days that output of attempts is kept after their end is on record, 0 to 36,500; default 7.
    #[serde(default = "default_keep_logs")]
    pub log_retention_days: u32,
    /// When old output is removed, `HH:MM`, beside when the executor starts; default 02:10.
    #[serde(default = "default_sweep_at")]
    pub sweep_at: HourMinute,
    /// The time zone that this is a time of day in; default: the machine's own.
    #[serde(default)]
    pub sweep_zone: Option<String>,
    /// With more load than this, in percent of the machine's processors, no work is taken, until it is a fifth below that; 0 to 100,000;
    /// default 0: whatever the load is.
    #[serde(default)]
    pub max_load_percent: u32,
    /// How paths are looked at, before a batch starts (DEP-6) and where one says whether an attempt has succeeded
    /// (EXE-4); default as a prober's.
    #[serde(default)]
    pub probe: tidemill_probe::Config,
    /// Mebibytes that stay free in `data_dir`: with less, no work is taken, until a quarter more is free, 0 to
    /// 1,000,000; default 4.
    #[serde(default = "default_disk_reserve")]
    pub disk_reserve_mb: u64,
    /// Mebibytes of each of an attempt's two outputs that are kept; of a longer one the beginning and its last 64 KiB, and a
    /// line that says what is missing. 0 to 16,777,216; 0: no bound; default 4,096.
    #[serde(default = "default_output_max")]
    pub output_max_mb: u64,
    /// Names of variables of the executor's own environment whose values no output of an attempt shows: `***` stands in place of each,
    /// of its lines where it has several, and of its base64. Each has to be set, to 6 bytes or more, all together to at most 65,536. At most 64; default none.
    #[serde(default)]
    pub mask_env: Vec<String>,
    /// Bounds of the connections of those who read logs; default as in `tidemill_serving`.
    #[serde(default)]
    pub http: tidemill_serving::Config,
    /// How those who read logs are served, where roles speak encrypted. The program that runs the executor opens it.
    #[serde(skip)]
    pub tls: Option<tidemill_serving::tls::ServerSide>,
    /// Threads that start processes, 1 to 64; default 2.
    #[serde(default = "default_spawners")]
    pub spawn_threads: u32,
    /// The command that serves shims, to which the directory of attempts is added; default: this program with
    /// the argument `shim`.
    #[serde(default)]
    pub shim: Vec<String>,
}

fn default_heartbeat() -> u64 {
    3_000
}
fn default_stop_grace() -> u64 {
    30_000
}
fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}
fn default_keep_logs() -> u32 {
    7
}
fn default_sweep_at() -> HourMinute {
    HourMinute::try_from("02:10").expect("is a time of day")
}
fn default_disk_reserve() -> u64 {
    4
}
fn default_output_max() -> u64 {
    4_096
}
fn default_spawners() -> u32 {
    2
}

/// Secrets are not shown.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("group", &self.group)
            .field("shard", &self.shard)
            .field("host", &self.host)
            .field("data_dir", &self.data_dir)
            .field("slots", &self.slots)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// A configuration with its required fields, all others at their defaults.
    pub fn new(required: Required) -> Self {
        Self {
            group: required.group,
            shard: required.shard,
            host: None,
            data_dir: required.data_dir,
            slots: required.slots,
            reserved: BTreeMap::new(),
            memory_mb: None,
            cgroup: None,
            labels: BTreeSet::new(),
            heartbeat_ms: default_heartbeat(),
            stop_grace_ms: default_stop_grace(),
            keep_jobs_on_stop: false,
            listen: default_listen(),
            advertise: None,
            types: BTreeMap::new(),
            logs_key: required.logs_key,
            worker_private_key: required.worker_private_key,
            default_run_as: None,
            job_umask: None,
            api_url: String::new(),
            log_retention_days: default_keep_logs(),
            sweep_at: default_sweep_at(),
            sweep_zone: None,
            max_load_percent: 0,
            probe: tidemill_probe::Config::default(),
            disk_reserve_mb: default_disk_reserve(),
            output_max_mb: default_output_max(),
            mask_env: Vec::new(),
            http: tidemill_serving::Config::default(),
            tls: None,
            spawn_threads: default_spawners(),
            shim: Vec::new(),
        }
    }

    /// Whether an executor could run with it.
    ///
    /// # Errors
    /// The first field that it could not run with, with its value and rule.
    pub fn check(&self) -> Result<(), Error> {
        range("shard", u64::from(self.shard.0), 1..=u64::from(ShardId::MAX.0))?;
        range("heartbeat_ms", self.heartbeat_ms, 50..=60_000)?;
        range("stop_grace_ms", self.stop_grace_ms, 0..=86_400_000)?;
        range("log_retention_days", u64::from(self.log_retention_days), 0..=36_500)?;
        range("max_load_percent", u64::from(self.max_load_percent), 0..=100_000)?;
        Daily::of(self)?;
        range("disk_reserve_mb", self.disk_reserve_mb, 0..=1_000_000)?;
        range("output_max_mb", self.output_max_mb, 0..=1 << 24)?;
        range("labels (how many)", self.labels.len() as u64, 0..=64)?;
        range("mask_env (how many)", self.mask_env.len() as u64, 0..=64)?;
        if let Some(name) = self.mask_env.iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let rule = "has to be the name of a variable of the environment, without =".to_owned();
            return Err(Error::Config { field: "mask_env", value: format!("{name:?}"), rule });
        }
        self.http.check().map_err(|rule| Error::Config { field: "http", value: String::new(), rule })?;
        range("spawn_threads", u64::from(self.spawn_threads), 1..=64)?;
        range("logs_key (its length)", self.logs_key.len() as u64, 16..=4_096)?;
        range("slots (how many types)", self.slots.len() as u64, 1..=1_000)?;
        let types = self.all_types();
        for (name, config) in &self.types {
            config.check(name)?;
        }
        for (name, slots) in &self.slots {
            range("slots", u64::from(*slots), 1..=10_000)?;
            if !types::is_noop(name) && !types.contains_key(name) {
                let rule = "has no entry in types, so nothing says how to run it".to_owned();
                return Err(Error::Config { field: "slots", value: name.to_string(), rule });
            }
        }
        let unready = |c: char| c.is_control() || c.is_whitespace();
        if let Some(host) =
            self.host.as_ref().filter(|host| host.is_empty() || host.len() > 255 || host.contains(unready))
        {
            let rule = "has to be 1 to 255 bytes without spaces and control characters".to_owned();
            return Err(Error::Config { field: "host", value: format!("{host:?}"), rule });
        }
        for (name, reserved) in &self.reserved {
            let slots = self.slots.get(name).copied().unwrap_or(0);
            if reserved.slots == 0 || reserved.slots > slots {
                let rule = format!("has to be 1 to the {slots} slots of its type");
                let value = format!("{name}: {}", reserved.slots);
                return Err(Error::Config { field: "reserved", value, rule });
            }
        }
        let is_group = |group: &&String| {
            *group == "none" || group.starts_with('/') && !group.split('/').any(|part| part == "..")
        };
        if let Some(cgroup) = self.cgroup.as_ref().filter(|cgroup| !is_group(cgroup)) {
            let rule = "has to be none, or a path that begins with / and has no part ..".to_owned();
            return Err(Error::Config { field: "cgroup", value: cgroup.clone(), rule });
        }
        if let Some(memory_mb) = self.memory_mb {
            range("memory_mb", u64::from(memory_mb), 1..=1 << 24)?;
        }
        self.signing_key().map(|_| ())
    }

    /// The defaults, and what the configuration adds or replaces.
    pub(crate) fn all_types(&self) -> BTreeMap<JobType, TypeConfig> {
        let mut all = types::defaults();
        all.extend(self.types.clone());
        all
    }

    /// The bound in bytes, where there is one.
    pub(crate) fn output_max_bytes(&self) -> Option<u64> {
        Some(self.output_max_mb << 20).filter(|max_bytes| *max_bytes > 0)
    }

    pub(crate) fn signing_key(&self) -> Result<SigningKey, Error> {
        let seed = from_hex(&self.worker_private_key).ok_or_else(|| Error::Config {
            field: "worker_private_key",
            value: format!("{} characters", self.worker_private_key.len()),
            rule: "has to be 64 hexadecimal digits".to_owned(),
        })?;
        Ok(SigningKey::from_bytes(&seed))
    }
}

/// The fields of a configuration that have no default.
#[derive(Clone)]
pub struct Required {
    /// As [`Config::group`].
    pub group: GroupName,
    /// As [`Config::shard`].
    pub shard: ShardId,
    /// As [`Config::data_dir`].
    pub data_dir: PathBuf,
    /// As [`Config::slots`].
    pub slots: BTreeMap<JobType, u32>,
    /// As [`Config::logs_key`].
    pub logs_key: String,
    /// As [`Config::worker_private_key`].
    pub worker_private_key: String,
}

fn range(field: &'static str, value: u64, allowed: std::ops::RangeInclusive<u64>) -> Result<(), Error> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let rule = format!("has to be {} to {}", allowed.start(), allowed.end());
    Err(Error::Config { field, value: value.to_string(), rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> serde_json::Value {
        serde_json::json!({
            "group": "g", "shard": 1, "data_dir": "/tmp/x", "slots": {"shell": 1, "noop": 2},
            "logs_key": "k".repeat(16), "worker_private_key": "0f".repeat(32),
        })
    }

    #[test]
    fn required_fields_are_enough_and_others_have_their_defaults() {
        let config: Config = serde_json::from_value(config()).unwrap();
        config.check().unwrap();
        assert_eq!(
            (config.heartbeat_ms, config.stop_grace_ms, config.log_retention_days),
            (3_000, 30_000, 7)
        );
    }

    #[test]
    fn unknown_fields_and_values_out_of_range_are_refused() {
        let mut unknown = config();
        unknown["colour"] = 1.into();
        assert!(serde_json::from_value::<Config>(unknown).is_err());
        let bad = [
            ("shard", serde_json::json!(0)),
            ("heartbeat_ms", serde_json::json!(1)),
            ("output_max_mb", serde_json::json!((1 << 24) + 1)),
            ("mask_env", serde_json::json!([""])),
            ("mask_env", serde_json::json!(["A=B"])),
            ("mask_env", serde_json::json!(vec!["A"; 65])),
            ("slots", serde_json::json!({})),
            ("slots", serde_json::json!({"shell": 0})),
            ("slots", serde_json::json!({"cobol": 1})),
            ("logs_key", serde_json::json!("short")),
            ("worker_private_key", serde_json::json!("zz".repeat(32))),
        ];
        for (field, value) in bad {
            let mut given = config();
            given[field] = value;
            let checked = serde_json::from_value::<Config>(given).unwrap().check();
            assert!(matches!(checked, Err(Error::Config { .. })), "{field}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let config: Config = serde_json::from_value(config()).unwrap();
        let shown = format!("{config:?}");
        assert!(!shown.contains("kkkk") && !shown.contains("0f0f"), "{shown}");
    }
}
