//! One connection: statements in, rows out, each waited for.

use std::time::Duration;

use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlDatabaseError, MySqlRow};
use sqlx::pool::PoolConnection;
use sqlx::{Arguments, AssertSqlSafe, Connection, FromRow, MySql, Row};

use super::waiting::{inside, leave, wait, within};
use crate::Value;

/// Longer than the server waits for a lock, so that it is the server that gives up.
const ANSWER: Duration = Duration::from_secs(120);

/// `max_prepared_stmt_count` of the server: those of a connection go with it.
pub(super) const TOO_MANY_STATEMENTS: u16 = 1461;

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MysqlError(
    // Its text has its source's in it, so it is not told as another cause.
    sqlx::Error,
);

impl From<sqlx::Error> for MysqlError {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl MysqlError {
    fn refusal(&self) -> Option<&MySqlDatabaseError> {
        self.0.as_database_error()?.try_downcast_ref()
    }

    /// Nothing is known of what stands on the wire, or the server wants fewer statements.
    fn ends_connection(&self) -> bool {
        self.number().is_none_or(|number| number == TOO_MANY_STATEMENTS)
    }

    /// The server's error number, where the server refused.
    #[must_use]
    pub fn number(&self) -> Option<u16> {
        self.refusal().map(MySqlDatabaseError::number)
    }

    /// The SQLSTATE, where the server refused.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.refusal()?.code()
    }
}

enum Link {
    Lent(PoolConnection<MySql>),
    Own(MySqlConnection),
}

/// A connection to a MySQL or MariaDB server. Calls block; so they must not be made by a task of an async runtime.
pub struct MysqlConnection {
    /// There until it is dropped.
    link: Option<Link>,
    /// What stands on the wire is not known any more.
    is_broken: bool,
}

impl MysqlConnection {
    pub(super) fn own(connection: MySqlConnection) -> Self {
        Self { link: Some(Link::Own(connection)), is_broken: false }
    }

    pub(super) fn lent(connection: PoolConnection<MySql>) -> Self {
        Self { link: Some(Link::Lent(connection)), is_broken: false }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Nobody uses it any more; the server rolls back what was begun.
    pub(super) fn give_up(&mut self) {
        self.is_broken = true;
    }

    fn wait<T>(
        &mut self,
        statement: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T>,
    ) -> Result<T, MysqlError> {
        let connection: &mut MySqlConnection =
            match self.link.as_mut().expect("it is there until it is dropped") {
                Link::Lent(lent) => lent,
                Link::Own(own) => own,
            };
        let outcome = wait(within(ANSWER, statement(connection)));
        let outcome = outcome.map_err(MysqlError::from);
        self.is_broken |= outcome.as_ref().is_err_and(MysqlError::ends_connection);
        outcome
    }

    /// Runs statements that have no values and whose rows nobody wants.
    ///
    /// # Errors
    /// The server.
    pub fn run(&mut self, sql: impl Into<String>) -> Result<(), MysqlError> {
        let sql = AssertSqlSafe(sql.into());
        self.wait(async |connection| sqlx::raw_sql(sql).execute(connection).await.map(drop))
    }

    /// The rows of a question without values, each value as the server writes it for people.
    ///
    /// # Errors
    /// The server.
    pub fn ask(&mut self, sql: impl Into<String>) -> Result<Vec<Vec<Option<String>>>, MysqlError> {
        let sql = AssertSqlSafe(sql.into());
        let rows = self.wait(async |connection| sqlx::raw_sql(sql).fetch_all(connection).await)?;
        let text = |row: &MySqlRow| (0..row.len()).map(|column| row.try_get_unchecked(column)).collect();
        Ok(rows.iter().map(text).collect::<sqlx::Result<_>>()?)
    }

    /// Runs a prepared statement; how many rows it found to change.
    ///
    /// # Errors
    /// The server.
    pub fn execute<'a>(
        &mut self,
        sql: impl Into<String>,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<u64, MysqlError> {
        let (sql, values) = (AssertSqlSafe(sql.into()), arguments(values)?);
        let done = self.wait(async |connection| sqlx::query_with(sql, values).execute(connection).await)?;
        Ok(done.rows_affected())
    }

    /// The rows of a prepared question.
    pub(super) fn fetch<'a>(
        &mut self,
        sql: impl Into<String>,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Vec<MySqlRow>, MysqlError> {
        let (sql, values) = (AssertSqlSafe(sql.into()), arguments(values)?);
        self.wait(async |connection| sqlx::query_with(sql, values).fetch_all(connection).await)
    }

    /// The same, of columns whose types are known.
    pub(super) fn rows<'a, T: for<'r> FromRow<'r, MySqlRow>>(
        &mut self,
        sql: impl Into<String>,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Vec<T>, MysqlError> {
        let rows = self.fetch(sql, values)?;
        Ok(rows.iter().map(T::from_row).collect::<sqlx::Result<_>>()?)
    }

    /// The first column of the first row of a prepared question.
    ///
    /// # Errors
    /// The server.
    pub fn number<'a>(
        &mut self,
        sql: impl Into<String>,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Option<i64>, MysqlError> {
        Ok(self.rows(sql, values)?.into_iter().next().and_then(|(number,): (Option<i64>,)| number))
    }

    /// The first column of the first row of a prepared question.
    ///
    /// # Errors
    /// The server.
    pub fn text<'a>(
        &mut self,
        sql: impl Into<String>,
        values: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Option<String>, MysqlError> {
        Ok(self.rows(sql, values)?.into_iter().next().and_then(|(text,): (Option<String>,)| text))
    }
}

impl Drop for MysqlConnection {
    fn drop(&mut self) {
        match self.link.take() {
            Some(Link::Lent(lent)) if self.is_broken => inside(|| drop(lent.detach())),
            // The pool looks at it before it lends it again.
            Some(Link::Lent(lent)) => inside(|| drop(lent)),
            Some(Link::Own(own)) if self.is_broken => inside(|| drop(own)),
            Some(Link::Own(own)) => leave(async {
                // The server notices in any case.
                let _ = within(ANSWER, own.close()).await;
            }),
            None => {}
        }
    }
}

fn arguments<'a>(values: impl IntoIterator<Item = &'a Value>) -> sqlx::Result<MySqlArguments> {
    let mut arguments = MySqlArguments::default();
    for value in values {
        match value {
            Value::Null => arguments.add(None::<&str>),
            Value::Int(number) => arguments.add(*number),
            Value::Text(text) => arguments.add(&**text),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}
