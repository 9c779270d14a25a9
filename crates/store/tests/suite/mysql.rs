//! The conformance suite on MySQL or MariaDB. `TIDEMILL_TEST_MYSQL` names the server, as in
//! `mysql://user:password@host:port/database`; every test has a database of its own there.

use crate::conformance::Bench;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use tidemill_store::{MysqlTables, ReadTables, Tables};

struct Mysql {
    tables: MysqlTables,
    opts: Opts,
    database: String,
}

fn server() -> String {
    std::env::var("TIDEMILL_TEST_MYSQL").expect(
        "TIDEMILL_TEST_MYSQL names a server: run `deploy/dev/services start mariadb`, \
         then `eval \"$(deploy/dev/services env)\"`",
    )
}

impl Bench for Mysql {
    fn new() -> Self {
        let mut random = [0; 8];
        getrandom::fill(&mut random).unwrap();
        let database = format!("tidemill_test_{:016x}", u64::from_be_bytes(random));
        let server = server();
        Conn::new(Opts::from_url(&server).unwrap())
            .unwrap()
            .query_drop(format!("CREATE DATABASE {database}"))
            .unwrap();
        let (address, _) = server.rsplit_once('/').unwrap();
        let url = format!("{address}/{database}");
        let opts = OptsBuilder::from_opts(Opts::from_url(&url).unwrap()).prefer_socket(false).into();
        Self { tables: MysqlTables::open(&url).unwrap(), opts, database }
    }

    fn tables(&self) -> &dyn Tables {
        &self.tables
    }

    fn text(&self, sql: &str) -> String {
        self.by_hand().query_first(sql).unwrap().unwrap()
    }

    fn execute(&self, sql: &str) {
        self.by_hand().query_drop(sql).unwrap();
    }

    const READABLE: &'static str = "2023-11-14 22:13:20.123";
}

impl Mysql {
    fn by_hand(&self) -> Conn {
        Conn::new(self.opts.clone()).unwrap()
    }
}

impl Drop for Mysql {
    fn drop(&mut self) {
        self.by_hand().query_drop(format!("DROP DATABASE {}", self.database)).unwrap();
    }
}

crate::conformance::suite!(Mysql);

/// OPS-3: connections that the server has ended are made anew.
#[test]
fn ended_connections_are_made_anew() {
    let bench = Mysql::new();
    let generation = crate::conformance::prepare(&bench);
    crate::conformance::write_batches(&bench, generation, 1, 1);
    let kill = || {
        let mut connection = bench.by_hand();
        let mine: u64 = connection.query_first("SELECT CONNECTION_ID()").unwrap().unwrap();
        let sql = format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{}' AND ID <> {mine}",
            bench.database
        );
        let others: Vec<u64> = connection.query(sql).unwrap();
        assert!(!others.is_empty());
        for other in others {
            connection.query_drop(format!("KILL {other}")).unwrap();
        }
    };
    kill();
    assert!(bench.tables.batch(1).unwrap().is_some());
    kill();
    let batch = tidemill_store::RowBatch {
        partition: 1,
        from: None,
        to: crate::conformance::position(3),
        changes: vec![crate::conformance::upserts(&[crate::conformance::batch_row(8)])],
    };
    // The outcome of the first try is open; the same batch may be given again, as often as it takes.
    let written = (0..3).find_map(|_| bench.tables.write(generation, &batch).ok()).unwrap();
    assert_eq!(written.active, Some(generation));
    assert!(bench.tables.batch(8).unwrap().is_some());
}

#[test]
fn a_server_that_is_not_there_is_an_outage() {
    let error = MysqlTables::open("mysql://nobody:secret@127.0.0.1:1/none").err().unwrap();
    assert!(error.is_outage(), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}
