//! Reruns over several groups, on Kafka, with the owner of the catalogue killed in the middle.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use rustix::process::Signal;
use serde_json::{Value, json};
use tidemill_model::Timestamp;

use crate::kit::{Cluster, until};

/// A tenth of what `make rerun-full` does; the variables make it the whole.
fn size(variable: &str, tenth: usize) -> usize {
    std::env::var(variable).map_or(tenth, |text| text.parse().unwrap())
}

/// The first group has a worker; what the others run completes by itself.
const GROUPS: [(&str, &str); 4] = [("demo", "noop"), ("b", "anchor"), ("c", "anchor"), ("d", "anchor")];
/// However large it is.
const LONGEST: Duration = Duration::from_secs(900);

/// One DAG: a tree in each group, with edges from each group's into the next one's. Gives the job that all follow.
fn define(cluster: &Cluster, jobs: usize) -> String {
    let groups = cluster.json(&["group", "ls"]);
    let key = groups["items"][0]["worker_key"].clone();
    for (group, _) in &GROUPS[1..] {
        cluster.post("/api/groups", &json!({"name": group, "worker_key": key}));
    }
    let mut yaml = String::from("jobs:\n");
    let each = jobs / GROUPS.len();
    for (index, (group, kind)) in GROUPS.iter().enumerate() {
        for n in 0..each {
            let in_tree = (n > 0).then(|| format!("j{}", (n - 1) / 2));
            let from_before = (index > 0 && n % 5 == 0).then(|| format!("{}/j{n}", GROUPS[index - 1].0));
            let parents: Vec<String> = in_tree.into_iter().chain(from_before).collect();
            yaml.push_str(&format!(
                "- {{name: j{n}, group: {group}, type: {kind}, max_concurrent: 100, \
                 schedule: {{period: day, zone: UTC}}, parents: [{}]}}\n",
                parents.join(", ")
            ));
        }
    }
    let file = cluster.path("dag.yaml");
    std::fs::write(&file, yaml).unwrap();
    cluster.succeeds(&["job", "apply", "-f", file.to_str().unwrap()]);
    for (group, _) in GROUPS {
        cluster.knows(&format!("{group}/j{}", each - 1));
    }
    format!("{}/j0", GROUPS[0].0)
}

fn spec(cluster: &Cluster, root: &str, days: usize, concurrency: usize) -> i64 {
    let to = Timestamp::from(jiff::Timestamp::now()) - SignedDuration::from_hours(24);
    let from = to - SignedDuration::from_hours(24 * days as i64) + SignedDuration::from_secs(1);
    let body = json!({
        "jobs": [root], "cascade": "logic", "from": from, "to": to, "concurrency": concurrency, "reason": "C3",
    });
    let written = cluster.post("/api/reruns", &body);
    let (rerun, position) = (written["rerun"].as_i64().unwrap(), written["position"].as_str().unwrap());
    cluster.get(&format!("/api/reruns/{rerun}?at_least={position}"));
    rerun
}

fn shown(cluster: &Cluster, rerun: i64) -> Value {
    cluster.get(&format!("/api/reruns/{rerun}"))
}

/// Looks until the rerun is so far.
fn when(cluster: &Cluster, rerun: i64, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun_at = Instant::now();
    loop {
        let found = shown(cluster, rerun);
        if is_so(&found) {
            return found;
        }
        assert!(begun_at.elapsed() < LONGEST, "not within {LONGEST:?}: {what}; {found}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn in_state(cluster: &Cluster, rerun: i64, state: &str) -> Value {
    when(cluster, rerun, state, |found| found["state"] == state)
}

fn count(found: &Value, field: &str) -> u64 {
    found[field].as_u64().unwrap()
}

/// All of a list.
fn all(cluster: &Cluster, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = cluster.get(&format!("{path}?limit=1000{cursor}"));
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

/// C3; GEN-6, GEN-7: a rerun of a DAG over four groups, cascading by logic: what was planned is what ran, each after
/// what it waits for, never more at once than was requested; pause and cancel work; the owner is killed in the middle.
#[test]
fn rerun_of_a_dag_over_four_groups_is_what_was_planned() {
    let (days, jobs) = (size("TIDEMILL_RERUN_DAYS", 3), size("TIDEMILL_RERUN_JOBS", 50));
    let concurrency = size("TIDEMILL_RERUN_CONCURRENCY", 5);
    let mut cluster = Cluster::start();
    cluster.start_executor("executor-1", 1_000);
    let root = define(&cluster, jobs);
    let wanted = (jobs / GROUPS.len() * GROUPS.len() * days) as u64;

    let rerun = spec(&cluster, &root, days, concurrency);
    let planned = in_state(&cluster, rerun, "planned");
    assert_eq!((count(&planned, "planned"), count(&planned, "jobs_skipped")), (wanted, 0), "{planned}");
    assert_eq!(planned["groups"], json!(["b", "c", "d", "demo"]));
    let plan = all(&cluster, &format!("/api/reruns/{rerun}/batches"));
    assert_eq!(plan.len() as u64, wanted);
    for (batch, number) in plan.iter().zip(1..) {
        let is_root = batch["job_name"] == "j0" && batch["group"] == GROUPS[0].0;
        assert_eq!((batch["number"].as_i64(), batch["state"].as_str()), (Some(number), Some("planned")));
        assert_eq!(batch["after"].as_array().unwrap().is_empty(), is_root, "{batch}");
    }

    cluster.post(&format!("/api/reruns/{rerun}/approve"), &json!({}));
    when(&cluster, rerun, "some have ended", |found| count(found, "succeeded") > wanted / 10);
    cluster.post(&format!("/api/reruns/{rerun}/pause"), &json!({}));
    let paused = when(&cluster, rerun, "what runs has ended", |found| {
        found["state"] == "paused" && count(found, "started") == count(found, "succeeded")
    });
    assert!(count(&paused, "started") < wanted, "{paused}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(
        count(&shown(&cluster, rerun), "started"),
        count(&paused, "started"),
        "paused, nothing starts"
    );
    cluster.post(&format!("/api/reruns/{rerun}/resume"), &json!({}));
    let resumed = count(&paused, "started");
    when(&cluster, rerun, "it goes on", |found| count(found, "started") > resumed);

    let mut journal = cluster.journal();
    let owner = until("the catalogue is owned", || cluster.owners(&mut journal).swap_remove(0));
    cluster.signal(&owner, Signal::KILL);
    println!("{owner}, which owned the catalogue, is killed");
    let done = in_state(&cluster, rerun, "done");
    let ended = ["started", "succeeded"].map(|field| count(&done, field));
    assert_eq!(ended, [wanted, wanted], "{done}");
    let ran = all(&cluster, &format!("/api/reruns/{rerun}/batches"));
    let mut ended_at: BTreeMap<u64, Timestamp> = BTreeMap::new();
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    for batch in &ran {
        assert!(batch["state"] == "success" && batch["batch"].is_i64(), "{batch}");
        ended_at.insert(batch["number"].as_u64().unwrap(), time(&batch["settled_at"]));
    }
    for batch in &ran {
        for before in batch["after"].as_array().unwrap() {
            let before = ended_at[&before.as_u64().unwrap()];
            assert!(before <= time(&batch["started_at"]), "{batch} after {before}");
        }
    }
    cancelled_in_the_middle(&cluster, &root, days);
    let checked = cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
}

/// A second run of all is cancelled: nothing starts after that, and the journal shows no more.
fn cancelled_in_the_middle(cluster: &Cluster, root: &str, days: usize) {
    let rerun = spec(cluster, root, days, 2);
    let planned = in_state(cluster, rerun, "planned");
    cluster.post(&format!("/api/reruns/{rerun}/approve"), &json!({}));
    when(cluster, rerun, "some have ended", |found| count(found, "succeeded") > 5);
    cluster.post(&format!("/api/reruns/{rerun}/cancel"), &json!({"kill": true}));
    let over = in_state(cluster, rerun, "cancelled");
    assert!(count(&over, "started") < count(&planned, "planned"), "{over}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(count(&shown(cluster, rerun), "started"), count(&over, "started"));
    let again = cluster.run(&["rerun", "resume", &rerun.to_string()]);
    assert_eq!(again.status.code(), Some(4), "{}", String::from_utf8_lossy(&again.stderr));
}
