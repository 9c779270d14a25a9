//! Bounds, timeouts and addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use backon::ExponentialBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{FieldError, check_range};

use crate::path::{check_bucket, check_name_node};
use crate::{Authority, Kind, Path};

/// How paths are probed. Unknown fields are refused; everything has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How often a look-up that failed or hung is tried again before it is given up, 0 to 10; default 3.
    pub retries: u32,
    /// The pause before the first of these tries, milliseconds, 1 to 60,000; it doubles from try to try.
    /// Default 200.
    pub retry_pause_ms: u64,
    /// After how many failed or hung calls in a row an authority (a name node, a mount, a bucket) is left alone
    /// for a while, 1 to 1,000; default 8.
    pub pause_after: u32,
    /// The first such while, milliseconds, 10 to 600,000; it doubles each time that one further call fails.
    /// Default 500.
    pub pause_ms: u64,
    /// The longest such while, milliseconds, `pause_ms` to 600,000; default 8,000.
    pub max_pause_ms: u64,
    /// After how many hung calls in a row the connections to an authority are rebuilt, 1 to 1,000; default 3.
    pub renew_after: u32,
    /// Authorities at once, 1 to 10,000; those that rested longest make room. Default 1,000.
    pub max_authorities: usize,
    /// File systems of this host; each mount has these bounds for itself.
    pub local: Limits,
    /// Name nodes.
    pub hdfs: Hdfs,
    /// Object stores.
    pub s3: S3,
}

/// How much one authority is asked at once. Each prober keeps to it by itself: with n of them, give an n-th.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Calls under way at once, 1 to 10,000. Default 16 for a mount, 64 for a name node, 32 for a bucket.
    pub in_flight: usize,
    /// Calls begun in a second, 0 to 1,000,000; 0 is without a bound. Default 0 for a mount, 5,000 for a name
    /// node, 1,000 for a bucket.
    pub calls_per_s: u32,
    /// How long a call may take before it counts as hung and is abandoned, milliseconds, 10 to 600,000. Default
    /// 5,000.
    pub timeout_ms: u64,
}

/// How name nodes are asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hdfs {
    /// The name node, or name service, that `hdfs:///…` means: `host:port` or a name. Default none.
    pub default_name_node: Option<String>,
    /// The name nodes and name services that paths may name beside the default one, as `host:port` or a name each, up to
    /// 1,000; nobody else is connected to. Empty, the default: any.
    pub allowed_name_nodes: Vec<String>,
    /// The user that name nodes see; default: `HADOOP_USER_NAME`, else the process's own.
    pub user: Option<String>,
    /// The directory of `core-site.xml` and `hdfs-site.xml`; default: as `HADOOP_CONF_DIR` and `HADOOP_HOME` say,
    /// else none.
    pub conf_dir: Option<String>,
    /// Hadoop settings that replace those of the directory, as `dfs.ha.namenodes.NAME` for a name service.
    /// Default none.
    pub settings: BTreeMap<String, String>,
    /// The bounds of each name node.
    pub limits: Limits,
}

/// How object stores are asked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct S3 {
    /// Address of the service, `https://host:port`; default: that of Amazon in `region`.
    pub endpoint: Option<String>,
    /// The buckets that paths may name, up to 1,000; no other is asked about. Empty, the default: any.
    pub allowed_buckets: Vec<String>,
    /// Its region; default `us-east-1`.
    pub region: String,
    /// The access key; default: the environment's `AWS_…` variables, else the machine's own role.
    pub access_key_id: Option<String>,
    /// The secret that belongs to it.
    pub secret_access_key: Option<String>,
    /// The bounds of each bucket.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            retries: 3,
            retry_pause_ms: 200,
            pause_after: 8,
            pause_ms: 500,
            max_pause_ms: 8_000,
            renew_after: 3,
            max_authorities: 1_000,
            local: Limits { in_flight: 16, calls_per_s: 0, timeout_ms: 5_000 },
            hdfs: Hdfs::default(),
            s3: S3::default(),
        }
    }
}

impl Default for Hdfs {
    fn default() -> Self {
        Self {
            default_name_node: None,
            allowed_name_nodes: Vec::new(),
            user: None,
            conf_dir: None,
            settings: BTreeMap::new(),
            limits: Limits { in_flight: 64, calls_per_s: 5_000, timeout_ms: 5_000 },
        }
    }
}

impl Default for S3 {
    fn default() -> Self {
        Self {
            endpoint: None,
            allowed_buckets: Vec::new(),
            region: "us-east-1".to_owned(),
            access_key_id: None,
            secret_access_key: None,
            limits: Limits { in_flight: 32, calls_per_s: 1_000, timeout_ms: 5_000 },
        }
    }
}

/// Secrets are not shown.
impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3")
            .field("endpoint", &self.endpoint)
            .field("allowed_buckets", &self.allowed_buckets)
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field that is outside its range, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        check_range("retries", u64::from(self.retries), 0, 10)?;
        check_range("retry_pause_ms", self.retry_pause_ms, 1, 60_000)?;
        check_range("pause_after", u64::from(self.pause_after), 1, 1_000)?;
        check_range("pause_ms", self.pause_ms, 10, 600_000)?;
        check_range("max_pause_ms", self.max_pause_ms, self.pause_ms, 600_000)?;
        check_range("renew_after", u64::from(self.renew_after), 1, 1_000)?;
        check_range("max_authorities", self.max_authorities as u64, 1, 10_000)?;
        self.local.check().map_err(|error| error.within("local"))?;
        self.hdfs.limits.check().map_err(|error| error.within("hdfs.limits"))?;
        self.s3.limits.check().map_err(|error| error.within("s3.limits"))?;
        if let Some(name_node) = &self.hdfs.default_name_node {
            check_name_node(name_node)
                .map_err(|rule| FieldError::new("hdfs.default_name_node", name_node, rule))?;
        }
        check_all("hdfs.allowed_name_nodes", &self.hdfs.allowed_name_nodes, check_name_node)?;
        check_all("s3.allowed_buckets", &self.s3.allowed_buckets, check_bucket)?;
        if self.s3.access_key_id.is_some() != self.s3.secret_access_key.is_some() {
            let rule = "access_key_id and secret_access_key are given together or not at all";
            return Err(FieldError::new("s3.access_key_id", "", rule));
        }
        Ok(())
    }

    /// A path as written in `field`, where `hdfs:///…` means the configured name node, if it may be asked about.
    ///
    /// # Errors
    /// The field, the value and the rule that it breaks.
    pub fn path(&self, field: &str, written: &str) -> Result<Path, FieldError> {
        let path = Path::parse(field, written, self.hdfs.default_name_node.as_deref())?;
        let (name, allowed, setting) = match path.authority() {
            Authority::Local(_) => return Ok(path),
            Authority::Hdfs(name) if Some(&*name) == self.hdfs.default_name_node.as_deref() => {
                return Ok(path);
            }
            Authority::Hdfs(name) => (name, &self.hdfs.allowed_name_nodes, "hdfs.allowed_name_nodes"),
            Authority::S3(name) => (name, &self.s3.allowed_buckets, "s3.allowed_buckets"),
        };
        if allowed.is_empty() || allowed.iter().any(|allowed| **allowed == *name) {
            return Ok(path);
        }
        let rule = format!("{name} is not among {setting}; ask the operator to add it there");
        Err(FieldError::new(field, written, rule))
    }

    /// The bounds of an authority of this kind.
    #[must_use]
    pub fn limits(&self, kind: Kind) -> &Limits {
        match kind {
            Kind::Local => &self.local,
            Kind::Hdfs => &self.hdfs.limits,
            Kind::S3 => &self.s3.limits,
        }
    }

    pub(crate) fn retry_pauses(&self) -> ExponentialBuilder {
        let first = Duration::from_millis(self.retry_pause_ms);
        let retries = usize::try_from(self.retries).unwrap_or(usize::MAX);
        ExponentialBuilder::new().with_min_delay(first).with_max_times(retries).without_max_delay()
    }
}

impl Limits {
    fn check(&self) -> Result<(), FieldError> {
        check_range("in_flight", self.in_flight as u64, 1, 10_000)?;
        check_range("calls_per_s", u64::from(self.calls_per_s), 0, 1_000_000)?;
        check_range("timeout_ms", self.timeout_ms, 10, 600_000)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// At most a thousand names, each of its form.
fn check_all(
    field: &str,
    names: &[String],
    check: impl Fn(&str) -> Result<(), &'static str>,
) -> Result<(), FieldError> {
    check_range(field, names.len() as u64, 0, 1_000)?;
    names.iter().enumerate().try_for_each(|(at, name)| {
        check(name).map_err(|rule| FieldError::new(format!("{field}[{at}]"), name, rule))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ranges() {
        Config::default().check().unwrap();
    }

    #[test]
    fn values_out_of_range_are_refused_by_field() {
        let table = [
            (r#"{"retries": 11}"#, "retries"),
            (r#"{"pause_ms": 1000, "max_pause_ms": 999}"#, "max_pause_ms"),
            (r#"{"local": {"in_flight": 0, "calls_per_s": 0, "timeout_ms": 10}}"#, "local.in_flight"),
            (r#"{"hdfs": {"default_name_node": "nn:x"}}"#, "hdfs.default_name_node"),
            (r#"{"hdfs": {"allowed_name_nodes": ["nn:8020", "nn:x"]}}"#, "hdfs.allowed_name_nodes[1]"),
            (r#"{"s3": {"allowed_buckets": ["B"]}}"#, "s3.allowed_buckets[0]"),
            (r#"{"s3": {"access_key_id": "k"}}"#, "s3.access_key_id"),
        ];
        for (text, field) in table {
            let config: Config = serde_json::from_str(text).unwrap();
            assert_eq!(config.check().unwrap_err().field, field);
        }
        assert!(serde_json::from_str::<Config>(r#"{"colour": 1}"#).is_err());
    }

    /// Where the operator says who may be asked, a path of anybody else is refused before anybody is connected to.
    #[test]
    fn only_those_allowed_are_asked() {
        let config: Config = serde_json::from_str(
            r#"{"hdfs": {"default_name_node": "main:8020", "allowed_name_nodes": ["other"]}, "s3": {"allowed_buckets": ["lake"]}}"#,
        )
        .unwrap();
        for path in ["hdfs:///a", "hdfs://main:8020/a", "hdfs://other/a", "s3://lake/a", "/a", "file:///a"] {
            assert!(config.path("path", path).is_ok(), "{path}");
        }
        for path in ["hdfs://other:8020/a", "hdfs://main/a", "s3://lakes/a"] {
            let error = config.path("path", path).unwrap_err();
            assert!(error.to_string().contains("is not among"), "{error}");
            assert!(Config::default().path("path", path).is_ok());
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let s3 = S3 { secret_access_key: Some("hidden".to_owned()), ..S3::default() };
        assert!(!format!("{:?}", Config { s3, ..Config::default() }).contains("hidden"));
    }
}
