//! The views of the tables, as somebody sees them who opens the database.

use rusqlite::{Connection, OpenFlags};

use crate::server::{Server, run_job, until};
use crate::views_of_jobs::{EXPECTED, JOBS, jobs};

/// TBL-2: beside a server at work, on SQLite: the newest batch of each job, what runs and on which worker, what waits and
/// for what, and what has ended with how long it took.
#[test]
fn views_show_jobs_now_what_runs_what_waits_and_what_was() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(&jobs("default"));
    for job in JOBS {
        run_job(&server, &format!("default/{job}"));
    }
    let path = dir.path().join("tables.sqlite");
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let column = |sql: &str| -> Vec<String> {
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    for (view, sql, expected) in EXPECTED {
        until(&format!("{view} shows {expected:?}"), || (column(sql) == expected).then_some(()));
    }
}

/// The status of one process has the lag in records and in time; both are 0 once the tables have all. That the lag in time grows
/// while they lack something is shown on a cluster, whose projector can be stopped alone.
#[test]
fn status_shows_no_lag_once_the_tables_have_all() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(&jobs("default"));
    run_job(&server, "default/done");
    until("the tables have all", || {
        let status = server.json(&["status"]);
        let partitions = status["partitions"].as_array().unwrap().clone();
        partitions.iter().all(|it| it["lag_records"] == 0 && it["lag_ms"] == 0).then_some(())
    });
}
