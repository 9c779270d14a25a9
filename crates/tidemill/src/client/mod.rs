//! The public calls of a server, made over HTTP. Knows no more of it than any other client does.

#[cfg(test)]
mod corpus;
mod problem;
mod sse;
mod target;
mod tls;

pub(crate) use sse::{Message, Messages};
pub(crate) use target::{KEY_FILE, OPERATOR_FILE, Target};

use std::error::Error;
use std::io::{BufReader, Read as _};
use std::time::Duration;

use reqwest::blocking::{Client as Http, RequestBuilder, Response};
use serde_json::Value;

use crate::exit::Exit;
use crate::failure::{Done, Failure};

/// What to do where no server is found.
pub(crate) const OTHER_SERVER: &str = "start one with `tidemill standalone`; name a running one by its data directory with \
                            --data, or by its address with --server";
/// Until lists have to show what was written.
const SEEN_WITHIN: Duration = Duration::from_secs(2);
/// Until a server answers, and between two pieces of an answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Largest answer that is read into memory.
const MAX_ANSWER_BYTES: u64 = 256 << 20;
/// Most items that one call returns.
const MAX_PAGE: usize = 1000;

/// Query parameters of a call; absent ones are left out.
pub(crate) type Query<'a> = Vec<(&'a str, String)>;

/// How a write is made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Method {
    Post,
    Put,
    Delete,
}

/// A server and the right to speak to it.
#[derive(Debug)]
pub(crate) struct Client {
    http: Http,
    target: Target,
}

impl Client {
    pub(crate) fn new(target: Target) -> Done<Self> {
        let http = Http::builder()
            .tls_backend_preconfigured(tls::config(&target)?)
            .connect_timeout(Duration::from_secs(5))
            .timeout(ANSWERS_WITHIN)
            .user_agent(concat!("tidemill/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Failure::caused("cannot make an HTTP client", &error))?;
        Ok(Self { http, target })
    }

    /// Reads one answer.
    pub(crate) fn get(&self, path: &str, query: &[(&str, String)]) -> Done<Value> {
        let response = self.call_get(path, query)?;
        self.answer(response, Kind::Read)
    }

    /// Reads the pages of a list until `limit` items are there: `{items, next}`.
    pub(crate) fn list(&self, path: &str, query: &Query<'_>, limit: usize) -> Done<Value> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut page = query.clone();
            page.push(("limit", (limit - items.len()).clamp(1, MAX_PAGE).to_string()));
            page.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let mut answer = self.get(path, &page)?;
            let next = answer.get("next").and_then(Value::as_str).map(str::to_owned);
            if let Some(Value::Array(more)) = answer.get_mut("items").map(Value::take) {
                items.extend(more);
            }
            if next.is_none() || items.len() >= limit {
                return Ok(serde_json::json!({ "items": items, "next": next }));
            }
            cursor = next;
        }
    }

    /// Requests something. `request` names the request, so that a repeat of it is answered, not done again.
    pub(crate) fn write(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        request: Option<&str>,
    ) -> Done<Value> {
        let request = request.map_or_else(draw_request, str::to_owned);
        let url = self.url(path);
        let key = ("Idempotency-Key", request.as_str());
        let call = match (method, body) {
            (Method::Post, Some(body)) => self.http.post(&url).json(body),
            (Method::Post, None) => self.http.post(&url),
            (Method::Put, body) => self.http.put(&url).json(body.unwrap_or(&Value::Null)),
            (Method::Delete, _) => self.http.delete(&url),
        };
        let response = self
            .signed(call)
            .header(key.0, key.1)
            .send()
            .map_err(|error| self.transport(&error, Kind::Write, Some(&request)))?;
        let answer =
            self.answer(response, Kind::Write).map_err(|failure| unknown_outcome(failure, &request))?;
        if let Some(position) = answer["position"].as_str() {
            self.see(position);
        }
        Ok(answer)
    }

    /// Waits until the read tables show a write, so that whoever looks next sees it. It is done either way.
    fn see(&self, position: &str) {
        let seen = self
            .signed(self.http.get(self.url("/api/jobs")))
            .query(&[("limit", "1"), ("at_least", position)])
            .timeout(SEEN_WITHIN)
            .send();
        let why = match seen {
            Ok(response) if response.status().is_success() => return,
            Ok(response) => response.status().to_string(),
            Err(error) => cause(&error),
        };
        crate::output::note(format!(
            "warning: it is done, but the lists do not show it yet (position {position}): {why}"
        ));
    }

    /// Requests something that needs no body and no name.
    pub(crate) fn post(&self, path: &str, body: Option<&Value>) -> Done<Value> {
        self.write(Method::Post, path, body, None)
    }

    /// Follows server-sent events.
    pub(crate) fn follow(&self, path: &str, query: &[(&str, String)]) -> Done<Messages> {
        let mut response = self.call_get(path, query)?;
        let status = response.status().as_u16();
        if status >= 400 {
            return Err(problem::failure(status, &read_json(&mut response)?, Kind::Read));
        }
        Ok(Messages::new(Box::new(BufReader::new(response))))
    }

    fn call_get(&self, path: &str, query: &[(&str, String)]) -> Done<Response> {
        let request = self.signed(self.http.get(self.url(path))).query(query);
        request.send().map_err(|error| self.transport(&error, Kind::Read, None))
    }

    fn signed(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.target.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.target.server)
    }

    fn answer(&self, mut response: Response, kind: Kind) -> Done<Value> {
        let status = response.status().as_u16();
        let value = read_json(&mut response)?;
        if status < 400 {
            return Ok(value);
        }
        if status < 500 && value.get("code").is_none() {
            let Target { server, server_from, .. } = &self.target;
            let title = value["title"].as_str().unwrap_or_default();
            let message = format!("{server} ({server_from}) answers {title}, but not as Tidemill does");
            return Err(Failure::new(Exit::Unreachable, message).hint(OTHER_SERVER));
        }
        let failure = problem::failure(status, &value, kind);
        Err(if status == 401 && self.target.key.is_none() {
            Failure::new(failure.exit, "no application key was given")
                .hint("no admin.key is in the data directory: use --key, TIDEMILL_KEY or --data")
        } else {
            failure
        })
    }

    fn transport(&self, error: &reqwest::Error, kind: Kind, request: Option<&str>) -> Failure {
        if let Some(trouble) = tidemill_serving::tls::trouble(error) {
            let Target { server, server_from, .. } = &self.target;
            let message = format!("cannot speak encrypted with {server} ({server_from}): {}", trouble.what);
            return Failure::new(Exit::Unreachable, message).hint(trouble.remedy);
        }
        let before_sending = error.is_connect() || error.is_builder();
        let Target { server, server_from, .. } = &self.target;
        let message = format!("no answer from {server} ({server_from}): {}", cause(error));
        match (before_sending, kind, request) {
            (false, Kind::Write, Some(request)) => {
                unknown_outcome(Failure::new(Exit::OutcomeUnknown, message), request)
            }
            _ => Failure::new(Exit::Unreachable, message).hint(OTHER_SERVER),
        }
    }
}

/// Whether a call only asks, or requests something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// Tells how to repeat a request safely when it is not known what became of it.
fn unknown_outcome(failure: Failure, request: &str) -> Failure {
    if failure.exit != Exit::OutcomeUnknown {
        return failure;
    }
    failure.hint(format!(
        "it may have been done; look, or repeat it with --idempotency-key {request} where the command takes it, \
         which does it at most once"
    ))
}

/// The first cause of an error: the others say only in which part of the library it came up.
fn cause(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.last().unwrap_or(error).to_string()
}

fn read_json(response: &mut Response) -> Done<Value> {
    let status = response.status();
    let mut body = Vec::new();
    let read = response.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut body);
    let read = read.map_err(|error| Failure::caused("the answer broke off", &error))?;
    if read as u64 > MAX_ANSWER_BYTES {
        return Err(Failure::new(
            Exit::Unreachable,
            format!("the answer is longer than {MAX_ANSWER_BYTES} bytes"),
        ));
    }
    if body.is_empty() {
        return Ok(Value::Null);
    }
    match serde_json::from_slice(&body) {
        Ok(value) => Ok(value),
        Err(_) if status.as_u16() >= 400 => {
            let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
            Ok(serde_json::json!({ "title": status.to_string(), "detail": text }))
        }
        Err(error) => Err(Failure::caused("the answer is not JSON; is this a Tidemill server?", &error)),
    }
}

/// Draws the name of a request.
fn draw_request() -> String {
    format!("cli-{}", tidemill_cluster::request_id())
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name as one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_any_name() {
        assert_eq!(segment("load-1"), "load-1");
        assert_eq!(segment("报 a/b"), "%E6%8A%A5%20a%2Fb");
    }

    #[test]
    fn refused_connection_means_nothing_was_done() {
        let target =
            Target { server: "http://127.0.0.1:1".into(), server_from: "--server", key: None, ca_file: None };
        let failure = Client::new(target).unwrap().post("/api/jobs/1/run", None).unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.message.contains("http://127.0.0.1:1 (--server)"), "{}", failure.message);
    }

    #[test]
    fn broken_write_has_an_unknown_outcome_and_a_broken_read_does_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let closer = std::thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                let mut stream = stream.unwrap();
                let mut seen = [0_u8; 16];
                std::io::Read::read_exact(&mut stream, &mut seen).unwrap();
            }
        });
        let client =
            Client::new(Target { server, server_from: "--server", key: None, ca_file: None }).unwrap();
        let failure = client.write(Method::Post, "/x", None, Some("req-7")).unwrap_err();
        assert_eq!(failure.exit, Exit::OutcomeUnknown);
        assert!(failure.hint.unwrap().contains("--idempotency-key req-7"));
        assert_eq!(client.get("/x", &[]).unwrap_err().exit, Exit::Unreachable);
        closer.join().unwrap();
    }
}
