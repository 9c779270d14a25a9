//! Asks stores of logs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;
use tidemill_cluster::trouble;
use tidemill_journal::now;
use tidemill_model::{
    GroupName, KeptLog, LogChunks, LogLines, LogMatches, LogOffsets, LogPlace, LogStream, Timestamp, Token,
};
use tidemill_seal::{LogsSecret, Ticket};
use tidemill_serving::tls::Roles;

use super::known::{KnownStores, Store};
use crate::{Config, Error, Problem};

/// How long a store may wait until there is more of a log.
pub(super) const WAITS: Duration = Duration::from_secs(5);
/// A search reads up to 256 MiB.
const SEARCHES_WITHIN: Duration = Duration::from_secs(30);
/// A ticket is for the beginning of a read, whatever that takes.
const TICKET_FOR_MS: i64 = 60_000;
/// The longest answer that is read into memory. Those of stores hold 1 MiB of a log, with every byte escaped at worst.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// The log of an attempt, as stores name it.
#[derive(Debug, Clone)]
pub(crate) struct LogName {
    pub(crate) token: Token,
    /// The group of its worker.
    pub(crate) group: GroupName,
}

/// What is looked for in a stream.
pub(crate) struct Search<'t> {
    pub(crate) stream: LogStream,
    pub(crate) text: &'t str,
    pub(crate) ignore_case: bool,
    pub(crate) offset: u64,
    pub(crate) limit: u64,
}

/// The stores that the configuration names. What they tell is `Ok(None)` where none of them keeps anything of the attempt, and an
/// error where one that may keep it could not be asked.
pub(crate) struct Stores {
    known: Arc<KnownStores>,
    secret: LogsSecret,
    timeout: Duration,
}

/// What a question gives.
pub(crate) type Kept<T> = Result<Option<T>, Problem>;

type Query<'q> = Vec<(&'static str, std::borrow::Cow<'q, str>)>;

struct Asks<'q> {
    what: &'static str,
    query: Query<'q>,
    range: Option<HeaderValue>,
    /// How long the answer as a whole may take; none: as long as it goes on.
    within: Option<Duration>,
}

impl Stores {
    /// None where none are configured.
    pub(crate) fn new(config: &Config, roles: Option<&Roles>) -> Result<Option<Self>, Error> {
        if config.log_stores.is_empty() {
            return Ok(None);
        }
        let timeout = Duration::from_millis(config.peer_timeout_ms);
        let known = KnownStores::new(&config.log_stores, &config.internal_key, timeout, roles)?;
        Ok(Some(Self { known: Arc::new(known), secret: LogsSecret::of(&config.internal_key), timeout }))
    }

    /// Which store has the attempts of this shard, as far as that is known.
    pub(crate) async fn owner(&self, log: &LogName) -> Option<SocketAddr> {
        self.known.now().await.owner(log.token.shard())
    }

    pub(crate) async fn lines(
        &self,
        log: &LogName,
        stream: LogStream,
        place: LogPlace,
        lines: u32,
    ) -> Kept<LogLines> {
        let (from, at) = match place {
            LogPlace::Offset(offset) => ("offset", offset),
            LogPlace::Line(line) => ("line", line),
            LogPlace::Last(last) => ("last", last),
        };
        let query = vec![number("type", stream.number()), number(from, at), number("lines", lines)];
        self.json(log, self.asks("/lines", query)).await
    }

    pub(crate) async fn summary(&self, log: &LogName) -> Kept<KeptLog> {
        self.json(log, self.asks("", Vec::new())).await
    }

    pub(crate) async fn search(&self, log: &LogName, search: &Search<'_>) -> Kept<LogMatches> {
        let Search { stream, text, ignore_case, offset, limit } = search;
        let query = vec![
            number("type", stream.number()),
            ("text", (*text).into()),
            number("ignore_case", ignore_case),
            number("offset", offset),
            number("limit", limit),
        ];
        let asks = Asks { within: Some(SEARCHES_WITHIN), ..self.asks("/search", query) };
        self.json(log, asks).await
    }

    /// What follows these offsets, once there is something, or after [`WAITS`].
    pub(crate) async fn chunks(&self, log: &LogName, from: LogOffsets) -> Kept<LogChunks> {
        let query = vec![
            number("stdout", from.stdout),
            number("stderr", from.stderr),
            number("worker", from.worker),
            number("wait_ms", WAITS.as_millis()),
        ];
        let asks = Asks { within: Some(self.timeout + WAITS), ..self.asks("/chunks", query) };
        self.json(log, asks).await
    }

    /// The bytes of a stream, or of a range of it, as they come. The status is 200, 206 or 416.
    pub(crate) async fn bytes(
        &self,
        log: &LogName,
        stream: LogStream,
        range: Option<HeaderValue>,
    ) -> Kept<reqwest::Response> {
        let asks = self.asks("/bytes", vec![number("type", stream.number())]);
        let answer = self.ask(log, &Asks { range, within: None, ..asks }).await?;
        Ok(answer.map(|(response, _)| response))
    }

    fn asks<'q>(&self, what: &'static str, query: Query<'q>) -> Asks<'q> {
        Asks { what, query, range: None, within: Some(self.timeout) }
    }

    async fn json<T: DeserializeOwned>(&self, log: &LogName, asks: Asks<'_>) -> Kept<T> {
        let Some((response, store)) = self.ask(log, &asks).await? else { return Ok(None) };
        let bytes = bounded(response).await.map_err(|why| unreachable(&store, &why))?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| unreachable(&store, &error.to_string()))
    }

    /// Asks one store after the other.
    async fn ask(&self, log: &LogName, asks: &Asks<'_>) -> Kept<(reqwest::Response, Arc<Store>)> {
        let askable = self.known.now().await.askable(log.token.shard());
        let (begun, mut problem) = (Instant::now(), None);
        for store in &askable.stores {
            match self.ask_one(store, log, asks).await {
                Ok(Some(response)) => return Ok(Some((response, Arc::clone(store)))),
                Ok(None) => {}
                Err(said) => {
                    problem.get_or_insert(said);
                    if begun.elapsed() > 2 * self.timeout + WAITS {
                        break;
                    }
                }
            }
        }
        match problem {
            Some(problem) => Err(problem),
            None if askable.is_all => Ok(None),
            None => {
                let detail = format!(
                    "the store that has the log of attempt {} does not answer; try again later",
                    log.token
                );
                Err(Problem::unavailable(UNREACHABLE, detail))
            }
        }
    }

    async fn ask_one(&self, store: &Store, log: &LogName, asks: &Asks<'_>) -> Kept<reqwest::Response> {
        let Asks { what, query, range, within } = asks;
        let url = format!("{}://{}/kept/{}{what}", self.known.scheme(), store.name, log.token);
        let mut request = store.client.get(url).query(query).header(header::AUTHORIZATION, self.ticket(log)?);
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        if let Some(within) = within {
            request = request.timeout(*within);
        }
        let response = request.send().await.map_err(|error| {
            let (name, address) = (&store.name, store.address);
            tracing::warn!(name, %address, error = &error as &dyn std::error::Error, "cannot ask a store of logs");
            unreachable(store, &trouble(&error).unwrap_or_else(|| "it does not answer".to_owned()))
        })?;
        let status = response.status();
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(Some(response));
        }
        let said = bounded(response).await.unwrap_or_default();
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap_or_default();
        let (code, detail) = (said["code"].as_str().unwrap_or_default(), said["detail"].as_str());
        let detail = detail.unwrap_or("it does not say why");
        match status {
            StatusCode::NOT_FOUND if code == "nothing_kept" => Ok(None),
            status if status.is_server_error() => Err(unreachable(store, detail)),
            status => {
                let (name, address) = (&store.name, store.address);
                tracing::warn!(name, %address, %status, code, detail, "a store of logs refuses a question");
                let detail = format!("the store of logs at {name} refuses it: {status} {code}: {detail}");
                Err(Problem::new(StatusCode::BAD_GATEWAY, "log_store_refused", detail))
            }
        }
    }

    /// The right to read this log from now on, for a minute.
    fn ticket(&self, log: &LogName) -> Result<HeaderValue, Problem> {
        let until = now().as_millisecond() + TICKET_FOR_MS;
        let until = Timestamp::from_millisecond(until).unwrap_or(Timestamp::MAX);
        let ticket = Ticket { token: log.token, group: log.group.clone(), until };
        let mut ticket = HeaderValue::from_bytes(format!("Bearer {}", self.secret.write(&ticket)).as_bytes())
            .map_err(|_| Problem::internal("the ticket for a log cannot be sent"))?;
        ticket.set_sensitive(true);
        Ok(ticket)
    }
}

/// The code of an error.
const UNREACHABLE: &str = "log_store_unreachable";

fn unreachable(store: &Store, why: &str) -> Problem {
    let detail = format!("the store of logs at {} cannot be asked: {why}; try again later", store.name);
    Problem::unavailable(UNREACHABLE, detail)
}

fn number(name: &'static str, value: impl ToString) -> (&'static str, std::borrow::Cow<'static, str>) {
    (name, value.to_string().into())
}

/// The whole body, which is no longer than an answer may be.
async fn bounded(mut response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| "its answer breaks off".to_owned())? {
        if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(format!("its answer is longer than {MAX_ANSWER_BYTES} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
