//! A store of logs that keeps what a test gives it, and says who asked for what.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tidemill_model::{
    GroupName, LogChunk, LogChunks, LogLines, LogOffsets, LogParts, LogStream, Timestamp, Token,
};
use tidemill_seal::{LogsSecret, Ticket};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The secret of interfaces and stores.
pub(crate) const INTERNAL_KEY: &str = "between-the-roles";

#[derive(Default)]
struct KeptLog {
    /// As they came.
    pieces: Vec<(LogStream, Vec<u8>)>,
    is_end: bool,
    is_cut: bool,
}

impl KeptLog {
    fn bytes(&self, stream: LogStream) -> Vec<u8> {
        self.pieces.iter().filter(|(of, _)| *of == stream).flat_map(|(_, bytes)| bytes.clone()).collect()
    }
}

struct Store {
    secret: LogsSecret,
    parts: Mutex<LogParts>,
    logs: Mutex<BTreeMap<Token, KeptLog>>,
    /// Who asked for which log, and what.
    asked: Mutex<Vec<(Ticket, String)>>,
    grown: Notify,
    fails: AtomicBool,
}

/// A store that answers, until it is dropped.
pub(crate) struct FakeStore {
    pub(crate) address: String,
    store: Arc<Store>,
    serving: JoinHandle<()>,
}

impl Drop for FakeStore {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeStore {
    /// It has these of two partitions.
    pub(crate) async fn start(mine: &[u32]) -> Self {
        let store = Arc::new(Store {
            secret: LogsSecret::of(INTERNAL_KEY),
            parts: Mutex::new(LogParts { mine: mine.to_vec(), count: 2 }),
            logs: Mutex::default(),
            asked: Mutex::default(),
            grown: Notify::new(),
            fails: AtomicBool::new(false),
        });
        let router = Router::new()
            .route("/parts", get(parts))
            .route("/kept/{token}", get(summary))
            .route("/kept/{token}/lines", get(lines))
            .route("/kept/{token}/bytes", get(bytes))
            .route("/kept/{token}/search", get(search))
            .route("/kept/{token}/chunks", get(chunks))
            .with_state(Arc::clone(&store));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, store, serving }
    }

    pub(crate) fn keep(&self, token: Token, stream: LogStream, bytes: &[u8]) {
        let mut logs = self.store.logs.lock().unwrap();
        logs.entry(token).or_default().pieces.push((stream, bytes.to_vec()));
        self.store.grown.notify_waiters();
    }

    pub(crate) fn end(&self, token: Token) {
        self.store.logs.lock().unwrap().entry(token).or_default().is_end = true;
        self.store.grown.notify_waiters();
    }

    /// Its worker lost the rest.
    pub(crate) fn cut(&self, token: Token) {
        self.store.logs.lock().unwrap().entry(token).or_default().is_cut = true;
        self.end(token);
    }

    pub(crate) fn has(&self, mine: &[u32]) {
        self.store.parts.lock().unwrap().mine = mine.to_vec();
    }

    /// Its disk does not answer any more, or does again.
    pub(crate) fn fails(&self, fails: bool) {
        self.store.fails.store(fails, Ordering::SeqCst);
    }

    /// The log and group of each ticket that was shown.
    pub(crate) fn tickets(&self) -> Vec<(Token, GroupName)> {
        let asked = self.store.asked.lock().unwrap();
        asked.iter().map(|(ticket, _)| (ticket.token, ticket.group.clone())).collect()
    }

    /// What was asked, with its query.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.store.asked.lock().unwrap().iter().map(|(_, asked)| asked.clone()).collect()
    }
}

/// Why a question is not answered.
struct Refused(StatusCode, &'static str);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, code) = self;
        (status, Json(json!({"code": code, "detail": format!("{code}!")}))).into_response()
    }
}

impl Store {
    fn bearer(headers: &HeaderMap) -> &str {
        let header = headers.get(header::AUTHORIZATION).expect("every question shows something");
        std::str::from_utf8(header.as_bytes()).unwrap().strip_prefix("Bearer ").unwrap()
    }

    /// Lets in whoever has a ticket for this log, which has more than half a minute left.
    fn enter(&self, token: Token, headers: &HeaderMap, what: String) -> Result<(), Refused> {
        let half_a_minute = Timestamp::from_millisecond(tidemill_journal::now().as_millisecond() + 30_000);
        let ticket = self.secret.read(Self::bearer(headers), half_a_minute.unwrap());
        let Some(ticket) = ticket.ok().filter(|ticket| ticket.token == token) else {
            return Err(Refused(StatusCode::UNAUTHORIZED, "wrong_ticket"));
        };
        self.asked.lock().unwrap().push((ticket, what));
        if self.fails.load(Ordering::SeqCst) {
            return Err(Refused(StatusCode::SERVICE_UNAVAILABLE, "store_unreachable"));
        }
        if self.logs.lock().unwrap().contains_key(&token) {
            return Ok(());
        }
        Err(Refused(StatusCode::NOT_FOUND, "nothing_kept"))
    }
}

type Asked = Query<BTreeMap<String, String>>;

fn number(query: &Asked, name: &str) -> Option<u64> {
    query.get(name).map(|text| text.parse().unwrap())
}

fn stream_of(query: &Asked) -> LogStream {
    LogStream::of_number(query["type"].parse().unwrap()).unwrap()
}

fn said(what: &str, query: &Asked) -> String {
    query.iter().fold(what.to_owned(), |said, (name, value)| format!("{said} {name}={value}"))
}

async fn parts(State(store): State<Arc<Store>>, headers: HeaderMap) -> Response {
    if Store::bearer(&headers) != INTERNAL_KEY {
        return Refused(StatusCode::UNAUTHORIZED, "wrong_key").into_response();
    }
    Json(store.parts.lock().unwrap().clone()).into_response()
}

async fn summary(
    State(store): State<Arc<Store>>,
    Path(token): Path<Token>,
    headers: HeaderMap,
) -> Result<Json<tidemill_model::KeptLog>, Refused> {
    store.enter(token, &headers, "summary".to_owned())?;
    let logs = store.logs.lock().unwrap();
    let stream = |stream| {
        let bytes = logs[&token].bytes(stream);
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        tidemill_model::KeptStream { bytes: bytes.len() as u64, lines }
    };
    let [stdout, stderr, worker] = LogStream::ALL.map(stream);
    let is_end = logs[&token].is_end;
    Ok(Json(tidemill_model::KeptLog { stdout, stderr, worker, is_end, ..Default::default() }))
}

async fn lines(
    State(store): State<Arc<Store>>,
    Path(token): Path<Token>,
    query: Asked,
    headers: HeaderMap,
) -> Result<Json<LogLines>, Refused> {
    store.enter(token, &headers, said("lines", &query))?;
    let logs = store.logs.lock().unwrap();
    let bytes = logs[&token].bytes(stream_of(&query));
    let all: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let before = |line: usize| all[..line].iter().map(|line| line.len()).sum::<usize>();
    let first = match (number(&query, "line"), number(&query, "last"), number(&query, "offset")) {
        (Some(line), None, None) => (line as usize - 1).min(all.len()),
        (None, Some(last), None) => all.len().saturating_sub(last as usize),
        (None, None, Some(offset)) => {
            (0..all.len()).find(|line| before(*line) as u64 >= offset).unwrap_or(all.len())
        }
        other => panic!("{other:?}"),
    };
    let last = (first + number(&query, "lines").unwrap() as usize).min(all.len());
    let content = String::from_utf8_lossy(&all[first..last].concat()).into_owned();
    let is_end = logs[&token].is_end && last == all.len();
    let (begin, offset) = (before(first) as u64, before(last) as u64);
    Ok(Json(LogLines { content, begin, line: first as u64 + 1, offset, is_end }))
}

async fn bytes(
    State(store): State<Arc<Store>>,
    Path(token): Path<Token>,
    query: Asked,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let range = headers.get(header::RANGE).map(|range| range.to_str().unwrap().to_owned());
    store.enter(token, &headers, format!("{} {range:?}", said("bytes", &query)))?;
    let bytes = store.logs.lock().unwrap()[&token].bytes(stream_of(&query));
    let Some(range) = range else {
        return Ok(([(header::ACCEPT_RANGES, "bytes")], bytes).into_response());
    };
    let all = bytes.len();
    let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let (first, end) = match (first.parse::<usize>().ok(), last.parse::<usize>().ok()) {
        (Some(first), last) => (first, last.map_or(all, |last| all.min(last + 1))),
        (None, Some(suffix)) => (all.saturating_sub(suffix), all),
        (None, None) => panic!("{range}"),
    };
    if first >= all {
        let headers = [(header::CONTENT_RANGE, format!("bytes */{all}"))];
        return Ok((StatusCode::RANGE_NOT_SATISFIABLE, headers).into_response());
    }
    let headers = [
        (header::CONTENT_RANGE, format!("bytes {first}-{}/{all}", end - 1)),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
    ];
    Ok((StatusCode::PARTIAL_CONTENT, headers, bytes[first..end].to_vec()).into_response())
}

async fn search(
    State(store): State<Arc<Store>>,
    Path(token): Path<Token>,
    query: Asked,
    headers: HeaderMap,
) -> Result<Json<Value>, Refused> {
    store.enter(token, &headers, said("search", &query))?;
    let line = json!({"stream": "stdout", "line": 2, "offset": 4, "text": query["text"]});
    Ok(Json(json!({"matches": [line], "offset": 9, "is_end": true})))
}

async fn chunks(
    State(store): State<Arc<Store>>,
    Path(token): Path<Token>,
    query: Asked,
    headers: HeaderMap,
) -> Result<Json<LogChunks>, Refused> {
    store.enter(token, &headers, said("chunks", &query))?;
    let mut from = LogOffsets::default();
    for stream in LogStream::ALL {
        *from.of(stream) = number(&query, stream.name()).unwrap();
    }
    let wait = Duration::from_millis(number(&query, "wait_ms").unwrap());
    let until = tokio::time::Instant::now() + wait;
    loop {
        let grown = store.grown.notified();
        let found = chunks_of(&store, token, from);
        let is_over = tokio::time::Instant::now() >= until;
        if is_over || found.is_end || !found.chunks.is_empty() {
            return Ok(Json(found));
        }
        let _ = tokio::time::timeout_at(until, grown).await;
    }
}

fn chunks_of(store: &Store, token: Token, mut from: LogOffsets) -> LogChunks {
    let logs = store.logs.lock().unwrap();
    let (mut chunks, mut seen) = (Vec::new(), LogOffsets::default());
    for (stream, bytes) in &logs[&token].pieces {
        let begin = *seen.of(*stream);
        *seen.of(*stream) += bytes.len() as u64;
        if *seen.of(*stream) <= *from.of(*stream) {
            continue;
        }
        let cut = from.of(*stream).saturating_sub(begin) as usize;
        let content = String::from_utf8_lossy(&bytes[cut..]).into_owned();
        let (stream, offset) = (*stream, begin + cut as u64);
        chunks.push(LogChunk { stream, offset, at: Timestamp::UNIX_EPOCH, content });
        *from.of(stream) = *seen.of(stream);
    }
    let KeptLog { is_end, is_cut, .. } = logs[&token];
    LogChunks { chunks, offsets: from, is_end, is_cut }
}
