//! Which sinks there are, and where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::FieldError;

/// Where task logs go. Unknown fields are refused; without an address a sink is off.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A MySQL or MariaDB database.
    pub mysql: MysqlConfig,
    /// An index of Elasticsearch or OpenSearch.
    pub elasticsearch: ElasticsearchConfig,
    /// Parquet files, for Hive and whatever else reads them.
    pub parquet: ParquetConfig,
}

/// Task logs in a MySQL or MariaDB database.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MysqlConfig {
    /// `mysql://user:password@host:port/database`. Default none: no such sink.
    pub url: Option<String>,
    /// The table, made where it is not there; its positions are in `<table>_positions`. 1 to 48 of `a-z 0-9 _`.
    /// Default `tidemill_task_log`.
    pub table: String,
}

impl Default for MysqlConfig {
    fn default() -> Self {
        Self { url: None, table: "tidemill_task_log".to_owned() }
    }
}

/// The address is not shown: it may hold a password.
impl std::fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MysqlConfig").field("table", &self.table).finish_non_exhaustive()
    }
}

/// Task logs in an index of Elasticsearch (7 and later) or OpenSearch.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ElasticsearchConfig {
    /// `http://host:port`, or `https://host:port` (feature `tls`). Default none: no such sink.
    pub url: Option<String>,
    /// A file of certificates (PEM), one of which has to stand behind that of an `https` server. Default: those that
    /// the machine trusts.
    pub ca_file: Option<String>,
    /// The index, made where it is not there; its positions are in `<index>-positions`. 1 to 200 of `a-z 0-9 - _ .`,
    /// beginning with a letter or digit. Default `tidemill-task-log`.
    pub index: String,
    /// Whom it is written as, with `password`. Default none.
    pub user: Option<String>,
    /// The password of `user`.
    pub password: Option<String>,
    /// An API key, as the server encodes it, in place of `user`. Default none.
    pub api_key: Option<String>,
    /// The largest body of one request, KiB, 64 to 65,536; one document may be larger. Default 4,096.
    pub bulk_kb: u32,
    /// How long one request may take, milliseconds, 100 to 600,000. Default 30,000.
    pub timeout_ms: u64,
    /// How often documents that the server has no room for (429, 5xx) are sent again before everything begins anew
    /// at the position, 0 to 20. Default 5.
    pub retries: u32,
    /// The pause before the first of these tries, milliseconds, 1 to 60,000; it doubles from try to try. Default 200.
    pub retry_pause_ms: u64,
}

impl Default for ElasticsearchConfig {
    fn default() -> Self {
        Self {
            url: None,
            ca_file: None,
            index: "tidemill-task-log".to_owned(),
            user: None,
            password: None,
            api_key: None,
            bulk_kb: 4_096,
            timeout_ms: 30_000,
            retries: 5,
            retry_pause_ms: 200,
        }
    }
}

/// Secrets are not shown.
impl std::fmt::Debug for ElasticsearchConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElasticsearchConfig")
            .field("url", &self.url)
            .field("index", &self.index)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Task logs in Parquet files: a row per fact, in `<root>/dt=YYYY-MM-DD/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParquetConfig {
    /// The directory: absolute, or `s3://bucket/prefix` (feature `s3`). Default none: no such sink.
    pub root: Option<String>,
    /// How a bucket is reached.
    pub s3: S3Config,
    /// Rows after which a file is finished, 1 to 10,000,000. Default 100,000.
    pub roll_rows: u32,
    /// MiB in memory after which it is, about, 1 to 1,024; each partition may hold so many. Default 16.
    pub roll_mb: u32,
    /// Seconds after which it is, counted from its first row, 1 to 86,400; so old may the newest row be that is in no
    /// file yet. Default 300.
    pub roll_s: u32,
}

impl Default for ParquetConfig {
    fn default() -> Self {
        Self { root: None, s3: S3Config::default(), roll_rows: 100_000, roll_mb: 16, roll_s: 300 }
    }
}

/// How a bucket is reached.
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

impl Default for S3Config {
    fn default() -> Self {
        Self { endpoint: None, region: "us-east-1".to_owned(), access_key_id: None, secret_access_key: None }
    }
}

/// Secrets are not shown.
impl std::fmt::Debug for S3Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Config")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// Features that this program was built with; an empty one is none.
const BUILT: [&str; 4] = [
    if cfg!(feature = "mysql") { "mysql" } else { "" },
    if cfg!(feature = "parquet") { "parquet" } else { "" },
    if cfg!(feature = "s3") { "s3" } else { "" },
    if cfg!(feature = "tls") { "tls" } else { "" },
];

impl Config {
    /// Whether there is any sink.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.mysql.url.is_some() || self.elasticsearch.url.is_some() || self.parquet.root.is_some()
    }

    /// The first setting that this program was built without: its name, and the feature that it needs.
    #[must_use]
    pub fn not_built(&self) -> Option<(&'static str, &'static str)> {
        self.not_in(&BUILT)
    }

    fn not_in(&self, built: &[&'static str]) -> Option<(&'static str, &'static str)> {
        let root = self.parquet.root.as_ref();
        let needed = [
            (self.mysql.url.is_some(), "sinks.mysql.url", "mysql"),
            (self.elasticsearch.is_encrypted(), "sinks.elasticsearch.url", "tls"),
            (root.is_some(), "sinks.parquet.root", "parquet"),
            (root.is_some_and(|root| root.starts_with("s3://")), "sinks.parquet.root", "s3"),
        ];
        let missing = needed.into_iter().find(|(is_set, _, feature)| *is_set && !built.contains(feature));
        missing.map(|(_, setting, feature)| (setting, feature))
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is wrong, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        self.mysql.check().map_err(|error| error.within("mysql"))?;
        self.elasticsearch.check().map_err(|error| error.within("elasticsearch"))?;
        self.parquet.check().map_err(|error| error.within("parquet"))
    }
}

fn within(field: &str, value: u64, low: u64, high: u64) -> Result<(), FieldError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(FieldError::new(field, value, format!("has to be {low} to {high}")))
}

impl MysqlConfig {
    fn check(&self) -> Result<(), FieldError> {
        if let Some(url) = &self.url {
            let rest = url.strip_prefix("mysql://").unwrap_or_default();
            let database = rest.split_once('/').map(|(_, database)| database).unwrap_or_default();
            if database.is_empty() || rest.starts_with('/') {
                let rule = "has to be mysql://user:password@host:port/database";
                return Err(FieldError::new("url", "…", rule));
            }
        }
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !(1..=48).contains(&self.table.len()) || !self.table.chars().all(fits) {
            let rule = "has to be 1 to 48 of a to z, 0 to 9 and _";
            return Err(FieldError::new("table", &self.table, rule));
        }
        Ok(())
    }
}

impl ElasticsearchConfig {
    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    fn check(&self) -> Result<(), FieldError> {
        if let Some(url) = &self.url {
            let host = url.strip_prefix("http://").or(url.strip_prefix("https://")).unwrap_or_default();
            if host.is_empty()
                || host.starts_with('/')
                || url.contains(char::is_whitespace)
                || host.contains('@')
            {
                let rule = "has to be http://HOST:PORT or https://HOST:PORT, without a password";
                return Err(FieldError::new("url", "…", rule));
            }
        }
        if self.ca_file.is_some() && !self.is_encrypted() {
            let file = self.ca_file.as_deref().unwrap_or_default();
            return Err(FieldError::new("ca_file", file, "goes with a url of https://"));
        }
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
        let begins = self.index.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !begins || self.index.len() > 200 || !self.index.chars().all(fits) {
            let rule = "has to be 1 to 200 of a to z, 0 to 9, - _ and ., beginning with a letter or digit";
            return Err(FieldError::new("index", &self.index, rule));
        }
        if self.user.is_some() != self.password.is_some() {
            return Err(FieldError::new("password", "…", "goes with user; give both or neither"));
        }
        if self.user.is_some() && self.api_key.is_some() {
            return Err(FieldError::new("api_key", "…", "stands in place of user; give one of the two"));
        }
        within("bulk_kb", self.bulk_kb.into(), 64, 65_536)?;
        within("timeout_ms", self.timeout_ms, 100, 600_000)?;
        within("retries", self.retries.into(), 0, 20)?;
        within("retry_pause_ms", self.retry_pause_ms, 1, 60_000)
    }
}

impl ParquetConfig {
    fn check(&self) -> Result<(), FieldError> {
        if let Some(root) = &self.root
            && !root.starts_with('/')
            && root.strip_prefix("s3://").is_none_or(|bucket| bucket.is_empty() || bucket.starts_with('/'))
        {
            return Err(FieldError::new("root", root, "has to be an absolute path, or s3://BUCKET/PREFIX"));
        }
        if self.s3.access_key_id.is_some() != self.s3.secret_access_key.is_some() {
            let rule = "goes with s3.access_key_id; give both or neither";
            return Err(FieldError::new("s3.secret_access_key", "…", rule));
        }
        within("roll_rows", self.roll_rows.into(), 1, 10_000_000)?;
        within("roll_mb", self.roll_mb.into(), 1, 1_024)?;
        within("roll_s", self.roll_s.into(), 1, 86_400)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PUL-12: a wrong field is named, with the rule.
    #[test]
    fn values_out_of_range_are_refused_by_field() {
        Config::default().check().unwrap();
        for (text, field) in [
            (r#"{"mysql": {"url": "db:3306"}}"#, "mysql.url"),
            (r#"{"mysql": {"url": "mysql://db:3306"}}"#, "mysql.url"),
            (r#"{"mysql": {"url": "mysql://db:3306/"}}"#, "mysql.url"),
            (r#"{"mysql": {"table": "a b"}}"#, "mysql.table"),
            (r#"{"mysql": {"table": ""}}"#, "mysql.table"),
            (r#"{"elasticsearch": {"url": "search:9200"}}"#, "elasticsearch.url"),
            (r#"{"elasticsearch": {"url": "https://"}}"#, "elasticsearch.url"),
            (
                r#"{"elasticsearch": {"url": "http://search:9200", "ca_file": "/ca"}}"#,
                "elasticsearch.ca_file",
            ),
            (r#"{"elasticsearch": {"url": "http://a:b@search:9200"}}"#, "elasticsearch.url"),
            (r#"{"elasticsearch": {"index": "_all"}}"#, "elasticsearch.index"),
            (r#"{"elasticsearch": {"index": "Logs"}}"#, "elasticsearch.index"),
            (r#"{"elasticsearch": {"user": "ann"}}"#, "elasticsearch.password"),
            (r#"{"elasticsearch": {"user": "a", "password": "b", "api_key": "c"}}"#, "elasticsearch.api_key"),
            (r#"{"elasticsearch": {"bulk_kb": 63}}"#, "elasticsearch.bulk_kb"),
            (r#"{"elasticsearch": {"timeout_ms": 99}}"#, "elasticsearch.timeout_ms"),
            (r#"{"elasticsearch": {"retries": 21}}"#, "elasticsearch.retries"),
            (r#"{"elasticsearch": {"retry_pause_ms": 0}}"#, "elasticsearch.retry_pause_ms"),
            (r#"{"parquet": {"root": "logs"}}"#, "parquet.root"),
            (r#"{"parquet": {"root": "s3:///logs"}}"#, "parquet.root"),
            (r#"{"parquet": {"s3": {"access_key_id": "a"}}}"#, "parquet.s3.secret_access_key"),
            (r#"{"parquet": {"roll_rows": 0}}"#, "parquet.roll_rows"),
            (r#"{"parquet": {"roll_mb": 1025}}"#, "parquet.roll_mb"),
            (r#"{"parquet": {"roll_s": 0}}"#, "parquet.roll_s"),
        ] {
            let config: Config = serde_json::from_str(text).unwrap();
            assert_eq!(config.check().unwrap_err().field, field, "{text}");
        }
        let config: Config =
            serde_json::from_str(r#"{"mysql": {"url": "mysql://a:b@db:3306/logs"}}"#).unwrap();
        config.check().unwrap();
        assert!(config.is_any() && !format!("{config:?}").contains("a:b"));
    }

    /// PUL-12: what a build lacks is found by the settings alone, before anything is opened.
    #[test]
    fn settings_that_a_build_lacks_are_named_with_their_feature() {
        let missing = |text: &str, built: &[&'static str]| {
            let config: Config = serde_json::from_str(text).unwrap();
            config.check().unwrap();
            config.not_in(built)
        };
        for (text, setting, features) in [
            (r#"{"mysql": {"url": "mysql://a:b@db:3306/logs"}}"#, "sinks.mysql.url", vec!["mysql"]),
            (r#"{"elasticsearch": {"url": "https://search"}}"#, "sinks.elasticsearch.url", vec!["tls"]),
            (r#"{"parquet": {"root": "/logs"}}"#, "sinks.parquet.root", vec!["parquet"]),
            (r#"{"parquet": {"root": "s3://logs/here"}}"#, "sinks.parquet.root", vec!["parquet", "s3"]),
        ] {
            for (known, feature) in features.iter().enumerate() {
                assert_eq!(missing(text, &features[..known]), Some((setting, *feature)), "{text}");
            }
            assert_eq!(missing(text, &features), None, "{text}");
        }
        assert_eq!(missing(r#"{"elasticsearch": {"url": "http://search"}}"#, &[]), None);
        assert_eq!(missing("{}", &[]), None);
    }
}
