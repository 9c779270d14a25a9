//! A database of its own.

use tidemill_store::{MysqlConnection, MysqlServer};

use super::{random, service};

pub(crate) struct Database {
    pub(crate) url: String,
    server: MysqlServer,
    name: String,
}

impl Database {
    pub(crate) fn create() -> Self {
        let server = service("TIDEMILL_TEST_MYSQL");
        let name = format!("tidemill_test_{}", random::<8>());
        let mut connection = MysqlServer::new(&server).unwrap().connect().unwrap();
        connection.run(format!("CREATE DATABASE {name}")).unwrap();
        let (address, _) = server.rsplit_once('/').expect("the URL ends with /database");
        let url = format!("{address}/{name}");
        let server = MysqlServer::new(&url).unwrap();
        Self { url, server, name }
    }

    fn connect(&self) -> MysqlConnection {
        self.server.connect().unwrap()
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.connect().run(sql).unwrap();
    }

    /// The first column of every row, as text.
    pub(crate) fn column(&self, sql: &str) -> Vec<String> {
        let rows = self.connect().ask(sql).unwrap();
        rows.into_iter().map(|row| row.into_iter().next().flatten().unwrap()).collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Err(error) = self.connect().run(format!("DROP DATABASE {}", self.name)) {
            eprintln!("database {} is left behind: {error}", self.name);
        }
    }
}
