//! BYD-16, BYD-17: what people say of batches and groups, through the command line and REST.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod server;

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::{Server, code, text};

const PATIENCE: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun_at = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun_at.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn show_until(server: &Server, batch: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    until(what, || Some(server.json(&["batch", "show", batch])).filter(|shown| holds(shown)))
}

fn newest(server: &Server, job: &str) -> String {
    until("a batch", || {
        let batches = server.json(&["batch", "ls", "--job", job]);
        Some(batches["items"].as_array()?.first()?["id"].to_string())
    })
}

fn run(server: &Server, job: &str) -> String {
    server.json(&["job", "run", job])["batch"].to_string()
}

/// BYD-16: a failed batch is marked success, and its child goes on; who, when and why stand in the batch.
#[test]
fn failed_batch_is_marked_and_its_child_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs: [{name: p, group: default, type: shell, command: exit 1}, \
         {name: c, group: default, type: noop, parents: [p]}]",
    );
    let batch = run(&server, "default/p");
    show_until(&server, &batch, "it fails", |shown| shown["result"] == "failed");
    let child = newest(&server, "default/c");
    assert_eq!(server.json(&["batch", "why", &child])["conditions"][0]["kind"], "dependency");
    let refused = server.run(&["batch", "mark", &batch, "success", "--reason", " "]);
    assert_ne!(code(&refused), 0);
    assert!(text(&refused.stderr).contains("must be 1 to 500 characters"), "{}", text(&refused.stderr));
    server.json(&["batch", "mark", &batch, "success", "--reason", "loaded by hand"]);
    let shown = show_until(&server, &batch, "the mark", |shown| !shown["marked_at"].is_null());
    assert_eq!((&shown["result"], &shown["marked"]), (&json!("success"), &json!("success")), "{shown}");
    assert_eq!((&shown["marked_by"], &shown["mark_reason"]), (&json!("admin"), &json!("loaded by hand")));
    show_until(&server, &child, "the child", |shown| shown["result"] == "success");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// BYD-16: a running batch is ended first, with its processes; REST says the same as the command line.
#[test]
fn running_batch_is_killed_and_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: p, group: default, type: shell, command: exec sleep 1000}]");
    let batch = run(&server, "default/p");
    show_until(&server, &batch, "it runs", |shown| shown["state"] == "running");
    let path = format!("/api/batches/{batch}/mark");
    let mark = json!({"result": "skipped", "reason": "not needed today"});
    assert_eq!(server.post(&path, "m-1", &mark).0, 200);
    let shown = show_until(&server, &batch, "it ends", |shown| shown["state"] == "finished");
    assert_eq!(
        (&shown["result"], &shown["message"]),
        (&json!("skipped"), &json!("not needed today")),
        "{shown}"
    );
    assert_eq!(shown["attempts"][0]["result"], "killed");
    let listed = server.json(&["batch", "ls", "--result", "skipped"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let (status, refused) = server.post(&path, "m-2", &json!({"result": "killed", "reason": "x"}));
    assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("result")), "{refused}");
}
