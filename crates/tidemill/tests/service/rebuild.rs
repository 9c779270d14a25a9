//! Tables of another version, and rebuilds of a part: what is there goes on, whatever is cut off.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, code, json as of, text, tidemill, until};

fn open(data: &Path) -> Connection {
    let connection = Connection::open(data.join("tables.sqlite")).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection
}

fn number(data: &Path, sql: &str) -> i64 {
    open(data).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The tables become those of another version: of another form, with a column that this one does not have.
fn of_another_version(data: &Path) {
    let tables = open(data);
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'view'";
    let views: Vec<String> =
        tables.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    views.iter().for_each(|view| tables.execute_batch(&format!("DROP VIEW {view}")).unwrap());
    let set = number(data, "SELECT value FROM tidemill_meta WHERE name = 'active'");
    tables
        .execute_batch(&format!(
            "ALTER TABLE g{set}_batches RENAME COLUMN message TO text; \
             UPDATE tidemill_generations SET format = 18; UPDATE tidemill_forms SET form = 18;"
        ))
        .unwrap();
}

/// OPS-2, EVT-7: a program that finds tables of another version builds its own beside them and swaps by itself, killed as often
/// as may be; dispatch goes on meanwhile, and the old tables stay for the version before.
#[test]
fn tables_of_another_version_are_built_beside_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    let job = |n: u32| format!("- {{name: j{n}, group: default, type: shell, command: \"true # {n}\"}}\n");
    server.apply(&format!(
        "jobs:\n- {{name: a, group: default, type: noop}}\n{}",
        (0..150).map(job).collect::<String>()
    ));
    for _ in 0..20 {
        server.json(&["job", "run", "default/a", "--wait"]);
    }
    assert_eq!(server.stop(), Some(0));
    of_another_version(data);
    let first = number(data, "SELECT MAX(number) FROM tidemill_generations");
    let sets = "SELECT COUNT(*) FROM tidemill_generations";
    for _ in 0..3 {
        let mut killed = std::process::Command::new(TIDEMILL)
            .args(["standalone", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        until("it begins a set beside", || (number(data, sets) == 2).then_some(()));
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert_eq!(number(data, sets), 2, "it goes on with the same one");
    }
    let server = Server::start(data);
    until("it swaps", || (code(&server.run(&["job", "ls"])) == 0).then_some(()));
    let last = server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(last["result"], "success", "{last}");
    let report = server.json(&["verify"]);
    assert_eq!(
        (&report["generation"], &report["difference_count"]),
        (&json!(first + 1), &json!(0)),
        "{report}"
    );
    // What people see has followed; the set of the version before is there until it has not been seen for a while.
    assert!(number(data, "SELECT COUNT(*) FROM batches") >= 21);
    assert_eq!(number(data, sets), 2);
    let rebuilt = server.json(&["rebuild"]);
    assert_eq!((number(data, sets), &rebuilt["generation"]), (2, &json!(first + 2)), "{rebuilt}");
    assert_eq!(number(data, &format!("SELECT COUNT(*) FROM g{first}_batches")), 20);
    assert_eq!(server.stop(), Some(0));
}

/// EVT-7: while tables are built beside those of another version, reads are told so, and how far it is.
#[test]
fn reads_are_told_how_far_the_tables_are() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    assert_eq!(server.stop(), Some(0));
    of_another_version(data);
    let verified = tidemill(data, &["verify"]);
    let told = text(&verified.stderr);
    assert_eq!(code(&verified), 1, "{told}");
    assert!(told.contains("being built beside those of another one: 0 of "), "{told}");
    assert_eq!(of(data, &["rebuild"])["dry_run"], false);
    assert_eq!(of(data, &["verify"])["difference_count"], 0);
}

/// OPS-9, EVT-7: while tables are built beside those of another version, keys hold and what needs no table is answered.
#[test]
fn keys_hold_while_tables_are_built() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    assert_eq!(server.stop(), Some(0));
    of_another_version(data);
    let first = number(data, "SELECT MAX(number) FROM tidemill_generations");
    open(data)
        .execute_batch(&format!(
            "CREATE TRIGGER hold BEFORE INSERT ON tidemill_positions WHEN NEW.generation > {first} \
             BEGIN SELECT RAISE(ABORT, 'held by the test'); END"
        ))
        .unwrap();
    let server = Server::start(data);
    assert!(server.json(&["level", "show"])["level"].is_number(), "a key is known, and an owner answers");
    let wrong = server.run(&["--key", "root:wrong", "level", "show"]);
    assert!(code(&wrong) != 0 && text(&wrong.stderr).contains("key"), "{}", text(&wrong.stderr));
    let read = server.run(&["job", "ls"]);
    assert!(text(&read.stderr).contains("being built beside those of another one"), "{}", text(&read.stderr));
    open(data).execute_batch("DROP TRIGGER hold").unwrap();
    until("it swaps", || (code(&server.run(&["job", "ls"])) == 0).then_some(()));
    assert_eq!(server.stop(), Some(0));
}

/// EVT-7: while another process rebuilds the tables, a second is told who, since when and what to do; one that gives no sign any
/// more is replaced.
#[test]
fn second_rebuild_is_told_who_rebuilds() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    let now = "CAST(strftime('%s', 'now') AS INTEGER) * 1000";
    let held = format!(
        "INSERT INTO tidemill_rebuilds SELECT form, 7, 'process 9 of elsewhere', {now}, {now}, {now} FROM tidemill_forms"
    );
    open(data).execute_batch(&held).unwrap();
    let words = "process 9 of elsewhere rebuilds these tables since 20";
    for arguments in [&["rebuild"][..], &["rebuild", "all"], &["rebuild", "--from", "2026-01-01T00:00:00Z"]] {
        let refused = server.run(arguments);
        let told = text(&refused.stderr);
        assert!(
            code(&refused) == 1 && told.contains(words) && told.contains("may be replaced in "),
            "{told}"
        );
    }
    open(data).execute_batch("UPDATE tidemill_rebuilds SET seen_at = seen_at - 60000").unwrap();
    assert!(server.json(&["rebuild"])["generation"].as_i64() > Some(1));
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    assert_eq!(server.stop(), Some(0));
}

/// EVT-7: a dry run writes nothing at all, and makes no tables where there are none.
#[test]
fn dry_run_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(server.stop(), Some(0));
    let file = data.join("tables.sqlite");
    let noted = "SELECT MAX(seen_at) FROM tidemill_forms";
    let seen = number(data, noted);
    let before = std::fs::read(&file).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let planned = of(data, &["rebuild", "--dry-run", "--compare"]);
    assert_eq!((&planned["generation"], &planned["comparison"]["difference_count"]), (&json!(1), &json!(0)));
    assert!(std::fs::read(&file).unwrap() == before);
    assert_eq!(number(data, noted), seen);
    for name in ["tables.sqlite", "tables.sqlite-wal", "tables.sqlite-shm"] {
        let _ = std::fs::remove_file(data.join(name));
    }
    let planned = of(data, &["rebuild", "--dry-run"]);
    assert!(planned["generation"].is_null() && planned["records"].as_u64() > Some(5), "{planned}");
    let compared = tidemill(data, &["rebuild", "--dry-run", "--compare"]);
    assert!(text(&compared.stderr).contains("there are no tables yet"), "{}", text(&compared.stderr));
    assert!(!file.exists());
    assert!(of(data, &["rebuild"])["generation"] == 1 && file.exists());
}

/// EVT-7: through the command line and a server: a dry run changes nothing and says what would be; from a time, what is
/// older stays as it was, and is named.
#[test]
fn rebuild_from_a_time_and_dry_run() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    let old = server.json(&["job", "run", "default/a", "--wait"])["id"].clone();
    std::thread::sleep(Duration::from_millis(30));
    let since = jiff::Timestamp::now().to_string();
    std::thread::sleep(Duration::from_millis(30));
    let new = server.json(&["job", "run", "default/a", "--wait"])["id"].clone();
    let set = number(data, "SELECT value FROM tidemill_meta WHERE name = 'active'");
    open(data).execute_batch(&format!("UPDATE g{set}_batches SET run = 77")).unwrap();
    let planned = server.json(&["rebuild", "all", "--from", &since, "--dry-run", "--compare"]);
    let fate = |id: &Value| {
        let all = planned["comparison"]["differences"].as_array().unwrap();
        all.iter().find(|it| it["key"].as_str() == Some(&id.to_string())).unwrap()["mended"].clone()
    };
    assert_eq!((fate(&old), fate(&new)), (json!(false), json!(true)), "{planned}");
    assert_eq!((&planned["generation"], &planned["hints"]["present"]), (&json!(set), &json!(0)), "{planned}");
    let wrong = format!("SELECT COUNT(*) FROM g{set}_batches WHERE run = 77");
    assert_eq!(number(data, &wrong), 2, "a dry run changes nothing");
    let rebuilt = server.run(&["rebuild", "--from", &since]);
    let told = text(&rebuilt.stdout);
    assert_eq!(code(&rebuilt), 0, "{told}{}", text(&rebuilt.stderr));
    assert!(told.contains("are copies and were not looked at"), "{told}");
    let verified = server.run(&["verify"]);
    let told = text(&verified.stdout);
    let line = format!("batches.run of ({old}): the journal says 0, the table has 77");
    assert!(told.contains(&line) && told.contains("Differences: 1."), "{told}");
    assert_eq!(server.json(&["rebuild", "all"])["hints"]["forgotten"], 0);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    for (arguments, words) in [
        (vec!["rebuild", "--from", "noon"], "\"noon\": must be a time as RFC 3339 has it"),
        (vec!["rebuild", "--from", "2999-01-01T00:00:00Z"], "it must not be in the future"),
        (vec!["rebuild", "hints", "--from", "2026-01-01T00:00:00Z"], "must be absent for hints"),
        (vec!["rebuild", "--compare"], "--dry-run"),
    ] {
        let refused = server.run(&arguments);
        assert!(code(&refused) != 0 && text(&refused.stderr).contains(words), "{}", text(&refused.stderr));
    }
    assert_eq!(server.stop(), Some(0));
}
