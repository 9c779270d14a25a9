//! Where logs are kept, how much of them, and for how long.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{FieldError, GroupName, check_range};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The store of logs of attempts. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where readers ask, `ip:port`; only interfaces do. Default `127.0.0.1:0`, a free port that only this host reaches.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// Where logs are kept: an absolute directory, `s3://bucket/prefix` (feature `s3`), or `hdfs://name-node:port/path` (feature
    /// `hdfs`; a name service without a port). Empty, the default: `logs` in the data directory.
    pub place: String,
    /// Places where logs are read that are not in `place`, the newest first, up to 8: those that were `place` before. Nothing is
    /// written there; what is over its time is removed. Default none.
    pub earlier_places: Vec<String>,
    /// How buckets are reached.
    pub s3: S3Config,
    /// How name nodes are reached.
    pub hdfs: HdfsConfig,
    /// Output that is not in `place` yet has so many MiB of memory, 16 to 65,536; when it is full, workers keep what follows
    /// until there is room. Default 128.
    pub memory_mb: u32,
    /// An object holds at most so many MiB of a log, 1 to 256. Default 8. While small ones become one, that is in memory twice, beside
    /// `memory_mb`, for each of at most eight at once.
    pub segment_mb: u32,
    /// What a running attempt has printed is in `place` after so many seconds, 1 to 3,600. Readers see it before. Default 10.
    pub flush_s: u32,
    /// How many calls of `place` are under way at once, 1 to 1,000. Default 16.
    pub calls_in_flight: u32,
    /// How long one of them may take, seconds, 1 to 600; then it counts as failed, and is tried again. Default 30.
    pub call_timeout_s: u32,
    /// Logs are removed so many days after their last change, 0 to 36,500; 0: never. Default 30.
    pub keep_days: u32,
    /// Of the logs of a group the oldest are removed when there are more than so many MiB, 0 to 1,000,000,000; 0: no bound,
    /// the default.
    pub keep_mb: u64,
    /// What is different for a group, by its name.
    pub groups: BTreeMap<GroupName, GroupConfig>,
    /// How long it rests between two looks for logs that are over their time, minutes, 1 to 10,080. Default 60.
    pub sweep_minutes: u32,
}

/// How long logs of a group are kept. What is absent is as for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupConfig {
    /// As `keep_days` for all.
    pub keep_days: Option<u32>,
    /// As `keep_mb` for all.
    pub keep_mb: Option<u64>,
}

/// How buckets are reached.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct S3Config {
    /// Address of the service, `https://host:port`; default: that of Amazon in `region`.
    pub endpoint: Option<String>,
    /// Its region; default `us-east-1`.
    pub region: String,
    /// The access key; default: the environment's `AWS_…` variables, else the machine's own role.
    pub access_key_id: Option<String>,
    /// The secret that belongs to it.
    pub secret_access_key: Option<String>,
}

/// How name nodes are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HdfsConfig {
    /// The user that name nodes see; default: `HADOOP_USER_NAME`, else the process's own.
    pub user: Option<String>,
    /// The directory of `core-site.xml` and `hdfs-site.xml`; default: as `HADOOP_CONF_DIR` and `HADOOP_HOME` say, else none.
    pub conf_dir: Option<String>,
    /// Hadoop settings that replace those of the directory, as `dfs.ha.namenodes.NAME` for a name service. Default none.
    pub settings: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            place: String::new(),
            earlier_places: Vec::new(),
            s3: S3Config::default(),
            hdfs: HdfsConfig::default(),
            memory_mb: 128,
            segment_mb: 8,
            flush_s: 10,
            calls_in_flight: 16,
            call_timeout_s: 30,
            keep_days: 30,
            keep_mb: 0,
            groups: BTreeMap::new(),
            sweep_minutes: 60,
        }
    }
}

impl Default for S3Config {
    fn default() -> Self {
        Self { endpoint: None, region: "us-east-1".to_owned(), access_key_id: None, secret_access_key: None }
    }
}

/// Secrets are not shown.
impl fmt::Debug for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Config")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// What may be kept of the logs of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) age: Option<Duration>,
    pub(crate) bytes: Option<u64>,
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field that is outside its range, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        check_range("memory_mb", u64::from(self.memory_mb), 16, 65_536)?;
        check_range("segment_mb", u64::from(self.segment_mb), 1, 256)?;
        check_range("flush_s", u64::from(self.flush_s), 1, 3_600)?;
        check_range("calls_in_flight", u64::from(self.calls_in_flight), 1, 1_000)?;
        check_range("call_timeout_s", u64::from(self.call_timeout_s), 1, 600)?;
        check_range("sweep_minutes", u64::from(self.sweep_minutes), 1, 10_080)?;
        check_range("earlier_places", self.earlier_places.len() as u64, 0, 8)?;
        check_range("keep_days", u64::from(self.keep_days), 0, 36_500)?;
        check_range("keep_mb", self.keep_mb, 0, 1_000_000_000)?;
        for group in self.groups.values() {
            check_range("groups.keep_days", u64::from(group.keep_days.unwrap_or(0)), 0, 36_500)?;
            check_range("groups.keep_mb", group.keep_mb.unwrap_or(0), 0, 1_000_000_000)?;
        }
        let is_own = self.place.is_empty();
        for place in self.earlier_places.iter().chain((!is_own).then_some(&self.place)) {
            if !is_place(place) {
                let rule = "must be an absolute path, s3://bucket/prefix or hdfs://name-node:port/path";
                return Err(FieldError::new("place", place, rule));
            }
        }
        if self.earlier_places.contains(&self.place) {
            let rule = "must not name the place that is written to";
            return Err(FieldError::new("earlier_places", &self.place, rule));
        }
        if self.s3.access_key_id.is_some() != self.s3.secret_access_key.is_some() {
            let rule = "access_key_id and secret_access_key are given together or not at all";
            return Err(FieldError::new("s3.access_key_id", "", rule));
        }
        Ok(())
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_mb) << 20
    }

    pub(crate) fn segment_bytes(&self) -> usize {
        usize::try_from(u64::from(self.segment_mb) << 20).unwrap_or(usize::MAX)
    }

    pub(crate) fn flush(&self) -> Duration {
        Duration::from_secs(u64::from(self.flush_s))
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.call_timeout_s))
    }

    pub(crate) fn sweep(&self) -> Duration {
        Duration::from_secs(60 * u64::from(self.sweep_minutes))
    }

    pub(crate) fn kept(&self, group: &GroupName) -> Kept {
        let own = self.groups.get(group);
        let days = own.and_then(|own| own.keep_days).unwrap_or(self.keep_days);
        let mib = own.and_then(|own| own.keep_mb).unwrap_or(self.keep_mb);
        Kept { age: (days > 0).then_some(DAY * days), bytes: (mib > 0).then_some(mib << 20) }
    }
}

fn is_place(place: &str) -> bool {
    match place.split_once("://") {
        Some(("s3", inside)) => inside.split('/').next().is_some_and(|bucket| !bucket.is_empty()),
        Some(("hdfs", inside)) => inside.split_once('/').is_some_and(|(node, _)| !node.is_empty()),
        Some(_) => false,
        None => place.starts_with('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-4: what cannot be used is named with its rule; the defaults can be.
    #[test]
    fn defaults_are_within_their_ranges_and_other_places_are_refused() {
        Config::default().check().unwrap();
        for (place, is_valid) in [
            ("/a", true),
            ("s3://b", true),
            ("s3://b/c", true),
            ("hdfs://n:8020/a", true),
            ("hdfs://service/a", true),
            ("hdfs://n:8020", false),
            ("a/b", false),
            ("s3://", false),
            ("gs://a/b", false),
        ] {
            let config = Config { place: place.to_owned(), ..Config::default() };
            assert_eq!(config.check().is_ok(), is_valid, "{place}");
        }
        let twice =
            Config { place: "/a".to_owned(), earlier_places: vec!["/a".to_owned()], ..Config::default() };
        assert_eq!(twice.check().unwrap_err().field, "earlier_places");
        assert_eq!(Config { segment_mb: 257, ..Config::default() }.check().unwrap_err().field, "segment_mb");
    }

    /// LOG-4: a group may have bounds of its own, each for itself.
    #[test]
    fn group_has_the_bounds_of_all_where_it_names_none() {
        let mut config = Config { keep_days: 2, keep_mb: 3, ..Config::default() };
        let own = GroupConfig { keep_days: Some(0), keep_mb: None };
        config.groups.insert("g".try_into().unwrap(), own);
        assert_eq!(config.kept(&"g".try_into().unwrap()), Kept { age: None, bytes: Some(3 << 20) });
        assert_eq!(config.kept(&"h".try_into().unwrap()), Kept { age: Some(DAY * 2), bytes: Some(3 << 20) });
    }
}
