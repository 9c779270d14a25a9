//! Where a database is, and how everybody who uses one connects to it.

use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::{ConnectOptions, MySqlPool};

use super::connection::{MysqlConnection, MysqlError};
use super::waiting::{wait, within};
use crate::Error;

/// Longest time to connect, and nearly the longest to wait for a free connection of the pool.
const CONNECT: Duration = Duration::from_secs(5);
/// Prepared statements that a connection keeps: more than a writer has for one set of tables, since statements of many
/// rows exist for seven numbers of rows only ([`crate::sql::pieces`]). To make room for one more costs up to 40 ms
/// (ADR 25). Where the server has too many of all connections, a connection is given up with its statements.
const STATEMENTS: usize = 1_024;
/// Connections of one pool.
const CONNECTIONS: u32 = 32;
/// How long the pool may take for a connection before the server is asked beside it why.
const ASK: Duration = Duration::from_millis(200);
/// What everybody's session has: every wait is bounded, values are checked.
const SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
    SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'; \
    SET SESSION innodb_lock_wait_timeout = 20; SET SESSION lock_wait_timeout = 20";
/// What may follow a `?` in an address.
const PARAMETERS: &[&str] = &["ssl-mode", "ssl-ca", "ssl-cert", "ssl-key"];

/// A database of a server, and how everybody who writes to one speaks to it: READ COMMITTED, strict about values, every
/// wait bounded. Cloning is cheap.
#[derive(Clone)]
pub struct MysqlServer {
    options: MySqlConnectOptions,
    place: String,
}

impl MysqlServer {
    /// Of `mysql://user:password@host:port/database`, with `?ssl-mode=…` and `ssl-ca`, `ssl-cert`, `ssl-key` (PEM files)
    /// where wanted. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn new(url: &str) -> Result<Self, Error> {
        let options = parse(url).map_err(|source| Error::Open {
            // Not the text itself: it may hold a password.
            place: "the configured address".to_owned(),
            source,
        })?;
        let database = options.get_database().unwrap_or("(no database)");
        let place = format!("{}:{}/{database}", options.get_host(), options.get_port());
        let options = options
            .statement_cache_capacity(STATEMENTS)
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .disable_statement_logging();
        Ok(Self { options, place })
    }

    /// For people: never a password.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// A connection of its own, beside any pool.
    ///
    /// # Errors
    /// The server.
    pub fn connect(&self) -> Result<MysqlConnection, MysqlError> {
        let connected = wait(self.establish())?;
        Ok(MysqlConnection::own(connected))
    }

    async fn establish(&self) -> sqlx::Result<MySqlConnection> {
        within(CONNECT, async {
            let mut connection = self.options.connect().await?;
            begin_session(&mut connection).await?;
            Ok(connection)
        })
        .await
    }

    /// Connections that are lent, and opened when they are needed.
    pub(super) fn pool(&self) -> Pool {
        let options = MySqlPoolOptions::new()
            .max_connections(CONNECTIONS)
            // A server that says nothing is told by `refusal`, which waits for CONNECT.
            .acquire_timeout(CONNECT + 2 * ASK)
            // A dead connection shows at its first use, which is tried again where that is safe.
            .test_before_acquire(false)
            .after_connect(|connection, _| Box::pin(begin_session(connection)));
        let pool = super::waiting::inside(|| options.connect_lazy_with(self.options.clone()));
        Pool { server: self.clone(), pool }
    }
}

async fn begin_session(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(SESSION).execute(connection).await.map(drop)
}

fn parse(url: &str) -> Result<MySqlConnectOptions, crate::Source> {
    let Some(rest) = url.strip_prefix("mysql://") else {
        return Err("it has to be mysql://user:password@host:port/database".into());
    };
    let parameters = rest.split_once('?').map_or("", |(_, parameters)| parameters);
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let name = parameter.split_once('=').map_or(parameter, |(name, _)| name);
        if !PARAMETERS.contains(&name) {
            return Err(
                format!("the parameter {name:?} is unknown; there are {}", PARAMETERS.join(", ")).into()
            );
        }
    }
    Ok(url.parse::<MySqlConnectOptions>()?)
}

/// Connections of one process to one database.
pub(super) struct Pool {
    server: MysqlServer,
    pool: MySqlPool,
}

impl Pool {
    /// A connection of its own, beside the pool.
    pub(super) fn open(&self) -> Result<MysqlConnection, Error> {
        self.server.connect().map_err(|source| self.cannot_open(source))
    }

    fn cannot_open(&self, source: MysqlError) -> Error {
        Error::Open { place: self.server.place.clone(), source: source.into() }
    }

    /// Lends a connection. It is kept after, unless it broke; then all idle ones are closed, for the server was away.
    pub(super) fn with<T>(
        &self,
        act: impl FnOnce(&mut MysqlConnection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let lent = wait(self.lend()).map_err(|source| self.cannot_open(source.into()))?;
        let mut connection = MysqlConnection::lent(lent);
        let outcome = act(&mut connection);
        if connection.is_broken() {
            while let Some(idle) = super::waiting::inside(|| self.pool.try_acquire()) {
                MysqlConnection::lent(idle).give_up();
            }
        }
        outcome
    }

    async fn lend(&self) -> sqlx::Result<sqlx::pool::PoolConnection<sqlx::MySql>> {
        if let Some(idle) = self.pool.try_acquire() {
            return Ok(idle);
        }
        tokio::select! {
            lent = self.pool.acquire() => lent,
            refusal = self.refusal() => Err(refusal),
        }
    }

    /// Ends where the server refuses, with its own words. The pool tries such a server again until its time is over, and
    /// then says only that the time is over.
    async fn refusal(&self) -> sqlx::Error {
        tokio::time::sleep(ASK).await;
        match self.server.establish().await.map(MysqlConnection::own).map(drop) {
            Err(refusal) if self.pool.size() < CONNECTIONS => refusal,
            // It is there, or all connections are lent: the pool goes on with its own way.
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(url: &str, words: &str) {
        let error = MysqlServer::new(url).err().expect("it is refused");
        let source = std::error::Error::source(&error).expect("it says why").to_string();
        assert!(source.contains(words), "{source}");
        assert!(!format!("{error} {source}").contains("secret"), "{error} {source}");
    }

    #[test]
    fn address_that_is_none_is_refused_without_its_password() {
        refused("postgres://a:secret@h/d", "has to be mysql://");
        refused("mysql://a:secret@h/d?sslmodus=REQUIRED", "\"sslmodus\" is unknown; there are ssl-mode");
        refused("mysql://a:secret@h/d?ssl-mode=PERHAPS", "ssl_mode");
        refused("mysql://a:secret@h:none/d", "port");
    }

    #[test]
    fn place_names_server_and_database() {
        let place = |url| MysqlServer::new(url).map(|server| server.place().to_owned()).ok();
        assert_eq!(place("mysql://a:secret@h:3307/d").as_deref(), Some("h:3307/d"));
        assert_eq!(place("mysql://a:secret@h/d?ssl-mode=REQUIRED").as_deref(), Some("h:3306/d"));
        assert_eq!(place("mysql://a:secret@h").as_deref(), Some("h:3306/(no database)"));
    }
}
