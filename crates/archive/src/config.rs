//! Where the archive is, and what goes there.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{FieldError, check_range};

use crate::Bounds;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const HOUR_MS: u64 = 60 * 60 * 1_000;
const MIB: u64 = 1 << 20;

/// The archive of journals. Unknown fields are refused; without a place there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The directory: absolute, on another disk than the log where it is to be a copy; or `s3://bucket/prefix` (feature
    /// `s3`). The same for every process that reads journals. Default none: nothing is archived.
    pub place: Option<String>,
    /// How a bucket is reached.
    pub s3: S3Config,
    /// A segment is closed once its records have so many MiB, 1 to 256. Default 32.
    pub segment_mb: u32,
    /// Or once its first record is so many hours old, 1 to 8,760. Default 24.
    pub segment_hours: u32,
    /// Embedded: a segment leaves the log once all of it is so many days old, 0 to 36,500. Default 30.
    pub keep_days: u32,
    /// Embedded: or once the records after it in its journal have so many MiB, 0 to 1,000,000,000. Default 4,096.
    pub keep_mb: u64,
    /// Kafka: whether segments leave the topic of journals by the same bounds; else they are copied, and nothing is
    /// deleted. Default `false`.
    pub delete_from_kafka: bool,
    /// How long it rests between two cycles, seconds, 1 to 86,400. Default 60.
    pub interval_s: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            place: None,
            s3: S3Config::default(),
            segment_mb: 32,
            segment_hours: 24,
            keep_days: 30,
            keep_mb: 4_096,
            delete_from_kafka: false,
            interval_s: 60,
        }
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
impl fmt::Debug for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Config")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field that is outside its range, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        check_range("segment_mb", u64::from(self.segment_mb), 1, 256)?;
        check_range("segment_hours", u64::from(self.segment_hours), 1, 8_760)?;
        check_range("keep_days", u64::from(self.keep_days), 0, 36_500)?;
        check_range("keep_mb", self.keep_mb, 0, 1_000_000_000)?;
        check_range("interval_s", u64::from(self.interval_s), 1, 86_400)?;
        if let Some(place) = self.place.as_deref().filter(|place| !is_place(place)) {
            return Err(FieldError::new("place", place, "must be an absolute path or s3://bucket/prefix"));
        }
        if self.s3.access_key_id.is_some() != self.s3.secret_access_key.is_some() {
            let rule = "access_key_id and secret_access_key are given together or not at all";
            return Err(FieldError::new("s3.access_key_id", "", rule));
        }
        Ok(())
    }

    /// What goes to the archive and leaves the log, where anything may leave it.
    #[must_use]
    pub fn bounds(&self, releases: bool) -> Bounds {
        Bounds {
            segment_bytes: u64::from(self.segment_mb) * MIB,
            segment_age_ms: u64::from(self.segment_hours) * HOUR_MS,
            keep_ms: u64::from(self.keep_days) * DAY_MS,
            keep_bytes: self.keep_mb * MIB,
            releases,
        }
    }
}

fn is_place(place: &str) -> bool {
    match place.strip_prefix("s3://") {
        Some(inside) => inside.split('/').next().is_some_and(|bucket| !bucket.is_empty()),
        None => place.starts_with('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ranges_and_a_relative_place_is_refused() {
        Config::default().check().unwrap();
        for (place, is_valid) in [
            ("/a", true),
            ("s3://b", true),
            ("s3://b/c", true),
            ("a/b", false),
            ("s3://", false),
            ("", false),
        ] {
            let config = Config { place: Some(place.to_owned()), ..Config::default() };
            assert_eq!(config.check().is_ok(), is_valid, "{place}");
        }
        let config = Config { segment_mb: 257, ..Config::default() };
        assert_eq!(config.check().unwrap_err().field, "segment_mb");
    }
}
