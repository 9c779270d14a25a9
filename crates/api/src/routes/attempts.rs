use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use tidemill_model::{BatchId, BatchState, JobId, LiveUsage, Token};
use tidemill_store::rows::{AttemptRow, BatchRow};
use tidemill_store::{AttemptFilter, PageRequest, ReadTables};

use super::batches::{batch_row, readable};
use super::groups::worker_row;
use super::requests::Reader;
use super::run::job_place;
use crate::Problem;
use crate::app::App;
use crate::parameter::Asked;
use crate::params::Params;
use crate::rights::Caller;
use crate::standing::Standing;
use crate::view::{Answered, AttemptView, List, batch_state};
use crate::workers::{LogPart, NOT_RUNNING, Stream};

/// Attempts of one batch among which one is looked for.
const MAX_ATTEMPTS: usize = 1_000;
/// Lines of a part where the caller names no number.
const PART_LINES: u32 = 100;

pub(super) const BATCH: Asked<BatchId> = Asked::id("batch", "Of this batch.");
pub(super) const JOB: Asked<JobId> = Asked::id("job", "Of this job, by id.");
pub(super) const WORKER: Asked<String> = Asked::text("worker", "On this worker.");
pub(super) const TYPE: Asked<Stream> =
    Asked::new("type", "1 (stdout, default) or 2 (stderr).", Stream::WORDS);
pub(crate) const OFFSET: Asked<u64> = Asked::number("offset", "From this byte on; default 0.", 0, u64::MAX);
pub(crate) const LINES: Asked<u64> =
    Asked::number("lines", "Lines at most, 1 to 10000; default 100.", 1, 10_000);
pub(super) const ATTEMPT: Asked<u64> =
    Asked::number("attempt", "Which attempt, from 1; absent: the newest.", 1, u64::MAX);

pub(super) async fn list(by: Reader, params: Params) -> Answered<List<AttemptView>> {
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

/// A part of an attempt's log (LOG-2).
pub(super) async fn read(by: Reader, Path(text): Path<String>, params: Params) -> Answered<LogPart> {
    let stream = params.get(TYPE)?.unwrap_or(Stream::Stdout);
    let (row, attempt) = asked_attempt(&by.app, &by.caller, &text, &params).await?;
    match attempt {
        Some(attempt) => read_part(&by.app, &attempt, stream, &params).await.map(Json),
        // Who follows a batch that waits has nothing to read yet.
        None if params.get(ATTEMPT)?.is_none() => {
            let offset = params.get(OFFSET)?.unwrap_or(0);
            Ok(Json(LogPart {
                content: String::new(),
                offset,
                is_end: batch_state(&row) == BatchState::Finished,
            }))
        }
        None => Err(no_attempt(row.id)),
    }
}

/// What a running attempt uses now (EXE-7).
pub(super) async fn used(by: Reader, Path(text): Path<String>) -> Answered<LiveUsage> {
    let row = readable(&by.app, &by.caller, &text).await?;
    let attempt = newest_attempt(&by.app, BatchId(row.id)).await?;
    let runs = |attempt: &AttemptRow| attempt.finished_at.is_none();
    let Some(attempt) = attempt.filter(runs) else {
        let detail = format!("batch {} has no attempt that runs; `why` tells what it waits for", row.id);
        return Err(Problem::new(StatusCode::NOT_FOUND, NOT_RUNNING, detail));
    };
    let address = address_of(&by.app, &attempt).await?;
    by.app.workers.used(&address, Token(attempt.id)).await.map(Json)
}

/// An attempt's whole log (LOG-3).
pub(super) async fn download(
    State(app): State<Arc<App>>,
    Extension(standing): Extension<Standing>,
    Path(text): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    let stream = params.get(TYPE)?.unwrap_or(Stream::Stdout);
    let (row, attempt) = asked_attempt(&app, standing.caller(), &text, &params).await?;
    let attempt = attempt.ok_or_else(|| no_attempt(row.id))?;
    download_attempt(&app, standing, row.group_name.to_string(), &attempt, stream).await
}

async fn asked_attempt(
    app: &App,
    caller: &Caller,
    text: &str,
    params: &Params,
) -> Result<(BatchRow, Option<AttemptRow>), Problem> {
    let number = params.get(ATTEMPT)?;
    let row = readable(app, caller, text).await?;
    let mut attempts = attempts(app, BatchId(row.id)).await?.into_iter();
    let found = match number {
        None => attempts.next(),
        Some(number) => attempts.find(|attempt| attempt.attempt.cast_unsigned() == number),
    };
    Ok((row, found))
}

/// The newest attempt of a batch, if it has one.
pub(crate) async fn newest_attempt(app: &App, batch: BatchId) -> Result<Option<AttemptRow>, Problem> {
    Ok(attempts(app, batch).await?.into_iter().next())
}

async fn attempts(app: &App, batch: BatchId) -> Result<Vec<AttemptRow>, Problem> {
    let filter = AttemptFilter { batch: Some(batch.0), ..AttemptFilter::default() };
    let page = app.read(move |tables| tables.attempts(&filter, &PageRequest::first(MAX_ATTEMPTS))).await?;
    Ok(page.items)
}

fn no_attempt(batch: i64) -> Problem {
    let detail =
        format!("batch {batch} has no such attempt, so it has no log; `why` tells what it waits for");
    Problem::new(StatusCode::NOT_FOUND, "no_log", detail)
}

/// A part of an attempt's log, by the parameters `offset` and `lines`.
pub(crate) async fn read_part(
    app: &App,
    attempt: &AttemptRow,
    stream: Stream,
    params: &Params,
) -> Result<LogPart, Problem> {
    let offset = params.get(OFFSET)?.unwrap_or(0);
    let lines = params.get(LINES)?.and_then(|lines| u32::try_from(lines).ok()).unwrap_or(PART_LINES);
    let address = address_of(app, attempt).await?;
    app.workers.read(&address, Token(attempt.id), (stream, offset, lines)).await
}

/// The whole log of an attempt of this group as a file, for as long as the caller may read it.
pub(crate) async fn download_attempt(
    app: &App,
    standing: Standing,
    group: String,
    attempt: &AttemptRow,
    stream: Stream,
) -> Result<Response, Problem> {
    let open = app.streams.take(standing.caller().app()).await?;
    let address = address_of(app, attempt).await?;
    let chunks = app.workers.download(&address, Token(attempt.id), stream).await?;
    let mut response = Response::new(standing.while_may_read(group, open, chunks));
    let name = format!("batch-{}-attempt-{}.{}.log", attempt.batch_id, attempt.attempt, stream.name());
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONTENT_DISPOSITION, disposition.expect("digits and letters fit into a header"));
    Ok(response)
}

/// Where the worker that ran the attempt serves its logs.
async fn address_of(app: &App, attempt: &AttemptRow) -> Result<String, Problem> {
    // The newest registration has the address that is listened on now.
    Ok(worker_row(app, attempt.worker_id.to_string()).await?.address.to_string())
}
