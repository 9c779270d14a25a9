//! Connections that are kept, and made anew when the server went away.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mysql::{Conn, Opts, OptsBuilder};

use super::refusal;
use crate::Error;

/// Connections kept for the next user.
const IDLE: usize = 16;
const CONNECT: Duration = Duration::from_secs(5);
/// Longer than the server waits for a lock, so that it is the server that gives up.
const ANSWER: Duration = Duration::from_secs(120);

/// A database of a server, and how everybody who writes to one speaks to it: READ COMMITTED, strict about values, every
/// wait bounded.
#[derive(Clone)]
pub struct MysqlServer {
    opts: Opts,
    place: String,
}

impl MysqlServer {
    /// Of `mysql://user:password@host:port/database`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn new(url: &str) -> Result<Self, Error> {
        let opts = Opts::from_url(url).map_err(|source| Error::Open {
            // Not the text itself: it may hold a password.
            place: "the configured address".to_owned(),
            source: source.into(),
        })?;
        let database = opts.get_db_name().unwrap_or("(no database)");
        let place = format!("{}:{}/{database}", opts.get_ip_or_hostname(), opts.get_tcp_port());
        let init = [
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
            "SET SESSION innodb_lock_wait_timeout = 20",
        ];
        let opts = OptsBuilder::from_opts(opts)
            .init(init.map(ToOwned::to_owned).to_vec())
            .prefer_socket(false)
            .stmt_cache_size(256)
            .tcp_connect_timeout(Some(CONNECT))
            .read_timeout(Some(ANSWER))
            .write_timeout(Some(ANSWER));
        Ok(Self { opts: opts.into(), place })
    }

    /// For people: never a password.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// A new connection.
    ///
    /// # Errors
    /// The server.
    pub fn connect(&self) -> mysql::Result<Conn> {
        Conn::new(self.opts.clone())
    }
}

pub(super) struct Connections {
    server: MysqlServer,
    idle: Mutex<Vec<Conn>>,
}

impl Connections {
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        Ok(Self { server: MysqlServer::new(url)?, idle: Mutex::default() })
    }

    pub(super) fn open(&self) -> Result<Conn, Error> {
        let failed = |source: mysql::Error| {
            let place = self.server.place.clone();
            Error::Open { place, source: source.into() }
        };
        self.server.connect().map_err(failed)
    }

    /// Lends a connection. It is kept after, unless it broke; then all kept ones are closed, for the server
    /// was away.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Conn) -> Result<T, Error>) -> Result<T, Error> {
        // A list of idle connections is never half changed.
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.open()?,
        };
        let outcome = act(&mut connection);
        match &outcome {
            Err(error) if error.is_outage() && refusal(error).is_none() => idle().clear(),
            _ => {
                let mut idle = idle();
                if idle.len() < IDLE {
                    idle.push(connection);
                }
            }
        }
        outcome
    }
}
