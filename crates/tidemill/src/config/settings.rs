//! Every setting, with its unit, default and range.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings that hold a map; a layer that gives one replaces it whole.
pub(super) const OPEN: &[&str] = &["executor.slots", "executor.types"];
/// Settings that are never shown.
pub(super) const SECRET: &[&str] = &["internal_key", "store.url"];

/// The configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Where everything that must survive a restart is kept, and the keys. Default `./tidemill-data`.
    pub(crate) data_dir: PathBuf,
    /// Secret that the roles of one cluster share, at least 16 characters: it opens an executor's logs
    /// and an owner's live state. Default: the file `internal.key` in the data directory, drawn at the
    /// first start of `standalone` and by `bootstrap`.
    pub(crate) internal_key: Option<String>,
    /// Which log lines are written: a level, or targets with levels as in `info,tidemill_log=debug`.
    /// Default `info`; client commands write none.
    pub(crate) log_filter: String,
    /// The log of events.
    pub(crate) log: LogSettings,
    /// The read tables.
    pub(crate) store: StoreSettings,
    /// The role that answers over HTTP.
    pub(crate) api: ApiSettings,
    /// The role that owns partitions and decides.
    pub(crate) dispatcher: DispatcherSettings,
    /// The role that runs jobs.
    pub(crate) executor: ExecutorSettings,
    /// The role that fills the read tables and the public feed.
    pub(crate) projector: ProjectorSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("tidemill-data"),
            internal_key: None,
            log_filter: "info".to_owned(),
            log: LogSettings::default(),
            store: StoreSettings::default(),
            api: ApiSettings::default(),
            dispatcher: DispatcherSettings::default(),
            executor: ExecutorSettings::default(),
            projector: ProjectorSettings::default(),
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
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            backend: LogBackend::Embedded,
            brokers: Vec::new(),
            prefix: "tidemill".to_owned(),
            partitions: 16,
            single_broker: false,
        }
    }
}

/// The read tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreSettings {
    /// MySQL or MariaDB, `mysql://user:password@host:port/database`. Default: an SQLite file in the data
    /// directory.
    pub(crate) url: Option<String>,
}

/// The role that answers over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ApiSettings {
    /// Where to listen, `ip:port`; port 0 takes a free one. Default `127.0.0.1:8780`.
    pub(crate) listen: String,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8780".to_owned() }
    }
}

/// The role that owns partitions and decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DispatcherSettings {
    /// Zone of a schedule that names none, an IANA name. Default `UTC`.
    pub(crate) default_zone: String,
}

impl Default for DispatcherSettings {
    fn default() -> Self {
        Self { default_zone: "UTC".to_owned() }
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
    /// Where its logs are served, `ip:port`; port 0 takes a free one. Default `127.0.0.1:0`.
    pub(crate) listen: String,
    /// The address under which others reach that, `host:port`. Default: where it listens.
    pub(crate) advertise: Option<String>,
}

impl Default for ExecutorSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let slots = [("shell", cores * 2), ("python", cores * 2), ("noop", 1000)];
        Self {
            group: "default".to_owned(),
            slots: slots.into_iter().map(|(name, slots)| (name.to_owned(), slots)).collect(),
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
        }
    }
}

/// The role that fills the read tables and the public feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProjectorSettings {}

impl Settings {
    /// What no single field can know: ranges and what must come together. The path that is wrong, and
    /// the rule.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if !(1..=4096).contains(&self.log.partitions) {
            return Err(("log.partitions", "must be 1 to 4096".to_owned()));
        }
        if self.log.backend == LogBackend::Kafka && self.log.brokers.is_empty() {
            return Err(("log.brokers", "must name a broker when log.backend is kafka".to_owned()));
        }
        if self.internal_key.as_ref().is_some_and(|key| key.len() < 16) {
            return Err(("internal_key", "must have at least 16 characters".to_owned()));
        }
        for (path, address) in [("api.listen", &self.api.listen), ("executor.listen", &self.executor.listen)]
        {
            if address.parse::<std::net::SocketAddr>().is_err() {
                return Err((path, "must be ip:port, as in 0.0.0.0:8780".to_owned()));
            }
        }
        Ok(())
    }
}
