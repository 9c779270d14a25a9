//! Logs of attempts and what they use, asked from the workers that run them. The interface never opens a worker's files.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use futures_util::Stream as FuturesStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_cluster::{Peers, trouble};
use tidemill_model::{LiveUsage, Token};
use tidemill_serving::tls::Roles;

use crate::parameter::{Readable, Rule};
use crate::{Error, Problem};

/// Which of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// As a parameter names one of them.
    pub(crate) const WORDS: Rule = Rule::Word(&["1", "2", "stdout", "stderr"]);

    pub(crate) fn number(self) -> i32 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl Readable for Stream {
    fn read(_: Rule, text: &str) -> Option<Self> {
        match text {
            "1" | "stdout" => Some(Self::Stdout),
            "2" | "stderr" => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPart {
    /// Whole lines, except where the last one has no end yet.
    pub content: String,
    /// The byte offset to go on from.
    pub offset: u64,
    /// Whether nothing will follow.
    pub is_end: bool,
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
        (stream, offset, lines): (Stream, u64, u32),
    ) -> Result<LogPart, Problem> {
        let url = format!("{}://{address}/logs/{token}", self.scheme);
        let query = [
            ("type", u64::from(stream.number().unsigned_abs())),
            ("offset", offset),
            ("lines", lines.into()),
        ];
        let request = self.client.get(url).query(&query).timeout(self.timeout).bearer_auth(&self.logs_key);
        let answer = self.send(request, address, (token, "no_log")).await?;
        answer.json().await.map_err(|error| unreachable_worker(address, &error))
    }

    /// EXE-7: what an attempt uses now.
    pub(crate) async fn used(&self, address: &str, token: Token) -> Result<LiveUsage, Problem> {
        let url = format!("{}://{address}/usage/{token}", self.scheme);
        let request = self.client.get(url).timeout(self.timeout).bearer_auth(&self.logs_key);
        let answer = self.send(request, address, (token, NOT_RUNNING)).await?;
        answer.json().await.map_err(|error| unreachable_worker(address, &error))
    }

    /// The whole log, as it comes.
    pub(crate) async fn download(
        &self,
        address: &str,
        token: Token,
        stream: Stream,
    ) -> Result<impl FuturesStream<Item = Result<Bytes, reqwest::Error>> + Send + Unpin + 'static, Problem>
    {
        let url = format!("{}://{address}/logs/{token}/download", self.scheme);
        let request = self.client.get(url).query(&[("type", stream.number())]).bearer_auth(&self.logs_key);
        let answer = self.send(request, address, (token, "no_log")).await?;
        Ok(Box::pin(answer.bytes_stream()))
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        address: &str,
        (token, absent): (Token, &'static str),
    ) -> Result<reqwest::Response, Problem> {
        let answer = request.send().await.map_err(|error| unreachable_worker(address, &error))?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND => {
                let said: serde_json::Value = answer.json().await.unwrap_or_default();
                let (code, detail) = match said["code"].as_str() {
                    Some("not_a_plain_file") => (
                        "no_log",
                        format!(
                            "the log of attempt {token} is not a plain file: its job has put something else in its place"
                        ),
                    ),
                    Some("not_running") => (NOT_RUNNING, not_running(token)),
                    _ => (absent, format!("the worker at {address} has nothing of attempt {token} for this")),
                };
                Err(Problem::new(StatusCode::NOT_FOUND, code, detail))
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
    Problem::unavailable("worker_unreachable", detail)
}
