//! Every setting, with its unit, default and range.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_cli::Done;

use super::TlsSettings;
use super::executor::ExecutorSettings;
use super::log::LogSettings;
use super::process::ProcessSettings;
use super::tables::{RedisSettings, StoreSettings};
use crate::keys::Keys;

/// Settings that hold a map; a layer that gives one replaces it whole.
pub(super) const OPEN: &[&str] = &[
    "api.sign_in.oidc",
    "executor.reserved",
    "executor.slots",
    "executor.types",
    "log.kafka",
    "logs.groups",
    "logs.hdfs.settings",
    "prober.paths.hdfs.settings",
];
/// Settings that are never shown.
pub(super) const SECRET: &[&str] = &[
    "api.internal_key",
    "api.logs_key",
    "api.operator_key",
    "api.sign_in.oidc",
    "archive.s3.secret_access_key",
    "internal_key",
    "log.kafka",
    "log.security.password",
    "logs.s3.secret_access_key",
    "logs_key",
    "operator_key",
    "prober.paths.s3.secret_access_key",
    "redis.url",
    "sinks.elasticsearch.api_key",
    "sinks.elasticsearch.password",
    "sinks.mysql.url",
    "sinks.parquet.s3.secret_access_key",
    "snapshots.s3.secret_access_key",
    "store.url",
];

/// The configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Where everything that must survive a restart is kept, and the keys. Default `./tidemill-data`.
    pub(crate) data_dir: PathBuf,
    /// Where keys are kept: `admin.key`, `operator.key`, `internal.key`, `logs.key`, `group-NAME.key`. The roles of
    /// a cluster may share it, while each has a data directory of its own; an executor's host needs `logs.key` and
    /// its group's alone. Default: the data directory.
    pub(crate) keys_dir: Option<PathBuf>,
    /// Secret that dispatchers, interfaces and producers of one cluster share, at least 16 characters: it opens an
    /// owner's live state and nothing else. Default: the file `internal.key` among the keys, drawn where there is none.
    pub(crate) internal_key: Option<String>,
    /// Secret that executors and interfaces of one cluster share, at least 16 characters: it opens the logs that
    /// executors serve and nothing else. Default: the file `logs.key` among the keys, drawn where there is none.
    pub(crate) logs_key: Option<String>,
    /// Secret of those who operate while the read tables, and with them all application keys, are lost, at least 16
    /// characters: it opens `/api/admin` and nothing else. Empty: off. Default: off, but `standalone` draws the file
    /// `operator.key` among the keys.
    pub(crate) operator_key: Option<String>,
    /// Which log lines are written: a level, or targets with levels as in `info,tidemill_log=debug`.
    /// Default `info`; client commands write none.
    pub(crate) log_filter: String,
    /// The log of events.
    pub(crate) log: LogSettings,
    /// Where old records of journals go.
    pub(crate) archive: tidemill_archive::Config,
    /// Copies of the state of partitions, from which owners begin.
    pub(crate) snapshots: tidemill_snapshots::Config,
    /// How this process registers with the catalogue, so that nothing is written that it cannot read.
    pub(crate) process: ProcessSettings,
    /// The read tables.
    pub(crate) store: StoreSettings,
    /// Hints that spare empty answers to clients that pull tasks.
    pub(crate) redis: RedisSettings,
    /// Connections to every listener of this process: the interface, the live port, the logs of attempts.
    pub(crate) http: tidemill_serving::Config,
    /// Encryption of every listener of this process, and whom its clients trust.
    pub(crate) tls: TlsSettings,
    /// The role that answers over HTTP.
    pub(crate) api: tidemill_api::Config,
    /// The role that owns partitions and decides.
    pub(crate) dispatcher: tidemill_dispatcher::Config,
    /// The role that runs jobs.
    pub(crate) executor: ExecutorSettings,
    /// The role that keeps logs of attempts.
    pub(crate) logs: tidemill_logs::Config,
    /// The role that fills the read tables and publishes the feed.
    pub(crate) projector: tidemill_projector::Config,
    /// Where task logs of what clients pull go, by the role `sink` or in `standalone`.
    pub(crate) sinks: tidemill_sinks::Config,
    // ---- what looks outside
    /// Paths that batches wait for, and how they are asked for.
    pub(crate) prober: tidemill_producers::prober::Config,
    /// The service that is asked whether batches with a quality gate may run.
    pub(crate) quality: tidemill_producers::quality::Config,
    /// Reports of third parties on a topic.
    pub(crate) third_party: tidemill_producers::third_party::Config,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("tidemill-data"),
            keys_dir: None,
            internal_key: None,
            logs_key: None,
            operator_key: None,
            log_filter: "info".to_owned(),
            log: LogSettings::default(),
            archive: tidemill_archive::Config::default(),
            snapshots: tidemill_snapshots::Config::default(),
            process: ProcessSettings::default(),
            store: StoreSettings::default(),
            redis: RedisSettings::default(),
            http: tidemill_serving::Config::default(),
            tls: TlsSettings::default(),
            api: tidemill_api::Config::default(),
            dispatcher: tidemill_dispatcher::Config::default(),
            executor: ExecutorSettings::default(),
            logs: tidemill_logs::Config::default(),
            projector: tidemill_projector::Config::default(),
            sinks: tidemill_sinks::Config::default(),
            prober: tidemill_producers::prober::Config::default(),
            quality: tidemill_producers::quality::Config::default(),
            third_party: tidemill_producers::third_party::Config::default(),
        }
    }
}

impl Settings {
    /// The interface's configuration, with its secrets in it.
    pub(crate) fn api_config(&self, keys: &Keys) -> Done<tidemill_api::Config> {
        let mut config = self.api.clone();
        config.job_types.extend(self.executor.types.keys().cloned());
        if config.internal_key.is_empty() {
            config.internal_key = self.internal_key(keys)?;
        }
        if config.logs_key.is_empty() {
            config.logs_key = self.logs_key(keys)?;
        }
        if config.operator_key.is_empty() {
            config.operator_key = self.operator_key.clone().unwrap_or_default();
        }
        Ok(config)
    }

    /// Where the keys are kept.
    pub(crate) fn keys_dir(&self) -> &Path {
        self.keys_dir.as_deref().unwrap_or(&self.data_dir)
    }

    /// What the commands that speak to a server use of them.
    pub(crate) fn of_clients(&self) -> tidemill_cli::Settings {
        tidemill_cli::Settings {
            data_dir: self.data_dir.clone(),
            keys_dir: self.keys_dir().to_owned(),
            ca_file: self.tls.ca_file.clone(),
            operator_key: self.operator_key.clone(),
        }
    }

    /// The keys.
    pub(crate) fn keys(&self) -> Done<Keys> {
        Keys::open(self.keys_dir())
    }

    /// What is put aside while tables are compared lies in the data directory.
    pub(crate) fn verify_config(&self) -> tidemill_projector::VerifyConfig {
        let cached_rows = self.projector.cached_rows;
        tidemill_projector::VerifyConfig { scratch: self.data_dir.clone(), cached_rows, ..Default::default() }
    }

    /// The secret of the live port: as configured, else from the data directory.
    pub(crate) fn internal_key(&self, keys: &Keys) -> Done<String> {
        self.internal_key.clone().map_or_else(|| keys.internal(), Ok)
    }

    /// The secret of the executors' logs: as configured, else from the data directory.
    pub(crate) fn logs_key(&self, keys: &Keys) -> Done<String> {
        self.logs_key.clone().map_or_else(|| keys.logs(), Ok)
    }
}
