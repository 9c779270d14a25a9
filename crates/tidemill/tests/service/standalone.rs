//! The real program, everything in one process, through its command line and its HTTP interface.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::server::{Server, TIDEMILL, code, json, text, tidemill};
use serde_json::Value;
use tidemill_model::Timestamp;

/// A1, OPS-1: nothing to configure, seven successes, visible by CLI; and data survive a restart.
#[test]
fn demo_runs_seven_batches_to_success_once() {
    let dir = tempfile::tempdir().unwrap();
    // Where nothing is said, the data go to a directory below the current one.
    for _ in 0..2 {
        let output = Command::new(TIDEMILL)
            .args(["demo", "--once", "--listen", "127.0.0.1:0"])
            .current_dir(dir.path())
            .env_remove("TIDEMILL_DATA")
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).contains("All 7 batches"), "{}", text(&output.stdout));
    }
    assert!(dir.path().join("tidemill-demo/work/history.db").is_file());
}

/// The demo's switch: load 2 waits for the broken analysis, `batch why` says so, and runs after the rerun.
#[test]
fn broken_analysis_holds_its_load_until_it_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("demo");
    let output = tidemill(&data, &["demo", "--once", "--break", "message-words", "--listen", "127.0.0.1:0"]);
    let told = text(&output.stdout);
    assert_eq!(code(&output), 10, "{told}{}", text(&output.stderr));
    assert!(told.contains("message-words failed; load-2 cannot run."), "{told}");

    let server = Server::start(&data);
    let waiting = server.json(&["batch", "ls", "--state", "waiting"]);
    assert_eq!(waiting["items"].as_array().unwrap().len(), 1);
    let batch = waiting["items"][0]["id"].to_string();
    let why = server.json(&["batch", "why", &batch]);
    assert_eq!(why["conditions"][0]["kind"], "dependency");
    assert!(why["conditions"][0]["message"].as_str().unwrap().contains("demo/message-words"), "{why}");
    let failed = server.json(&["batch", "ls", "--result", "failed"])["items"][0]["id"].to_string();
    let told = text(&server.run(&["batch", "why", &batch]).stdout);
    for part in ["of demo/load-2 for", "demo/message-words", &format!("tidemill batch rerun {failed}")] {
        assert!(told.contains(part), "{told}");
    }
    let told = text(&server.run(&["batch", "why", &failed]).stdout);
    assert!(told.contains("of demo/message-words for"), "{told}");
    assert!(told.contains("has finished: failed: exit code 3."), "{told}");
    let logs = server.run(&["batch", "logs", &failed, "--stderr"]);
    assert!(text(&logs.stdout).contains("broken on purpose"), "{}{}", text(&logs.stdout), text(&logs.stderr));
    assert_eq!(server.stop(), Some(0));

    let output = tidemill(&data, &["demo", "--once", "--fix", "--listen", "127.0.0.1:0"]);
    assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
}

/// API-6, API-7: who writes and then looks sees it, however far behind the tables are; where they do not follow,
/// the write is done all the same, and says that it cannot be seen yet.
#[test]
fn what_is_written_is_seen_by_the_next_look() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("PROJECTOR__MIN_WRITE_INTERVAL_MS", "500")]);
    for owner in ["one", "two", "three"] {
        server.apply(&format!("jobs: [{{name: a, group: default, type: noop, owner: {owner}}}]"));
        let jobs = server.json(&["job", "ls"]);
        assert_eq!(jobs["items"][0]["owner"], owner, "{jobs}");
    }
    for (verb, enabled) in [("disable", false), ("enable", true)] {
        server.json(&["job", verb, "default/a"]);
        let jobs = server.json(&["job", "ls"]);
        assert_eq!(jobs["items"][0]["enabled"], enabled, "{jobs}");
    }
    let tables = rusqlite::Connection::open(dir.path().join("tables.sqlite")).unwrap();
    tables.execute_batch("BEGIN IMMEDIATE").unwrap();
    let unseen = server.run(&["job", "disable", "default/a"]);
    assert_eq!(code(&unseen), 0, "{}", text(&unseen.stderr));
    assert!(text(&unseen.stderr).contains("the lists do not show it yet"), "{}", text(&unseen.stderr));
    tables.execute_batch("ROLLBACK").unwrap();
    let seen = server.run(&["job", "enable", "default/a"]);
    assert_eq!((code(&seen), text(&seen.stderr)), (0, String::new()));
}

/// While an upgrade lies in place and the process still runs, nothing of the other version is started, not
/// even where the server of shims has to be started again.
#[test]
fn upgrade_in_place_begins_with_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("tidemill");
    // By another process: a descriptor open for writing here would be inherited by other tests' children.
    assert!(Command::new("cp").arg(TIDEMILL).arg(&program).status().unwrap().success());
    let server = Server::start_program(&program, dir.path(), &[]);
    server.apply("jobs: [{name: a, group: default, type: shell, command: 'exit 0'}]");
    server.json(&["job", "run", "default/a", "--wait"]);
    fs::remove_file(&program).unwrap();
    fs::write(&program, "no program").unwrap();
    let parent = server.child.id().to_string();
    let children = Command::new("ps").args(["-o", "pid=,comm=", "--ppid", &parent]).output().unwrap();
    let children = text(&children.stdout);
    let shims: Vec<_> = children.lines().filter(|line| line.contains("tidemill-shim")).collect();
    let [shims] = shims[..] else { panic!("one server of shims: {children}") };
    let pid = shims.split_whitespace().next().unwrap();
    assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
    let batch = server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(batch["result"], "success", "{batch}");
    assert_eq!(server.stop(), Some(0));
}

/// Commands that are decided and older than is declared are forgotten, and with them alone nothing else.
#[test]
fn old_commands_are_forgotten_while_it_serves() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(server.stop(), Some(0));
    let file = data.join("log").join("log.db");
    let before = rusqlite::Connection::open(&file).unwrap();
    let aged = before.execute("UPDATE commands_1 SET at_ms = 0", []).unwrap();
    let records = |log: &rusqlite::Connection| -> i64 {
        log.query_row("SELECT count(*) FROM journal_1", [], |row| row.get(0)).unwrap()
    };
    let (decided, first) = (aged as i64 - 1, records(&before));
    drop(before);
    assert!(decided > 2, "{decided}");

    let server = Server::start(data);
    let log = rusqlite::Connection::open(&file).unwrap();
    let oldest = || -> i64 {
        // Each run is a decision, and so a reason to look.
        server.json(&["job", "run", "default/a", "--wait"]);
        log.query_row("SELECT min(offset) FROM commands_1", [], |row| row.get(0)).unwrap()
    };
    assert!((0..100).any(|_| oldest() > decided), "old commands are forgotten");
    assert!(records(&log) > first);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(data);
    server.json(&["job", "run", "default/a", "--wait"]);
}

/// API-6: jobs go in as YAML and come out again unchanged; runs end with the exit code of their result.
#[test]
fn jobs_are_applied_exported_run_and_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let answer = server.apply(concat!(
        "jobs:\n",
        "- {name: good, group: default, type: shell, command: \"echo hello $TIDEMILL_PARAM_WHO\"}\n",
        "- {name: bad, group: default, type: shell, command: \"echo oops >&2; exit 7\"}\n",
        "- {name: long, group: default, type: shell, command: \"echo up; exec sleep 1000\"}\n",
    ));
    assert_eq!(answer["changes"].as_array().unwrap().len(), 3);

    let good = server.run(&["job", "run", "default/good", "--param", "who=world", "--wait", "-o", "json"]);
    assert_eq!(code(&good), 0, "{}", text(&good.stderr));
    let batch: Value = serde_json::from_slice(&good.stdout).unwrap();
    let logs = server.run(&["batch", "logs", &batch["id"].to_string(), "--follow"]);
    assert_eq!(text(&logs.stdout), "hello world\n", "{}", text(&logs.stderr));

    let bad = server.run(&["job", "run", "default/bad", "--wait"]);
    assert_eq!(code(&bad), 10, "{}{}", text(&bad.stdout), text(&bad.stderr));

    let mut long = Command::new(TIDEMILL)
        .args(["job", "run", "default/long", "--wait", "--data"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(long.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let batch = line.trim().trim_start_matches("Batch ").trim_end_matches('.').to_owned();
    let kill = server.run(&["batch", "kill", &batch, "--reason", "enough"]);
    assert_eq!(code(&kill), 0, "{line}{}", text(&kill.stderr));
    assert_eq!(long.wait().unwrap().code(), Some(11));

    let exported = server.run(&["job", "export", "--group", "default"]);
    let file = dir.path().join("exported.yaml");
    fs::write(&file, &exported.stdout).unwrap();
    let again = server.json(&["job", "apply", "-f", file.to_str().unwrap()]);
    let changes = again["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["change"] == "unchanged"), "{changes:?}");
}

/// EVT-5: a process killed at any moment takes up where it was, with nothing lost.
#[test]
fn killed_process_starts_again_with_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    let batch = server.json(&["job", "run", "default/a"])["batch"].to_string();
    server.signal("-KILL");
    drop(server);
    let server = Server::start(dir.path());
    let shown = server.json(&["batch", "show", &batch]);
    assert_eq!(shown["job_name"], "a");
    assert_eq!(server.stop(), Some(0));
}

/// The public feed can be read from its start, resumed by cursor, and filtered.
#[test]
fn feed_is_read_from_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    assert_eq!(code(&server.run(&["job", "run", "default/a", "--wait"])), 0);
    let feed = ["events", "tail", "--from", "start", "--type", "batch.finished", "--limit", "1"];
    let event = server.json(&feed);
    assert_eq!(event["data"]["result"], "success", "{event}");
    assert_eq!(event["type"], "tidemill.batch.finished.v1");
}

/// A7, EVT-7: tables are rebuilt beside those in use; `verify` is clean before and after.
#[test]
fn tables_are_rebuilt_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop}, {name: b, group: default, type: noop}]");
    assert_eq!(code(&server.run(&["job", "run", "default/a", "--wait"])), 0);
    assert_eq!(server.stop(), Some(0));
    let before = json(dir.path(), &["verify"]);
    assert_eq!(before["difference_count"], 0, "{before}");
    assert!(before["rows"].as_u64().unwrap() > 5, "{before}");
    let rebuilt = tidemill(dir.path(), &["rebuild"]);
    assert_eq!(code(&rebuilt), 0, "{}", text(&rebuilt.stderr));
    let after = json(dir.path(), &["verify"]);
    assert_eq!(after["difference_count"], 0, "{after}");
    assert_eq!(after["rows"], before["rows"]);
    assert_ne!(after["generation"], before["generation"]);
    let server = Server::start(dir.path());
    assert_eq!(server.json(&["job", "ls"])["items"].as_array().unwrap().len(), 2);
}

/// One data directory serves one process.
#[test]
fn second_process_on_the_same_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _server = Server::start(dir.path());
    let output = tidemill(dir.path(), &["standalone", "--listen", "127.0.0.1:0"]);
    assert_eq!(code(&output), 3);
    assert!(
        text(&output.stderr).contains("one data directory serves one process"),
        "{}",
        text(&output.stderr)
    );
}

/// JOB-2: a type is a command line and an environment; the configuration adds one, and gives slots to it. A job of a
/// type that no worker has slots for waits, and says so.
#[test]
fn types_of_jobs_are_configured() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("tidemill.toml");
    let types = r#"
        [executor.slots]
        shell = 1
        java = 1
        awk = 1
        [executor.types.awk]
        command = ["awk", "-f", "{script}", "{arguments}"]
        env = { GREETING = "good day" }
    "#;
    fs::write(&config, types).unwrap();
    fs::write(dir.path().join("Main.java"), MAIN_JAVA).unwrap();
    let compiled = Command::new("javac").arg(dir.path().join("Main.java")).status().unwrap();
    assert!(compiled.success());
    let server = Server::start_configured(&dir.path().join("data"), &config);
    let classes = dir.path().display();
    server.apply(&format!(
        r#"
        jobs:
          - {{ group: default, name: in-awk, type: awk, command: 'BEGIN {{ print ENVIRON["GREETING"], ARGV[0] }}' }}
          - {{ group: default, name: in-java, type: java, program: "{classes}", class: Main, arguments: [a, "b c"] }}
          - {{ group: default, name: in-hive, type: hive, command: "select 1" }}
        "#
    ));
    for (job, said) in
        [("default/in-awk", "good day awk"), ("default/in-java", "2 arguments, the last is b c")]
    {
        let batch = server.json(&["job", "run", job, "--wait"])["id"].to_string();
        let log = server.run(&["batch", "logs", &batch]);
        assert!(text(&log.stdout).contains(said), "{}{}", text(&log.stdout), text(&log.stderr));
    }
    let batch = server.json(&["job", "run", "default/in-hive"])["batch"].to_string();
    let why = text(&server.run(&["batch", "why", &batch]).stdout);
    assert!(why.contains("type hive"), "{why}");
}

const MAIN_JAVA: &str = r#"
    public class Main {
        public static void main(String[] words) {
            System.out.println(words.length + " arguments, the last is " + words[words.length - 1]);
        }
    }
"#;

/// JOB-4: where slots are few, the most urgent batch comes first; 10 of the submitting call is 0 here.
#[test]
fn the_most_urgent_batch_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("EXECUTOR__SLOTS", "shell=1")]);
    let gate = dir.path().join("gate");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", gate.display());
    server.apply(&format!(
        "jobs: [{{ group: default, name: holds-the-slot, type: shell, command: '{wait}' }}]"
    ));
    server.json(&["job", "run", "default/holds-the-slot"]);
    let group = server.json(&["group", "ls"])["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["name"] == "default")
        .unwrap()["id"]
        .clone();
    let submit = |priority: u8| {
        let body = serde_json::json!({
            "job_name": format!("at-{priority}"), "user": "ann", "job_type": "shell", "command": "true",
            "group_id": group, "priority": priority,
        });
        let (status, answer) = server.post("/api/job/submit", &format!("p{priority}"), &body);
        assert_eq!(status, 200, "{answer}");
        answer["job_id"].to_string()
    };
    let jobs: Vec<String> = [1, 10, 5].into_iter().map(submit).collect();
    let priorities: Vec<Value> =
        jobs.iter().map(|job| server.json(&["job", "show", job])["priority"].clone()).collect();
    assert_eq!(priorities, [9, 0, 5]);
    fs::write(&gate, "").unwrap();
    let started = |job: &String| loop {
        let batch = &server.json(&["batch", "ls", "--job", job])["items"][0];
        if batch["state"] == "finished" {
            let batch = server.json(&["batch", "show", &batch["id"].to_string()]);
            break batch["attempts"][0]["started_at"].as_str().unwrap().parse().unwrap();
        }
        thread::sleep(Duration::from_millis(50));
    };
    let times: Vec<Timestamp> = jobs.iter().map(started).collect();
    assert!(times[1] < times[2] && times[2] < times[0], "{times:?}");
}

/// DSP-2: where a job's maximum is reached, the next batch waits and says so.
#[test]
fn batch_over_the_maximum_waits_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let gate = dir.path().join("gate");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", gate.display());
    server.apply(&format!(
        "jobs: [{{ group: default, name: two, type: shell, max_concurrent: 2, command: '{wait}' }}]"
    ));
    let run = |hour: u8| {
        let time = format!("2026-07-01T{hour:02}:00:00.000Z");
        server.json(&["job", "run", "default/two", "--concurrent", "--logical-time", &time])["batch"]
            .to_string()
    };
    let batches: Vec<String> = (0..3).map(run).collect();
    let why = text(&server.run(&["batch", "why", &batches[2]]).stdout);
    assert!(why.contains("concurrency limit 2 reached"), "{why}");
    fs::write(&gate, "").unwrap();
    for batch in &batches {
        while server.json(&["batch", "show", batch])["state"] != "finished" {
            thread::sleep(Duration::from_millis(50));
        }
    }
}
