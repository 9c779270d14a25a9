//! JOB-9: a deletion says what it would break, through the command line and REST, and ends it only when asked.

use std::thread;
use std::time::{Duration, Instant};

use crate::server::{Server, code, run_job, text};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
/// A parent with its child, and a job that runs until it is ended.
const JOBS: &str = "jobs:\n\
    - {name: parent, group: default, type: noop}\n\
    - {name: child, group: default, type: noop, parents: [parent]}\n\
    - {name: long, group: default, type: shell, command: 'exec sleep 1000'}\n";

fn fixture(data: &std::path::Path) -> Server {
    let server = Server::start(data);
    server.apply(JOBS);
    server
}

/// The batch, once the condition holds.
fn until(server: &Server, batch: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let begun_at = Instant::now();
    loop {
        let shown = server.json(&["batch", "show", batch]);
        if holds(&shown) {
            return shown;
        }
        assert!(begun_at.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}: {shown}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn ends_killed(server: &Server, batch: &str) {
    let ended = until(server, batch, "the batch ends", |shown| shown["state"] == "finished");
    assert_eq!(ended["result"], "killed", "{ended}");
}

fn names(server: &Server) -> Vec<String> {
    let jobs = server.json(&["job", "ls"]);
    let name = |job: &Value| job["name"].as_str().unwrap().to_owned();
    let mut names: Vec<_> = jobs["items"].as_array().unwrap().iter().map(name).collect();
    names.sort();
    names
}

/// JOB-9: a job with a child, or with an unfinished batch, is not deleted, and what stands in the way is named.
#[test]
fn deletion_is_refused_by_what_stands_in_its_way() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let batch = run_job(&server, "default/long");
    for (job, named) in [("default/parent", "default/child"), ("default/long", batch.as_str())] {
        for more in [&[][..], &["--cancel"][..]] {
            if job == "default/long" && !more.is_empty() {
                continue;
            }
            let refused = server.run(&[&["job", "delete", job], more].concat());
            let told = text(&refused.stderr);
            assert_eq!(code(&refused), 3, "{told}");
            for part in [job, named] {
                assert!(told.contains(part), "{part} is not named: {told}");
            }
        }
    }
    assert_eq!(names(&server), ["child", "long", "parent"], "nothing was deleted");
    assert_ne!(server.json(&["batch", "show", &batch])["state"], "finished", "and nothing ended");
}

/// JOB-9: with `--cancel` the batches end, one that runs and one that waits, and the job is gone.
#[test]
fn deletion_with_cancel_ends_the_batches_and_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let running = run_job(&server, "default/long");
    let at_once =
        ["job", "run", "default/long", "--concurrent", "--logical-time", "2026-01-01T00:00:00.000Z"];
    // Behind the first one: the job's limit is one at a time.
    let waiting = server.json(&at_once)["batch"].to_string();
    until(&server, &running, "the batch runs", |shown| shown["state"] == "running");
    let deleted = server.run(&["job", "delete", "default/long", "--cancel"]);
    assert_eq!(code(&deleted), 0, "{}", text(&deleted.stderr));
    for batch in [&running, &waiting] {
        ends_killed(&server, batch);
    }
    assert_eq!(names(&server), ["child", "parent"]);
    assert_eq!(code(&server.run(&["job", "show", "default/long"])), 4);
}

/// JOB-9: an apply that prunes is refused as a deletion is, whole, and with `cancel` ends what it deletes.
#[test]
fn pruning_asks_for_unfinished_batches_as_deleting_does() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let batch = run_job(&server, "default/long");
    let kept = json!({"name": "kept", "group": "default", "type": "noop"});
    let (status, refused) =
        server.post("/api/jobs/apply", "prune-1", &json!({"jobs": [kept], "prune": ["default"]}));
    assert_eq!((status, &refused["code"]), (409, &json!("job_in_use")), "{refused}");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("default/long") && detail.contains(&batch), "{detail}");
    assert_eq!(names(&server), ["child", "long", "parent"], "nothing of the apply was done");

    let body = json!({"jobs": [kept], "prune": ["default"], "cancel": true});
    let (status, applied) = server.post("/api/jobs/apply", "prune-2", &body);
    assert_eq!(status, 200, "{applied}");
    ends_killed(&server, &batch);
    assert_eq!(names(&server), ["kept"]);
}
