//! The log of a batch as it grows, over its attempts.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use tidemill_model::{BatchId, FieldError, LogStream, Permission};
use tidemill_store::rows::AttemptRow;

use super::batches::allowed;
use crate::Problem;
use crate::app::App;
use crate::log_stores::STREAMS;
use crate::logs::{EventId, Tail, TailFrom, read_batch};
use crate::parameter::Asked;
use crate::params::Params;
use crate::standing::Standing;

pub(super) const TYPE: Asked<LogStream> =
    Asked::new("type", "Only 1 (stdout), 2 (stderr) or 3 (worker); absent: all, as they came.", STREAMS);
pub(super) const ATTEMPT: Asked<u64> = Asked::number(
    "attempt",
    "Begins with this attempt, from 1, and goes on with the later ones; absent: with the newest. The header \
     `Last-Event-ID` counts more: the stream goes on behind that event.",
    1,
    u64::MAX,
);
pub(super) const FROM: Asked<String> =
    Asked::word("from", "`start` (default) or `end` of the attempt that it begins with.", &["start", "end"]);

/// Follows the log of a batch (LOG-2).
pub(super) async fn tail(
    State(app): State<Arc<App>>,
    Extension(standing): Extension<Standing>,
    Path(text): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Sse<impl futures_util::Stream<Item = Result<Event, Infallible>>>, Problem> {
    let stream = params.get(TYPE)?;
    let (attempt, from_end) = (params.get(ATTEMPT)?, params.get(FROM)?.as_deref() == Some("end"));
    let last = last_event(&headers)?;
    let row = allowed(&app, standing.caller(), &text, Permission::ReadLogs).await?;
    let (batch, object) = (BatchId(row.id), app.object_of_batch(standing.caller(), &row).await?);
    let (_, attempts) = read_batch(&app, batch).await?;
    let from = match last {
        Some(id) => within(id, attempts)?,
        None => begin(attempts, attempt, from_end),
    };
    let open = app.streams.take(standing.caller().holder()).await?;
    let lost = standing.lost();
    let tail = Tail::begin(app, standing, (batch, object), (from, stream), open).await?;
    let events = unfold(tail, |mut tail| async move {
        let event = tail.next().await?;
        Some((Ok(event), tail))
    });
    Ok(Sse::new(events.take_until(lost)).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

fn last_event(headers: &HeaderMap) -> Result<Option<EventId>, Problem> {
    let Some(header) = headers.get("last-event-id").filter(|id| !id.is_empty()) else { return Ok(None) };
    let text = String::from_utf8_lossy(header.as_bytes());
    text.parse().map(Some).map_err(|()| {
        bad_id(&text, "must be the id of an event of this stream: ATTEMPT.STDOUT.STDERR.WORKER, four numbers")
    })
}

fn bad_id(id: &str, rule: impl Into<String>) -> Problem {
    let error = FieldError::new("Last-Event-ID", id, rule);
    let detail = error.to_string();
    Problem { errors: vec![error], ..Problem::new(StatusCode::BAD_REQUEST, "bad_event_id", detail) }
}

/// Behind the event that the reader had last.
fn within(id: EventId, attempts: Vec<AttemptRow>) -> Result<TailFrom, Problem> {
    let found = attempts.into_iter().find(|row| row.attempt.cast_unsigned() == id.attempt);
    let unknown = || {
        let rule = format!("is of attempt {}, which this batch does not have", id.attempt);
        bad_id(&id.to_string(), rule)
    };
    Ok(TailFrom::Within(found.ok_or_else(unknown)?, id.offsets))
}

/// With this attempt or the newest, whether it is there yet or not.
fn begin(attempts: Vec<AttemptRow>, number: Option<u64>, from_end: bool) -> TailFrom {
    let newest = || attempts.last().map(|row| row.attempt.cast_unsigned());
    let Some(first) = number.or_else(newest) else { return TailFrom::After(0) };
    match attempts.into_iter().find(|row| row.attempt.cast_unsigned() == first) {
        Some(row) if from_end => TailFrom::EndOf(row),
        Some(_) | None => TailFrom::After(first.saturating_sub(1)),
    }
}
