//! EXE-12, OPS-2: a worker that is stopped: what runs goes on for the next one, or is ended and uses up no retry.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::server::{Server, run_job, until};

const SLOTS: (&str, &str) = ("EXECUTOR__SLOTS", "shell=4");
const KEEPS: (&str, &str) = ("EXECUTOR__KEEP_JOBS_ON_STOP", "true");

/// A server where the level stands that departures are recorded since.
fn server(data: &Path, settings: &[(&str, &str)]) -> Server {
    let server = Server::start_with(data, &[&[SLOTS], settings].concat());
    let stands = || server.json(&["level", "show"])["level"].as_u64().filter(|level| *level >= 3);
    until("level 3 stands", stands);
    server
}

/// A job without retries that says that it runs, and ends so when a file is there.
fn job(name: &str, dir: &Path, code: u32) -> String {
    let dir = dir.display();
    let wait = format!(
        "touch {dir}/began-$TIDEMILL_ATTEMPT; until [ -e {dir}/go ]; do sleep 0.1; done; exit {code}"
    );
    format!("jobs:\n- {{name: {name}, group: default, type: shell, retries: 0, command: '{wait}'}}\n")
}

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || Some(shown(server, batch)).filter(|shown| shown["state"] == "finished"))
}

fn began(dir: &Path, attempt: u32) {
    until("it runs", || dir.join(format!("began-{attempt}")).exists().then_some(()));
}

/// The results of its attempts, and whether each was interrupted.
fn attempts(batch: &Value) -> Vec<(String, bool)> {
    let of = |attempt: &Value| {
        (attempt["result"].as_str().unwrap().to_owned(), attempt["interrupted"].as_bool().unwrap())
    };
    batch["attempts"].as_array().unwrap().iter().map(of).collect()
}

/// EXE-12: the next life takes over what runs, as the attempt that it was, and the worker is no more on its way out.
#[test]
fn stopped_worker_leaves_its_jobs_to_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let first = server(&data, &[KEEPS]);
    first.apply(&job("stays", dir.path(), 0));
    let batch = run_job(&first, "default/stays");
    began(dir.path(), 1);
    assert_eq!(first.stop(), Some(0));

    let second = server(&data, &[KEEPS]);
    let worker = until("it works again", || {
        let workers = second.json(&["worker", "ls"]);
        workers["items"].as_array().unwrap().iter().find(|worker| worker["state"] == "live").cloned()
    });
    assert_eq!(worker["leaving_since"], Value::Null, "{worker}");
    assert_eq!(shown(&second, &batch)["state"], "running");
    fs::write(dir.path().join("go"), "").unwrap();
    let shown = ended(&second, &batch);
    assert_eq!(attempts(&shown), [("success".to_owned(), false)], "{shown}");
    assert_eq!(second.stop(), Some(0));
}

/// EXE-12: what is ended with its worker runs again, of a job without retries, too, and leaves a worker that has left.
#[test]
fn stopped_worker_that_ends_its_jobs_uses_up_no_retry() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let settings = [("EXECUTOR__STOP_GRACE_MS", "100")];
    let first = server(&data, &settings);
    first.apply(&job("again", dir.path(), 0));
    let batch = run_job(&first, "default/again");
    began(dir.path(), 1);
    assert_eq!(first.stop(), Some(0));

    let second = server(&data, &settings);
    began(dir.path(), 2);
    fs::write(dir.path().join("go"), "").unwrap();
    let shown = ended(&second, &batch);
    let expected = [("lost".to_owned(), true), ("success".to_owned(), false)];
    assert_eq!(attempts(&shown), expected, "{shown}");
    assert_eq!(shown["result"], "success");
    assert_eq!(second.stop(), Some(0));
}

/// EXE-12: what fails by itself while its worker leaves has failed.
#[test]
fn job_that_fails_while_its_worker_leaves_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let settings = [("EXECUTOR__STOP_GRACE_MS", "60000")];
    let mut first = server(&data, &settings);
    first.apply(&job("fails", dir.path(), 3));
    let batch = run_job(&first, "default/fails");
    began(dir.path(), 1);
    first.signal("-TERM");
    fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(first.child.wait().unwrap().code(), Some(0));

    let second = server(&data, &settings);
    let shown = ended(&second, &batch);
    assert_eq!(attempts(&shown), [("failed".to_owned(), false)], "{shown}");
    assert_eq!(shown["result"], "failed");
    assert_eq!(second.stop(), Some(0));
}
