//! Assignments that are not started.

use rustix::process::Signal;
use serde_json::json;
use tidemill_model::Timestamp;

use crate::kit::{Cluster, until};

const JOBS: &str = r#"
jobs:
- name: once
  group: demo
  type: shell
  command: 'echo "$TIDEMILL_TOKEN" >> "$TIDEMILL_PARAM_DIR/ran"'
"#;
const TIME: Timestamp = Timestamp::constant(1_704_067_200);

/// DSP-5: what a worker was assigned and does not start goes to another one, and the log of that names the first. When
/// that one wakes, it may not start any more: the batch runs once.
#[test]
fn what_a_stopped_worker_does_not_start_goes_to_another() {
    let mut cluster = Cluster::start();
    let settings = json!({
        "start_timeout_ms": 2_000, "lost_after_ms": 120_000, "lease_ms": 180_000, "lease_margin_ms": 500,
    });
    let key = cluster.json(&["group", "ls"])["items"][0]["worker_key"].clone();
    cluster.post("/api/groups", &json!({"name": "demo", "worker_key": key, "settings": settings}));
    let file = cluster.path("jobs.yaml");
    std::fs::write(&file, JOBS).unwrap();
    let dir = format!("dir={}", cluster.path("").display());
    cluster.json(&["job", "apply", "-f", file.to_str().unwrap(), "--param", &dir]);
    cluster.knows("demo/once");

    cluster.start_executor("sleeping", 1_000);
    cluster.signal("sleeping", Signal::STOP);
    let job = cluster.json(&["job", "show", "demo/once"])["id"].clone();
    cluster.run_job(&job, TIME);
    let batch = until("it is assigned to the worker that stands still", || {
        let batch = cluster.get("/api/batches?group=demo")["items"][0].clone();
        (batch["state"] == "assigned").then_some(batch)
    });
    let id = batch["id"].to_string();
    cluster.start_executor("awake", 1_000);
    cluster.succeeded("group=demo", 1);
    let log = cluster.json(&["batch", "returns", &id]);
    let items = log["items"].as_array().unwrap();
    assert!(!items.is_empty() && items[0]["worker"] == batch["worker"], "{log}");
    let attempts = cluster.json(&["batch", "show", &id])["attempts"].clone();
    assert_ne!(attempts.as_array().unwrap().last().unwrap()["worker"], batch["worker"], "{attempts}");

    cluster.signal("sleeping", Signal::CONT);
    cluster.role("sleeping").stop();
    let ran = std::fs::read_to_string(cluster.path("ran")).unwrap();
    assert_eq!(ran.lines().count(), 1, "{ran}");
}
