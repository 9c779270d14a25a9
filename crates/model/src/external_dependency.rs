//! What batches wait for outside of the scheduler: paths, reports of third parties, the quality service.
//!
//! A shard keeps one record per *external dependency*, whoever waits for it, and one event says that the external dependency came or went,
//! however many batches that concerns (DEP-1, DEP-2, DEP-6).

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{skip_none, vocabulary};

use crate::{BatchId, ExternalDependencyId, GroupName, JobId, JobName, Timestamp, bounds};

/// Answers that one [`ReportPaths`](crate::Command::ReportPaths) may hold.
pub const MAX_ANSWERS: usize = 500;
/// Paths or codes that one list of a job may name.
pub const MAX_NEEDS: usize = 64;
/// Longest path, as written and resolved, bytes.
pub const MAX_PATH_BYTES: usize = 1_024;
/// Longest code of a third party's report, bytes.
pub const MAX_CODE_BYTES: usize = bounds::SHORT_BYTES;

/// A path that a job reads or makes, as written: its text, or with its mark.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum PathSpec {
    /// Its existence is enough.
    Plain(#[schemars(length(max = MAX_PATH_BYTES), regex(pattern = bounds::PATH_PATTERN))] String),
    /// With the file in it that says that it is complete.
    Marked {
        /// `hdfs://…`, `s3://…`, `file:///…` or `/…`; templates in it are resolved for each batch.
        #[schemars(length(max = MAX_PATH_BYTES), regex(pattern = bounds::PATH_PATTERN))]
        path: String,
        /// Name of the file in it that has to exist, as `_SUCCESS`.
        #[schemars(length(min = 1, max = bounds::SHORT_BYTES), regex(pattern = bounds::FILE_NAME_PATTERN))]
        mark: Option<String>,
    },
}

impl PathSpec {
    /// The path as written.
    pub fn path(&self) -> &str {
        match self {
            PathSpec::Plain(path) | PathSpec::Marked { path, .. } => path,
        }
    }

    /// The file in it that says that it is complete.
    pub fn mark(&self) -> Option<&str> {
        match self {
            PathSpec::Plain(_) => None,
            PathSpec::Marked { mark, .. } => mark.as_deref(),
        }
    }
}

/// A path that a job reads or makes, with its templates; or that a batch makes, when they are resolved.
#[vocabulary(Eq)]
pub struct DataPath {
    /// With templates, or resolved.
    pub path: String,
    /// Name of the file in it that says that it is complete.
    pub mark: Option<String>,
}

impl From<&PathSpec> for DataPath {
    fn from(written: &PathSpec) -> Self {
        Self { path: written.path().to_owned(), mark: written.mark().map(str::to_owned) }
    }
}

/// Something outside that batches wait for.
#[vocabulary(Eq, PartialOrd, Ord, Hash)]
pub enum ExternalDependency {
    /// A path exists.
    Path {
        /// As written, templates resolved.
        path: Arc<str>,
        /// Name of the file in it that has to exist.
        mark: Option<Arc<str>>,
    },
    /// A third party reported that it is ready.
    ThirdParty {
        /// What.
        code: Arc<str>,
        /// For which logical time.
        logical_time: Timestamp,
    },
}

impl fmt::Display for ExternalDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExternalDependency::Path { path, mark: None } => write!(f, "path {path}"),
            ExternalDependency::Path { path, mark: Some(mark) } => write!(f, "path {path} with {mark}"),
            ExternalDependency::ThirdParty { code, logical_time } => {
                write!(f, "third party's {code} for {logical_time}")
            }
        }
    }
}

/// What a third party says of one of its codes. Also the record of the topic `tidemill.third-party`, as JSON.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct ThirdPartyReport {
    /// What it is about; jobs name it in `third_party`.
    #[schemars(length(min = 1, max = MAX_CODE_BYTES), regex(pattern = bounds::VISIBLE_PATTERN))]
    pub code: Arc<str>,
    /// For which logical time.
    pub logical_time: Timestamp,
    /// Whether it is ready, or is so no longer; left out: it is.
    #[serde(default = "crate::yes")]
    pub ready: bool,
}

/// A prober's answer about one path. It is sealed as it is written: see `tidemill-seal` before you add a field.
#[vocabulary(Copy, Eq)]
pub struct PathAnswer {
    /// Which external dependency.
    pub external_dependency: ExternalDependencyId,
    /// The generation that it had when the question was asked; of an older one nobody wants to know.
    pub generation: u64,
    /// Whether it exists, with its mark where one is asked for.
    pub exists: bool,
}

/// What a prober has to ask about.
#[vocabulary(Eq)]
pub struct WantedExternalDependency {
    /// Which external dependency.
    pub id: ExternalDependencyId,
    /// Answers must name it.
    pub generation: u64,
    /// The path.
    pub path: Arc<str>,
    /// Name of the file in it that has to exist.
    pub mark: Option<Arc<str>>,
    /// It is about to matter: somebody waits for nothing else.
    pub urgent: bool,
    /// Where this has grown, the path is to be asked at once, and what was asked before does not count (DEP-9).
    pub nudge: u64,
}

/// A path that the worker looks at again before it starts a batch (DEP-6).
#[vocabulary(Eq)]
pub struct PathCheck {
    /// Which external dependency.
    pub external_dependency: ExternalDependencyId,
    /// The path.
    pub path: Arc<str>,
    /// Name of the file in it that has to exist.
    pub mark: Option<Arc<str>>,
}

/// Which of its unmet conditions a batch is to run without (DEP-7).
#[vocabulary(Eq)]
pub enum Waiver {
    /// All of them.
    All,
    /// A path, as the batch names it, with whatever mark.
    Path(Arc<str>),
    /// A third party's report.
    ThirdParty(Arc<str>),
    /// The success of a parent.
    Parent {
        /// Which job.
        job: JobId,
        /// For which of its logical times; absent: all that the batch waits for.
        logical_time: Option<Timestamp>,
    },
    /// The quality service's word.
    Quality,
}

/// A parent's logical time that a batch runs without.
#[vocabulary(Copy, Eq, PartialOrd, Ord)]
pub struct WaivedParent {
    /// Which job.
    pub job: JobId,
    /// For which of its logical times; absent: it has none yet.
    pub logical_time: Option<Timestamp>,
}

/// How checks of paths go at one prober, for one authority: a name node, a mount, a bucket (DEP-5).
#[vocabulary(Eq)]
pub struct ProbeReport {
    /// Who probes.
    pub prober: Arc<str>,
    /// Whom it asks, as `hdfs://host:port`.
    pub authority: Arc<str>,
    /// By how much the oldest check is late, milliseconds; 0: none is.
    pub late_ms: u64,
    /// Why checks fail, after their retries; empty: they do not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
}

/// A question that the quality service is to be asked.
#[vocabulary(Eq)]
pub struct QualityQuestion {
    /// About which batch; the service answers under this id.
    pub batch: BatchId,
    /// How often it was asked, from 1.
    pub number: u32,
    /// Its job.
    pub job: JobId,
    /// Its job's name.
    pub job_name: JobName,
    /// Its group.
    pub group: GroupName,
    /// For which logical time.
    pub logical_time: Timestamp,
    /// Which run of it.
    pub run: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// DEP-2: what stands on the topic; whoever reports need not say that it is ready.
    #[test]
    fn a_third_partys_report_is_ready_unless_it_says_otherwise() {
        let read = |value| serde_json::from_value::<ThirdPartyReport>(value);
        let short = read(json!({"code": "erp", "logical_time": "2026-03-01T00:00:00Z"})).unwrap();
        assert!(short.ready);
        let long = json!({"code": "erp", "logical_time": "2026-03-01T00:00:00Z", "ready": false});
        assert!(!read(long).unwrap().ready);
        assert!(read(json!({"code": "erp", "logical_time": "2026-03-01T00:00:00Z", "redy": false})).is_err());
    }

    #[test]
    fn paths_are_written_short_or_with_their_mark() {
        let table = [
            (json!("/data/a"), None),
            (json!({"path": "/data/a"}), None),
            (json!({"path": "/data/a", "mark": "_SUCCESS"}), Some("_SUCCESS")),
        ];
        for (value, mark) in table {
            let spec: PathSpec = serde_json::from_value(value).unwrap();
            assert_eq!((spec.path(), spec.mark()), ("/data/a", mark));
        }
    }
}
