//! Pools that groups with workers of their own share.

use serde_json::{Value, json};
use tidemill_model::Timestamp;

use crate::kit::{Cluster, until};

const JOBS: &str = r#"
jobs:
- {name: first, group: demo, type: shell, command: sleep 600, pools: [{name: line, weight: 2}]}
- {name: second, group: mail, type: shell, command: 'echo $TIDEMILL_JOB >> "$TIDEMILL_PARAM_DIR/ran"', pools: [line]}
- {name: other, group: mail, type: shell, command: 'echo $TIDEMILL_JOB >> "$TIDEMILL_PARAM_DIR/ran"'}
"#;
const TIME: Timestamp = Timestamp::constant(1_704_067_200);

fn batch_of(cluster: &Cluster, job: &str, state: &str) -> Value {
    let id = cluster.json(&["job", "show", job])["id"].clone();
    cluster.run_job(&id, TIME);
    until(&format!("{job} is {state}"), || {
        let batch = cluster.get(&format!("/api/batches?job={id}"))["items"][0].clone();
        (batch["state"] == state).then_some(batch)
    })
}

/// BYD-4: through REST: a pool without a group is shared by workers of two groups. What one group has, the other waits
/// for, and is told who has it; other jobs go on; what ends gives back, and the pool shows that.
#[test]
fn two_groups_share_the_slots_of_a_pool() {
    let mut cluster = Cluster::start();
    let key = cluster.json(&["group", "ls"])["items"][0]["worker_key"].clone();
    cluster.post("/api/groups", &json!({"name": "mail", "worker_key": key}));
    let defined = cluster.post("/api/pools", &json!({"name": "line", "slots": 2}));
    assert_eq!(defined["version"], 1, "{defined}");
    cluster.start_executor("executor-1", 1_000);
    cluster.start_executor_of("mail", "executor-2", 1_000);
    let file = cluster.path("jobs.yaml");
    std::fs::write(&file, JOBS).unwrap();
    let dir = format!("dir={}", cluster.path("").display());
    cluster.json(&["job", "apply", "-f", file.to_str().unwrap(), "--param", &dir]);
    cluster.knows("mail/other");

    let first = batch_of(&cluster, "demo/first", "running")["id"].clone();
    let second = batch_of(&cluster, "mail/second", "waiting")["id"].clone();
    let message = until("the other group is told who has the slots", || {
        let why = cluster.get(&format!("/api/batches/{second}/why"));
        let condition = why["conditions"][0].clone();
        (condition["kind"] == "pool").then(|| condition["message"].as_str().unwrap().to_owned())
    });
    assert!(message.contains("pool line: 2 of 2 slots are taken: demo has 2"), "{message}");
    let shown = cluster.get("/api/pools/line");
    assert_eq!((&shown["used"], &shown["holders"][0]["batch"]), (&json!(2), &first), "{shown}");
    batch_of(&cluster, "mail/other", "finished");

    cluster.post(&format!("/api/batches/{first}/kill"), &json!({"reason": "enough"}));
    until("the other group has its turn", || {
        let batch = cluster.get(&format!("/api/batches/{second}"));
        (batch["result"] == "success").then_some(())
    });
    until("all of it is back", || (cluster.get("/api/pools/line")["used"] == 0).then_some(()));
    assert_eq!(std::fs::read_to_string(cluster.path("ran")).unwrap(), "other\nsecond\n");
    let checked = cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
}
