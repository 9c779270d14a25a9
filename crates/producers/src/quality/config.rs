//! Where the quality service is, and how patiently it is asked.

use std::time::Duration;

use backon::ExponentialBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{FieldError, check_range};

const SCHEMES: &[&str] = &["http://", "https://"];

/// The quality service. Unknown fields are refused; everything has a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where questions are sent by POST, `http://host:port/path` or `https://host:port/path`; the certificates of
    /// `tls.ca_file` are trusted, without it those that the machine trusts. Default none: then nothing is sent, and
    /// batches with a quality gate wait until somebody answers for the service.
    pub url: Option<String>,
    /// The address of the interface as the service sees it, `http://host:port` or `https://host:port`; it stands in each question, with
    /// the path under which to answer. Default none: the path alone.
    pub answer_url: Option<String>,
    /// The environment variable that holds the token which goes with each question, as
    /// `Authorization: Bearer …`. Default none: no token.
    pub token_env: Option<String>,
    /// How long one try may take, milliseconds, 100 to 60,000; default 5,000.
    pub timeout_ms: u64,
    /// How often a question that could not be delivered is tried again at once, 0 to 10; default 3. The owner asks
    /// again later in any case.
    pub retries: u32,
    /// The pause before the first of these tries, milliseconds, 1 to 60,000; it doubles from try to try. Default
    /// 500.
    pub retry_pause_ms: u64,
    /// Questions being taken and sent at once, 1 to 1,000; default 16.
    pub max_in_flight: usize,
    /// How often owners are asked for questions, milliseconds, 100 to 60,000; default 1,000.
    pub poll_interval_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: None,
            answer_url: None,
            token_env: None,
            timeout_ms: 5_000,
            retries: 3,
            retry_pause_ms: 500,
            max_in_flight: 16,
            poll_interval_ms: 1_000,
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field that is outside its range, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        let url_rule = "has to be http://HOST:PORT/PATH or https://HOST:PORT/PATH";
        check_url("url", self.url.as_deref(), url_rule)?;
        let answer_rule = "has to be http://HOST:PORT or https://HOST:PORT";
        check_url("answer_url", self.answer_url.as_deref(), answer_rule)?;
        check_range("timeout_ms", self.timeout_ms, 100, 60_000)?;
        check_range("retries", u64::from(self.retries), 0, 10)?;
        check_range("retry_pause_ms", self.retry_pause_ms, 1, 60_000)?;
        check_range("max_in_flight", self.max_in_flight as u64, 1, 1_000)?;
        check_range("poll_interval_ms", self.poll_interval_ms, 100, 60_000)
    }

    /// Whether questions are sent encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// The pauses between tries, each twice the one before.
    pub(super) fn pauses(&self) -> ExponentialBuilder {
        let first = Duration::from_millis(self.retry_pause_ms);
        let retries = usize::try_from(self.retries).unwrap_or(usize::MAX);
        ExponentialBuilder::default().with_min_delay(first).with_max_times(retries).without_max_delay()
    }
}

fn check_url(field: &str, url: Option<&str>, rule: &str) -> Result<(), FieldError> {
    let Some(url) = url else { return Ok(()) };
    match SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme)) {
        Some(host) if !host.is_empty() && !host.starts_with('/') && !url.contains(char::is_whitespace) => {
            Ok(())
        }
        Some(_) | None => Err(FieldError::new(field, url, rule)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_by_field() {
        Config::default().check().unwrap();
        for (text, field) in [
            (r#"{"url": "quality:80/ask"}"#, "url"),
            (r#"{"url": "ftp://quality/ask"}"#, "url"),
            (r#"{"url": "http:///ask"}"#, "url"),
            (r#"{"answer_url": "tidemill"}"#, "answer_url"),
            (r#"{"timeout_ms": 1}"#, "timeout_ms"),
            (r#"{"retries": 11}"#, "retries"),
            (r#"{"max_in_flight": 0}"#, "max_in_flight"),
            (r#"{"poll_interval_ms": 1}"#, "poll_interval_ms"),
        ] {
            let config: Config = serde_json::from_str(text).unwrap();
            assert_eq!(config.check().unwrap_err().field, field);
        }
        let config = Config { url: Some("http://quality:8080/ask".to_owned()), ..Config::default() };
        config.check().unwrap();
        // OPS-10: the interface may be encrypted.
        Config { answer_url: Some("https://tidemill:8780".to_owned()), ..config.clone() }.check().unwrap();
        Config { url: Some("https://quality/ask".to_owned()), ..config }.check().unwrap();
    }
}
