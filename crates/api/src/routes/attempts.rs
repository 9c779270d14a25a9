use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use tidemill_model::{BatchId, JobId};
use tidemill_store::{AttemptFilter, ReadTables};

use super::batches::batch_row;
use super::run::job_place;
use super::workers::worker_row;
use crate::Problem;
use crate::app::App;
use crate::parameter::Asked;
use crate::params::Params;
use crate::rights::Caller;
use crate::view::{AttemptView, List};

pub(super) const BATCH: Asked<BatchId> = Asked::id("batch", "Of this batch.");
pub(super) const JOB: Asked<JobId> = Asked::id("job", "Of this job, by id.");
pub(super) const WORKER: Asked<String> = Asked::text("worker", "On this worker.");

/// Attempts, the newest first.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json<List<AttemptView>>, Problem> {
    let (batch, job, worker) = (params.get(BATCH)?, params.get(JOB)?, params.get(WORKER)?);
    if !caller.is_of_site() {
        // Attempts have no group of their own: one of these must say it.
        let group = match (batch, job, &worker) {
            (Some(batch), _, _) => batch_row(&app, batch).await?.group_name.to_string(),
            (None, Some(job), _) => job_place(&app, job).await?.group,
            (None, None, Some(worker)) => worker_row(&app, worker.clone()).await?.group_name.to_string(),
            (None, None, None) => {
                let rule = "a key that is bound to groups must name a batch, job or worker";
                return Err(Problem::field("batch", "", rule));
            }
        };
        caller.may_read(&group)?;
    }
    let filter = AttemptFilter { batch: batch.map(|batch| batch.0), job: job.map(|job| job.0), worker };
    List::part(&app, &params, move |tables, request| tables.attempts(&filter, request)).await
}
