//! How the interface is served.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::bounds::within;
use tidemill_model::{JobType, PersonName};
use tidemill_serving::Limits;

use crate::proxies::Proxies;

/// Names of stores of logs.
const MAX_NAMES: usize = 64;

/// How people sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SignIn {
    /// How long a session is good, hours. Default 12; 1 to 720.
    pub session_hours: u16,
    /// Whether browsers keep the cookie of a session for encrypted connections alone, and for this machine. Default true;
    /// false where people reach the interface without TLS.
    pub secure_cookies: bool,
    /// Who may sign in with a password; empty: everybody who has one. Where people sign in elsewhere, name here who gets in
    /// while that is away. Default empty.
    pub password_for: BTreeSet<PersonName>,
    /// A provider through which people sign in. Default none.
    pub oidc: Option<tidemill_oidc::Settings>,
    /// Whether whoever the provider signs in, and the directory does not have, is added to it, as a user of no department where
    /// the provider does not say more. Default false: they are refused.
    pub adds_people: bool,
}

impl Default for SignIn {
    fn default() -> Self {
        Self {
            session_hours: 12,
            secure_cookies: true,
            password_for: BTreeSet::new(),
            oidc: None,
            adds_people: false,
        }
    }
}

impl SignIn {
    pub(crate) fn takes_password_of(&self, person: &PersonName) -> bool {
        self.password_for.is_empty() || self.password_for.contains(person)
    }
}

/// How the interface is served, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port to listen on. Default 127.0.0.1:8780; port 0 takes a free one.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// The largest body of a request, bytes; larger ones are refused with 413. Default 1 MiB; 1 KiB to 16 MiB.
    pub max_body_bytes: usize,
    /// Requests under way at once; more are refused with 429. Default 1,024; 1 to 65,536.
    pub max_requests: usize,
    /// Pulls that wait for a task at once; more are refused with 429. Default 10,000; 1 to 1,000,000. While they wait
    /// they do not count as requests under way.
    pub max_waiting_pulls: usize,
    /// Pulls that owners decide for this interface at once; more of them wait their turn. Default 256; 1 to 65,536.
    pub max_pull_requests_in_flight: usize,
    /// Event streams, tails and downloads of logs that are open at once; more are refused with 429. Default 256; 1 to 65,536.
    pub max_streams: usize,
    /// Of these, those of one application key. Default 32; 1 to 65,536.
    pub max_streams_per_key: usize,
    /// IANA time zone of schedules that name none, for calls of the interface. Default UTC.
    pub default_zone: String,
    /// Job types that jobs may be of although no worker has registered them yet, beside the built-in ones and those of
    /// `executor.types`. Default none.
    pub job_types: BTreeSet<JobType>,
    /// The secret with which this role asks owners on their live port, asks stores of logs what they have, and writes tickets
    /// for what they keep. Empty: none is sent.
    pub internal_key: String,
    /// Stores of logs, each `host:port`; of a name that stands for several addresses, all are asked. At most 64. Default none:
    /// logs are asked from workers, and search, summary and tail of a log are refused.
    pub log_stores: Vec<String>,
    /// The secret with which this role asks workers for logs. Empty: none is sent.
    pub logs_key: String,
    /// The secret that opens `/api/admin` without an application key. Empty: only keys open it.
    pub operator_key: String,
    /// Proxies before the interface, each an address or a network in which nobody else is, as 10.0.0.7 or 10.0.7.0/28: of what they pass on, the caller's
    /// address is the last one in `X-Forwarded-For` that is no such proxy. From anybody else that header says nothing. At most 64.
    /// Default none.
    pub trusted_proxies: Vec<String>,
    /// How people sign in.
    pub sign_in: SignIn,
    /// How long a request's body may take to arrive, milliseconds. Default 10,000; 100 to 600,000.
    pub read_timeout_ms: u64,
    /// How long a read with `at_least` waits for the tables, milliseconds. Default 2,000; 0 to 60,000.
    pub at_least_timeout_ms: u64,
    /// How long the outcome of a write is waited for, milliseconds. Default 10,000; 100 to 60,000.
    pub write_timeout_ms: u64,
    /// How long a change of definitions waits until it is in effect in every group, milliseconds. Default 10,000; 100 to
    /// 60,000. After that it answers that it is not yet.
    pub propagation_timeout_ms: u64,
    /// How long an owner or worker may take to begin its answer, milliseconds. Default 3,000; 10 to 60,000.
    pub peer_timeout_ms: u64,
    /// How old what this instance knows of application keys may be, milliseconds. Default 500; 0 to 1,000. It follows the
    /// journal, and knows where that ended at most so long ago, so a revoked key is refused within a second, and an open
    /// event stream, tail or download is over.
    pub key_cache_ms: u64,
    /// How long requests under way may take to end after the signal to stop, milliseconds. Default 5,000;
    /// 0 to 60,000.
    pub stop_timeout_ms: u64,
    /// Bounds of the commands that wait for their outcome. Whoever makes the submitter gives it these; how long a
    /// write waits is `write_timeout_ms`.
    pub submit: tidemill_cluster::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8780)),
            max_body_bytes: 1 << 20,
            max_requests: 1_024,
            max_waiting_pulls: 10_000,
            max_pull_requests_in_flight: 256,
            max_streams: 256,
            max_streams_per_key: 32,
            default_zone: "UTC".to_owned(),
            job_types: BTreeSet::new(),
            internal_key: String::new(),
            log_stores: Vec::new(),
            logs_key: String::new(),
            operator_key: String::new(),
            trusted_proxies: Vec::new(),
            sign_in: SignIn::default(),
            read_timeout_ms: 10_000,
            at_least_timeout_ms: 2_000,
            write_timeout_ms: 10_000,
            propagation_timeout_ms: 10_000,
            peer_timeout_ms: 3_000,
            key_cache_ms: 500,
            stop_timeout_ms: 5_000,
            submit: tidemill_cluster::Config::default(),
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field outside its range, with the rule.
    pub fn check(&self) -> Result<(), String> {
        within("max_body_bytes", self.max_body_bytes as u64, 1 << 10, 16 << 20)?;
        within("max_requests", self.max_requests as u64, 1, 65_536)?;
        within("max_waiting_pulls", self.max_waiting_pulls as u64, 1, 1_000_000)?;
        within("max_pull_requests_in_flight", self.max_pull_requests_in_flight as u64, 1, 65_536)?;
        within("max_streams", self.max_streams as u64, 1, 65_536)?;
        within("max_streams_per_key", self.max_streams_per_key as u64, 1, 65_536)?;
        within("read_timeout_ms", self.read_timeout_ms, 100, 600_000)?;
        within("at_least_timeout_ms", self.at_least_timeout_ms, 0, 60_000)?;
        within("write_timeout_ms", self.write_timeout_ms, 100, 60_000)?;
        within("propagation_timeout_ms", self.propagation_timeout_ms, 100, 60_000)?;
        within("peer_timeout_ms", self.peer_timeout_ms, 10, 60_000)?;
        within("key_cache_ms", self.key_cache_ms, 0, 1_000)?;
        within("stop_timeout_ms", self.stop_timeout_ms, 0, 60_000)?;
        if let Some(oidc) = &self.sign_in.oidc {
            oidc.check().map_err(|error| format!("sign_in.oidc.{error}"))?;
        }
        within("sign_in.session_hours", u64::from(self.sign_in.session_hours), 1, 720)?;
        self.log_stores_are_addresses()?;
        Proxies::of(&self.trusted_proxies).map(drop)?;
        self.submit.check().map_err(|error| format!("submit.{error}"))?;
        tidemill_calendar::Zone::try_from(self.default_zone.as_str()).map(drop).map_err(|e| e.to_string())
    }

    fn log_stores_are_addresses(&self) -> Result<(), String> {
        within("the number of log_stores", self.log_stores.len() as u64, 0, MAX_NAMES as u64)?;
        for store in &self.log_stores {
            let in_brackets =
                |host: &str| host.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
            let is_letter = |c: char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c);
            let is_name = |host: &str| !host.is_empty() && host.chars().all(is_letter);
            let is_host = |host: &str| is_name(host) || in_brackets(host).is_some();
            let port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
            if !store.rsplit_once(':').is_some_and(|(host, text)| is_host(host) && port(text)) {
                return Err(format!(
                    "log_stores has {store:?}; each must be host:port, as in logs.example:8786"
                ));
            }
        }
        Ok(())
    }

    /// With no bound for what goes on that its connections could not keep: pulls that wait and open streams of one
    /// address together leave an eighth of what it has for other requests.
    pub(crate) fn within(self, limits: &Limits) -> Self {
        let eighths = |parts: usize| (limits.per_address * parts / 8).max(1);
        Self {
            max_waiting_pulls: self.max_waiting_pulls.min(eighths(5)),
            max_streams: self.max_streams.min(eighths(2)),
            max_streams_per_key: self.max_streams_per_key.min(eighths(1)),
            ..self
        }
    }

    pub(crate) fn at_least_timeout(&self) -> Duration {
        Duration::from_millis(self.at_least_timeout_ms)
    }

    pub(crate) fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    pub(crate) fn key_cache(&self) -> Duration {
        Duration::from_millis(self.key_cache_ms)
    }

    pub(crate) fn stop_timeout(&self) -> Duration {
        Duration::from_millis(self.stop_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPS-7
    #[test]
    fn what_goes_on_leaves_connections_for_requests() {
        let limits = tidemill_serving::Config { max_connections: 64, ..Default::default() }.for_everybody();
        let config = Config::default().within(&limits);
        assert!(config.max_waiting_pulls + config.max_streams < limits.per_address);
        assert!(config.max_streams_per_key < config.max_streams);
    }

    #[test]
    fn defaults_are_within_their_ranges_and_what_is_outside_is_named() {
        assert_eq!(Config::default().check(), Ok(()));
        let zone = Config { default_zone: "Mars/Olympus".to_owned(), ..Config::default() };
        assert!(zone.check().is_err_and(|error| error.contains("Mars/Olympus")));
        for store in ["h", "h:", ":1", "h:0", "h:65536", "http://h:1", "u@h:1", "::1:2"] {
            let config = Config { log_stores: vec![store.to_owned()], ..Config::default() };
            assert!(config.check().is_err_and(|error| error.contains(&format!("{store:?}"))), "{store}");
        }
        let stores = vec!["h:1".to_owned(), "[::1]:8786".to_owned()];
        assert_eq!(Config { log_stores: stores, ..Config::default() }.check(), Ok(()));
        let many = Config { log_stores: vec!["h:1".to_owned(); 65], ..Config::default() };
        assert!(many.check().is_err_and(|error| error.contains("log_stores is 65")));
        let mut submit = Config::default();
        submit.submit.max_in_flight = 0;
        assert!(submit.check().is_err_and(|error| error.starts_with("submit.max_in_flight is 0")));
    }
}
