//! The real program, everything in one process, through its command line and its HTTP interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const TIDEMILL: &str = env!("CARGO_BIN_EXE_tidemill");

fn tidemill(data: &Path, arguments: &[&str]) -> Output {
    Command::new(TIDEMILL)
        .args(arguments)
        .arg("--data")
        .arg(data)
        .env_remove("TIDEMILL_SERVER")
        .env_remove("TIDEMILL_KEY")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON that a command which has to succeed writes.
fn json(data: &Path, arguments: &[&str]) -> Value {
    let output = tidemill(data, &[arguments, &["-o", "json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// A running `tidemill standalone`.
struct Server {
    child: Child,
    data: PathBuf,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(TIDEMILL)
            .args(["standalone", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("TIDEMILL__LOG_FILTER", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It says where it serves once it does.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.find(|line| line.as_ref().unwrap().contains("http://"));
        assert!(found.is_some(), "standalone ended: {:?}", child.wait());
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, data: data.to_owned() }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// SIGTERM, and the exit code.
    fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        self.child.wait().unwrap().code()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        json(&self.data, arguments)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        tidemill(&self.data, arguments)
    }

    fn apply(&self, yaml: &str) -> Value {
        let file = self.data.join("test-jobs.yaml");
        fs::write(&file, yaml).unwrap();
        self.json(&["job", "apply", "-f", file.to_str().unwrap()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already where the test got that far.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
    let logs = server.run(&["batch", "logs", &failed, "--stderr"]);
    assert!(text(&logs.stdout).contains("broken on purpose"), "{}{}", text(&logs.stdout), text(&logs.stderr));
    assert_eq!(server.stop(), Some(0));

    let output = tidemill(&data, &["demo", "--once", "--fix", "--listen", "127.0.0.1:0"]);
    assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
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

/// A6: bad input gets a clear error with its own exit code, and changes nothing.
#[test]
fn bad_input_is_told_by_field_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let table = [
        ("jobs: [{name: a, group: default, type: shell, command: x, priority: 12}]", 2, "priority"),
        ("jobs: [{name: a, group: default, type: shell, command: x, colour: red}]", 2, "colour"),
        ("jobs: [{name: a, group: default, type: shell, command: x, run_as: root}]", 2, "run_as"),
        ("jobs: [{name: a, group: default, type: shell, command: x, parents: [b]}]", 2, "parents"),
        ("jobs: [{name: a, group: default, type: shell, command: x, schedule: {cron: \"nope\"}}]", 2, "cron"),
        ("jobs: [", 2, "not YAML"),
    ];
    for (yaml, expected, field) in table {
        let file = dir.path().join("bad.yaml");
        fs::write(&file, yaml).unwrap();
        let output = server.run(&["job", "apply", "-f", file.to_str().unwrap()]);
        let told = text(&output.stderr);
        assert_eq!(code(&output), expected, "{yaml}: {told}");
        assert!(told.contains(field) && told.contains("bad.yaml"), "{yaml}: {told}");
    }
    assert_eq!(code(&server.run(&["job", "show", "default/nope"])), 4);
    assert_eq!(code(&server.run(&["batch", "show", "4097"])), 4);
    assert_eq!(code(&server.run(&["job", "ls", "--key", "x:y"])), 3);
    assert_eq!(server.json(&["job", "ls"])["items"].as_array().unwrap().len(), 0);
}

/// A6, API-4: the same request id does it once, also over a restart.
#[test]
fn repeated_request_gets_the_first_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    let run = ["job", "run", "default/a", "--request-id", "only-once"];
    let first = server.json(&run)["batch"].clone();
    assert_eq!(server.json(&run)["batch"], first);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    assert_eq!(server.json(&run)["batch"], first);
    assert_eq!(server.json(&["batch", "ls"])["items"].as_array().unwrap().len(), 1);
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
    assert_eq!(code(&output), 1);
    assert!(
        text(&output.stderr).contains("one data directory serves one process"),
        "{}",
        text(&output.stderr)
    );
}
