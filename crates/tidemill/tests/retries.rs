//! BYD-19: what follows a failed attempt, through the command line.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod server;

use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use server::{Server, text};

const PATIENCE: Duration = Duration::from_secs(60);

fn ended(server: &Server, batch: &str) -> Value {
    let begun_at = Instant::now();
    loop {
        let shown = server.json(&["batch", "show", batch]);
        if shown["state"] == "finished" {
            return shown;
        }
        assert!(begun_at.elapsed() < PATIENCE, "it does not end: {shown}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn run(server: &Server, job: &str) -> String {
    server.json(&["job", "run", job])["batch"].to_string()
}

/// BYD-19: exit codes that mean *no retry* and *skip*; children of what was skipped go on.
#[test]
fn exit_codes_of_real_processes_mean_what_the_job_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs:\n\
        - {name: gone, group: default, type: shell, command: exit 9, retries: 5, exit_codes: {no_retry: [9]}}\n\
        - {name: idle, group: default, type: shell, command: exit 4, retries: 5, exit_codes: {skip: [4, 5]}}\n\
        - {name: child, group: default, type: noop, parents: [idle]}\n",
    );
    let gone = ended(&server, &run(&server, "default/gone"));
    assert_eq!(
        (&gone["result"], gone["attempts"].as_array().unwrap().len()),
        (&json!("failed"), 1),
        "{gone}"
    );
    let idle = ended(&server, &run(&server, "default/idle"));
    assert_eq!(
        (&idle["result"], idle["attempts"].as_array().unwrap().len()),
        (&json!("skipped"), 1),
        "{idle}"
    );
    assert!(idle["message"].as_str().unwrap().contains("exit code 4"), "{idle}");
    let child = server.json(&["batch", "ls", "--job", "default/child"])["items"][0]["id"].to_string();
    assert_eq!(ended(&server, &child)["result"], "success");
}

/// BYD-19, JOB-5: pauses between attempts grow; what was written comes out again.
#[test]
fn pauses_between_real_attempts_grow() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs: [{name: a, group: default, type: shell, command: exit 1, retries: 2, retry_interval_s: 1, \
         retry_backoff: {factor: 2.5, max_interval_s: 60}, exit_codes: {skip: [7]}}]",
    );
    let shown = ended(&server, &run(&server, "default/a"));
    let time = |attempt: usize, field: &str| -> Timestamp {
        shown["attempts"][attempt][field].as_str().unwrap().parse().unwrap()
    };
    let pause = |before: usize| time(before + 1, "started_at").duration_since(time(before, "finished_at"));
    assert!(pause(0).as_millis() >= 1_000 && pause(1).as_millis() >= 2_500, "{shown}");
    let exported = text(&server.run(&["job", "export", "--group", "default"]).stdout);
    let changes = server.apply(&exported)["changes"].clone();
    assert!(changes.as_array().unwrap().iter().all(|change| change["change"] == "unchanged"), "{changes}");
    assert_eq!(server.json(&["job", "show", "default/a"])["retry_backoff"]["factor_percent"], 250);
}
