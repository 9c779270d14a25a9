//! The routes.

use std::fs::File;
use std::io::{self, Read};
use std::net::TcpListener;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tidemill_model::{LiveUsage, LogStream, Token};
use tidemill_serving::Listener;
use tokio::sync::oneshot;

use super::Serving;
use super::read::{self, Piece, Wanted};
use super::ship::{self, Ship};
use crate::attempt_dir::AttemptDir;
use crate::data_dir::Attempts;
use crate::plain_file;
use crate::processes::Table;

/// Says that there is no file where the output was; the API tells it from one that was removed.
const NOT_PLAIN: &str = "not_a_plain_file";
/// Bytes of one piece of a download.
const CHUNK: usize = 64 << 10;

pub(super) struct Served {
    pub(super) attempts: Attempts,
    pub(super) table: Arc<Table>,
    pub(super) ship: Ship,
    pub(super) key_hash: [u8; 32],
}

/// Serves until it is told to stop; readers in the middle of a download are cut off then, and ask again.
pub(super) async fn serve(
    listener: TcpListener,
    served: Arc<Served>,
    Serving { limits, tls }: Serving,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/logs/{token}", get(lines))
        .route("/logs/{token}/download", get(download))
        .route("/usage/{token}", get(usage))
        .route("/output", post(ship::output))
        .with_state(served);
    let listener = Listener::new(tokio::net::TcpListener::from_std(listener)?, tls);
    tokio::select! {
        served = tidemill_serving::serve(listener, routes, limits, std::future::pending()) => served,
        _ = stopped => Ok(()),
    }
}

/// What is asked for. Numbers as in the job calls: 1 stdout, 2 stderr, 3 what the worker says.
#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(rename = "type", default = "stdout")]
    stream: u8,
    #[serde(default)]
    pub(super) offset: u64,
    #[serde(default = "default_lines")]
    pub(super) lines: usize,
}

fn stdout() -> u8 {
    1
}
fn default_lines() -> usize {
    100
}

#[derive(Serialize)]
struct Answer {
    content: String,
    offset: u64,
    is_end: bool,
}

/// An error as the API tells it too.
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) detail: String,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
        });
        (self.status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
    }
}

async fn lines(
    State(served): State<Arc<Served>>,
    Path(token): Path<Token>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Json<Answer>, Problem> {
    served.check_key(&headers)?;
    let stream = stream_of(asked.stream)?;
    let dir = served.find(token)?;
    let read = move || -> io::Result<Answer> {
        // Looked at before the file: what is written between the two is then still to come.
        let is_recorded = served.attempts.is_recorded(token);
        // The worker says how it ended after that.
        let is_final = is_recorded || dir.has_ended() && stream != LogStream::Worker;
        let Piece { content, offset, reaches_end } = match open(&dir, stream)? {
            Some(mut file) => {
                read::read_lines(&mut file, Wanted { offset: asked.offset, lines: asked.lines, is_final })?
            }
            None => Piece { content: String::new(), offset: 0, reaches_end: true },
        };
        Ok(Answer { content, offset, is_end: is_final && reaches_end })
    };
    on_blocking_thread(read).await.map(Json)
}

async fn usage(
    State(served): State<Arc<Served>>,
    Path(token): Path<Token>,
    headers: HeaderMap,
) -> Result<Json<LiveUsage>, Problem> {
    served.check_key(&headers)?;
    let found = on_blocking_thread(move || Ok(served.table.used(token))).await?;
    let detail = format!("attempt {token} has no processes here that have run for a second");
    found.map(Json).ok_or(Problem { status: StatusCode::NOT_FOUND, code: "not_running", detail })
}

async fn download(
    State(served): State<Arc<Served>>,
    Path(token): Path<Token>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    served.check_key(&headers)?;
    let stream = stream_of(asked.stream)?;
    let dir = served.find(token)?;
    let file = on_blocking_thread(move || open(&dir, stream)).await?;
    let name = stream.name();
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{token}.{name}\"")),
    ];
    let Some(file) = file else { return Ok((headers, Body::empty()).into_response()) };
    Ok((headers, Body::from_stream(stream::unfold(Some(file), next_chunk))).into_response())
}

/// Ends at the end that the file has when it is reached, so that following a job that goes on writing faster
/// than its reader reads is up to the reader.
async fn next_chunk(file: Option<File>) -> Option<(io::Result<Bytes>, Option<File>)> {
    let mut file = file?;
    let read = tokio::task::spawn_blocking(move || {
        let mut chunk = Vec::with_capacity(CHUNK);
        let count = (&mut file).take(CHUNK as u64).read_to_end(&mut chunk);
        count.map(|_| (Bytes::from(chunk), file))
    });
    match read.await.map_err(io::Error::other).flatten() {
        Ok((chunk, _)) if chunk.is_empty() => None,
        Ok((chunk, file)) => Some((Ok(chunk), Some(file))),
        Err(error) => Some((Err(error), None)),
    }
}

impl Served {
    /// Compares hashes, so that the time it takes says nothing about the key.
    pub(super) fn check_key(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer "));
        let fits = given.is_some_and(|key| <[u8; 32]>::from(Sha256::digest(key.as_bytes())) == self.key_hash);
        if fits {
            return Ok(());
        }
        let detail = "the header Authorization has to be Bearer and the cluster's logs key".to_owned();
        Err(Problem { status: StatusCode::UNAUTHORIZED, code: "wrong_key", detail })
    }

    fn find(&self, token: Token) -> Result<AttemptDir, Problem> {
        let detail =
            format!("this worker has no output of attempt {token}; it ran nothing, or it was removed");
        let missing = Problem { status: StatusCode::NOT_FOUND, code: "no_such_log", detail };
        self.attempts.find(token).ok_or(missing)
    }
}

fn stream_of(number: u8) -> Result<LogStream, Problem> {
    LogStream::of_number(number).ok_or_else(|| {
        let detail = format!("type is {number}, but has to be 1 (stdout), 2 (stderr) or 3 (worker)");
        Problem { status: StatusCode::BAD_REQUEST, code: "wrong_type", detail }
    })
}

/// A job that has not begun to write has no file yet.
fn open(dir: &AttemptDir, stream: LogStream) -> io::Result<Option<File>> {
    match plain_file::open(&dir.path().join(stream.name())) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) async fn on_blocking_thread<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other).flatten().map_err(|error| {
        if error.kind() == io::ErrorKind::InvalidInput {
            let detail = format!("the output {error}: the job has put something else in its place");
            return Problem { status: StatusCode::NOT_FOUND, code: NOT_PLAIN, detail };
        }
        tracing::warn!(%error, "cannot read the output of an attempt");
        let detail = format!("the output cannot be read: {error}");
        Problem { status: StatusCode::INTERNAL_SERVER_ERROR, code: "unreadable", detail }
    })
}
