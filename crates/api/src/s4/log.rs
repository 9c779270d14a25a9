use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{BatchId, BatchState, JobId, LogPlace, LogStream, Permission};
use tidemill_store::rows::AttemptRow;

use super::newest::{Newest, newest, place};
use super::{JOB, LINES, OF_LOG, OF_PART, OFFSET, TYPE, standing_by_query};
use crate::Problem;
use crate::app::App;
use crate::log_stores::GONE;
use crate::logs::{AttemptLog, read_batch};
use crate::object::Object;
use crate::parameter::Parameter;
use crate::params::Params;
use crate::routes::{PART_LINES, asked_range, download_attempt};
use crate::standing::Standing;
use crate::view::{Answered, batch_state};
use crate::workers::WORKER_UNREACHABLE;

/// An attempt has so many offsets, of which its log has the first ones: far more than a log may be long.
const ATTEMPT_BITS: u32 = 40;
/// Attempts without a log that one call passes over; the next call goes on there.
const PASSED_OVER: usize = 8;

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
    let Found { job, stream, newest, .. } = find(&app, &params, &headers, &OF_PART).await?;
    let offset = params.get(OFFSET)?.unwrap_or(0);
    let lines = params.get(LINES)?.and_then(|lines| u32::try_from(lines).ok()).unwrap_or(PART_LINES);
    let part = match newest.batch {
        Some(batch) => part(&app, batch, stream, (offset, lines)).await?,
        None => Part { log: String::new(), offset, is_end: newest.state == BatchState::Finished },
    };
    let offset = i64::try_from(part.offset).unwrap_or(i64::MAX);
    let number = i32::from(stream.number());
    Ok(Json(JobLog { job_id: job.0, stream: number, is_end: part.is_end, log: part.log, offset }))
}

struct Part {
    log: String,
    /// Of the batch.
    offset: u64,
    is_end: bool,
}

/// Where an attempt begins among the offsets of its batch.
fn begin_of(attempt: &AttemptRow) -> u64 {
    attempt.attempt.cast_unsigned().saturating_sub(1) << ATTEMPT_BITS
}

/// Lines of a batch from an offset of it on. Where an attempt has no more, the answer goes on with the next one.
async fn part(
    app: &App,
    batch: BatchId,
    stream: LogStream,
    (mut offset, lines): (u64, u32),
) -> Result<Part, Problem> {
    // Its owner may know of it before the tables do.
    let Some((row, attempts)) = known(read_batch(app, batch).await)? else {
        return Ok(Part { log: String::new(), offset, is_end: false });
    };
    let has_finished = batch_state(&row) == BatchState::Finished;
    let within = (1_u64 << ATTEMPT_BITS) - 1;
    let is_due = |attempt: &&AttemptRow| begin_of(attempt) | within >= offset;
    let mut due = attempts.iter().filter(is_due).collect::<Vec<_>>().into_iter().peekable();
    for _ in 0..PASSED_OVER {
        let Some(attempt) = due.next() else { break };
        let (begin, next) = (begin_of(attempt), due.peek().map(|next| begin_of(next)));
        let byte = offset.saturating_sub(begin);
        let log = AttemptLog::of(app, attempt).await?;
        let read = log.lines(app, stream, LogPlace::Offset(byte), lines).await;
        match (read, next) {
            (Ok(part), Some(next)) if part.is_end || (part.content.is_empty() && log.is_given_up()) => {
                return Ok(Part { log: part.content, offset: next, is_end: false });
            }
            (Ok(part), next) => {
                let is_over = part.is_end || (part.content.is_empty() && log.is_given_up());
                let is_end = is_over && next.is_none() && has_finished;
                return Ok(Part { log: part.content, offset: begin | part.offset.min(within), is_end });
            }
            // Nothing is kept of it, or it was on a host that is lost.
            (Err(problem), Some(next)) if is_missing(&problem, &log) => offset = next,
            (Err(problem), None) if has_finished && is_missing(&problem, &log) => {
                return Ok(Part { log: String::new(), offset: begin | byte.min(within), is_end: true });
            }
            // It has not begun to print.
            (Err(problem), None) if problem.code == GONE && attempt.finished_at.is_none() => {
                return Ok(Part { log: String::new(), offset: begin | byte.min(within), is_end: false });
            }
            (Err(problem), _) => return Err(problem),
        }
    }
    let is_end = has_finished && due.peek().is_none();
    Ok(Part { log: String::new(), offset, is_end })
}

/// Whether nobody has the log of an attempt any more.
fn is_missing(problem: &Problem, log: &AttemptLog) -> bool {
    problem.code == GONE || (problem.code == WORKER_UNREACHABLE && log.is_given_up())
}

/// What was found, where the tables have it.
fn known<T>(found: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match found {
        Err(problem) if problem.code == "unknown" => Ok(None),
        found => found.map(Some),
    }
}

/// API-2, LOG-3: the whole log of the newest attempt of a job's newest batch.
pub(super) async fn download(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find(&app, &params, &headers, &OF_LOG).await?;
    let range = asked_range(&headers)?;
    let attempts = match found.newest.batch {
        Some(batch) => known(read_batch(&app, batch).await)?.map_or_else(Vec::new, |(_, attempts)| attempts),
        None => Vec::new(),
    };
    let no_log = || {
        let detail = format!("job {} has not been started yet, so it has no log", found.job);
        Problem::new(StatusCode::NOT_FOUND, GONE, detail)
    };
    let attempt = attempts.last().ok_or_else(no_log)?;
    download_attempt(&app, found.standing, found.object, (attempt, found.stream), range).await
}

struct Found {
    standing: Standing,
    job: JobId,
    object: Object,
    stream: LogStream,
    newest: Newest,
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
    let object = place.object(app, caller, job).await?;
    caller.may(Permission::ReadLogs, &object)?;
    let newest = newest(app, &place, job).await?;
    Ok(Found { standing, job, object, stream, newest })
}
