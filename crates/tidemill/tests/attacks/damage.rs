//! OPS-6, EVT-2: what is stored and not what was written any more. The start says what, where and what to do, and ends; it
//! neither waits nor repeats itself.

use std::path::Path;
use std::process::{Command, Output};

use crate::server::{Server, code, run_job, text};

/// A start that has to end by itself.
fn start(data: &Path) -> Output {
    let start = Command::new("timeout")
        .args(["100", env!("CARGO_BIN_EXE_tidemill"), "standalone", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .output()
        .unwrap();
    assert_ne!(code(&start), 124, "it does not end: {}", text(&start.stderr));
    start
}

fn with_history(data: &Path) {
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    run_job(&server, "default/a");
    assert_eq!(server.stop(), Some(0));
}

/// One bit of one record of a journal.
fn flip(data: &Path, partition: u32, offset: i64) {
    let log = rusqlite::Connection::open(data.join("log/log.db")).unwrap();
    let of = format!("journal_{partition} WHERE offset = {offset}");
    let mut value: Vec<u8> = log.query_row(&format!("SELECT value FROM {of}"), [], |row| row.get(0)).unwrap();
    *value.last_mut().unwrap() ^= 1;
    let sets = format!("UPDATE journal_{partition} SET value = ?1 WHERE offset = {offset}");
    assert_eq!(log.execute(&sets, [value]).unwrap(), 1);
}

/// The log's directory is lost and the tables are left: nothing waits for tables that never get there.
#[test]
fn lost_log_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    with_history(dir.path());
    std::fs::remove_dir_all(dir.path().join("log")).unwrap();
    let start = start(dir.path());
    let said = text(&start.stderr);
    assert_eq!(code(&start), 1, "{said}");
    assert!(said.contains("if the log was replaced on purpose"), "{said}");
    assert!(said.contains("the read tables cannot be kept"), "{said}");
}

/// A flipped byte: the record and the file are named, and what to do.
#[test]
fn damaged_record_is_named_with_its_file_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    with_history(dir.path());
    flip(dir.path(), 0, 2);
    let start = start(dir.path());
    let said = text(&start.stderr);
    assert_eq!(code(&start), 1, "{said}");
    for wanted in
        ["record 2 of the journal of partition 0 in", "log.db is damaged", "put a copy of the log back"]
    {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let told = said.lines().filter(|line| line.contains("put a copy of the log back")).count();
    assert!(told <= 2, "it repeats itself: {said}");
}
