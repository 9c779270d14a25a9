//! The newest batch of a job, as its owner knows it now; where it cannot be asked, as the tables have it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tidemill_model::{
    BatchCommand, BatchId, BatchResult, BatchState, Command, JobId, LiveAnswer, LiveQuery, Permission,
    ShardId,
};
use tidemill_store::ReadTables;

use super::{JOB, OF_JOB, caller_by_query, refused};
use crate::Problem;
use crate::app::App;
use crate::params::Params;
use crate::rights::{Asks, Caller};
use crate::routes::{JobPlace, job_place};
use crate::view::{Answered, batch_result, batch_state};
use crate::write::Write;

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
) -> Answered<JobStatus> {
    let caller = caller_by_query(&app, &params, &headers).await?;
    params.check(&OF_JOB)?;
    let job: JobId = params.required(JOB)?;
    let place = place(&app, &caller, job).await?;
    caller.may(Permission::View, &place.object(&app, &caller, job).await?)?;
    let newest = newest(&app, &place, job).await?;
    let result = newest.result.map_or("", |result| result.as_str()).to_owned();
    Ok(Json(JobStatus { job_id: job.0, status: newest.state.number(), result }))
}

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
        Err(problem) => refused(problem, members),
    }
}

async fn end(app: &App, params: &Params, headers: &HeaderMap) -> Result<JobId, Problem> {
    let caller = caller_by_query(app, params, headers).await?;
    params.check(&OF_JOB)?;
    let job: JobId = params.required(JOB)?;
    let caller = caller.asking(Asks::new([b"kill", job.to_string().as_bytes()]));
    let place = place(app, &caller, job).await?;
    let right = caller.may(Permission::Operate, &place.object(app, &caller, job).await?)?;
    let command = Command::Batch(BatchCommand::KillJob { job });
    Write::new(app, right, headers)?.send_for_job(job, place.shard, command).await?;
    Ok(job)
}

pub(super) struct Newest {
    /// Absent: there is none yet.
    pub(super) batch: Option<BatchId>,
    pub(super) state: BatchState,
    pub(super) result: Option<BatchResult>,
}

/// Who decides the job's batches. A job that this caller has just submitted here may not be in the tables yet:
/// then it is waited for.
pub(super) async fn place(app: &App, caller: &Caller, job: JobId) -> Result<JobPlace, Problem> {
    let is_missing =
        |found: &Result<JobPlace, Problem>| matches!(found, Err(problem) if problem.code == "unknown");
    let found = job_place(app, job).await;
    if !is_missing(&found) || job.shard() != ShardId::CATALOGUE {
        return found;
    }
    let Some(position) = app.remembered(caller.holder()) else { return found };
    let timeout = app.config.at_least_timeout();
    if app.deps.freshness.wait(position.partition, position.offset, timeout).await {
        return job_place(app, job).await;
    }
    found
}

pub(super) async fn newest(app: &App, place: &JobPlace, job: JobId) -> Result<Newest, Problem> {
    match app.ask(place.shard, LiveQuery::NewestBatch { job }).await {
        Ok(LiveAnswer::NewestBatch { batch, state }) => {
            let state = state.unwrap_or(BatchState::Waiting);
            let result = match batch {
                Some(batch) if state == BatchState::Finished => result_of(app, place, batch).await?,
                _ => None,
            };
            Ok(Newest { batch, state, result })
        }
        // The owner has forgotten it, or not heard of it yet.
        Ok(_) => {
            let known = in_tables(app, job).await?;
            match (known, job.shard()) {
                (Some(newest), _) => Ok(newest),
                (None, ShardId::CATALOGUE) => {
                    Ok(Newest { batch: None, state: BatchState::Waiting, result: None })
                }
                (None, _) => Err(Problem::unknown("job", job)),
            }
        }
        Err(problem) => in_tables(app, job).await?.ok_or(problem),
    }
}

async fn result_of(app: &App, place: &JobPlace, batch: BatchId) -> Result<Option<BatchResult>, Problem> {
    if let Ok(LiveAnswer::Why(why)) = app.deps.live.query(place.shard, LiveQuery::Why { batch }).await {
        return Ok(why.result);
    }
    let row = app.read(move |tables| tables.batch(batch.0)).await?;
    Ok(row.as_ref().and_then(batch_result))
}

async fn in_tables(app: &App, job: JobId) -> Result<Option<Newest>, Problem> {
    let row = app.read(move |tables| tables.newest_batch(job.0)).await?;
    Ok(row.map(|row| Newest {
        batch: Some(BatchId(row.id)),
        state: batch_state(&row),
        result: batch_result(&row),
    }))
}
