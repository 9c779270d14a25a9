//! Calls about batches.

use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tidemill_model::{BatchId, BatchState, JobId, Timestamp};

use crate::client::{Client, Written};
use crate::error::Error;
use crate::jobs::Run;

/// Between two looks at a batch: begins short, for short jobs.
const FIRST_PAUSE: Duration = Duration::from_millis(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A batch: one run of a job for one logical time. `GET /api/batches/{id}` has more.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Batch {
    /// Its id.
    pub id: BatchId,
    /// Its job.
    pub job: JobId,
    /// Its job's name when it was generated.
    pub job_name: String,
    /// Its job's group.
    pub group: String,
    /// For which logical time.
    pub logical_time: Timestamp,
    /// 0 for the first run of the logical time, then + 1.
    pub run: i64,
    /// What it is doing.
    pub state: BatchState,
    /// Once finished: `success`, `failed`, `killed` or `skipped`.
    pub result: Option<String>,
    /// How many attempts were granted.
    pub attempt_count: i64,
    /// For people: why it ended as it did, or why it came back.
    #[serde(default)]
    pub message: String,
    /// When the process of its first attempt was reported to run.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Client {
    /// A batch, as it is now.
    ///
    /// # Errors
    /// There is none, or as [`Call::send`](crate::Call::send).
    pub fn batch(&self, batch: BatchId) -> Result<Batch, Error> {
        self.get(format!("/api/batches/{batch}")).send()
    }

    /// Waits until a batch has finished, and gives it. `position` is that of the write that made it, where it is new.
    ///
    /// # Errors
    /// There is none, or as [`Call::send`](crate::Call::send). There is no bound: the batch may wait for years.
    pub fn await_batch(&self, batch: BatchId, position: Option<&str>) -> Result<Batch, Error> {
        let mut at_least = position;
        let mut pause = FIRST_PAUSE;
        loop {
            let call = self.get(format!("/api/batches/{batch}"));
            let found: Batch = call.query_opt("at_least", at_least.take()).send()?;
            if found.state == BatchState::Finished {
                return Ok(found);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Ends a batch with its whole process tree. `reason` is for the record.
    ///
    /// # Errors
    /// It has finished, or as [`Call::send`](crate::Call::send).
    pub fn kill_batch(&self, batch: BatchId, reason: &str) -> Result<Written, Error> {
        self.post(format!("/api/batches/{batch}/kill")).body(&json!({ "reason": reason })).send()
    }

    /// Runs the logical time of a batch once more.
    ///
    /// # Errors
    /// It has not finished, or as [`Call::send`](crate::Call::send).
    pub fn rerun_batch(&self, batch: BatchId) -> Result<Run, Error> {
        self.post(format!("/api/batches/{batch}/rerun")).send()
    }
}
