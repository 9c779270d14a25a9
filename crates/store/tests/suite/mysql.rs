//! The conformance suite on MySQL or MariaDB. `TIDEMILL_TEST_MYSQL` names the server, as in
//! `mysql://user:password@host:port/database`; every test has a database of its own there.

use crate::conformance::Bench;
use tidemill_store::{Error, MysqlConnection, MysqlServer, MysqlTables, ReadTables, Tables};

struct Mysql {
    tables: MysqlTables,
    url: String,
    server: MysqlServer,
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
        let database = format!("tidemill_test_{}", uuid::Uuid::new_v4().simple());
        let server = server();
        let mut connection = MysqlServer::new(&server).unwrap().connect().unwrap();
        connection.run(format!("CREATE DATABASE {database}")).unwrap();
        let (address, _) = server.rsplit_once('/').unwrap();
        let url = format!("{address}/{database}");
        let server = MysqlServer::new(&url).unwrap();
        Self { tables: MysqlTables::open(&url).unwrap(), url, server, database }
    }

    fn tables(&self) -> &dyn Tables {
        &self.tables
    }

    fn again(&self) -> Box<dyn Tables> {
        Box::new(MysqlTables::open(&self.url).unwrap())
    }

    fn tables_like(&self, prefix: &str) -> usize {
        let sql = format!(
            "SELECT CAST(COUNT(*) AS CHAR) FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name LIKE '{}%'",
            prefix.replace('_', "\\_")
        );
        self.text(&sql).parse().unwrap()
    }

    fn text(&self, sql: &str) -> String {
        self.by_hand().ask(sql).unwrap().remove(0).remove(0).unwrap()
    }

    fn execute(&self, sql: &str) {
        self.by_hand().run(sql).unwrap();
    }

    const READABLE: &'static str = "2023-11-14 22:13:20.123";
}

impl Mysql {
    fn by_hand(&self) -> MysqlConnection {
        self.server.connect().unwrap()
    }
}

impl Drop for Mysql {
    fn drop(&mut self) {
        self.by_hand().run(format!("DROP DATABASE {}", self.database)).unwrap();
    }
}

crate::conformance::suite!(Mysql);

/// OPS-3: connections that the server has ended are rebuilt.
#[test]
fn ended_connections_are_made_anew() {
    let bench = Mysql::new();
    let generation = crate::conformance::prepare(&bench);
    crate::conformance::write_batches(&bench, generation, 1, 1);
    let kill = || {
        let mut connection = bench.by_hand();
        let sql = format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{}' AND ID <> CONNECTION_ID()",
            bench.database
        );
        let others: Vec<String> = connection.ask(sql).unwrap().into_iter().flatten().flatten().collect();
        assert!(!others.is_empty());
        for other in others {
            connection.run(format!("KILL {other}")).unwrap();
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

/// The whole text that people see of an error.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}

/// OPS-3: a server that cannot be used is named with its reason, at once, and never with the password.
#[test]
fn unusable_servers_are_told_at_once_with_the_reason() {
    let server = server();
    let at = server.split_once('@').unwrap().1;
    let (host, _) = at.split_once('/').unwrap();
    let begun_at = std::time::Instant::now();
    let check = |url: &str, place: &str, words: &str| {
        let told = told(&MysqlTables::open(url).err().unwrap());
        assert!(told.contains(place) && told.contains(words) && !told.contains("secret"), "{told}");
    };
    check("mysql://nobody:secret@127.0.0.1:1/none", "127.0.0.1:1/none", "Connection refused");
    check(&format!("mysql://tidemill:secret@{at}"), at, "Access denied for user 'tidemill'");
    check(&format!("{server}_not_there"), "_not_there", "not_there");
    check("mysql://a:secret@no-such-host.invalid/d", "no-such-host.invalid:3306/d", "lookup");
    check(&format!("mysql://a:secret@{host}/d?ssl-mode=REQUIRED"), host, "TLS");
    assert!(begun_at.elapsed() < std::time::Duration::from_secs(4), "{:?}", begun_at.elapsed());
}

/// A way to the server that can be cut for good.
mod relay {
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    /// The way, until it is dropped.
    pub(super) struct Relay {
        address: SocketAddr,
        is_over: Arc<AtomicBool>,
        streams: Arc<Mutex<Vec<TcpStream>>>,
        accepting: Option<std::thread::JoinHandle<()>>,
    }

    pub(super) fn open(server: &str) -> (Relay, SocketAddr) {
        let to = server.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (is_over, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (over, kept) = (Arc::clone(&is_over), Arc::clone(&streams));
        let accepting = std::thread::spawn(move || {
            for client in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(&*to).unwrap());
                for (mut from, mut into) in [(&client, &server), (&server, &client)]
                    .map(|(from, into)| (from.try_clone().unwrap(), into.try_clone().unwrap()))
                {
                    std::thread::spawn(move || std::io::copy(&mut from, &mut into));
                }
                kept.lock().unwrap().extend([client, server]);
            }
        });
        (Relay { address, is_over, streams, accepting: Some(accepting) }, address)
    }

    impl Drop for Relay {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::SeqCst);
            let _ = TcpStream::connect(self.address);
            self.accepting.take().unwrap().join().unwrap();
            for stream in self.streams.lock().unwrap().drain(..) {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }
}

/// OPS-3: a server that goes away while connections are kept is told at once as well.
#[test]
fn server_that_went_away_is_told_at_once() {
    let (accepting, address) = crate::mysql::relay::open(&server());
    let bench = Mysql::new();
    let url = format!("{}@{address}/{}", server().split_once('@').unwrap().0, bench.database);
    let tables = MysqlTables::open(&url).unwrap();
    tables.generations().unwrap();
    drop(accepting);
    let begun_at = std::time::Instant::now();
    let error = tables.generations().err().unwrap();
    assert!(error.is_outage() && told(&error).contains("Connection refused"), "{}", told(&error));
    assert!(begun_at.elapsed() < std::time::Duration::from_secs(4), "{:?}", begun_at.elapsed());
}

/// More statements than a connection keeps are no error: it closes the oldest.
#[test]
fn more_statements_than_are_kept_are_no_error() {
    let bench = Mysql::new();
    let mut connection = bench.by_hand();
    for number in 0..1_100 {
        let found = connection.number(format!("SELECT {number}"), []).unwrap();
        assert_eq!(found, Some(number));
    }
    let closed: i64 = connection.ask("SHOW SESSION STATUS LIKE 'Com_stmt_close'").unwrap()[0][1]
        .as_deref()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(closed, 1_100 - 1_024);
}

/// EVT-7: a set of copies is known as one as soon as it is there at all, whatever cuts its making off.
#[test]
fn set_of_copies_is_never_there_without_its_note() {
    let bench = Mysql::new();
    crate::conformance::prepare(&bench);
    let mut by_hand = bench.by_hand();
    by_hand.run("CREATE TABLE seen (name VARCHAR(64))").unwrap();
    by_hand
        .run("CREATE TRIGGER look AFTER INSERT ON tidemill_generations FOR EACH ROW INSERT INTO seen SELECT name FROM tidemill_meta")
        .unwrap();
    let right = bench.tables.begin_rebuild("a test", std::time::Duration::ZERO).unwrap();
    let set = bench.tables.create_for_copies(right).unwrap();
    let note = format!("SELECT CAST(COUNT(*) AS CHAR) FROM seen WHERE name = 'copies_{set}'");
    assert_eq!(by_hand.ask(note).unwrap(), [[Some("1".to_owned())]]);
}

/// EVT-7: a set that somebody drops while its tables are made leaves none of them behind.
#[test]
fn set_that_is_dropped_while_it_is_made_leaves_no_table() {
    let bench = Mysql::new();
    let first = crate::conformance::prepare(&bench);
    let next = first + 1;
    let drop_it = || {
        let mut by_hand = bench.by_hand();
        let is_there = format!("SELECT number FROM tidemill_generations WHERE number = {next}");
        while by_hand.ask(is_there.clone()).unwrap().is_empty() {}
        by_hand.run(format!("DELETE FROM tidemill_generations WHERE number = {next}")).unwrap();
    };
    let made = std::thread::scope(|scope| {
        let dropping = scope.spawn(drop_it);
        let made = bench.tables.create_generation();
        dropping.join().unwrap();
        made
    });
    assert!(matches!(made, Err(Error::UnknownGeneration { generation }) if generation == next), "{made:?}");
    while bench.tables.sweep().unwrap() {}
    let left = format!(
        "SELECT CAST(COUNT(*) AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'g{next}\\_%'"
    );
    assert_eq!(bench.by_hand().ask(left).unwrap(), [[Some("0".to_owned())]]);
}
