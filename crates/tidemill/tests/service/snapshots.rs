//! A server begins with the snapshots that it has taken, and without any it says the same.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, code, run_job, text, tidemill, until};

/// One is taken whenever something was recorded.
const SETTINGS: &[(&str, &str)] =
    &[("LOG_FILTER", "info"), ("SNAPSHOTS__INTERVAL_S", "10"), ("SNAPSHOTS__EVERY_EVENTS", "1")];
/// Where the group of the executor is.
const GROUP: u64 = 1;

/// A server and what it says in its log.
struct Said {
    server: Server,
    lines: PathBuf,
}

impl Said {
    fn start(data: &Path, name: &str) -> Self {
        let lines = data.with_extension(name);
        let mut command = Command::new(TIDEMILL);
        command.stderr(File::create(&lines).unwrap());
        Self { server: Server::begin(command, data, SETTINGS), lines }
    }

    fn says(&self, what: &str) {
        until(what, || fs::read_to_string(&self.lines).unwrap().contains(what).then_some(()));
    }

    fn kill(mut self) -> String {
        self.server.child.kill().unwrap();
        self.server.child.wait().unwrap();
        fs::read_to_string(&self.lines).unwrap()
    }
}

fn run(data: &Path, arguments: &[&str]) -> Value {
    let output = tidemill(data, &[arguments, &["-o", "json"]].concat());
    assert_eq!(code(&output), 0, "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The record of the snapshot with which a partition would begin.
fn begins_with(data: &Path, partition: u64) -> Option<String> {
    let answer = run(data, &["snapshots", "check"]);
    let partitions = answer["partitions"].as_array().unwrap();
    let found = partitions.iter().find(|it| it["partition"] == partition).unwrap();
    found["snapshot"].as_str().map(str::to_owned)
}

fn until_named(data: &Path) {
    for partition in 0..=GROUP {
        until("a record names a snapshot", || begins_with(data, partition));
    }
}

/// What is asked before and after.
fn answers(server: &Server, waiting: &str, past: &str) -> Vec<Value> {
    let now = server.json(&["batch", "why", waiting]);
    let then = server.json(&["batch", "why", waiting, "--as-of", past]);
    vec![
        now["conditions"].clone(),
        then["conditions"].clone(),
        server.json(&["batch", "show", waiting])["state"].clone(),
    ]
}

/// EVT-6: killed, a server begins with a snapshot that a record names, and says what it said before; so it does after a snapshot
/// was damaged, and after all of them were deleted. `as_of` says the same with and without them.
#[test]
fn killed_server_begins_with_a_snapshot_and_without_any_it_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let said = Said::start(&data, "first");
    said.server.apply(
        "jobs:\n- {name: a, group: default, type: noop}\n\
         - {name: c, group: default, type: noop, third_party: [erp]}\n",
    );
    for _ in 0..3 {
        said.server.json(&["job", "run", "default/a", "--concurrent", "--wait"]);
    }
    let waiting = run_job(&said.server, "default/c");
    let past = tidemill_model::Timestamp::from(jiff::Timestamp::now()).to_string();
    said.server.json(&["job", "run", "default/a", "--concurrent", "--wait"]);
    until_named(&data);
    let before = answers(&said.server, &waiting, &past);
    assert_eq!(before[0][0]["kind"], "third_party", "{before:?}");
    let lines = said.kill();
    assert!(lines.contains("a snapshot is taken"), "{lines}");
    assert!(!lines.contains("ERROR"), "{lines}");

    let said = Said::start(&data, "second");
    said.says("begins with the snapshot of record");
    assert_eq!(answers(&said.server, &waiting, &past), before);
    said.server.json(&["job", "run", "default/a", "--concurrent", "--wait"]);
    let status = said.server.json(&["status"]);
    let partitions = status["storage"]["snapshots"]["partitions"].as_array().unwrap();
    assert!(partitions.iter().any(|it| it["newest_offset"].as_u64().unwrap() > 0), "{status}");
    let shown = text(&said.server.run(&["status"]).stdout);
    assert!(shown.contains("Snapshots are in "), "{shown}");
    until_named(&data);
    said.kill();

    let newest = begins_with(&data, GROUP).unwrap();
    let file = data.join("snapshots").join(&newest);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let listed = run(&data, &["snapshots", "ls", "--partition", "1"]);
    assert_eq!(listed["snapshots"][0]["readable"], json!(true), "{listed}");
    let checked = text(&tidemill(&data, &["snapshots", "check"]).stdout);
    assert!(checked.contains(&newest) && checked.contains("is not used: it is damaged"), "{checked}");
    let said = Said::start(&data, "third");
    said.says("a snapshot is not used");
    assert_eq!(answers(&said.server, &waiting, &past), before);
    said.kill();

    fs::remove_dir_all(data.join("snapshots")).unwrap();
    let said = Said::start(&data, "fourth");
    said.says("begins with the first record: no snapshot counts");
    assert_eq!(answers(&said.server, &waiting, &past), before);
    said.server.json(&["job", "run", "default/a", "--concurrent", "--wait"]);
    assert_eq!(said.server.json(&["verify"])["difference_count"], 0);
    assert_eq!(said.server.stop(), Some(0));
    assert_eq!(run(&data, &["verify", "--journal"])["finding_count"], 0);
}

/// Where there is to be no snapshot, there is none, and `snapshots ls` says what to configure.
#[test]
fn without_a_place_there_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let none = ("SNAPSHOTS__PLACE", "none");
    let server = Server::start_with(dir.path(), &[none, ("SNAPSHOTS__EVERY_EVENTS", "1")]);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(server.json(&["status"])["storage"]["snapshots"], Value::Null);
    assert_eq!(server.stop(), Some(0));
    assert!(!dir.path().join("snapshots").exists());
    let config = dir.path().join("none.toml");
    fs::write(&config, "[snapshots]\nplace = \"none\"\n").unwrap();
    let refused = tidemill(dir.path(), &["snapshots", "ls", "--config", config.to_str().unwrap()]);
    assert_eq!(code(&refused), 2);
    assert!(text(&refused.stderr).contains("snapshots.place"), "{}", text(&refused.stderr));
    fs::write(&config, "[snapshots]\nplace = \"relative\"\n").unwrap();
    let refused = tidemill(dir.path(), &["snapshots", "ls", "--config", config.to_str().unwrap()]);
    let told = text(&refused.stderr);
    assert!(
        code(&refused) == 2 && told.contains("snapshots.place") && told.contains("absolute path"),
        "{told}"
    );
}
