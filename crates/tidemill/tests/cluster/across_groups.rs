//! A chain of jobs through three groups, whose middle one loses its owner.

use rustix::process::Signal;
use serde_json::{Value, json};
use tidemill_client::Method;
use tidemill_model::{ShardId, Timestamp};

use crate::kit::{Cluster, History, until};

/// The partition of the second group's shard, which is the middle one's.
const MIDDLE: usize = 2;
const FIRST: Timestamp = Timestamp::constant(1_704_067_200);
const SECOND: Timestamp = Timestamp::constant(1_704_070_800);

fn jobs(go: &str) -> String {
    format!(
        "jobs:\n\
         - {{name: extract, group: demo, type: shell, max_concurrent: 9,\n\
            command: 'while [ ! -e \"{go}\" ]; do sleep 0.1; done'}}\n\
         - {{name: refine, group: middle, type: anchor, parents: [demo/extract]}}\n\
         - {{name: report, group: last, type: anchor, parents: [middle/refine]}}\n\
         - {{name: mail, group: demo, type: noop, parents: [last/report]}}\n"
    )
}

fn count(cluster: &Cluster, job: &str) -> usize {
    let id = &cluster.json(&["job", "show", job])["id"];
    cluster.get(&format!("/api/batches?job={id}"))["items"].as_array().unwrap().len()
}

/// DEP-3, GEN-9, OPS-6: the owner of the middle group dies while its batch waits for the first group's, and another
/// logical time is generated meanwhile. The next owner hears all of it, once, and each group does its part.
#[test]
fn a_chain_through_groups_outlives_the_owner_of_its_middle() {
    let mut cluster = Cluster::start();
    cluster.start_executor("executor-1", 1_000);
    let groups = cluster.json(&["group", "ls"]);
    let key = groups["items"][0]["worker_key"].clone();
    for name in ["middle", "last"] {
        cluster.post("/api/groups", &json!({"name": name, "worker_key": key}));
    }
    let go = cluster.path("go");
    cluster.apply(&jobs(go.to_str().unwrap()));
    let extract = cluster.json(&["job", "show", "demo/extract"])["id"].clone();
    let mut journal = cluster.journal();
    let owner = cluster.both_own(&mut journal)[MIDDLE].clone();

    cluster.run_job(&extract, FIRST);
    until("the middle waits for the first", || (count(&cluster, "middle/refine") == 1).then_some(()));
    cluster.role(&owner).kill();
    // Nobody owns the middle now; the first group, whose owner may be the same, goes on as soon as it can.
    cluster.run_job(&extract, SECOND);
    std::fs::write(&go, "").unwrap();
    let other = cluster.other_owner(&mut journal, MIDDLE as u32, &owner);
    println!("{other} took over the middle from {owner}");

    for group in ["demo", "middle", "last"] {
        cluster.succeeded(&format!("group={group}"), if group == "demo" { 4 } else { 2 });
    }
    let history = History::of(journal.events());
    for job in ["demo/extract", "middle/refine", "last/report", "demo/mail"] {
        let mut times: Vec<Timestamp> = history.of_job(job).iter().map(|story| story.logical_time).collect();
        times.sort_unstable();
        assert_eq!(times, [FIRST, SECOND], "{job}");
    }
    let checked: Value = cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}

/// JOB-5, GEN-9: on Kafka, too, a run by hand right after an `apply` brings forth the batches of all jobs that follow, in
/// groups of other partitions and owners.
#[test]
fn a_run_right_after_an_apply_reaches_children_in_other_groups() {
    const ROUNDS: usize = 4;
    let cluster = Cluster::start();
    let groups = cluster.json(&["group", "ls"]);
    let key = groups["items"][0]["worker_key"].clone();
    for name in ["middle", "last"] {
        cluster.post("/api/groups", &json!({"name": name, "worker_key": key}));
    }
    let anchor = |name: String, group: &str, parents: &[String]| json!({"name": name, "group": group, "type": "anchor", "parents": parents});
    for round in 0..ROUNDS {
        let mut jobs = vec![anchor(format!("root-{round}"), "demo", &[])];
        jobs.extend((0..100).map(|n| anchor(format!("beside-{round}-{n}"), ["middle", "last"][n % 2], &[])));
        jobs.push(anchor(format!("second-{round}"), "middle", &[format!("demo/root-{round}")]));
        jobs.push(anchor(format!("third-{round}"), "last", &[format!("middle/second-{round}")]));
        jobs.push(anchor(format!("fourth-{round}"), "demo", &[format!("last/third-{round}")]));
        let applied = cluster.post("/api/jobs/apply", &json!({ "jobs": jobs }));
        assert!(applied["pending_groups"].is_null(), "{applied}");
        cluster.post(&format!("/api/jobs/{}/run", applied["changes"][0]["job"]), &json!({}));
        for (group, jobs) in [("demo", 2), ("middle", 1), ("last", 1)] {
            cluster.succeeded(&format!("group={group}"), (round + 1) * jobs);
        }
    }
}

/// BYD-17, OPS-6: whoever is told that everything is frozen finds it so in every group. A group whose owner hangs is named
/// instead, and the same request once more is answered as soon as its next owner has it.
#[test]
fn a_freeze_is_in_force_where_it_is_said_to_be() {
    let cluster = Cluster::start_with(&[("API__PROPAGATION_TIMEOUT_MS", "3000")]);
    let groups = cluster.json(&["group", "ls"]);
    let key = groups["items"][0]["worker_key"].clone();
    let groups = ["demo", "middle", "last"];
    for name in &groups[1..] {
        cluster.post("/api/groups", &json!({"name": name, "worker_key": key}));
    }
    let jobs = groups.map(|group| json!({"name": "held", "group": group, "type": "anchor"}));
    let jobs = cluster.post("/api/jobs/apply", &json!({ "jobs": jobs }))["changes"].clone();
    let mut journal = cluster.journal();
    let owners = cluster.both_own(&mut journal);
    let hangs = owners.iter().find(|owner| **owner != owners[0]).unwrap().clone();
    let partitions = owners.len() as u32;
    // The catalogue's shard is 0, that of each group the next one.
    let is_late = |shard: u16| owners[ShardId(shard).partition(partitions) as usize] == hangs;
    let late = (1..).zip(groups).filter(|(shard, _)| is_late(*shard));
    let mut late: Vec<&str> = late.map(|(_, group)| group).collect();
    late.sort_unstable();
    cluster.signal(&hangs, Signal::STOP);
    let body = json!({"latest": "2020-01-01T00:00:00.000Z", "reason": "moved"});
    let freeze = || cluster.write(Method::Put, "/api/freezes/*", Some(&body));
    let mut named: Vec<String> = serde_json::from_value(freeze()["pending_groups"].clone()).unwrap();
    named.sort_unstable();
    assert_eq!(named, late);
    until("another owner has it", || freeze()["pending_groups"].is_null().then_some(()));
    for (job, group) in jobs.as_array().unwrap().iter().zip(groups) {
        let batch = cluster.post(&format!("/api/jobs/{}/run", job["job"]), &json!({}))["batch"].to_string();
        let why = cluster.json(&["batch", "why", &batch]);
        assert_eq!(why["conditions"][0]["kind"], "frozen", "{group}: {why}");
    }
    cluster.signal(&hangs, Signal::CONT);
    until("it is lifted everywhere", || {
        cluster.write(Method::Delete, "/api/freezes/*", None)["pending_groups"].is_null().then_some(())
    });
    for group in groups {
        cluster.succeeded(&format!("group={group}"), 1);
    }
}
