//! Requests and texts that one user sends, and what else they could reach.

use serde_json::json;

use crate::server::{Server, code, run_job, text};

/// API-4: a key that was used for another request gets 409, nothing is done, and the first request keeps its answer. Whoever
/// got a 200 there believed that the second one had been done.
#[test]
fn key_of_another_request_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop}, {name: b, group: default, type: noop}]");
    let id = |job: &str| server.json(&["job", "show", &format!("default/{job}")])["id"].clone();
    let run = |job: &str| format!("/api/jobs/{}/run", id(job));
    let (a, b) = (run("a"), run("b"));
    let at = |hour: u32| json!({"logical_time": format!("2026-01-01T{hour:02}:00:00Z")});
    let (status, first) = server.post(&a, "key", &at(1));
    assert_eq!(status, 200, "{first}");
    for (path, body) in [(&a, at(2)), (&b, at(1)), (&a, json!({}))] {
        let (status, answer) = server.post(path, "key", &body);
        assert_eq!(
            (status, &answer["code"]),
            (409, &"idempotency_key_reused".into()),
            "{path} {body}: {answer}"
        );
        assert_eq!(answer["errors"][0]["field"], "Idempotency-Key", "{answer}");
    }
    // How fresh the answer has to be is no part of what is asked for.
    let (status, again) =
        server.post(&format!("{a}?at_least={}", first["position"].as_str().unwrap()), "key", &at(1));
    assert_eq!((status, &again["batch"]), (200, &first["batch"]), "{again}");
    let batches = server.json(&["batch", "ls"]);
    assert_eq!(batches["items"].as_array().map(Vec::len), Some(1), "{batches}");
}

/// OPS-7: one user's definition whose templates would become gigabytes fails its own batches, and says why; the partition
/// works on, also after a start anew.
#[test]
fn definition_that_would_become_gigabytes_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let large = json!({"jobs": [
        {"name": "large", "group": "default", "type": "shell", "command": "${param.p}".repeat(6_000), "parameters": {"p": "x".repeat(60_000)}},
        {"name": "good", "group": "default", "type": "shell", "command": "true"},
    ]});
    let server = Server::start(dir.path());
    server.apply(&large.to_string());
    let batch = server.json(&["job", "run", "default/large"])["batch"].to_string();
    let waited = server.run(&["batch", "wait", &batch]);
    assert_ne!(code(&waited), 0);
    let shown = server.json(&["batch", "show", &batch]);
    let message = shown["message"].as_str().unwrap_or_default();
    assert!(message.contains("makes the text longer than"), "{shown}");
    let id = server.json(&["job", "show", "default/large"])["id"].clone();
    let (status, preview) = server.get(&format!("/api/jobs/{id}/preview"));
    assert!(status == 422 && preview["detail"].to_string().contains("longer than"), "{status} {preview}");
    run_job(&server, "default/good");
    server.stop();
    let server = Server::start(dir.path());
    run_job(&server, "default/good");
    let verified = server.run(&["verify", "--journal"]);
    assert_eq!(code(&verified), 0, "{}", text(&verified.stdout));
}
