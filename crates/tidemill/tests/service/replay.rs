//! A7 on the embedded log: tables are dropped, rebuilt and verified while the process serves and takes work.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::server::{Server, code, text, tidemill};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

fn open(data: &Path) -> Connection {
    let connection = Connection::open(data.join("tables.sqlite")).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection
}

/// Drops every view, and every table but those that begin with `kept`; gives how many tables.
fn drop_all_but(kept: &str, connection: &mut Connection) -> usize {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let named = |kind: &str| -> Vec<String> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = ? AND name NOT LIKE 'sqlite_%'";
        let mut statement = transaction.prepare(sql).unwrap();
        let names = statement.query_map([kind], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    };
    let (views, mut tables) = (named("view"), named("table"));
    tables.retain(|table| kept.is_empty() || !table.starts_with(kept));
    for view in &views {
        transaction.execute_batch(&format!("DROP VIEW {view}")).unwrap();
    }
    for table in &tables {
        transaction.execute_batch(&format!("DROP TABLE {table}")).unwrap();
    }
    transaction.commit().unwrap();
    tables.len()
}

/// Makes batches as long as somebody hears of those that were accepted; gives how many.
fn load(data: &Path, accepted: &SyncSender<()>) -> usize {
    let mut count = 0;
    loop {
        let run = tidemill(data, &["job", "run", "default/a"]);
        // While the tables are lost, neither keys nor names can be read.
        assert!([0, 3, 4, 5].contains(&code(&run)), "{}", text(&run.stderr));
        if code(&run) == 0 {
            count += 1;
            if accepted.send(()).is_err() {
                return count;
            }
        }
    }
}

fn await_five(accepted: &Receiver<()>) {
    for _ in 0..5 {
        accepted.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

/// A7, EVT-7.
#[test]
fn dropped_tables_are_rebuilt_and_a_changed_row_is_named_while_it_serves() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    let before = server.json(&["verify"]);
    assert_eq!(before["difference_count"], 0, "{before}");
    let accepted = std::thread::scope(|scope| {
        let (tell, told) = sync_channel(0);
        let loading = scope.spawn(move || load(data, &tell));
        // First the rows only, then also what says which tables there are and how far they are.
        for kept in ["tidemill_", ""] {
            await_five(&told);
            assert!(drop_all_but(kept, &mut open(data)) > 5);
            let rebuilt = server.run(&["rebuild"]);
            assert_eq!(code(&rebuilt), 0, "{}{}", text(&rebuilt.stdout), text(&rebuilt.stderr));
            assert!(text(&rebuilt.stdout).contains("are rebuilt from"), "{}", text(&rebuilt.stdout));
            // It goes on to take work, and the tables show it.
            await_five(&told);
            let under_load = server.json(&["verify"]);
            assert_eq!(under_load["difference_count"], 0, "{under_load}");
        }
        drop(told);
        loading.join().unwrap()
    });
    let last = server.json(&["job", "run", "default/a", "--wait"]);
    let batches = server.json(&["batch", "ls", "--limit", "100000"]);
    let shown = batches["items"].as_array().unwrap().len();
    assert!(shown > accepted, "{shown}");

    let tables = open(data);
    let id = last["id"].as_i64().unwrap();
    let generation: u32 = tables
        .query_row("SELECT value FROM tidemill_meta WHERE name = 'active'", [], |row| row.get(0))
        .unwrap();
    let sql = format!("UPDATE g{generation}_batches SET run = 77 WHERE id = ?");
    assert_eq!(tables.execute(&sql, [id]).unwrap(), 1);
    let verified = server.run(&["verify"]);
    let told = text(&verified.stdout);
    assert_eq!(code(&verified), 1, "{told}{}", text(&verified.stderr));
    let line = format!("batches.run of ({id}): the journal says 0, the table has 77");
    assert!(told.contains(&line) && told.contains("Differences: 1."), "{told}");

    assert_eq!(code(&server.run(&["rebuild"])), 0);
    assert_eq!(code(&server.run(&["verify"])), 0);
    assert_eq!(server.stop(), Some(0));
    // The same without a process that serves.
    let after = crate::server::json(data, &["verify"]);
    assert_eq!(after["difference_count"], 0, "{after}");
}

/// The files of the tables, as they are while nothing uses them.
fn tables_of(data: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("tables.sqlite")).collect()
}

/// A data directory whose tables show less than its journals have: an older copy of them was put back.
fn behind() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (data, older) = (dir.path(), tempfile::tempdir().unwrap());
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    assert_eq!(server.stop(), Some(0));
    for file in tables_of(data) {
        fs::copy(&file, older.path().join(file.file_name().unwrap())).unwrap();
    }
    let server = Server::start(data);
    for _ in 0..3 {
        server.json(&["job", "run", "default/a", "--wait"]);
    }
    assert_eq!(server.stop(), Some(0));
    tables_of(data).iter().for_each(|file| fs::remove_file(file).unwrap());
    for file in tables_of(older.path()) {
        fs::copy(&file, data.join(file.file_name().unwrap())).unwrap();
    }
    dir
}

/// A7: how far the tables are behind is told; a record between that cannot be read is named with its file and what to do, and
/// is a failure, for the tables will not go past it.
#[test]
fn record_that_the_tables_cannot_go_past_is_named() {
    let dir = behind();
    let data = dir.path();
    let verify = || {
        let json = tidemill(data, &["verify", "-o", "json"]);
        let table = tidemill(data, &["verify"]);
        assert_eq!(code(&json), code(&table));
        (code(&json), serde_json::from_slice::<Value>(&json.stdout).unwrap(), text(&table.stdout))
    };
    let (code, report, told) = verify();
    let stand = &report["partitions"][1];
    let [offset, end, behind] = ["offset", "end", "behind"].map(|field| stand[field].as_u64().unwrap());
    assert!(behind > 3 && offset + behind + 1 == end, "{report}");
    assert_eq!((code, &report["difference_count"], &stand["unreadable"]), (0, &0.into(), &Value::Null));
    let line = format!(
        "Partition 1: the tables are {behind} records behind the journal: they show it up to record {offset}, it ends with record {}.",
        end - 1
    );
    assert!(told.contains(&line) && told.contains("No differences up to where the tables stand."), "{told}");

    let (file, damaged) = (data.join("log/log.db"), offset + 2);
    let log = Connection::open(&file).unwrap();
    let sql = "UPDATE journal_1 SET value = substr(value, 1, 90) WHERE offset = ?";
    assert_eq!(log.execute(sql, [damaged.cast_signed()]).unwrap(), 1);
    drop(log);
    let (code, report, told) = verify();
    let unreadable = &report["partitions"][1]["unreadable"];
    assert_eq!((code, &unreadable["offset"]), (1, &damaged.into()), "{report}");
    assert_eq!(unreadable["file"], file.to_str().unwrap(), "{report}");
    for part in [
        line,
        format!("Record {damaged} cannot be read, and the tables do not go past it: "),
        file.display().to_string(),
        "put a copy of the log back that is whole".to_owned(),
    ] {
        assert!(told.contains(&part), "{part}: {told}");
    }
}

/// The operator's secret stands in for application keys, which are lost with the tables; a wrong key does not.
#[test]
fn operating_needs_the_right_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let key = server.json(&["key", "apply", "app", "--role", "administrator"]);
    let key = key["key"].as_str().unwrap();
    let refused = server.run(&["rebuild", "--key", key]);
    assert_eq!(code(&refused), 3, "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("super_administrator"), "{}", text(&refused.stderr));
    assert_eq!(code(&server.run(&["verify", "--key", "app:wrong"])), 3);
}

/// A partition's clock can be set by an operator, though not to a time to come, which would skip every fire until then.
#[test]
fn partition_clock_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let set = server.run(&["partition", "set-time", "--partition", "1", "--at", "2026-01-01T00:00:00.000Z"]);
    assert_eq!(code(&set), 0, "{}", text(&set.stderr));
    let event = server.json(&["events", "tail", "--from", "start", "--type", "clock.set", "--limit", "1"]);
    assert_eq!(event["data"]["now"], "2026-01-01T00:00:00.000Z", "{event}");
    let ahead =
        server.run(&["partition", "set-time", "--partition", "1", "--at", "2199-01-01T00:00:00.000Z"]);
    assert_eq!(code(&ahead), 2);
    assert!(text(&ahead.stderr).contains("is after the owner's clock"), "{}", text(&ahead.stderr));
    let refused =
        server.run(&["partition", "set-time", "--partition", "2", "--at", "2026-01-01T00:00:00.000Z"]);
    assert_eq!(code(&refused), 2);
    assert!(text(&refused.stderr).contains("0 to 1"), "{}", text(&refused.stderr));
}
