//! DSP-4, DSP-5: memory, owners and returned assignments through the command line.

use crate::server::{Server, run_job, text, until};
use serde_json::Value;

/// DSP-4: a batch that needs more memory than any worker has waits and says so; one that needs less runs. MON-7: what
/// the worker's machine has is shown.
#[test]
fn memory_decides_where_a_batch_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs:\n\
        - {name: huge, group: default, type: noop, memory_mb: 16000000}\n\
        - {name: small, group: default, type: noop, memory_mb: 1}\n",
    );
    let (huge, small) = (run_job(&server, "default/huge"), run_job(&server, "default/small"));
    until("the small one runs", || {
        Some(server.json(&["batch", "show", &small])).filter(|batch| batch["result"] == "success")
    });
    let why = server.json(&["batch", "why", &huge]);
    assert_eq!(why["conditions"][0]["kind"], "no_memory", "{why}");
    let worker = until("the worker's machine", || {
        let workers = server.json(&["worker", "ls"]);
        Some(workers["items"][0].clone()).filter(|worker| worker["memory_total_mb"].is_i64())
    });
    assert!(worker["memory_total_mb"].as_i64() > Some(0), "{worker}");
    assert_eq!(worker["overloaded"], Value::Bool(false), "{worker}");
    assert_eq!(server.json(&["batch", "returns", &huge])["items"], Value::Array(Vec::new()));
}

/// DSP-4, JOB-1: the need for memory survives export and apply, and a bad one is refused by name.
#[test]
fn memory_round_trips_and_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop, memory_mb: 512}]\n");
    let exported = server.run(&["job", "export", "--group", "default"]);
    assert!(text(&exported.stdout).contains("memory_mb: 512"), "{}", text(&exported.stdout));
    let again = server.apply(&text(&exported.stdout));
    assert_eq!(again["changes"][0]["change"], "unchanged", "{again}");
    std::fs::write(
        dir.path().join("bad.yaml"),
        "jobs: [{name: b, group: default, type: noop, memory_mb: 0}]\n",
    )
    .unwrap();
    let refused = server.run(&["job", "apply", "-f", dir.path().join("bad.yaml").to_str().unwrap()]);
    let told = text(&refused.stdout) + &text(&refused.stderr);
    assert!(!refused.status.success() && told.contains("memory_mb"), "{told}");
}
