//! The log of an attempt: parts of it, whole, what is found in it, and what is kept of it.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidemill_model::{BatchId, BatchState, FieldError, KeptLog, LogMatches, LogPlace, LogStream, Permission};
use tidemill_store::rows::{AttemptRow, BatchRow};

use super::batches::allowed;
use super::requests::Reader;
use crate::Problem;
use crate::app::App;
use crate::log_stores::{GONE, LogPart, STREAMS, Search};
use crate::logs::{AttemptLog, read_batch};
use crate::object::Object;
use crate::parameter::Asked;
use crate::params::Params;
use crate::rights::Caller;
use crate::standing::Standing;
use crate::view::{Answered, batch_state};

/// Lines of a part where the caller names no number.
pub(crate) const PART_LINES: u32 = 100;
pub(crate) const MAX_LINES: u64 = 10_000;
/// Lines that a search gives where the caller names no number.
const MATCHES: u64 = 100;
/// The longest text that is searched for.
const MAX_TEXT_BYTES: usize = 1_000;

pub(super) const TYPE: Asked<LogStream> = Asked::new(
    "type",
    "1 (stdout, default), 2 (stderr) or 3 (worker: what its worker says of the attempt).",
    STREAMS,
);
pub(super) const OFFSET: Asked<u64> =
    Asked::number("offset", "From this byte of the attempt on; default 0.", 0, u64::MAX);
pub(super) const LINE: Asked<u64> =
    Asked::number("line", "From this line of the attempt on, from 1; in place of `offset`.", 1, u64::MAX);
pub(super) const LAST: Asked<u64> =
    Asked::number("last", "From so many lines before the end on; in place of `offset`.", 1, u64::MAX);
pub(super) const LINES: Asked<u64> =
    Asked::number("lines", "Lines at most, 1 to 10000, and 1 MiB; default 100, or `last`.", 1, MAX_LINES);
pub(super) const ATTEMPT: Asked<u64> =
    Asked::number("attempt", "Which attempt, from 1; absent: the newest.", 1, u64::MAX);
pub(super) const TEXT: Asked<String> =
    Asked::text("text", "What to look for, as it stands, within a line; 1 to 1000 bytes.").required();
pub(super) const IGNORE_CASE: Asked<bool> = Asked::flag("ignore_case", "`true`: `a` is found as `A`, too.");
pub(super) const LIMIT: Asked<u64> =
    Asked::number("limit", "Lines that are found at most, 1 to 1000; default 100.", 1, 1_000);

/// A part of an attempt's log (LOG-2).
pub(super) async fn read(by: Reader, Path(text): Path<String>, params: Params) -> Answered<LogPart> {
    let stream = params.get(TYPE)?.unwrap_or_default();
    let (place, lines) = asked_part(&params)?;
    let (row, attempt) = asked_attempt(&by.app, &by.caller, &text, &params).await?;
    match attempt {
        Some(attempt) => {
            let log = AttemptLog::of(&by.app, &attempt).await?;
            log.lines(&by.app, stream, place, lines).await.map(Json)
        }
        // Who follows a batch that waits has nothing to read yet.
        None if params.get(ATTEMPT)?.is_none() => {
            let offset = if let LogPlace::Offset(offset) = place { offset } else { 0 };
            Ok(Json(LogPart::empty(offset, batch_state(&row) == BatchState::Finished)))
        }
        None => Err(no_attempt(row.id)),
    }
}

/// Where the part begins, and how many lines it has at most.
fn asked_part(params: &Params) -> Result<(LogPlace, u32), Problem> {
    let places = [
        ("offset", params.get(OFFSET)?.map(LogPlace::Offset)),
        ("line", params.get(LINE)?.map(LogPlace::Line)),
        ("last", params.get(LAST)?.map(LogPlace::Last)),
    ];
    let given: Vec<_> = places.into_iter().filter_map(|(name, place)| Some((name, place?))).collect();
    let place = match &given[..] {
        [] => LogPlace::Offset(0),
        [(_, place)] => *place,
        several => {
            let names: Vec<_> = several.iter().map(|(name, _)| *name).collect();
            let rule = format!("cannot stand together: {}; give one of them", names.join(" and "));
            let number = |place: &LogPlace| match place {
                LogPlace::Offset(number) | LogPlace::Line(number) | LogPlace::Last(number) => *number,
            };
            let error = |(name, place): &(&str, _)| FieldError::new(*name, number(place), &*rule);
            return Err(Problem::fields(several.iter().map(error).collect()));
        }
    };
    let by_last = if let LogPlace::Last(last) = place { Some(last.min(MAX_LINES)) } else { None };
    let lines = params.get(LINES)?.or(by_last).and_then(|lines| u32::try_from(lines).ok());
    Ok((place, lines.unwrap_or(PART_LINES)))
}

/// What is kept of an attempt's log.
pub(super) async fn summary(by: Reader, Path(text): Path<String>, params: Params) -> Answered<KeptLog> {
    let (row, attempt) = asked_attempt(&by.app, &by.caller, &text, &params).await?;
    let attempt = attempt.ok_or_else(|| no_attempt(row.id))?;
    AttemptLog::of(&by.app, &attempt).await?.summary(&by.app).await.map(Json)
}

/// Lines of an attempt's log that have a text.
pub(super) async fn search(by: Reader, Path(text): Path<String>, params: Params) -> Answered<LogMatches> {
    let wanted = params.required(TEXT)?;
    if !(1..=MAX_TEXT_BYTES).contains(&wanted.len()) {
        return Err(Problem::field("text", wanted, format!("must have 1 to {MAX_TEXT_BYTES} bytes")));
    }
    let search = Search {
        stream: params.get(TYPE)?.unwrap_or_default(),
        text: &wanted,
        ignore_case: params.flag(IGNORE_CASE)?,
        offset: params.get(OFFSET)?.unwrap_or(0),
        limit: params.get(LIMIT)?.unwrap_or(MATCHES),
    };
    let (row, attempt) = asked_attempt(&by.app, &by.caller, &text, &params).await?;
    let attempt = attempt.ok_or_else(|| no_attempt(row.id))?;
    AttemptLog::of(&by.app, &attempt).await?.search(&by.app, &search).await.map(Json)
}

/// An attempt's whole log, or a range of its bytes (LOG-3).
pub(super) async fn download(
    State(app): State<Arc<App>>,
    Extension(standing): Extension<Standing>,
    Path(text): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let stream = params.get(TYPE)?.unwrap_or_default();
    let (row, attempt) = asked_attempt(&app, standing.caller(), &text, &params).await?;
    let attempt = attempt.ok_or_else(|| no_attempt(row.id))?;
    let range = asked_range(&headers)?;
    let object = app.object_of_batch(standing.caller(), &row).await?;
    download_attempt(&app, standing, object, (&attempt, stream), range).await
}

/// The range of bytes that a request asks for: one, from the first of them or from the end.
///
/// # Errors
/// It is a range of bytes, of another form.
pub(crate) fn asked_range(headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    // A log has no version that a part could be of: who has a part of another one gets the whole.
    let Some(range) = headers.get(header::RANGE).filter(|_| !headers.contains_key(header::IF_RANGE)) else {
        return Ok(None);
    };
    let text = range.to_str().unwrap_or_default();
    let Some(bytes) = text.strip_prefix("bytes=") else { return Ok(None) };
    let number = |text: &str| match text {
        "" => Some(None),
        text => crate::parameter::read::<u64>(text).map(Some),
    };
    let ends = bytes.split_once('-').and_then(|(first, last)| number(first).zip(number(last)));
    match ends {
        Some((Some(first), Some(last))) if first <= last => Ok(Some(range.clone())),
        Some((Some(_), None) | (None, Some(_))) => Ok(Some(range.clone())),
        _ => {
            let rule = "must be one range, as in bytes=0-99, bytes=100- or bytes=-100";
            Err(Problem::field("Range", text, rule))
        }
    }
}

pub(super) async fn asked_attempt(
    app: &App,
    caller: &Caller,
    text: &str,
    params: &Params,
) -> Result<(BatchRow, Option<AttemptRow>), Problem> {
    let number = params.get(ATTEMPT)?;
    let batch = BatchId(allowed(app, caller, text, Permission::ReadLogs).await?.id);
    let (row, attempts) = read_batch(app, batch).await?;
    let mut newest_first = attempts.into_iter().rev();
    let found = match number {
        None => newest_first.next(),
        Some(number) => newest_first.find(|attempt| attempt.attempt.cast_unsigned() == number),
    };
    Ok((row, found))
}

fn no_attempt(batch: i64) -> Problem {
    let detail =
        format!("batch {batch} has no such attempt, so it has no log; `why` tells what it waits for");
    Problem::new(StatusCode::NOT_FOUND, GONE, detail)
}

/// The log of an attempt of this batch as a file, or a range of it, for as long as the caller may read it.
pub(crate) async fn download_attempt(
    app: &App,
    standing: Standing,
    object: Object,
    (attempt, stream): (&AttemptRow, LogStream),
    range: Option<HeaderValue>,
) -> Result<Response, Problem> {
    let open = app.streams.take(standing.caller().holder()).await?;
    let found = AttemptLog::of(app, attempt).await?.bytes(app, stream, range).await?;
    let (status, said) = (found.status(), found.headers().clone());
    let mut response = if status == StatusCode::RANGE_NOT_SATISFIABLE {
        let detail = "the range begins beyond the end of the log; Content-Range says how long that is";
        Problem::new(status, "range_not_satisfiable", detail).into_response()
    } else {
        let body: Body = standing.while_may_read(object, open, Box::pin(found.bytes_stream()));
        let mut response = Response::new(body);
        let name = format!("batch-{}-attempt-{}.{}.log", attempt.batch_id, attempt.attempt, stream.name());
        let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers
            .insert(header::CONTENT_DISPOSITION, disposition.expect("digits and letters fit into a header"));
        if let Some(length) = said.get(header::CONTENT_LENGTH) {
            headers.insert(header::CONTENT_LENGTH, length.clone());
        }
        response
    };
    for name in [header::CONTENT_RANGE, header::ACCEPT_RANGES] {
        if let Some(value) = said.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}
