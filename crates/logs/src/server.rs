//! What readers ask of this store, each with a ticket for one log (docs/logs.md).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::stream;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tidemill_cluster::{Parts, Refusal};
use tidemill_model::{
    KeptLog, LogChunks, LogLines, LogMatches, LogOffsets, LogParts, LogPlace, LogStream, Timestamp, Token,
};
use tidemill_seal::{LogsSecret, NoTicket};
use tokio::sync::watch;

use crate::Error;
use crate::log::Key;
use crate::range::{Asked, asked};
use crate::reading::{Reader, Wanted, again, chunks, lines, search};
use crate::store::Store;

/// The longest wait for something new.
const WAIT_MAX_MS: u64 = 10_000;
/// Lines of one answer.
const LINES_MAX: usize = 10_000;
const LINES: usize = 100;
/// Lines that a search finds at once.
const MATCHES_MAX: usize = 1_000;
/// The longest text that is looked for, bytes.
const TEXT_MAX: usize = 1_000;
/// Bytes of one piece of a download.
const PIECE: usize = 256 << 10;

/// What is served, and to whom.
pub(crate) struct Served {
    pub(crate) store: Arc<Store>,
    pub(crate) secret: LogsSecret,
    pub(crate) key_hash: [u8; 32],
    pub(crate) parts: watch::Receiver<Parts>,
}

pub(crate) fn router(served: Served) -> Router {
    Router::new()
        .route("/parts", get(parts))
        .route("/kept/{token}", get(summary))
        .route("/kept/{token}/lines", get(some_lines))
        .route("/kept/{token}/bytes", get(bytes))
        .route("/kept/{token}/search", get(some_matches))
        .route("/kept/{token}/chunks", get(some_chunks))
        .with_state(Arc::new(served))
}

fn wrong(name: &str, value: impl std::fmt::Display, rule: &str) -> Refusal {
    let detail = format!("{name} is {value}, but {rule}");
    Refusal { status: StatusCode::BAD_REQUEST, code: "wrong_parameter", detail }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        tracing::warn!(error = &error as &dyn std::error::Error, "a log cannot be read");
        let (status, code) = match &error {
            Error::Damaged { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "store_unreachable"),
        };
        Self { status, code, detail: error.to_string() }
    }
}

impl Served {
    fn bearer(headers: &HeaderMap) -> Option<&str> {
        // A group's name may have any letters.
        let given = std::str::from_utf8(headers.get(header::AUTHORIZATION)?.as_bytes()).ok()?;
        given.strip_prefix("Bearer ")
    }

    /// The log that a ticket is for: of this attempt, and no other.
    async fn find(self: &Arc<Self>, token: Token, headers: &HeaderMap) -> Result<Reader, Refusal> {
        let refused = |detail: &str| Refusal {
            status: StatusCode::UNAUTHORIZED,
            code: "wrong_ticket",
            detail: detail.to_owned(),
        };
        let none = "the header Authorization has to be Bearer and a ticket of this cluster for this log";
        let text = Self::bearer(headers).ok_or_else(|| refused(none))?;
        let ticket = self.secret.read(text, Timestamp::from(jiff::Timestamp::now()));
        let ticket = ticket.map_err(|why| match why {
            NoTicket::Forged => refused(none),
            NoTicket::Over => refused("the time of this ticket is over"),
        })?;
        if ticket.token != token {
            return Err(refused(none));
        }
        let key = Key { group: ticket.group, token };
        let log = self.store.find(&key).await?.ok_or_else(|| Refusal {
            status: StatusCode::NOT_FOUND,
            code: "nothing_kept",
            detail: format!("this store has nothing of attempt {token}"),
        })?;
        Ok(Reader { store: Arc::clone(&self.store), log })
    }
}

async fn parts(State(served): State<Arc<Served>>, headers: HeaderMap) -> Result<Json<LogParts>, Refusal> {
    let given = Served::bearer(&headers).unwrap_or_default();
    if <[u8; 32]>::from(Sha256::digest(given.as_bytes())) != served.key_hash {
        let detail = "the header Authorization has to be Bearer and the cluster's internal key".to_owned();
        return Err(Refusal { status: StatusCode::UNAUTHORIZED, code: "wrong_key", detail });
    }
    let Parts { mine, count } = served.parts.borrow().clone();
    Ok(Json(LogParts { mine: mine.into_iter().collect(), count }))
}

async fn summary(
    State(served): State<Arc<Served>>,
    Path(token): Path<Token>,
    headers: HeaderMap,
) -> Result<Json<KeptLog>, Refusal> {
    let reader = served.find(token, &headers).await?;
    Ok(Json(again!(reader, reader.summary())?))
}

fn stream_of(number: Option<u8>) -> Result<LogStream, Refusal> {
    let number = number.unwrap_or(1);
    let unknown = || wrong("type", number, "has to be 1 (stdout), 2 (stderr) or 3 (worker)");
    LogStream::of_number(number).ok_or_else(unknown)
}

fn wait_of(wait_ms: Option<u64>) -> Duration {
    Duration::from_millis(wait_ms.unwrap_or(0).min(WAIT_MAX_MS))
}

#[derive(Deserialize)]
struct LinesAsked {
    #[serde(rename = "type")]
    stream: Option<u8>,
    offset: Option<u64>,
    line: Option<u64>,
    last: Option<u64>,
    lines: Option<usize>,
    wait_ms: Option<u64>,
}

async fn some_lines(
    State(served): State<Arc<Served>>,
    Path(token): Path<Token>,
    Query(asked): Query<LinesAsked>,
    headers: HeaderMap,
) -> Result<Json<LogLines>, Refusal> {
    let reader = served.find(token, &headers).await?;
    let stream = stream_of(asked.stream)?;
    let place = match (asked.offset, asked.line, asked.last) {
        (offset, None, None) => LogPlace::Offset(offset.unwrap_or(0)),
        (None, Some(0), None) => return Err(wrong("line", 0, "lines count from 1")),
        (None, Some(line), None) => LogPlace::Line(line),
        (None, None, Some(last)) => LogPlace::Last(last),
        _ => {
            let rule = "one of offset, line and last says where to begin";
            return Err(wrong("offset", "given with another", rule));
        }
    };
    let wanted = asked.lines.unwrap_or(LINES).min(LINES_MAX);
    let wait = wait_of(asked.wait_ms);
    Ok(Json(again!(reader, lines(&reader, stream, place, wanted, wait))?))
}

#[derive(Deserialize)]
struct SearchAsked {
    #[serde(rename = "type")]
    stream: Option<u8>,
    text: String,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    offset: u64,
    limit: Option<usize>,
}

async fn some_matches(
    State(served): State<Arc<Served>>,
    Path(token): Path<Token>,
    Query(asked): Query<SearchAsked>,
    headers: HeaderMap,
) -> Result<Json<LogMatches>, Refusal> {
    let reader = served.find(token, &headers).await?;
    if asked.text.is_empty() || asked.text.len() > TEXT_MAX {
        let length = format!("{} bytes long", asked.text.len());
        return Err(wrong("text", length, "has to be 1 to 1000 bytes"));
    }
    let wanted = Wanted {
        stream: stream_of(asked.stream)?,
        text: asked.text,
        ignore_case: asked.ignore_case,
        offset: asked.offset,
        limit: asked.limit.unwrap_or(LINES).min(MATCHES_MAX),
    };
    Ok(Json(again!(reader, search(&reader, &wanted))?))
}

#[derive(Deserialize)]
struct ChunksAsked {
    #[serde(default)]
    stdout: u64,
    #[serde(default)]
    stderr: u64,
    #[serde(default)]
    worker: u64,
    wait_ms: Option<u64>,
}

async fn some_chunks(
    State(served): State<Arc<Served>>,
    Path(token): Path<Token>,
    Query(asked): Query<ChunksAsked>,
    headers: HeaderMap,
) -> Result<Json<LogChunks>, Refusal> {
    let reader = served.find(token, &headers).await?;
    let from = LogOffsets { stdout: asked.stdout, stderr: asked.stderr, worker: asked.worker };
    let wait = wait_of(asked.wait_ms);
    Ok(Json(again!(reader, chunks(&reader, from, wait))?))
}

#[derive(Deserialize)]
struct BytesAsked {
    #[serde(rename = "type")]
    stream: Option<u8>,
}

async fn bytes(
    State(served): State<Arc<Served>>,
    Path(token): Path<Token>,
    Query(wanted): Query<BytesAsked>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let reader = served.find(token, &headers).await?;
    let stream = stream_of(wanted.stream)?;
    let (end, _) = reader.end(stream);
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let (status, range) = match asked(range, end) {
        Asked::All => (StatusCode::OK, 0..end),
        Asked::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Asked::Nothing => {
            let problem = Refusal {
                status: StatusCode::RANGE_NOT_SATISFIABLE,
                code: "wrong_range",
                detail: format!("the log has {end} bytes, and none in this range"),
            };
            let value = HeaderValue::try_from(format!("bytes */{end}")).expect("digits fit into a header");
            return Ok(([(header::CONTENT_RANGE, value)], problem).into_response());
        }
    };
    let mut answer =
        Response::new(Body::from_stream(stream::unfold(Some((reader, range.clone())), move |rest| {
            next_piece(rest, stream)
        })));
    *answer.status_mut() = status;
    let value = |text: String| HeaderValue::try_from(text).expect("digits fit into a header");
    let answer_headers = answer.headers_mut();
    answer_headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    answer_headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    answer_headers.insert(header::CONTENT_LENGTH, value((range.end - range.start).to_string()));
    if status == StatusCode::PARTIAL_CONTENT {
        let (first, last) = (range.start, range.end - 1);
        answer_headers.insert(header::CONTENT_RANGE, value(format!("bytes {first}-{last}/{end}")));
    }
    Ok(answer)
}

type Rest = Option<(Reader, std::ops::Range<u64>)>;

/// The next piece; after an error the answer breaks off, and whoever reads it sees that it is too short.
async fn next_piece(rest: Rest, stream: LogStream) -> Option<(Result<bytes::Bytes, Error>, Rest)> {
    let (reader, range) = rest?;
    if range.is_empty() {
        return None;
    }
    let most = usize::try_from(range.end - range.start).unwrap_or(PIECE).min(PIECE);
    match reader.read(stream, range.start, most).await {
        Ok(piece) if piece.is_empty() => {
            let object = reader.log.key.directory();
            let what = format!("byte {} is in no segment", range.start);
            Some((Err(Error::Damaged { object, what }), None))
        }
        Ok(piece) => {
            let next = range.start + piece.len() as u64..range.end;
            Some((Ok(piece), Some((reader, next))))
        }
        Err(error) => Some((Err(error), None)),
    }
}
