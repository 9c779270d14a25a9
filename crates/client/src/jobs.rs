//! Calls about jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_model::{BatchId, JobId, JobSpec, SpecFile, Timestamp};

use crate::call::{Page, segment};
use crate::client::{Client, Written};
use crate::error::Error;

/// A job, as lists and [`Client::find_job`] show it; `GET /api/jobs/{id}` has more.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Job {
    /// Its id, for ever.
    pub id: JobId,
    /// The group whose workers run it.
    pub group: String,
    /// Its name, unique in its group.
    pub name: String,
    /// What kind of program it is.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Counts the accepted changes, from 1.
    pub version: i64,
    /// Whether it generates batches.
    #[serde(default = "enabled")]
    pub enabled: bool,
}

/// The default of a definition.
fn enabled() -> bool {
    true
}

/// What goes with an apply, beside the jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ApplyOptions {
    /// Also delete the jobs of these groups that are not named.
    pub prune: Vec<String>,
    /// End what is unfinished of jobs that are deleted.
    pub cancel: bool,
    /// Delete jobs that others name as parent, too.
    pub orphan_children: bool,
    /// Take types that neither the configuration nor any worker knows.
    pub allow_unknown_type: bool,
    /// Only say what would change.
    #[serde(skip)]
    pub dry_run: bool,
}

/// What an apply has changed, or would change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Applied {
    /// Job by job in the order given, unchanged ones too; then the deleted ones.
    pub changes: Vec<Change>,
    /// For people.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Give this as `at_least` to reads that must show it. None after a dry run.
    pub position: Option<String>,
    /// Groups in which it is not in effect yet, though it is on record.
    #[serde(default)]
    pub pending_groups: Vec<String>,
}

/// What becomes of a job with an apply.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// Its group and name.
    pub name: String,
    /// `added`, `changed`, `unchanged` or `deleted`.
    pub change: String,
    /// Its version from then on.
    pub version: u32,
}

/// Which batch to make of a job by hand.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RunRequest {
    /// For which logical time. Default: the current period's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_time: Option<Timestamp>,
    /// Parameters over those of the definition.
    pub parameters: BTreeMap<String, String>,
    /// Run even when batches of other logical times of the job are unfinished.
    pub concurrent: bool,
}

/// A batch that a request has made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// Its id.
    pub batch: BatchId,
    /// Give this as `at_least` to reads that must show it.
    pub position: String,
    /// For people, such as that the job is disabled.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl Client {
    /// Lists jobs, of one group or of all, until `limit` of them are there.
    ///
    /// # Errors
    /// As [`Call::send`](crate::Call::send).
    pub fn list_jobs(&self, group: Option<&str>, limit: usize) -> Result<Page<Job>, Error> {
        self.get("/api/jobs").query_opt("group", group).list(limit)
    }

    /// The job of this group and name.
    ///
    /// # Errors
    /// There is none, or as [`Call::send`](crate::Call::send).
    pub fn find_job(&self, group: &str, name: &str) -> Result<Job, Error> {
        self.get(format!("/api/groups/{}/jobs/{}", segment(group), segment(name))).send()
    }

    /// Adds and changes jobs, all or none.
    ///
    /// # Errors
    /// One of them cannot be accepted: [`Problem::errors`](crate::Problem::errors) names it as `jobs[3]`. Or as
    /// [`Call::send`](crate::Call::send).
    pub fn apply_jobs(&self, jobs: &[JobSpec], options: &ApplyOptions) -> Result<Applied, Error> {
        let mut body = json!(options);
        body["jobs"] = json!(jobs);
        let call = self.post("/api/jobs/apply").body(&body);
        if options.dry_run { call.query("dry_run", true).send() } else { call.send() }
    }

    /// The definitions of all jobs, or of those of a group: an apply of them changes nothing.
    ///
    /// # Errors
    /// As [`Call::send`](crate::Call::send).
    pub fn export_jobs(&self, group: Option<&str>) -> Result<SpecFile, Error> {
        self.get("/api/jobs/export").query_opt("group", group).send()
    }

    /// Makes one batch of a job by hand.
    ///
    /// # Errors
    /// The job does not take it, or as [`Call::send`](crate::Call::send).
    pub fn run_job(&self, job: JobId, request: &RunRequest) -> Result<Run, Error> {
        self.post(format!("/api/jobs/{job}/run")).body(request).send()
    }

    /// Lets a job generate batches, or not.
    ///
    /// # Errors
    /// As [`Call::send`](crate::Call::send).
    pub fn enable_job(&self, job: JobId, is_enabled: bool) -> Result<Written, Error> {
        let verb = if is_enabled { "enable" } else { "disable" };
        self.post(format!("/api/jobs/{job}/{verb}")).send()
    }
}
