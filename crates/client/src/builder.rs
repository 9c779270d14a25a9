//! What a client needs to know of its server, and whom it trusts.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::blocking::Client as Http;
use reqwest::header::HeaderValue;
use tidemill_serving::tls::{self, ClientConfig};

use crate::client::Client;
use crate::error::Error;

/// Until a connection is made.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// Until a server answers, and between two pieces of an answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Letters of a person's name, as the server reads it.
const MAX_USER_CHARS: usize = 200;

/// What a client needs: the server's address, and a key where the server asks for one.
#[derive(Clone)]
#[must_use = "a client is made by `build`"]
pub struct Builder {
    server: String,
    key: Option<String>,
    as_user: Option<String>,
    ca_file: Option<PathBuf>,
    timeout: Duration,
    key_prefix: String,
}

impl Builder {
    pub(crate) fn new(server: &str) -> Self {
        Self {
            server: server.trim_end_matches('/').to_owned(),
            key: None,
            as_user: None,
            ca_file: None,
            timeout: ANSWERS_WITHIN,
            key_prefix: "client".to_owned(),
        }
    }

    /// The application key, `APP:SECRET`. Without one, only calls that need no key are answered.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The person in whose name the key calls, as the header `X-User` has it: calls may then what both may, and the record names the
    /// person. The server refuses whom the key may not speak for. A person's token speaks for its person alone.
    pub fn as_user(mut self, name: impl Into<String>) -> Self {
        self.as_user = Some(name.into());
        self
    }

    /// A PEM file with the certificates of the authorities that may have signed the server's certificate. Without it, those
    /// that the machine trusts. A server of `http://` needs neither.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// How long to wait for an answer, and between two pieces of one. Default 60 s. It must be longer than a call lets the
    /// server wait: a pull may take 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What the idempotency keys that the client draws begin with, so that journals and logs say who sent a request.
    /// Default `client`.
    pub fn idempotency_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// The address is not one of HTTP, the name of the person cannot be one, or the file of authorities cannot be used.
    pub fn build(self) -> Result<Client, Error> {
        let Self { server, key, as_user, ca_file, timeout, key_prefix } = self;
        let as_user = as_user.map(|name| header_of(&name).ok_or(Error::User { name })).transpose()?;
        let http = Http::builder()
            .tls_backend_preconfigured(trust(&server, ca_file)?)
            .connect_timeout(CONNECTS_WITHIN)
            .timeout(timeout)
            .user_agent(concat!("tidemill/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Build { source: error.into() })?;
        Ok(Client { http, server, key, as_user, session: None, key_prefix })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A name as a header has it: none where it cannot be one's.
fn header_of(name: &str) -> Option<HeaderValue> {
    let is_name = (1..=MAX_USER_CHARS).contains(&name.chars().count()) && name.trim() == name;
    let is_shown = !name.chars().any(char::is_control);
    (is_name && is_shown).then(|| HeaderValue::from_bytes(name.as_bytes()).ok()).flatten()
}

/// Whom to trust. A plain server is trusted as it is: nothing of the machine has to be there for it.
fn trust(server: &str, ca_file: Option<PathBuf>) -> Result<ClientConfig, Error> {
    if server.starts_with("http://") {
        return Ok(tls::trusts_nobody());
    }
    if !server.starts_with("https://") {
        return Err(Error::Address { server: server.to_owned() });
    }
    tls::trusts(ca_file.as_deref()).map_err(|error| Error::Authorities { file: error.file, rule: error.rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPS-10: an address of another form is refused before anything is sent.
    #[test]
    fn addresses_are_of_http() {
        for server in ["ftp://h", "h:1", ""] {
            assert!(matches!(Builder::new(server).build(), Err(Error::Address { .. })), "{server:?}");
        }
        let missing = Builder::new("https://h").ca_file("/none").build();
        assert!(matches!(missing, Err(Error::Authorities { .. })));
        assert!(Builder::new("http://h/").ca_file("/none").build().is_ok());
    }

    /// API-5: what cannot be the name of a person is refused before anything is sent.
    #[test]
    fn name_of_a_person_is_checked() {
        for name in ["", " ann", "a\nb", &"x".repeat(201)] {
            let refused = Builder::new("http://h").as_user(name).build();
            assert!(matches!(refused, Err(Error::User { .. })), "{name:?}");
        }
        assert!(Builder::new("http://h").as_user("安娜").build().is_ok());
    }

    /// A key is not printed.
    #[test]
    fn key_is_in_no_debug_output() {
        let builder = Builder::new("http://h").key("app:s3cret");
        assert!(!format!("{builder:?}").contains("s3cret"));
        assert!(!format!("{:?}", builder.build()).contains("s3cret"));
    }
}
