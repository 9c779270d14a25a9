use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{BatchState, JobId};
use tidemill_store::rows::AttemptRow;

use super::newest::{Newest, newest, place};
use super::{JOB, OF_LOG, OF_PART, TYPE, standing_by_query};
use crate::Problem;
use crate::app::App;
use crate::parameter::Parameter;
use crate::params::Params;
use crate::routes::{OFFSET, download_attempt, newest_attempt, read_part};
use crate::standing::Standing;
use crate::view::Answered;
use crate::workers::Stream;

/// A part of a log.
#[derive(Serialize, JsonSchema)]
pub(crate) struct JobLog {
    /// The job.
    job_id: i64,
    /// 1 stdout, 2 stderr.
    #[serde(rename = "type")]
    stream: i32,
    /// Whether nothing will follow.
    is_end: bool,
    /// The lines.
    log: String,
    /// The byte offset to go on from.
    offset: i64,
}

/// API-2, LOG-2: a part of the log of a job's newest batch; empty while that has no attempt.
pub(super) async fn read(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
) -> Answered<JobLog> {
    let found = find(&app, &params, &headers, &OF_PART).await?;
    let Found { job, stream, newest, attempt, .. } = found;
    let offset = params.get(OFFSET)?.unwrap_or(0_u64);
    let (is_end, log, offset) = match attempt {
        Some(attempt) => {
            let part = read_part(&app, &attempt, stream, &params).await?;
            // A later attempt may follow while the batch has not ended.
            (part.is_end && newest.state == BatchState::Finished, part.content, part.offset)
        }
        None => (newest.state == BatchState::Finished, String::new(), offset),
    };
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    Ok(Json(JobLog { job_id: job.0, stream: stream.number(), is_end, log, offset }))
}

/// API-2, LOG-3: the whole log of a job's newest batch.
pub(super) async fn download(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find(&app, &params, &headers, &OF_LOG).await?;
    let no_log = || {
        let detail = format!("job {} has not been started yet, so it has no log", found.job);
        Problem::new(axum::http::StatusCode::NOT_FOUND, "no_log", detail)
    };
    let attempt = found.attempt.as_ref().ok_or_else(no_log)?;
    download_attempt(&app, found.standing, found.group, attempt, found.stream).await
}

struct Found {
    standing: Standing,
    job: JobId,
    group: String,
    stream: Stream,
    newest: Newest,
    attempt: Option<AttemptRow>,
}

async fn find(
    app: &Arc<App>,
    params: &Params,
    headers: &HeaderMap,
    declared: &[Parameter],
) -> Result<Found, Problem> {
    let standing = standing_by_query(app, params, headers).await?;
    let caller = standing.caller();
    params.check(declared)?;
    let job: JobId = params.required(JOB)?;
    let stream = params.required(TYPE)?;
    let place = place(app, caller, job).await?;
    caller.may_read(&place.group)?;
    let newest = newest(app, &place, job).await?;
    let attempt = match newest.batch {
        Some(batch) => newest_attempt(app, batch).await?,
        None => None,
    };
    Ok(Found { standing, job, group: place.group, stream, newest, attempt })
}
