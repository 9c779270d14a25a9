//! Which of two machines a batch goes to.

use std::fs;
use std::path::Path;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_model::Timestamp;

use crate::kit::{Cluster, until};

const JOBS: &str = r#"
jobs:
- {name: anywhere, group: demo, type: noop, max_concurrent: 99}
- {name: pinned, group: demo, type: noop, host: large, max_concurrent: 99}
- {name: labelled, group: demo, type: noop, worker_label: quick, max_concurrent: 99}
"#;

/// What the one machine says of the last minute, and five, and fifteen.
fn load(file: &Path, minute: &str) {
    // In place, since it is this file that is seen there.
    fs::write(file, format!("{minute} 0.00 0.00 1/100 1\n")).unwrap();
}

fn run(cluster: &Cluster, job: &str, number: i64) -> String {
    let time = Timestamp::constant(1_704_067_200) + SignedDuration::from_hours(number);
    cluster.json(&["job", "run", &format!("demo/{job}"), "--concurrent", "--logical-time", &time.to_string()])
        ["batch"]
        .to_string()
}

/// The host that a batch ran on.
fn host(cluster: &Cluster, batch: &str) -> String {
    let shown = until(&format!("batch {batch} ends"), || {
        Some(cluster.get(&format!("/api/batches/{batch}"))).filter(|shown| shown["state"] == "finished")
    });
    assert_eq!(shown["result"], "success", "{shown}");
    cluster.host_of(&shown["attempts"][0]["id"].to_string())
}

fn is_overloaded(cluster: &Cluster, host: &str, wanted: bool) {
    until(&format!("{host} is overloaded: {wanted}"), || {
        let workers = cluster.get("/api/workers");
        let worker = workers["items"].as_array()?.iter().find(|worker| worker["host"] == host)?.clone();
        (worker["overloaded"] == wanted && !worker["load_percent"].is_null()).then_some(())
    });
}

/// DSP-4, MON-7: of two machines a batch goes to the one with most free slots; one whose load is beyond the group's
/// bound gets nothing, however many slots are free there, what is pinned to it waits and says so, and it gets work again
/// when its load has fallen. A batch goes to a worker of the group that its job names.
#[test]
fn work_goes_by_slots_load_host_and_worker_group() {
    let mut cluster = Cluster::start();
    let key = cluster.json(&["group", "ls"])["items"][0]["worker_key"].clone();
    let settings = json!({"max_load_percent": 100, "lost_after_ms": 60_000, "lease_ms": 120_000});
    cluster.post("/api/groups", &json!({"name": "demo", "worker_key": key, "settings": settings}));
    let loads = ["large", "small"].map(|host| cluster.path(&format!("load-of-{host}")));
    loads.iter().for_each(|file| load(file, "0.00"));
    cluster.start_executor_under(&loads[0], "large", &[("EXECUTOR__SLOTS", "noop=9")]);
    let small = [("EXECUTOR__SLOTS", "noop=3"), ("EXECUTOR__LABELS", "quick")];
    cluster.start_executor_under(&loads[1], "small", &small);
    cluster.apply(JOBS);
    is_overloaded(&cluster, "large", false);
    is_overloaded(&cluster, "small", false);
    assert_eq!(host(&cluster, &run(&cluster, "anywhere", 0)), "large", "it has most slots");
    assert_eq!(host(&cluster, &run(&cluster, "labelled", 0)), "small");

    load(&loads[0], "9999.00");
    is_overloaded(&cluster, "large", true);
    for number in 1..4 {
        assert_eq!(host(&cluster, &run(&cluster, "anywhere", number)), "small");
    }
    let pinned = run(&cluster, "pinned", 0);
    let why = cluster.json(&["batch", "why", &pinned]);
    let condition = &why["conditions"][0];
    assert_eq!(condition["kind"], "worker_overloaded", "{why}");
    assert!(
        condition["message"].as_str().unwrap().contains("get no work until they have recovered"),
        "{why}"
    );

    load(&loads[0], "0.00");
    assert_eq!(host(&cluster, &pinned), "large");
    is_overloaded(&cluster, "large", false);
    assert_eq!(host(&cluster, &run(&cluster, "anywhere", 4)), "large");
    let checked = cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], Value::from(0), "{checked:#}");
}
