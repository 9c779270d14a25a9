//! Where snapshots are, how often one is taken, and which are kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_archive::S3Config;
use tidemill_model::{FieldError, check_range};

use crate::Ladder;

/// Snapshots of partitions. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The directory: absolute; or `s3://bucket/prefix` (feature `s3`). The same for every process that owns partitions, where
    /// they take each other's over. `none`: there are none. Default: `snapshots` in the data directory with the embedded log, and
    /// none with Kafka.
    pub place: Option<String>,
    /// How a bucket is reached.
    pub s3: S3Config,
    /// A snapshot is taken so many seconds after the last one, if anything was recorded since, 10 to 86,400. Default 3,600.
    pub interval_s: u32,
    /// Or once so many events were recorded since, 1 to 1,000,000,000: what a start has to fold, at some 0.5 M events a
    /// second. Default 500,000.
    pub every_events: u64,
    /// For so many hours the newest of each hour is kept, 1 to 8,760. Default 48.
    pub keep_hourly: u32,
    /// For so many days the newest of each day is kept, 0 to 3,660. Default 365.
    pub keep_daily: u32,
    /// One in so many is compared with a fold from an older snapshot, 1 to 1,000. Default 24.
    pub verify_one_in: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            place: None,
            s3: S3Config::default(),
            interval_s: 3_600,
            every_events: 500_000,
            keep_hourly: 48,
            keep_daily: 365,
            verify_one_in: 24,
        }
    }
}

/// What stands in place of a place where there is to be none.
const NONE: &str = "none";

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field that is outside its range, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        check_range("interval_s", u64::from(self.interval_s), 10, 86_400)?;
        check_range("every_events", self.every_events, 1, 1_000_000_000)?;
        check_range("keep_hourly", u64::from(self.keep_hourly), 1, 8_760)?;
        check_range("keep_daily", u64::from(self.keep_daily), 0, 3_660)?;
        check_range("verify_one_in", u64::from(self.verify_one_in), 1, 1_000)?;
        if let Some(place) = self.place.as_deref().filter(|place| *place != NONE) {
            let archive = self.of_store(place);
            if archive.check().is_err_and(|error| error.field == "place") {
                let rule = "must be an absolute path, s3://bucket/prefix, or `none`";
                return Err(FieldError::new("place", place, rule));
            }
            archive.check()?;
        }
        Ok(())
    }

    /// The same with this place, unless it has one; and none where it says so.
    #[must_use]
    pub fn in_place(mut self, default: Option<&str>) -> Self {
        let place = self.place.take().or_else(|| default.map(str::to_owned));
        self.place = place.filter(|place| place != NONE);
        self
    }

    /// Which ones are kept.
    #[must_use]
    pub fn ladder(&self) -> Ladder {
        Ladder { hours: self.keep_hourly, days: self.keep_daily }
    }

    pub(crate) fn of_store(&self, place: &str) -> tidemill_archive::Config {
        let (place, s3) = (Some(place.to_owned()), self.s3.clone());
        tidemill_archive::Config { place, s3, ..Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked_and_a_place_is_a_path_a_bucket_or_none() {
        Config::default().check().unwrap();
        for (place, is_valid) in
            [("/a", true), ("s3://b/c", true), ("none", true), ("a/b", false), ("", false)]
        {
            let config = Config { place: Some(place.to_owned()), ..Config::default() };
            assert_eq!(config.check().is_ok(), is_valid, "{place}");
        }
        let config = Config { keep_hourly: 0, ..Config::default() };
        assert_eq!(config.check().unwrap_err().field, "keep_hourly");
        let none = Config { place: Some("none".to_owned()), ..Config::default() };
        assert_eq!(none.in_place(Some("/data/snapshots")).place, None);
        assert_eq!(Config::default().in_place(Some("/data")).place.as_deref(), Some("/data"));
    }
}
