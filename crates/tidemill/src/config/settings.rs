//! Every setting, with its unit, default and range.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_cli::Done;
use tidemill_executor::TypeConfig;
use tidemill_model::{Account, FieldError, JobType, Reserved, WorkerLabel};

use super::TlsSettings;
use super::security::SecuritySettings;
use crate::keys::Keys;

/// Settings that hold a map; a layer that gives one replaces it whole.
pub(super) const OPEN: &[&str] =
    &["executor.reserved", "executor.slots", "executor.types", "log.kafka", "prober.paths.hdfs.settings"];
/// Settings that are never shown.
pub(super) const SECRET: &[&str] = &[
    "api.internal_key",
    "api.logs_key",
    "api.operator_key",
    "internal_key",
    "log.kafka",
    "log.security.password",
    "logs_key",
    "operator_key",
    "prober.paths.s3.secret_access_key",
    "redis.url",
    "sinks.elasticsearch.api_key",
    "sinks.elasticsearch.password",
    "sinks.mysql.url",
    "sinks.parquet.s3.secret_access_key",
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
    /// The role that fills the read tables and publishes the feed.
    pub(crate) projector: ProjectorSettings,
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
            store: StoreSettings::default(),
            redis: RedisSettings::default(),
            http: tidemill_serving::Config::default(),
            tls: TlsSettings::default(),
            api: tidemill_api::Config::default(),
            dispatcher: tidemill_dispatcher::Config::default(),
            executor: ExecutorSettings::default(),
            projector: ProjectorSettings::default(),
            sinks: tidemill_sinks::Config::default(),
            prober: tidemill_producers::prober::Config::default(),
            quality: tidemill_producers::quality::Config::default(),
            third_party: tidemill_producers::third_party::Config::default(),
        }
    }
}

/// Which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogBackend {
    /// In the data directory, for one process.
    #[default]
    Embedded,
    /// On Kafka, for a cluster.
    Kafka,
}

/// The log of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogSettings {
    /// Which log: `embedded` (default) or `kafka`.
    pub(crate) backend: LogBackend,
    /// Kafka: where to find the brokers, `host:port` each. Default none.
    pub(crate) brokers: Vec<String>,
    /// Kafka: begins the names of all topics. Default `tidemill`.
    pub(crate) prefix: String,
    /// How many partitions commands and journal get when the log is made; never changes after. Default
    /// 16; 1 to 4096. The embedded log makes 2: one for the catalogue, one for the work.
    pub(crate) partitions: u32,
    /// Kafka: accept topics without replication, and with that the loss of what one broker loses.
    /// Default `false`.
    pub(crate) single_broker: bool,
    /// Kafka: how the connections to its brokers are protected.
    pub(crate) security: SecuritySettings,
    /// Kafka: more settings of its client library, as in `{ "client.rack" = "a" }`. Those that the protocol fixes,
    /// and those of `log.security`, are refused. Default none.
    pub(crate) kafka: BTreeMap<String, String>,
    /// Embedded: how many days commands are kept, once they are decided; the journal is kept for ever. Default
    /// 14; 1 to 36500. On Kafka the settings of the topic say it.
    pub(crate) command_retention_days: u32,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            backend: LogBackend::Embedded,
            brokers: Vec::new(),
            prefix: "tidemill".to_owned(),
            partitions: 16,
            single_broker: false,
            security: SecuritySettings::default(),
            kafka: BTreeMap::new(),
            command_retention_days: 14,
        }
    }
}

/// The read tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreSettings {
    /// MySQL or MariaDB, `mysql://user:password@host:port/database`, with `?ssl-mode=VERIFY_IDENTITY&ssl-ca=FILE` where
    /// its certificate is to be verified. Default: an SQLite file in the data directory.
    pub(crate) url: Option<String>,
}

/// Hints that spare empty answers to clients that pull tasks. Nothing is lost with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RedisSettings {
    /// Redis 6.2 or later, `redis://[user:password@]host:port[/db]`, or `rediss://…` for an encrypted connection; the
    /// same for the projector and every interface. Its `maxmemory-policy` must be `noeviction` where it has a
    /// `maxmemory`. Default none: every pull asks the owner. `standalone` keeps hints in its own memory, whatever is
    /// set here.
    pub(crate) url: Option<String>,
    /// With `rediss://`: a PEM file with the certificates of who may have signed the server's. Default: those that the
    /// machine trusts.
    pub(crate) ca_file: Option<PathBuf>,
}

impl RedisSettings {
    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.as_ref().is_some_and(|url| url.starts_with("rediss://"))
    }

    fn check(&self) -> Result<(), FieldError> {
        match &self.ca_file {
            Some(file) if !self.is_encrypted() => {
                Err(FieldError::new("ca_file", file.display().to_string(), "goes with a url of rediss://"))
            }
            _ => Ok(()),
        }
    }
}

/// The role that runs jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExecutorSettings {
    /// The group whose jobs it runs. Default `default`.
    pub(crate) group: String,
    /// Attempts at once, by job type. Default: `shell` and `python` two for each core, `noop` 1,000.
    pub(crate) slots: BTreeMap<String, u32>,
    /// Of these slots, those that are kept for some jobs, by job type: `{slots = 2, priority = 1}` keeps two for jobs
    /// pinned to this host and for those of priority 0 and 1; without `priority`, for pinned jobs only. Default none;
    /// 1 to all slots of the type.
    pub(crate) reserved: BTreeMap<JobType, Reserved>,
    /// Memory that jobs may have of this machine's, MiB. Default: all of it; 1 to 16,777,216.
    pub(crate) memory_mb: Option<u32>,
    /// What jobs can ask for it by, as their `worker_label`. Default none; at most 64.
    pub(crate) labels: BTreeSet<WorkerLabel>,
    /// Where its logs are served, `ip:port`; port 0 takes a free one. Default `127.0.0.1:0`.
    pub(crate) listen: String,
    /// The address under which others reach that, `host:port`. Default: where it listens.
    pub(crate) advertise: Option<String>,
    /// The name of this host, which jobs can be pinned to. Default: what the system says.
    pub(crate) host: Option<String>,
    /// How programs of each type are started, beside (or in place of) `shell`, `python`, `java`, `mapreduce`, `hive`,
    /// `spark` and `datahub`. Default none.
    pub(crate) types: BTreeMap<JobType, TypeConfig>,
    /// The account of jobs that name none with `run_as`; the executor has to be root, and it another account than
    /// root's. Default none: they run as the executor's own account, and can read its keys and data.
    pub(crate) default_run_as: Option<Account>,
    /// From one heartbeat to the next, milliseconds. Default 3,000; 50 to 60,000.
    pub(crate) heartbeat_ms: u64,
    /// How long running attempts get to end by themselves when the executor is stopped, milliseconds.
    /// Default 30,000; 0 to 86,400,000.
    pub(crate) stop_grace_ms: u64,
    /// How long output of attempts is kept after their end is on record, days. Default 7; 0 to 36,500.
    pub(crate) log_retention_days: u32,
    /// Free space below which it takes no work, MiB. Default 4; 0 to 1,000,000.
    pub(crate) disk_reserve_mb: u64,
    /// Address of the API that jobs see as `TIDEMILL_API`. Default empty; `standalone` gives its own.
    pub(crate) api_url: String,
}

impl Default for ExecutorSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let slots = [("shell", cores * 2), ("python", cores * 2), ("noop", 1000)];
        Self {
            group: "default".to_owned(),
            slots: slots.into_iter().map(|(name, slots)| (name.to_owned(), slots)).collect(),
            reserved: BTreeMap::new(),
            memory_mb: None,
            labels: BTreeSet::new(),
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            host: None,
            types: BTreeMap::new(),
            default_run_as: None,
            heartbeat_ms: 3_000,
            stop_grace_ms: 30_000,
            log_retention_days: 7,
            disk_reserve_mb: 4,
            api_url: String::new(),
        }
    }
}

/// The role that fills the read tables and publishes the feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProjectorSettings {
    /// Rows of each partition kept in memory between transactions, about 400 bytes each. Default 32,768.
    pub(crate) cached_rows: usize,
    /// Under load, transactions of one partition begin at least this far apart, milliseconds. Default 10;
    /// 0 to 500.
    pub(crate) min_write_interval_ms: u64,
    /// How long the tables keep what became of pull tasks, days: grants since they were given, occurrences and tasks
    /// for once since their start. Default 400; 0 to 36,500; 0: for ever. What its owner has not forgotten stays.
    pub(crate) pull_retention_days: u32,
}

impl Default for ProjectorSettings {
    fn default() -> Self {
        let tidemill_projector::Config { cached_rows, min_write_interval_ms, pull_retention_days } =
            tidemill_projector::Config::default();
        Self { cached_rows, min_write_interval_ms, pull_retention_days }
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

    /// The projector's configuration.
    pub(crate) fn projector_config(&self) -> tidemill_projector::Config {
        let ProjectorSettings { cached_rows, min_write_interval_ms, pull_retention_days } = self.projector;
        tidemill_projector::Config { cached_rows, min_write_interval_ms, pull_retention_days }
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

    /// Each secret opens one thing: all are too long to be guessed, and no two are the same.
    fn check_secrets(&self) -> Result<(), (String, String)> {
        let secrets = [
            ("internal_key", self.internal_key.as_deref()),
            ("logs_key", self.logs_key.as_deref()),
            ("operator_key", self.operator_key.as_deref().filter(|key| !key.is_empty())),
            ("api.internal_key", Some(&*self.api.internal_key).filter(|key| !key.is_empty())),
            ("api.logs_key", Some(&*self.api.logs_key).filter(|key| !key.is_empty())),
            ("api.operator_key", Some(&*self.api.operator_key).filter(|key| !key.is_empty())),
        ];
        let given = secrets.iter().filter_map(|(name, key)| Some((*name, (*key)?)));
        let what = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
        for (name, key) in given.clone() {
            if key.len() < 16 {
                return Err((name.to_owned(), "must have at least 16 characters".to_owned()));
            }
            if let Some((other, _)) =
                given.clone().find(|(other, same)| what(other) != what(name) && *same == key)
            {
                let rule =
                    format!("must differ from {other}, for each of them opens one thing only; draw another");
                return Err((name.to_owned(), rule));
            }
        }
        Ok(())
    }

    /// What no single field can know: ranges and what must come together. The path that is wrong, and
    /// the rule.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        if !(1..=4096).contains(&self.log.partitions) {
            return Err(("log.partitions".to_owned(), "must be 1 to 4096".to_owned()));
        }
        if !(1..=36_500).contains(&self.log.command_retention_days) {
            return Err(("log.command_retention_days".to_owned(), "must be 1 to 36500".to_owned()));
        }
        if self.log.backend == LogBackend::Kafka && self.log.brokers.is_empty() {
            return Err((
                "log.brokers".to_owned(),
                "must name a broker when log.backend is kafka".to_owned(),
            ));
        }
        if let Err(rule) = SecuritySettings::check_more(self.log.kafka.keys()) {
            return Err(("log.kafka".to_owned(), rule));
        }
        self.check_secrets()?;
        if self.executor.listen.parse::<std::net::SocketAddr>().is_err() {
            return Err(("executor.listen".to_owned(), "must be ip:port, as in 0.0.0.0:8790".to_owned()));
        }
        if self.projector.min_write_interval_ms > 500 {
            return Err(("projector.min_write_interval_ms".to_owned(), "must be 0 to 500".to_owned()));
        }
        if self.projector.pull_retention_days > 36_500 {
            return Err(("projector.pull_retention_days".to_owned(), "must be 0 to 36500".to_owned()));
        }
        let section = |name: &str| {
            let name = name.to_owned();
            move |error: FieldError| (format!("{name}.{}", error.field), error.rule)
        };
        self.log.security.check().map_err(section("log.security"))?;
        self.redis.check().map_err(section("redis"))?;
        self.prober.check().map_err(section("prober"))?;
        self.quality.check().map_err(section("quality"))?;
        self.third_party.check().map_err(section("third_party"))?;
        self.sinks.check().map_err(section("sinks"))?;
        if self.third_party.topic.is_some() && self.log.backend == LogBackend::Embedded {
            let rule = "needs log.backend = \"kafka\"; here third parties report by REST";
            return Err(("third_party.topic".to_owned(), rule.to_owned()));
        }
        // The rule begins with the field's name.
        let named = |section: &'static str| {
            move |rule: String| {
                let field = rule.split(' ').next().unwrap_or_default();
                (format!("{section}.{field}"), rule)
            }
        };
        self.tls.check()?;
        self.http.check().map_err(named("http"))?;
        self.api.check().map_err(named("api"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5, OPS-3: a secret that opens two ports is refused, and an empty one is none.
    #[test]
    fn each_secret_opens_one_external_dependency() {
        let with = |internal: &str, logs: &str, operator: &str| {
            let some = |key: &str| Some(key.to_owned());
            let settings = Settings {
                internal_key: some(internal),
                logs_key: some(logs),
                operator_key: some(operator),
                ..Settings::default()
            };
            settings.check().map_err(|(field, _)| field)
        };
        let (one, two, three) = ("one-one-one-one-1", "two-two-two-two-2", "three-three-three");
        assert_eq!(with(one, two, three), Ok(()));
        assert_eq!(with(one, two, ""), Ok(()));
        assert_eq!(with(one, one, three), Err("internal_key".to_owned()));
        assert_eq!(with(one, two, two), Err("logs_key".to_owned()));
        assert_eq!(with(one, two, "short"), Err("operator_key".to_owned()));
        assert_eq!(with("", two, three), Err("internal_key".to_owned()));
    }
}
