//! Paths that batches wait for, through the command line and REST, with nothing configured.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use crate::server::{Server, run_job};
use serde_json::Value;

/// DEP-4 allows 30 s and one check; here it is far less, for nothing else is asked.
const PATIENCE: Duration = Duration::from_secs(45);

fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    crate::server::until_within(PATIENCE, what, look)
}

fn succeeds(server: &Server, batch: &str) {
    let shown = until("the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    });
    assert_eq!(shown["result"], "success", "{shown}");
}

/// What keeps a batch from running, by kind.
fn conditions(server: &Server, batch: &str) -> Vec<String> {
    let why = server.json(&["batch", "why", batch]);
    let conditions = why["conditions"].as_array().unwrap();
    conditions.iter().map(|condition| condition["kind"].as_str().unwrap().to_owned()).collect()
}

fn status(server: &Server) -> Value {
    server.json(&["status"])["paths"].clone()
}

/// DEP-1, DEP-4, OPS-1: a batch waits for a path, with its mark, and runs when it has come.
#[test]
fn batch_waits_for_a_path_and_its_mark() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let input = dir.path().join("in");
    server.apply(&format!(
        "jobs:\n- {{name: load, group: default, type: noop, inputs: [{{path: '{0}/2026', mark: _SUCCESS}}]}}\n\
        - {{name: plain, group: default, type: noop, inputs: ['{0}/2026']}}\n",
        input.display(),
    ));
    let [load, plain] = ["default/load", "default/plain"].map(|job| run_job(&server, job));
    until("both are looked for", || (status(&server)["paths"] == 2).then_some(()));
    assert_eq!(conditions(&server, &load), ["path"]);
    fs::create_dir_all(input.join("2026")).unwrap();
    succeeds(&server, &plain);
    assert_eq!(conditions(&server, &load), ["path"], "its mark is not there yet");
    fs::write(input.join("2026/_SUCCESS"), "").unwrap();
    succeeds(&server, &load);
    until("nothing is looked for any more", || (status(&server)["paths"] == 0).then_some(()));
    assert_eq!(server.stop(), Some(0));
}

/// DEP-5, MON-6: a name node that takes calls and never answers. Its calls are abandoned, counted and shown, people
/// are told by the feed, and other paths are found meanwhile.
#[cfg(feature = "hdfs")]
#[test]
fn hung_check_is_told_and_holds_up_no_other_path() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let name_node = format!("hdfs://{}", hung.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("PROBER__PATHS__RETRY_PAUSE_MS", "10"),
        ("PROBER__PATHS__HDFS__LIMITS__TIMEOUT_MS", "200"),
        ("PROBER__POLL__MIN_INTERVAL_MS", "500"),
    ];
    let server = Server::start_with(&dir.path().join("data"), &settings);
    let there = dir.path().join("there");
    server.apply(&format!(
        "jobs:\n- {{name: stuck, group: default, type: noop, inputs: ['{name_node}/a']}}\n\
        - {{name: free, group: default, type: noop, inputs: ['{}']}}\n",
        there.display(),
    ));
    let [stuck, free] = ["default/stuck", "default/free"].map(|job| run_job(&server, job));
    let shown = until("the hung calls are shown", || {
        let paths = status(&server);
        let of = paths["authorities"].as_array()?.iter().find(|it| it["authority"] == name_node)?.clone();
        (of["hung_calls"].as_u64()? >= 4).then_some((paths["failing"].clone(), of))
    });
    assert_eq!(shown.0, 1, "{shown:?}");
    fs::write(&there, "").unwrap();
    succeeds(&server, &free);
    assert_eq!(conditions(&server, &stuck), ["path"]);

    let tail = server.run(&[
        "events",
        "tail",
        "--from",
        "start",
        "--type",
        "probes.late",
        "--limit",
        "1",
        "-o",
        "json",
    ]);
    let event: Value = serde_json::from_slice(&tail.stdout).unwrap();
    let report = &event["data"]["report"];
    assert_eq!(report["authority"], name_node.as_str(), "{event}");
    assert!(report["failure"].as_str().unwrap().contains("no answer in time"), "{event}");
    server.run(&["batch", "kill", &stuck]);
    let arguments =
        ["events", "tail", "--from", "start", "--type", "probes.recovered", "--limit", "1", "-o", "json"];
    let event: Value = serde_json::from_slice(&server.run(&arguments).stdout).unwrap();
    assert_eq!(event["data"]["authority"], name_node.as_str(), "it is over once nobody waits for it");
    assert_eq!(server.stop(), Some(0));
}

/// DEP-1: local paths outside of the configured directories are not touched, and that is told as a failing check.
#[test]
fn path_outside_of_the_roots_is_not_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("PROBER__LOCAL_ROOTS", "/no-such-root")];
    let server = Server::start_with(&dir.path().join("data"), &settings);
    let job =
        format!("jobs:\n- {{name: a, group: default, type: noop, inputs: ['{}']}}\n", dir.path().display());
    server.apply(&job);
    let batch = run_job(&server, "default/a");
    let arguments =
        ["events", "tail", "--from", "start", "--type", "probes.late", "--limit", "1", "-o", "json"];
    let event: Value = serde_json::from_slice(&server.run(&arguments).stdout).unwrap();
    let failure = event["data"]["report"]["failure"].as_str().unwrap();
    assert!(failure.contains("below none of prober.local_roots"), "{event}");
    assert_eq!(conditions(&server, &batch), ["path"]);
    assert_eq!(server.stop(), Some(0));
}
