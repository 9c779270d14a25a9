use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::JobId;

use super::newest::{newest, place};
use super::{JOB, OF_JOB, caller_by_query};
use crate::Problem;
use crate::app::App;
use crate::params::Params;

/// The state of a job.
#[derive(Serialize, JsonSchema)]
pub(crate) struct JobStatus {
    /// The job.
    job_id: i64,
    /// 0 waiting, 1 assigned, 2 running, 3 finished.
    status: i32,
    /// `success`, `failed`, `killed` or `skipped` once finished; else empty.
    result: String,
}

/// API-2: the state of a job's newest batch.
pub(super) async fn status(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
) -> Result<Json<JobStatus>, Problem> {
    let caller = caller_by_query(&app, &params, &headers).await?;
    params.check(&OF_JOB)?;
    let job: JobId = params.required(JOB)?;
    let place = place(&app, &caller, job).await?;
    caller.may_read(&place.group)?;
    let newest = newest(&app, &place, job).await?;
    let result = newest.result.map_or("", |result| result.as_str()).to_owned();
    Ok(Json(JobStatus { job_id: job.0, status: newest.state.number(), result }))
}
