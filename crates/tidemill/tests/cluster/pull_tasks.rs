//! Tasks that clients pull, on Kafka and MariaDB, while the owner of their group is killed.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use rustix::process::Signal;
use serde_json::{Value, json};
use tidemill_model::Timestamp;

use crate::kit::{Cluster, until};

const USERS: usize = 20;
const TIMES: usize = 6;

/// Asked until an owner answers.
fn pull(cluster: &Cluster, user: &str) -> Value {
    until(&format!("{user} is answered"), || {
        let output = cluster.run(&["pull", "next", user, "-o", "json"]);
        output
            .status
            .success()
            .then(|| serde_json::from_slice::<Value>(&output.stdout).unwrap()["grant"].clone())
    })
}

fn complete(cluster: &Cluster, user: &str, grant: &Value) {
    until(&format!("{grant} of {user} is completed"), || {
        let output = cluster.run(&["pull", "complete", user, &grant.to_string(), "--result", "fine"]);
        output.status.success().then_some(())
    });
}

/// PUL-4, PUL-8, BYD-10: of 20 users 6 get it and no more, also where the owner dies in the middle; what somebody had
/// it still has; the ledger adds up; tables and journal agree. PUL-12: so do the task logs, though a sink dies, too.
#[test]
fn six_of_twenty_get_it_though_the_owner_dies() {
    let mut cluster = Cluster::start();
    cluster.start_sink("sink");
    cluster.post("/api/pull/templates", &json!({"name": "count", "fields": {"text": {"type": "string"}}}));
    let users: Vec<String> = (0..USERS).map(|n| format!("u{n}")).collect();
    let assigned = cluster.post("/api/pull/users", &json!({"group": "demo", "users": users}));
    cluster.get(&format!("/api/pull/users?at_least={}", assigned["position"].as_str().unwrap()));
    let start = Timestamp::from(jiff::Timestamp::now()) - SignedDuration::from_mins(1);
    let made = cluster.post(
        "/api/pull/tasks",
        &json!({
            "executor": {"group": "demo"}, "template": "count", "parameters": {"text": "a b"},
            "when": {"once": {"start": start}}, "dispatch_times": TIMES,
        }),
    );
    let task = made["task"].to_string();

    let held: Vec<Value> = users[..3].iter().map(|user| pull(&cluster, user)).collect();
    complete(&cluster, &users[0], &held[0]["grant"]);
    let mut journal = cluster.journal();
    let owner =
        until("the group is owned", || cluster.owners(&mut journal).swap_remove(Cluster::DEMO as usize));
    cluster.signal(&owner, Signal::KILL);
    println!("{owner}, which owned the group, is killed");
    cluster.signal("sink", Signal::KILL);

    let again = pull(&cluster, &users[1]);
    assert_eq!((&again["grant"], &again["redo"]), (&held[1]["grant"], &json!(true)), "{again}");
    let mut got: BTreeSet<usize> = [0].into();
    for (number, user) in users.iter().enumerate().skip(1) {
        let grant = pull(&cluster, user);
        if !grant.is_null() {
            complete(&cluster, user, &grant["grant"]);
            got.insert(number);
        }
    }
    assert_eq!(got.len(), TIMES, "{got:?}");
    assert!(got.contains(&1) && got.contains(&2), "{got:?}");
    assert!(users.iter().all(|user| pull(&cluster, user).is_null()));

    cluster.start_sink("sink");
    until("the task logs show it", || {
        let logs = cluster.database.column(
            "SELECT CONCAT_WS(' ', state, template, parameters, result) FROM tidemill_task_log ORDER BY grant_id",
        );
        (logs == vec![r#"completed count {"text":"a b"} fine"#; TIMES]).then_some(())
    });
    until("the status shows how far the sink is", || {
        let sinks = cluster.json(&["status"])["sinks"].clone();
        let partition = &sinks[0]["partitions"][Cluster::DEMO as usize];
        let is_whole =
            sinks[0]["sink"] == "mysql" && partition["error"].is_null() && partition["stopped"] == false;
        (is_whole && partition["noted_at"].is_string() && partition["changes"].as_u64() > Some(0))
            .then_some(())
    });
    let wanted = json!({
        "taken": TIMES, "live": 0, "completed": TIMES, "returned": 0, "expired": 0, "balanced": true,
    });
    assert_eq!(cluster.json(&["pull", "task", "ledger", &task, "--live"])["totals"], wanted);
    until("the tables show it", || {
        let shown = cluster.json(&["pull", "task", "ledger", &task]);
        (shown["totals"] == wanted && shown["items"][0]["stock"] == 0).then_some(())
    });
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
    let checked = cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
}
