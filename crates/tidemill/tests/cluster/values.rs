//! Values that go from a worker of one group to one of another.

use serde_json::{Value, json};
use tidemill_model::Timestamp;

use crate::kit::{Cluster, until};

const TIME: Timestamp = Timestamp::constant(1_704_067_200);
const JOBS: &str = r#"
jobs:
- {name: count, group: demo, type: shell, command: 'cp "$TIDEMILL_PARAM_DIR/counted" "$TIDEMILL_VALUES"'}
- name: tell
  group: mail
  type: shell
  parents: [demo/count]
  parameters: {rows: '${values.demo/count.rows}'}
  command: 'echo "$TIDEMILL_PARAM_ROWS rows" >> "$TIDEMILL_PARAM_DIR/told"'
"#;

fn newest(cluster: &Cluster, group: &str, run: u32) -> String {
    let ended = || {
        let batches = cluster.get(&format!("/api/batches?group={group}"));
        let of_run = |batch: &&Value| batch["run"] == run && batch["state"] == "finished";
        batches["items"].as_array().unwrap().iter().find(of_run).cloned()
    };
    let batch = until(&format!("run {run} of {group} ends"), ended);
    assert_eq!(batch["result"], "success", "{batch}");
    batch["id"].to_string()
}

/// BYD-20, DEP-3: what a process of one group's worker passes on is in the environment of a process of another group's;
/// after a rerun of the parent it is what the rerun passed on.
#[test]
fn values_go_from_worker_to_worker_of_another_group() {
    let mut cluster = Cluster::start();
    let key = cluster.json(&["group", "ls"])["items"][0]["worker_key"].clone();
    cluster.post("/api/groups", &json!({"name": "mail", "worker_key": key}));
    cluster.start_executor("executor-1", 1_000);
    cluster.start_executor_of("mail", "executor-2", 1_000);
    let file = cluster.path("jobs.yaml");
    std::fs::write(&file, JOBS).unwrap();
    let dir = format!("dir={}", cluster.path("").display());
    cluster.json(&["job", "apply", "-f", file.to_str().unwrap(), "--param", &dir]);
    cluster.knows("mail/tell");
    let mut journal = cluster.journal();
    until("the parent's group knows that another one wants its batches", || {
        (journal.events().filter(|event| event.kind() == "parent.subscribed").count() >= 2).then_some(())
    });
    let job = cluster.json(&["job", "show", "demo/count"])["id"].clone();

    std::fs::write(cluster.path("counted"), r#"{"rows": "42"}"#).unwrap();
    cluster.run_job(&job, TIME);
    let count = newest(&cluster, "demo", 0);
    let tell = newest(&cluster, "mail", 0);
    std::fs::write(cluster.path("counted"), r#"{"rows": "43"}"#).unwrap();
    cluster.json(&["batch", "rerun", &count]);
    let again = newest(&cluster, "demo", 1);
    cluster.json(&["batch", "rerun", &tell]);
    newest(&cluster, "mail", 1);

    assert_eq!(std::fs::read_to_string(cluster.path("told")).unwrap(), "42 rows\n43 rows\n");
    assert_eq!(cluster.json(&["batch", "show", &again])["attempts"][0]["values"], json!({"rows": "43"}));
    let checked = cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}
