//! A database of its own.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Row};

use super::{random, service};

pub(crate) struct Database {
    pub(crate) url: String,
    opts: Opts,
    name: String,
}

impl Database {
    pub(crate) fn create() -> Self {
        let server = service("TIDEMILL_TEST_MYSQL");
        let name = format!("tidemill_test_{}", random::<8>());
        let mut connection = Conn::new(Opts::from_url(&server).unwrap()).unwrap();
        connection.query_drop(format!("CREATE DATABASE {name}")).unwrap();
        let (address, _) = server.rsplit_once('/').expect("the URL ends with /database");
        let url = format!("{address}/{name}");
        let opts = OptsBuilder::from_opts(Opts::from_url(&url).unwrap()).prefer_socket(false).into();
        Self { url, opts, name }
    }

    fn connect(&self) -> Conn {
        Conn::new(self.opts.clone()).unwrap()
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.connect().query_drop(sql).unwrap();
    }

    /// The first column of every row, as text.
    pub(crate) fn column(&self, sql: &str) -> Vec<String> {
        let rows: Vec<Row> = self.connect().query(sql).unwrap();
        rows.into_iter().map(|row| row.get::<String, _>(0).unwrap()).collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Err(error) = self.connect().query_drop(format!("DROP DATABASE {}", self.name)) {
            eprintln!("database {} is left behind: {error}", self.name);
        }
    }
}
