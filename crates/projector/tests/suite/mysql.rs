//! The projection into MySQL or MariaDB, on the server that `TIDEMILL_TEST_MYSQL` names.

use std::sync::Arc;
use std::time::Duration;

use crate::alone::{killed_is_replaced, second_is_refused};
use crate::beside::{
    another_form_is_built_beside, beyond_the_journal, beyond_the_journal_it_is_whole,
    version_before_goes_on_with_its_tables,
};
use crate::since::{
    a_time_that_cannot_be_right_is_refused, attempts_and_void_records_from_before_count,
    from_any_time_it_is_the_same, interrupted_from_a_time_it_begins_anew,
    what_is_older_is_not_mended_and_named,
};
use crate::support::{Owner, catalogue, id, lives, log, shard};
use tidemill_journal::{Progress, Shutdown};
use tidemill_log::LogId;
use tidemill_projector::{Config, rebuild, run, verify};
use tidemill_store::{FORMAT, MysqlServer, MysqlTables, ReadTables, Tables};

const LONG: Duration = Duration::from_secs(60);

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
        database.by_hand(&format!("CREATE DATABASE {}", database.name));
        database
    }

    fn by_hand(&self, sql: &str) {
        MysqlServer::new(&self.server).unwrap().connect().unwrap().run(sql).unwrap();
    }

    fn tables(&self) -> Arc<dyn Tables> {
        self.of_form(*FORMAT)
    }

    fn of_form(&self, form: i64) -> Arc<dyn Tables> {
        Arc::new(MysqlTables::open_as(&self.address(), form).unwrap())
    }

    fn address(&self) -> String {
        let (address, _) = self.server.rsplit_once('/').unwrap();
        format!("{address}/{}", self.name)
    }

    /// In the database itself.
    fn in_it_by_hand(&self, sql: &str) {
        MysqlServer::new(&self.address()).unwrap().connect().unwrap().run(sql).unwrap();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.by_hand(&format!("DROP DATABASE {}", self.name));
    }
}

/// EVT-2, EVT-7: partitions side by side, a rebuild under load, a swap; the rows are what the journal says.
#[test]
fn rebuild_swaps_the_tables_under_load() {
    let (_, log) = log(3);
    let database = Database::new();
    let tables = database.tables();
    let first = Owner::claim(&*log, 0).decide(catalogue());
    let mut owner = Owner::claim(&*log, 1);
    owner.decide(shard());
    let (progress, shutdown, config) = (
        Progress::new(),
        Shutdown::new(),
        Config { min_write_interval_ms: 1, cached_rows: 50, ..Config::default() },
    );
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&config, &log, &tables, &progress, &shutdown));
        assert!(progress.wait_until(0, first, LONG));
        let load = scope.spawn(|| owner.decide_all(lives(1, 300, 5)));
        // As another process would: with connections of its own.
        let new = rebuild(&config, &*log, &*database.tables(), &Shutdown::new(), &mut |_| {}).unwrap();
        let last = load.join().unwrap();
        assert!(progress.wait_until(1, last, LONG));
        let left: Vec<_> = tables.generations().unwrap().iter().map(|it| it.number).collect();
        assert_eq!(left, [new]);
        shutdown.request();
        running.join().unwrap().unwrap();
    });
    let check = || verify(&*log, &*tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    let report = check();
    assert!(report.is_clean() && report.rows > 500, "{:#?}", report.differences);
    let generation = report.generation;
    let table = format!("{}.g{generation}_batches", database.name);
    database.by_hand(&format!("UPDATE {table} SET message = 'by hand' WHERE id = {}", id(7)));
    let report = check();
    assert_eq!(
        report.differences.iter().map(|it| (it.table, it.column)).collect::<Vec<_>>(),
        [("batches", Some("message"))]
    );
    assert_eq!(&*tables.batch(id(7)).unwrap().unwrap().message, "by hand");
}

/// PUL-14: see there.
#[test]
fn versions_that_nobody_names_leave() {
    let database = Database::new();
    crate::support::versions_that_nobody_names_leave(&database.tables());
}

/// API-9
#[test]
fn old_rows_leave_the_audit_list() {
    let database = Database::new();
    crate::audit::old_rows_leave_the_list(&database.tables());
}

/// EVT-7.
#[test]
fn rebuild_from_any_time_is_what_one_from_the_beginning_is() {
    from_any_time_it_is_the_same(&*Database::new().tables());
}

/// EVT-7.
#[test]
fn rows_older_than_the_time_are_named_as_not_mended() {
    let database = Database::new();
    what_is_older_is_not_mended_and_named(&*database.tables(), &|sql| database.in_it_by_hand(sql));
}

/// EVT-7.
#[test]
fn time_that_cannot_be_right_is_refused() {
    a_time_that_cannot_be_right_is_refused(&*Database::new().tables());
}

/// EVT-7.
#[test]
fn interrupted_rebuild_from_a_time_begins_anew() {
    interrupted_from_a_time_it_begins_anew(&Database::new().tables());
}

/// EVT-7.
#[test]
fn attempts_and_void_records_from_before_the_time_count() {
    attempts_and_void_records_from_before_count(&*Database::new().tables());
}

/// EVT-7.
#[test]
fn second_rebuild_at_once_is_refused() {
    second_is_refused(&Database::new().tables());
}

/// EVT-7.
#[test]
fn killed_rebuild_is_replaced_and_writes_no_more() {
    let database = Database::new();
    killed_is_replaced(&database.tables(), &|sql| database.in_it_by_hand(sql));
}

/// EVT-7.
#[test]
fn tables_beyond_their_journal_are_not_waited_for() {
    let database = Database::new();
    beyond_the_journal(&|form| database.of_form(form));
}

/// EVT-7.
#[test]
fn set_that_replaces_one_beyond_the_journal_is_whole() {
    let database = Database::new();
    beyond_the_journal_it_is_whole(&|form| database.of_form(form));
}

/// OPS-2, EVT-7.
#[test]
fn another_form_of_the_tables_is_built_beside_under_load() {
    let database = Database::new();
    another_form_is_built_beside(&|form| database.of_form(form), &|sql| database.in_it_by_hand(sql));
}

/// OPS-2.
#[test]
fn the_version_before_goes_on_with_its_tables() {
    let database = Database::new();
    version_before_goes_on_with_its_tables(&|form| database.of_form(form));
}
