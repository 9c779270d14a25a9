//! Settings of the log.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::security::SecuritySettings;

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

impl LogSettings {
    /// Ranges, and what must come together. The path that is wrong, and the rule.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        if !(1..=4096).contains(&self.partitions) {
            return Err(("log.partitions".to_owned(), "must be 1 to 4096".to_owned()));
        }
        if !(1..=36_500).contains(&self.command_retention_days) {
            return Err(("log.command_retention_days".to_owned(), "must be 1 to 36500".to_owned()));
        }
        if self.backend == LogBackend::Kafka && self.brokers.is_empty() {
            return Err((
                "log.brokers".to_owned(),
                "must name a broker when log.backend is kafka".to_owned(),
            ));
        }
        if let Err(rule) = SecuritySettings::check_more(self.kafka.keys()) {
            return Err(("log.kafka".to_owned(), rule));
        }
        Ok(())
    }
}
