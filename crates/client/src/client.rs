//! A server and the right to speak to it.

use std::time::Duration;

use reqwest::blocking::Client as Http;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;

use crate::builder::Builder;
use crate::call::{Call, Method};
use crate::error::Error;
use crate::feed::{Begin, Feed};
use crate::sign_in::Session;

/// A server and the right to speak to it. Copies share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) http: Http,
    /// Without a slash at the end.
    pub(crate) server: String,
    pub(crate) key: Option<String>,
    /// The person in whose name the key calls.
    pub(crate) as_user: Option<HeaderValue>,
    /// Of who is signed in.
    pub(crate) session: Option<Session>,
    /// Begins the idempotency keys that are drawn.
    pub(crate) key_prefix: String,
}

/// A write that is on record.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Written {
    /// Give this as `at_least` to reads that must show the write.
    pub position: String,
    /// Groups in which it is not in effect yet, though it is on record.
    #[serde(default)]
    pub pending_groups: Vec<String>,
}

impl Client {
    /// A client of the server at this address, `http://host:port` or `https://host:port`.
    pub fn builder(server: &str) -> Builder {
        Builder::new(server)
    }

    /// The address of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether the client shows a key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Reads what is at a path.
    pub fn get(&self, path: impl Into<String>) -> Call<'_> {
        Call::new(self, Method::Get, path)
    }

    /// Requests something.
    pub fn post(&self, path: impl Into<String>) -> Call<'_> {
        Call::new(self, Method::Post, path)
    }

    /// Puts something in place of what is there.
    pub fn put(&self, path: impl Into<String>) -> Call<'_> {
        Call::new(self, Method::Put, path)
    }

    /// Takes something away.
    pub fn delete(&self, path: impl Into<String>) -> Call<'_> {
        Call::new(self, Method::Delete, path)
    }

    /// A call of any method.
    pub fn call(&self, method: Method, path: impl Into<String>) -> Call<'_> {
        Call::new(self, method, path)
    }

    /// The public feed of events.
    pub fn events(&self, begin: Begin) -> Feed<'_> {
        Feed::new(self, begin)
    }

    /// Waits until lists show what was on record at this position, for `within` at most.
    ///
    /// # Errors
    /// They do not show it by then, or cannot be read. The write is done all the same.
    pub fn await_shown(&self, position: &str, within: Duration) -> Result<(), Error> {
        let shown = self.get("/api/jobs").query("limit", 1).query("at_least", position).timeout(within);
        shown.send::<Value>().map(drop)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server of which nobody listens was asked for nothing.
    #[test]
    fn refused_connection_means_nothing_was_done() {
        let client = Client::builder("http://127.0.0.1:1").build().unwrap();
        let error = client.post("/api/jobs/1/run").send::<Value>().unwrap_err();
        assert!(matches!(&error, Error::Connect { server, .. } if server == "http://127.0.0.1:1"), "{error}");
        assert!(error.is_unreachable() && error.key_to_repeat().is_none());
    }

    #[test]
    fn broken_write_has_an_unknown_outcome_and_a_broken_read_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let closer = thread::spawn(move || {
            for stream in listener.incoming().take(3) {
                stream.unwrap().read_exact(&mut [0_u8; 16]).unwrap();
            }
        });
        let client = Client::builder(&server).idempotency_prefix("me").build().unwrap();
        let named = client.post("/x").idempotency_key("req-7").send::<Value>().unwrap_err();
        assert_eq!(named.key_to_repeat(), Some("req-7"));
        let drawn = client.delete("/x").send::<Value>().unwrap_err();
        assert!(drawn.key_to_repeat().is_some_and(|key| key.starts_with("me-")), "{drawn:?}");
        let read = client.get("/x").send::<Value>().unwrap_err();
        assert!(read.is_unreachable() && read.key_to_repeat().is_none(), "{read:?}");
        closer.join().unwrap();
    }
}
