use axum::Json;
use tidemill_model::{BatchId, JobId};
use tidemill_store::{AttemptFilter, ReadTables};

use super::batches::batch_row;
use super::reader::Reader;
use super::run::job_place;
use super::workers::worker_row;
use crate::Problem;
use crate::parameter::Asked;
use crate::params::Params;
use crate::view::{AttemptView, List};

pub(super) const BATCH: Asked<BatchId> = Asked::id("batch", "Of this batch.");
pub(super) const JOB: Asked<JobId> = Asked::id("job", "Of this job, by id.");
pub(super) const WORKER: Asked<String> = Asked::text("worker", "On this worker.");

/// Attempts, the newest first.
pub(super) async fn list(by: Reader, params: Params) -> Result<Json<List<AttemptView>>, Problem> {
    let (batch, job, worker) = (params.get(BATCH)?, params.get(JOB)?, params.get(WORKER)?);
    if !by.caller.is_of_site() {
        // Attempts have no group of their own: one of these must say it.
        let group = match (batch, job, &worker) {
            (Some(batch), _, _) => batch_row(&by.app, batch).await?.group_name.to_string(),
            (None, Some(job), _) => job_place(&by.app, job).await?.group,
            (None, None, Some(worker)) => worker_row(&by.app, worker.clone()).await?.group_name.to_string(),
            (None, None, None) => {
                let rule = "a key that is bound to groups must name a batch, job or worker";
                return Err(Problem::field("batch", "", rule));
            }
        };
        by.caller.may_read(&group)?;
    }
    let filter = AttemptFilter { batch: batch.map(|batch| batch.0), job: job.map(|job| job.0), worker };
    List::part(&by.app, &params, move |tables, request| tables.attempts(&filter, request)).await
}
