//! ZMB-1: what becomes of attempts whose executor does not come back.

use serde_json::Value;
use tidemill_model::Timestamp;

use crate::kit::{Cluster, until};

/// Both go by a path: one makes it, the other finds one that stood there before.
const JOBS: &str = r#"
jobs:
- name: makes
  group: demo
  type: shell
  retries: 0
  success_check: {output_path: '${param.dir}/made'}
  command: 'touch "$TIDEMILL_PARAM_DIR/made"; exec sleep 1000'
- name: finds
  group: demo
  type: shell
  retries: 0
  success_check: {output_path: '${param.dir}/found'}
  command: 'touch "$TIDEMILL_PARAM_DIR/began"; exec sleep 1000'
"#;
const TIME: Timestamp = Timestamp::constant(1_704_067_200);

fn finished(cluster: &Cluster, job: &str) -> Value {
    until(&format!("the batch of {job} is finished"), || {
        let batches = cluster.json(&["batch", "ls", "--job", job]);
        let batch = batches["items"].get(0)?["id"].to_string();
        Some(cluster.json(&["batch", "show", &batch])).filter(|shown| shown["state"] == "finished")
    })
}

/// ZMB-1: the executor is killed and does not come back, so a prober looks for the outputs when its lease is over: what the attempt
/// has made is its success, and what stood there before is none.
#[test]
fn prober_judges_what_an_executor_that_is_gone_has_left() {
    let mut cluster = Cluster::start();
    cluster.start_role("producers", "producers", &[]);
    let dir = format!("dir={}", cluster.path("").display());
    let file = cluster.path("jobs.yaml");
    std::fs::write(&file, JOBS).unwrap();
    std::fs::write(cluster.path("found"), "of yesterday").unwrap();
    cluster.json(&["job", "apply", "-f", file.to_str().unwrap(), "--param", &dir]);
    cluster.knows("demo/finds");
    until("the level is raised", || (cluster.json(&["level", "show"])["level"].as_u64()? >= 3).then_some(()));
    cluster.start_executor("executor-1", 30_000);
    // The found one is older by more than a second, to which some stores tell it.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    for job in ["demo/makes", "demo/finds"] {
        let id = cluster.json(&["job", "show", job])["id"].clone();
        cluster.run_job(&id, TIME);
    }
    for file in ["made", "began"] {
        until(&format!("{file} is there"), || cluster.path(file).exists().then_some(()));
    }
    cluster.role("executor-1").kill();

    let made = finished(&cluster, "demo/makes");
    let message = made["message"].as_str().unwrap();
    assert_eq!(made["result"], "success", "{made}");
    assert!(message.contains("made changed at") && message.contains("so it has succeeded"), "{message}");
    assert_eq!(made["attempts"][0]["result"], "lost", "{made}");
    let found = finished(&cluster, "demo/finds");
    let message = found["message"].as_str().unwrap();
    assert_eq!(found["result"], "failed", "{found}");
    assert!(message.contains("found changed last at") && message.contains("proves nothing"), "{message}");
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}
