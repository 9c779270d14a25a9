//! Tables that nobody else may read or write for a while.

use anyhow::Result;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};
use tokio::runtime::{Builder, Runtime};

/// Every table of a database, locked until this is dropped.
pub(crate) struct Locked {
    /// Its end unlocks them.
    connection: Option<MySqlConnection>,
    runtime: Runtime,
}

impl Locked {
    /// Locks all that are there now.
    ///
    /// # Errors
    /// The server refuses.
    pub(crate) fn all(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let lock = async {
            let mut connection = MySqlConnection::connect(url).await?;
            let tables = sqlx::raw_sql("SHOW TABLES").fetch_all(&mut connection).await?;
            let locks: Vec<_> = tables
                .iter()
                .map(|row| Ok(format!("`{}` WRITE", row.try_get_unchecked::<String, _>(0)?)))
                .collect::<sqlx::Result<_>>()?;
            let locks = format!("LOCK TABLES {}", locks.join(", "));
            sqlx::raw_sql(AssertSqlSafe(locks)).execute(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        };
        let connection = Some(runtime.block_on(lock)?);
        Ok(Self { connection, runtime })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _context = self.runtime.enter();
        self.connection = None;
    }
}
