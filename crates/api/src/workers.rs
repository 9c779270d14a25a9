//! Logs of attempts that no store has, and what attempts use, asked from the workers that run them. The interface never opens a worker's files.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use tidemill_cluster::{Peers, trouble};
use tidemill_model::{LiveUsage, LogStream, Token};
use tidemill_serving::tls::Roles;

use crate::log_stores::{GONE, LogPart};
use crate::{Error, Problem};

/// What a worker is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Log(LogStream),
    Usage,
}

pub(crate) struct Workers {
    client: reqwest::Client,
    scheme: &'static str,
    logs_key: String,
    timeout: Duration,
}

impl Workers {
    pub(crate) fn new(logs_key: &str, timeout: Duration, roles: Option<&Roles>) -> Result<Self, Error> {
        let peers = Peers::new(roles);
        let scheme = peers.scheme;
        let client = peers
            .client(|builder| builder.connect_timeout(timeout).read_timeout(timeout))
            .map_err(Error::Client)?;
        Ok(Self { client, scheme, logs_key: logs_key.to_owned(), timeout })
    }

    /// `lines` lines from the byte `offset`.
    pub(crate) async fn read(
        &self,
        address: &str,
        token: Token,
        (stream, offset, lines): (LogStream, u64, u32),
    ) -> Result<LogPart, Problem> {
        let url = format!("{}://{address}/logs/{token}", self.scheme);
        let query = [("type", stream.number().into()), ("offset", offset), ("lines", lines.into())];
        let request = self.client.get(url).query(&query).timeout(self.timeout).bearer_auth(&self.logs_key);
        let answer = self.send(request, address, (token, Asked::Log(stream))).await?;
        answer.json().await.map_err(|error| unreachable_worker(address, &error))
    }

    /// EXE-7: what an attempt uses now.
    pub(crate) async fn used(&self, address: &str, token: Token) -> Result<LiveUsage, Problem> {
        let url = format!("{}://{address}/usage/{token}", self.scheme);
        let request = self.client.get(url).timeout(self.timeout).bearer_auth(&self.logs_key);
        let answer = self.send(request, address, (token, Asked::Usage)).await?;
        answer.json().await.map_err(|error| unreachable_worker(address, &error))
    }

    /// The whole log, or a range of it where the worker knows ranges, as it comes. The status is 200, 206 or 416.
    pub(crate) async fn download(
        &self,
        address: &str,
        token: Token,
        stream: LogStream,
        range: Option<HeaderValue>,
    ) -> Result<reqwest::Response, Problem> {
        let url = format!("{}://{address}/logs/{token}/download", self.scheme);
        let mut request =
            self.client.get(url).query(&[("type", stream.number())]).bearer_auth(&self.logs_key);
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        self.send(request, address, (token, Asked::Log(stream))).await
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        address: &str,
        (token, asked): (Token, Asked),
    ) -> Result<reqwest::Response, Problem> {
        let answer = request.send().await.map_err(|error| unreachable_worker(address, &error))?;
        match answer.status() {
            status if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE => Ok(answer),
            StatusCode::NOT_FOUND => {
                let said: serde_json::Value = answer.json().await.unwrap_or_default();
                let (code, detail) = match said["code"].as_str() {
                    Some("not_a_plain_file") => (
                        GONE,
                        format!(
                            "the log of attempt {token} is not a plain file: its job has put something else in its place"
                        ),
                    ),
                    Some("not_running") => (NOT_RUNNING, not_running(token)),
                    _ => {
                        let absent = if asked == Asked::Usage { NOT_RUNNING } else { GONE };
                        (absent, format!("the worker at {address} has nothing of attempt {token} for this"))
                    }
                };
                Err(Problem::new(StatusCode::NOT_FOUND, code, detail))
            }
            StatusCode::BAD_REQUEST if asked == Asked::Log(LogStream::Worker) => {
                let detail =
                    format!("the worker at {address} is of a version that keeps no notes of attempt {token}");
                Err(Problem::new(StatusCode::NOT_FOUND, GONE, detail))
            }
            status => {
                let detail =
                    format!("the worker at {address} answers {status} when asked about attempt {token}");
                Err(Problem::new(StatusCode::BAD_GATEWAY, "worker_refused", detail))
            }
        }
    }
}

/// The code of an error.
pub(crate) const WORKER_UNREACHABLE: &str = "worker_unreachable";
/// The code of an error.
pub(crate) const NOT_RUNNING: &str = "not_running";

pub(crate) fn not_running(token: Token) -> String {
    format!(
        "attempt {token} has no process that has run for a second; what an attempt has used in all stands in its batch once it has ended"
    )
}

fn unreachable_worker(address: &str, error: &reqwest::Error) -> Problem {
    tracing::warn!(address, error = error as &dyn std::error::Error, "cannot ask a worker");
    let detail = match trouble(error) {
        Some(why) => format!("the worker at {address} cannot be asked: {why}"),
        None => format!("the worker at {address} does not answer; try again later"),
    };
    Problem::unavailable(WORKER_UNREACHABLE, detail)
}
