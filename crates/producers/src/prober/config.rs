//! Which paths are asked for, how, and how often.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{FieldError, check_range};
use tidemill_probe::{Kind, PollTimes, Question};

/// The role that looks for paths. Unknown fields are refused; everything has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How often owners are asked what is waited for, milliseconds, 100 to 60,000; default 1,000. Where they
    /// wait for more than 10,000 paths, less often: every 0.1 ms for each.
    pub poll_interval_ms: u64,
    /// Directories of this host below which paths may be asked for; 0 to 1,000. Default `/`, everything. Others
    /// are not touched, and told as checks that fail.
    pub local_roots: Vec<PathBuf>,
    /// How often a path is asked for.
    pub poll: PollTimes,
    /// How name nodes, object stores and this host are asked.
    pub paths: tidemill_probe::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            poll_interval_ms: 1_000,
            local_roots: vec![PathBuf::from("/")],
            poll: PollTimes::default(),
            paths: tidemill_probe::Config::default(),
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field that is outside its range, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        check_range("poll_interval_ms", self.poll_interval_ms, 100, 60_000)?;
        if self.local_roots.len() > 1_000 {
            let count = self.local_roots.len();
            return Err(FieldError::new("local_roots", count, "must not be more than 1000 directories"));
        }
        if let Some(root) = self.local_roots.iter().find(|root| !root.is_absolute()) {
            return Err(FieldError::new("local_roots", root.display(), "has to begin with /"));
        }
        self.poll.check().map_err(|error| error.within("poll"))?;
        self.paths.check().map_err(|error| error.within("paths"))
    }

    /// Whether this may be asked for at all.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn permits(&self, question: &Question) -> Result<(), String> {
        let inside = std::path::Path::new(question.path.inside());
        let is_local = question.path.kind() == Kind::Local;
        if is_local && !self.local_roots.iter().any(|root| inside.starts_with(root)) {
            return Err(format!("{question} is below none of prober.local_roots"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidemill_probe::Path;

    use super::*;

    fn question(path: &str) -> Question {
        Question { path: Path::parse("path", path, None).unwrap(), mark: None }
    }

    #[test]
    fn defaults_are_within_their_ranges_and_permit_every_path() {
        Config::default().check().unwrap();
        for path in ["/a", "/", "hdfs://nn/a", "s3://bucket/a"] {
            assert_eq!(Config::default().permits(&question(path)), Ok(()));
        }
    }

    #[test]
    fn local_paths_outside_of_the_roots_are_not_permitted() {
        let config = Config { local_roots: vec!["/data".into()], ..Config::default() };
        for (path, permitted) in [
            ("/data", true),
            ("/data/a", true),
            ("/database/a", false),
            ("/etc/passwd", false),
            ("hdfs://nn/etc", true),
        ] {
            assert_eq!(config.permits(&question(path)).is_ok(), permitted, "{path}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused_by_field() {
        for (text, field) in [
            (r#"{"poll_interval_ms": 99}"#, "poll_interval_ms"),
            (r#"{"local_roots": ["data"]}"#, "local_roots"),
            (r#"{"poll": {"max_interval_ms": 1}}"#, "poll.max_interval_ms"),
            (r#"{"paths": {"retries": 11}}"#, "paths.retries"),
        ] {
            let config: Config = serde_json::from_str(text).unwrap();
            assert_eq!(config.check().unwrap_err().field, field);
        }
        assert!(serde_json::from_str::<Config>(r#"{"colour": 1}"#).is_err());
    }
}
