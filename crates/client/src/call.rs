//! One call: its path, its query, its body, and what comes back.

use std::io::{BufReader, Read as _};
use std::time::Duration;

use reqwest::blocking::{RequestBuilder, Response};
use reqwest::header::{CONTENT_TYPE, COOKIE, ETAG, RETRY_AFTER, SET_COOKIE};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::client::Client;
use crate::error::Error;
use crate::problem::Problem;
use crate::sse::Messages;

/// Largest answer that is read into memory.
const MAX_ANSWER_BYTES: u64 = 256 << 20;
const MAX_PAGE: usize = 1000;

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Requests something.
    Post,
    /// Puts something in place of what is there.
    Put,
    /// Takes something away.
    Delete,
}

/// One call, until it is sent.
#[must_use = "a call is made when it is sent"]
pub struct Call<'a> {
    client: &'a Client,
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    body: Option<Result<Vec<u8>, serde_json::Error>>,
    idempotency_key: Option<String>,
    is_named: bool,
    timeout: Option<Duration>,
    headers: Vec<(&'static str, String)>,
}

/// A status and a body, whatever they say.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; null where there is none.
    pub body: Value,
    /// What names the version of a definition, where the answer has one; see [`Call::if_match`].
    pub etag: Option<String>,
    /// The pair of the cookie that it sets.
    pub(crate) cookie: Option<String>,
}

/// Items of a list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Page<T> {
    /// The items, in the server's order.
    #[serde(default = "Vec::new")]
    pub items: Vec<T>,
    /// The cursor with which the list goes on; none at its end.
    pub next: Option<String>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(client: &'a Client, method: Method, path: impl Into<String>) -> Self {
        Self {
            client,
            method,
            path: path.into(),
            query: Vec::new(),
            body: None,
            idempotency_key: None,
            is_named: method != Method::Get,
            timeout: None,
            headers: Vec::new(),
        }
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds a parameter to the query.
    pub fn query(mut self, name: &str, value: impl ToString) -> Self {
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a parameter to the query, where there is a value.
    pub fn query_opt(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// The body, as JSON.
    pub fn body(mut self, body: &(impl Serialize + ?Sized)) -> Self {
        self.body = Some(serde_json::to_vec(body));
        self
    }

    /// Names the write: the server does a request of this name once. Without a name the client draws one.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// A write that has no name: its answer has a secret, which nobody keeps for a repeat.
    pub fn unnamed(mut self) -> Self {
        self.is_named = false;
        self
    }

    /// Changes a definition only if it is still what this `ETag` names.
    pub fn if_match(self, etag: &str) -> Self {
        self.header("if-match", etag.to_owned())
    }

    /// How long to wait for the answer, in place of the client's own bound.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes the call and gives its answer.
    ///
    /// # Errors
    /// Every variant of [`Error`] from [`Error::Encode`] on; a status from 400 on is [`Error::Refused`] or
    /// [`Error::Foreign`].
    pub fn send<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let answer = self.exchange()?.judged(self.client, self.idempotency_key)?;
        serde_json::from_value(answer).map_err(|source| Error::Decode { source })
    }

    /// As [`Call::send`], of a definition that has an `ETag`.
    ///
    /// # Errors
    /// As [`Call::send`].
    pub fn send_tagged<T: DeserializeOwned>(mut self) -> Result<(T, Option<String>), Error> {
        let mut answer = self.exchange()?;
        let etag = answer.etag.take();
        let body = answer.judged(self.client, self.idempotency_key)?;
        serde_json::from_value(body).map(|body| (body, etag)).map_err(|source| Error::Decode { source })
    }

    /// Makes the call and gives its answer as it is, whatever its status.
    ///
    /// # Errors
    /// As [`Call::send`], but for refusals: they are answers here.
    pub fn answer(mut self) -> Result<Answer, Error> {
        self.exchange()
    }

    /// Reads the pages of a list until `limit` items are there, or all.
    ///
    /// # Errors
    /// As [`Call::send`].
    pub fn list<T: DeserializeOwned>(self, limit: usize) -> Result<Page<T>, Error> {
        let mut all = Page { items: Vec::new(), next: None };
        loop {
            let missing = (limit - all.items.len()).clamp(1, MAX_PAGE);
            let mut page = Call::new(self.client, self.method, self.path.as_str());
            page.query.clone_from(&self.query);
            let page: Page<T> = page.query("limit", missing).query_opt("cursor", all.next.take()).send()?;
            all.items.extend(page.items);
            all.next = page.next;
            if all.next.is_none() || all.items.len() >= limit {
                return Ok(all);
            }
        }
    }

    /// Makes the call and gives the messages that come back, one after the other.
    pub(crate) fn stream(self) -> Result<Messages, Error> {
        Ok(Messages::new(Box::new(BufReader::new(self.bytes()?))))
    }

    /// Makes the call and gives the bytes that come back.
    pub(crate) fn bytes(mut self) -> Result<Response, Error> {
        let mut response = self.response()?;
        if response.status().as_u16() >= 400 {
            let retry_after = response.headers().get(RETRY_AFTER);
            let retry_after_s = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
            let answer = read(&mut response, None)?;
            let problem = Problem::new(answer.status, &answer.body);
            let problem =
                Box::new(Problem { retry_after_s: problem.retry_after_s.or(retry_after_s), ..problem });
            return Err(Error::Refused { problem, idempotency_key: None });
        }
        Ok(response)
    }

    fn exchange(&mut self) -> Result<Answer, Error> {
        let mut response = self.response()?;
        read(&mut response, self.idempotency_key.as_ref())
    }

    fn response(&mut self) -> Result<Response, Error> {
        let request = self.request()?;
        request.send().map_err(|error| {
            let server = self.client.server.clone();
            if let Some(trouble) = tidemill_serving::tls::trouble(&error) {
                return Error::Encrypt { server, what: trouble.what, remedy: trouble.remedy };
            }
            let is_sent = !error.is_connect() && !error.is_builder();
            let source = error.into();
            match is_sent {
                true => Error::Answer { server, idempotency_key: self.idempotency_key.clone(), source },
                false => Error::Connect { server, source },
            }
        })
    }

    /// The request. A write gets a name, where it has none.
    fn request(&mut self) -> Result<RequestBuilder, Error> {
        let Client { http, server, key, as_user, session, key_prefix } = self.client;
        let url = format!("{server}{}", self.path);
        let mut request = match self.method {
            Method::Get => http.get(url),
            Method::Post => http.post(url),
            Method::Put => http.put(url),
            Method::Delete => http.delete(url),
        };
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        if let Some(user) = as_user {
            request = request.header("X-User", user);
        }
        if let Some(session) = session {
            request = request.header(COOKIE, &session.cookie).header("X-CSRF-Token", &session.csrf);
        }
        if !self.query.is_empty() {
            request = request.query(&self.query);
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        if self.is_named {
            let drawn = || format!("{key_prefix}-{}", Uuid::now_v7().simple());
            let key = self.idempotency_key.get_or_insert_with(drawn);
            request = request.header("Idempotency-Key", key.as_str());
        }
        if let Some(body) = self.body.take() {
            let body = body.map_err(|source| Error::Encode { source })?;
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        Ok(request)
    }
}

impl Answer {
    /// Of a refusal: what it is, for programs.
    pub fn code(&self) -> Option<&str> {
        self.body.get("code").and_then(Value::as_str)
    }

    /// The body of an answer that is no refusal.
    pub(crate) fn judged(self, client: &Client, idempotency_key: Option<String>) -> Result<Value, Error> {
        let Self { status, body, .. } = self;
        if status < 400 {
            return Ok(body);
        }
        let problem = Problem::new(status, &body);
        if status < 500 && body.get("code").is_none() {
            return Err(Error::Foreign { server: client.server.clone(), title: problem.title });
        }
        Err(Error::Refused { problem: Box::new(problem), idempotency_key })
    }
}

fn read(response: &mut Response, idempotency_key: Option<&String>) -> Result<Answer, Error> {
    let status = response.status();
    let etag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let cookie = response.headers().get(SET_COOKIE).and_then(|line| line.to_str().ok());
    let cookie = cookie.and_then(|line| line.split(';').next()).map(str::to_owned);
    let mut bytes = Vec::new();
    let taken = response.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut bytes);
    let taken = taken.map_err(|source| Error::Read { idempotency_key: idempotency_key.cloned(), source })?;
    if taken as u64 > MAX_ANSWER_BYTES {
        return Err(Error::TooLong { limit: MAX_ANSWER_BYTES, idempotency_key: idempotency_key.cloned() });
    }
    let body = match serde_json::from_slice(&bytes) {
        Ok(body) => body,
        Err(_) if bytes.is_empty() => Value::Null,
        Err(_) if status.as_u16() >= 400 => {
            let text: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
            serde_json::json!({ "title": status.to_string(), "detail": text })
        }
        Err(source) => return Err(Error::NotJson { source }),
    };
    Ok(Answer { status: status.as_u16(), body, etag, cookie })
}

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("method", &self.method).field("path", &self.path).finish_non_exhaustive()
    }
}

/// A name as one segment of a path, whatever letters it has.
pub fn segment(text: &str) -> String {
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
}
