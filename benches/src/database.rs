//! A database of its own, gone at the end.

use anyhow::Context;
use tidemill_store::MysqlServer;

/// Names the server.
const MYSQL: &str = "TIDEMILL_TEST_MYSQL";

pub(crate) struct Database {
    pub(crate) url: String,
    server: String,
    name: String,
}

impl Database {
    pub(crate) fn create() -> anyhow::Result<Self> {
        let server = std::env::var(MYSQL).with_context(|| format!("{MYSQL} has to name a server"))?;
        let name = format!("tidemill_bench_{}", std::process::id());
        let (address, _) = server.rsplit_once('/').with_context(|| format!("{MYSQL} ends with /database"))?;
        let url = format!("{address}/{name}");
        let database = Self { url, server, name };
        database.execute("CREATE DATABASE")?;
        Ok(database)
    }

    fn execute(&self, what: &str) -> anyhow::Result<()> {
        MysqlServer::new(&self.server)?.connect()?.run(format!("{what} {}", self.name))?;
        Ok(())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Err(error) = self.execute("DROP DATABASE") {
            eprintln!("database {} is left behind: {error}", self.name);
        }
    }
}
