//! Requests to the server.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use reqwest::blocking::{Client, RequestBuilder};
use serde_json::Value;
use tidemill_serving::tls;

use crate::Error;
use crate::config::ElasticsearchConfig;

/// Longer answers are not read: of a bulk request each document's part is a few hundred bytes.
const MAX_ANSWER: u64 = 64 << 20;
/// So much of an answer is told.
const SHOWN: usize = 500;

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
}

/// The server. A clone shares its connections.
#[derive(Clone)]
pub(crate) struct Server {
    http: Client,
    url: String,
    authorization: Option<String>,
}

impl Server {
    /// Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Refused`] where the file of certificates is of no use.
    pub(crate) fn new(config: &ElasticsearchConfig) -> Result<Self, Error> {
        let http = Client::builder()
            .tls_backend_preconfigured(whom_to_trust(config)?)
            .timeout(Duration::from_millis(config.timeout_ms))
            .build()
            .map_err(|source| Error::Refused {
                what: "be asked",
                place: "sinks.elasticsearch.url".to_owned(),
                source: source.into(),
            })?;
        let basic = config.user.as_ref().zip(config.password.as_ref());
        let basic = basic
            .map(|(user, password)| format!("Basic {}", base64(format!("{user}:{password}").as_bytes())));
        let url = config.url.as_deref().unwrap_or_default().trim_end_matches('/').to_owned();
        let key = config.api_key.as_ref().map(|key| format!("ApiKey {key}"));
        Ok(Self { http, url, authorization: key.or(basic) })
    }

    /// For people.
    pub(super) fn name(&self) -> &str {
        &self.url
    }

    fn path(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    fn answer(&self, what: &'static str, request: RequestBuilder) -> Result<Answer, Error> {
        let failed = |source| Error::Outage { what, place: self.url.clone(), source };
        let request = match &self.authorization {
            Some(authorization) => request.header("Authorization", authorization),
            None => request,
        };
        let response = request.send().map_err(|error| failed(error.without_url().into()))?;
        let (status, mut text) = (response.status().as_u16(), String::new());
        response.take(MAX_ANSWER).read_to_string(&mut text).map_err(|error| failed(error.into()))?;
        Ok(Answer { status, text })
    }

    /// Whether there is something.
    pub(super) fn has(&self, what: &'static str, path: &str) -> Result<bool, Error> {
        let answer = self.answer(what, self.http.head(self.path(path)))?;
        if answer.status == 404 {
            return Ok(false);
        }
        self.expect(what, &answer).map(|()| true)
    }

    pub(super) fn get(&self, what: &'static str, path: &str) -> Result<Answer, Error> {
        self.answer(what, self.http.get(self.path(path)))
    }

    pub(super) fn put(&self, what: &'static str, path: &str, body: &Value) -> Result<Answer, Error> {
        self.answer(what, self.http.put(self.path(path)).json(body))
    }

    /// Lines of JSON.
    pub(super) fn post_lines(&self, what: &'static str, path: &str, body: &[u8]) -> Result<Answer, Error> {
        let request = self.http.post(self.path(path)).header("Content-Type", "application/x-ndjson");
        self.answer(what, request.body(body.to_vec()))
    }

    /// An error unless the answer is a good one: an outage where the server has no room or is not well.
    pub(super) fn expect(&self, what: &'static str, answer: &Answer) -> Result<(), Error> {
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let said: String = answer.text.chars().take(SHOWN).collect();
        let source = format!("status {}: {said}", answer.status).into();
        let place = self.url.clone();
        if is_passing(answer.status) {
            return Err(Error::Outage { what, place, source });
        }
        Err(Error::Refused { what, place, source })
    }
}

/// The authorities of the configured file; without one, those that the machine trusts.
fn whom_to_trust(config: &ElasticsearchConfig) -> Result<tls::ClientConfig, Error> {
    if !config.is_encrypted() {
        return Ok(tls::trusts_nobody());
    }
    tls::trusts(config.ca_file.as_deref().map(Path::new)).map_err(|source| Error::Refused {
        what: "be the file of trusted certificates (sinks.elasticsearch.ca_file)",
        place: source.file.display().to_string(),
        source: source.rule.into(),
    })
}

/// What is wrong with an answer; the error quotes as much of it as there is.
pub(super) fn brief(error: &serde_json::Error) -> String {
    error.to_string().chars().take(SHOWN).collect()
}

/// Whether the same may be taken later.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

/// With the usual letters, padded.
fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
