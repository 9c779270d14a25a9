use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tidemill_model::{BatchCommand, Command, JobId};

use super::newest::place;
use super::{JOB, OF_JOB, caller_by_query, refused};
use crate::Problem;
use crate::app::App;
use crate::params::Params;
use crate::rights::Asks;
use crate::write::Write;

/// What became of a kill.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Killed {
    /// The job; -1 where none was named.
    job_id: i64,
    /// Whether its batch ends.
    success: bool,
    /// Why it was refused; absent where it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// API-2: ends the newest unfinished batch of a job.
pub(super) async fn kill(
    State(app): State<Arc<App>>,
    params: Result<Params, Problem>,
    headers: HeaderMap,
) -> Response {
    let params = match params {
        Ok(params) => params,
        Err(problem) => return problem.into_response(),
    };
    let job = params.get(JOB);
    let members = json!({"job_id": job.ok().flatten().map_or(-1, |job| job.0), "success": false});
    match end(&app, &params, &headers).await {
        Ok(job) => Json(Killed { job_id: job.0, success: true, message: None }).into_response(),
        Err(problem) => refused(problem, members, "message"),
    }
}

async fn end(app: &App, params: &Params, headers: &HeaderMap) -> Result<JobId, Problem> {
    let caller = caller_by_query(app, params, headers).await?;
    params.check(&OF_JOB)?;
    let job: JobId = params.required(JOB)?;
    let caller = caller.asking(Asks::new([b"kill", job.to_string().as_bytes()]));
    let place = place(app, &caller, job).await?;
    let right = caller.for_group(&place.group)?;
    let command = Command::Batch(BatchCommand::KillJob { job });
    Write::new(app, right, headers)?.send_for_job(job, place.shard, command).await?;
    Ok(job)
}
