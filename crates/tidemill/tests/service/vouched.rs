//! EXE-12: a person vouches for the end of an attempt that cannot be killed.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::server::{Server, run_job, until};

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

fn signal(name: &str, process: &str) -> bool {
    Command::new("kill").args([name, process]).status().unwrap().success()
}

/// EXE-12: the shim of a job is stopped, so that a kill cannot be carried out. Vouching is refused until the end was requested,
/// without a reason, and for another attempt; then the batch ends as killed, its attempt as lost, and what ran is killed once the
/// shim can do it.
#[test]
fn attempt_that_cannot_be_killed_ends_by_a_persons_word() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let server = Server::start(&dir.path().join("data"));
    until("level 3 stands", || (server.json(&["level", "show"])["level"].as_u64() >= Some(3)).then_some(()));
    let write = format!("echo $PPID $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", pids.display());
    server.apply(&format!(
        "jobs: [{{name: stuck, group: default, type: shell, retries: 2, command: '{write}'}}]"
    ));
    let batch = run_job(&server, "default/stuck");
    let written = until("it runs", || fs::read_to_string(&pids).ok());
    let (shim, job) = written.trim().split_once(' ').unwrap();
    assert!(signal("-STOP", shim));
    let attempt = until("its start is on record", || shown(&server, &batch)["attempts"][0]["id"].as_i64());
    let path = format!("/api/batches/{batch}/vouch");
    let vouch = |attempt: i64, reason: &str| {
        let request = format!("vouch {attempt} {reason}");
        server.post(&path, &request, &json!({"attempt": attempt, "reason": reason}))
    };

    let (status, told) = vouch(attempt, "looked");
    assert!(status == 422 && told.to_string().contains("tidemill batch kill"), "{status} {told}");
    server.json(&["batch", "kill", &batch]);
    until("the end is requested", || shown(&server, &batch)["kill_requested_at"].as_str().map(drop));
    let (status, told) = vouch(attempt, " ");
    assert!(status == 422 && told.to_string().contains("say how you know"), "{status} {told}");
    let (status, told) = vouch(attempt + (1 << 12), "looked");
    assert!(status == 422 && told.to_string().contains("attempt"), "{status} {told}");
    assert_eq!(shown(&server, &batch)["state"], "running");

    server.json(&[
        "batch",
        "vouch",
        &batch,
        "--attempt",
        &attempt.to_string(),
        "--reason",
        "its disk is dead",
    ]);
    let ended =
        until("the batch ends", || Some(shown(&server, &batch)).filter(|batch| batch["state"] == "finished"));
    assert_eq!(
        (&ended["result"], &ended["attempts"][0]["result"]),
        (&json!("killed"), &json!("lost")),
        "{ended}"
    );
    let message = ended["attempts"][0]["message"].as_str().unwrap();
    assert!(message.contains("its disk is dead"), "{message}");
    assert!(signal("-CONT", shim));
    until("nothing of it is left", || (!signal("-0", job)).then_some(()));
    assert_eq!(server.stop(), Some(0));
}
