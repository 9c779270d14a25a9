//! Task logs in MySQL or MariaDB, on the server that `TIDEMILL_TEST_MYSQL` names (PUL-12).

use std::net::ToSocketAddrs;
use std::sync::atomic::Ordering;

use crate::kit::{Cut, Fixture, dying, parameters};
use serde_json::Value;
use tidemill_log::LogId;
use tidemill_sinks::{Config, Opener, openers};
use tidemill_store::{MysqlConnection, MysqlServer};

/// A database that is dropped with it.
struct Database {
    server: String,
    name: String,
}

impl Database {
    fn new() -> Self {
        let server = std::env::var("TIDEMILL_TEST_MYSQL").expect(
            "TIDEMILL_TEST_MYSQL names a server: run `deploy/dev/services start mariadb`, \
             then `eval \"$(deploy/dev/services env)\"`",
        );
        let database = Self { server, name: format!("tidemill_test_{}", LogId::random()) };
        database.by_hand().run(format!("CREATE DATABASE {}", database.name)).unwrap();
        database
    }

    fn by_hand(&self) -> MysqlConnection {
        MysqlServer::new(&self.server).unwrap().connect().unwrap()
    }

    fn sink(&self) -> Opener {
        self.sink_at(&self.server.rsplit_once('/').unwrap().0.replace("mysql://", ""))
    }

    /// `at`: user, password, host and port.
    fn sink_at(&self, at: &str) -> Opener {
        let mut config = Config::default();
        config.mysql.url = Some(format!("mysql://{at}/{}", self.name));
        config.check().unwrap();
        openers(&config).unwrap().remove(0)
    }

    fn rows(&self) -> Vec<Vec<Option<String>>> {
        let columns = "grant_id, state, user_name, task_id, UNIX_TIMESTAMP(granted_at) * 1000, parameters, result, \
                       returned_by, reason, UNIX_TIMESTAMP(ended_at) * 1000, template, task_name, group_name, \
                       UNIX_TIMESTAMP(expires_at) * 1000";
        let sql = format!("SELECT {columns} FROM {}.tidemill_task_log ORDER BY grant_id", self.name);
        let mut connection = self.by_hand();
        connection.run("SET time_zone = '+00:00'").unwrap();
        connection.ask(sql).unwrap()
    }

    /// Every grant is there once, as the read tables have it.
    fn agrees_with(&self, fixture: &Fixture) {
        let (grants, rows) = (fixture.grants(), self.rows());
        assert!(grants.len() > 100);
        assert_eq!(rows.len(), grants.len());
        for (row, grant) in rows.into_iter().zip(grants.values()) {
            let text = |column: usize| row[column].clone();
            let millis = |column: usize| text(column).map(|at| at.parse::<f64>().unwrap() as i64);
            assert_eq!(text(0), Some(grant.id.to_string()));
            assert_eq!(
                (text(1).as_deref(), text(2).as_deref()),
                (Some(&*grant.state), Some(&*grant.user_name))
            );
            assert_eq!((text(3), millis(4)), (Some(grant.task_id.to_string()), Some(grant.granted_at)));
            let given: Value = serde_json::from_str(&text(5).unwrap()).unwrap();
            assert_eq!(given, parameters(grant.task_id));
            assert_eq!(
                (text(6).as_deref(), text(7).as_deref()),
                (grant.result.as_deref(), grant.returned_by.as_deref())
            );
            assert_eq!((text(8).as_deref(), millis(9)), (grant.reason.as_deref(), grant.ended_at));
            assert_eq!(
                (text(10).as_deref(), text(11).as_deref()),
                (Some("copy"), grant.task_name.as_deref())
            );
            assert_eq!((text(12).as_deref(), millis(13)), (Some(&*grant.group_name), grant.expires_at));
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.by_hand().run(format!("DROP DATABASE {}", self.name)).unwrap();
    }
}

/// PUL-12: a sink that is killed again and again, before and after it has written, loses and doubles nothing.
#[test]
fn killed_sink_loses_and_doubles_nothing() {
    let (mut fixture, database) = (Fixture::new(1), Database::new());
    fixture.works(40);
    let (sink, died) = dying(database.sink(), 30);
    let running = fixture.start(vec![sink]);
    running.stores_until(&mut fixture, (40, 2), "sinks died often", || died.load(Ordering::SeqCst) >= 30);
    running.catch_up(&fixture);
    running.stop().unwrap();
    database.agrees_with(&fixture);
    // Another life goes on where the last one ended.
    let running = fixture.start(vec![database.sink()]);
    fixture.works(10);
    running.catch_up(&fixture);
    let stored: u64 = running.partitions().iter().map(|it| it.changes).sum();
    assert!(stored < 200, "{stored} changes were stored for 20 decisions");
    running.stop().unwrap();
    database.agrees_with(&fixture);
}

/// PUL-12: connections that break in the middle of a transaction or of its commit lose and double nothing.
#[test]
fn broken_connections_lose_and_double_nothing() {
    let (mut fixture, database) = (Fixture::new(2), Database::new());
    let (user, at) = database.server["mysql://".len()..].split_once('@').unwrap();
    let server = at.split_once('/').unwrap().0.to_socket_addrs().unwrap().next().unwrap();
    let cut = Cut::open(server, 14, 4_000);
    let running = fixture.start(vec![database.sink_at(&format!("{user}@{}", cut.address))]);
    running.stores_until(&mut fixture, (40, 4), "connections broke often", || cut.broken() >= 10);
    running.catch_up(&fixture);
    running.stop().unwrap();
    database.agrees_with(&fixture);
}

/// PUL-12: what the server will never take stops that partition and is told; the reason names the column.
#[test]
fn refusal_of_the_server_is_told_and_stops_the_sink() {
    let (mut fixture, database) = (Fixture::new(3), Database::new());
    let name = &database.name;
    let running = fixture.start(vec![database.sink()]);
    fixture.works(5);
    running.catch_up(&fixture);
    let narrow = format!("ALTER TABLE {name}.tidemill_task_log DROP COLUMN result");
    database.by_hand().run(narrow).unwrap();
    fixture.works(5);
    let told = running.stops();
    assert!(told.contains("refuses to store task logs") && told.contains("result"), "{told}");
    running.stop().unwrap_err();
    // Mended by hand, it goes on.
    database.by_hand().run(format!("ALTER TABLE {name}.tidemill_task_log ADD result TEXT NULL")).unwrap();
    let running = fixture.start(vec![database.sink()]);
    running.catch_up(&fixture);
    running.stop().unwrap();
}

/// PUL-12, PUL-14: what has left the read tables by age is passed over by a sink that begins after that.
#[test]
fn grants_that_have_left_the_tables_are_passed_over() {
    let (mut fixture, database) = (Fixture::new(6), Database::new());
    fixture.works(40);
    let whole = fixture.grants();
    let before = whole.values().map(|grant| grant.granted_at).max().unwrap() + 1;
    let before = tidemill_model::Timestamp::from_millisecond(before).unwrap();
    tidemill_projector::purge(&*fixture.database.tables, before, &tidemill_journal::Shutdown::new()).unwrap();
    let left = fixture.grants();
    assert!(
        !left.is_empty() && left.len() < whole.len() && left.values().all(|grant| &*grant.state == "live")
    );
    let running = fixture.start(vec![database.sink()]);
    running.catch_up(&fixture);
    running.stop().unwrap();
    let rows: Vec<i64> =
        database.rows().iter().map(|row| row[0].as_deref().unwrap().parse().unwrap()).collect();
    assert!(rows.into_iter().eq(left.into_keys()));
}

/// PUL-12, rule 11: a position that the journal does not continue stops the sink with a clear error.
#[test]
fn position_of_another_log_stops_the_sink() {
    let (mut fixture, database) = (Fixture::new(4), Database::new());
    let running = fixture.start(vec![database.sink()]);
    fixture.works(5);
    running.catch_up(&fixture);
    running.stop().unwrap();
    let mut other = Fixture::new(5);
    other.works(50);
    let running = other.start(vec![database.sink()]);
    let told = running.stops();
    assert!(told.contains("the position is of log"), "{told}");
    running.stop().unwrap_err();
}
