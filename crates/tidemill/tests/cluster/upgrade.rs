//! OPS-2, OPS-9: every role is replaced by a newer one, one after the other, under load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_client::{Client, Method};
use tidemill_model::{Event, LevelEvent, Timestamp};

use crate::kit::{Cluster, History, until};

const JOBS: &str = "jobs: [{name: nothing, group: demo, type: noop, max_concurrent: 1000}]";
const BEGIN: Timestamp = Timestamp::constant(1_704_067_200);
const EXECUTORS: [&str; 2] = ["executor-1", "executor-2"];
/// So long may a request be repeated until an interface answers it; docs/operations.md says how long decisions may pause.
const BOUND: Duration = Duration::from_secs(30);

/// Clients that go on asking for batches, each at the interfaces in turn, until they are told to stop. Gives how many batches
/// there are, and the longest time until one was accepted.
fn load(servers: &[String], key: &str, job: &Value, stop: &AtomicBool) -> (i64, Duration) {
    let clients: Vec<_> =
        servers.iter().map(|server| Client::builder(server).key(key).build().unwrap()).collect();
    let (mut number, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let logical_time = BEGIN + SignedDuration::from_mins(number);
        let body = json!({"logical_time": logical_time, "concurrent": true});
        let (key, path) = (format!("load-{number}"), format!("/api/jobs/{job}/run"));
        let begun_at = Instant::now();
        let mut turn = number as usize;
        let accepts = |client: &Client| {
            client.call(Method::Post, &path).idempotency_key(&key).body(&body).send::<Value>().is_ok()
        };
        while !accepts(&clients[turn % clients.len()]) {
            assert!(begun_at.elapsed() < BOUND, "request {number} was not accepted within {BOUND:?}");
            turn += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
        longest = longest.max(begun_at.elapsed());
        number += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    (number, longest)
}

fn level(cluster: &Cluster) -> Value {
    until("the owner of the catalogue answers", || {
        let output = cluster.run(&["level", "show", "-o", "json"]);
        serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success())
    })
}

/// The roles of the processes that read no more than the first level.
fn behind(cluster: &Cluster) -> Vec<String> {
    let state = level(cluster);
    assert_eq!(state["level"], 1, "{state}");
    let processes = state["processes"].as_array().unwrap().iter();
    let old = processes.filter(|process| process["reads"] == 1);
    old.map(|process| process["roles"][0].as_str().unwrap().to_owned()).collect()
}

/// Replaces every role; the level stays until the last old process has gone.
fn upgrade(cluster: &mut Cluster) {
    cluster.set("PROCESS__READS", "2");
    let mut left = behind(cluster).len();
    let mut goes_down = |cluster: &Cluster, what: &str| {
        left -= 1;
        if left > 0 {
            until(&format!("{what} is replaced"), || (behind(cluster).len() == left).then_some(()));
        }
    };
    for name in ["dispatcher-1", "dispatcher-2"] {
        cluster.role(name).stop();
        cluster.start_dispatcher(name);
        goes_down(cluster, name);
    }
    cluster.role("projector").stop();
    cluster.start_role("projector", "projector", &[]);
    goes_down(cluster, "projector");
    for name in ["api", "api-2"] {
        let listen = cluster.listens_at(name);
        cluster.role(name).stop();
        cluster.start_role(name, "api", &[("API__LISTEN", &listen)]);
        cluster.role(name).says(&["the interface listens on "]);
        goes_down(cluster, name);
    }
    cluster.role("producers").stop();
    cluster.start_producers("producers", &[]);
    goes_down(cluster, "producers");
    for name in EXECUTORS {
        cluster.role(name).stop();
        cluster.start_executor(name, 5_000);
        goes_down(cluster, name);
    }
    assert_eq!(left, 0, "each role was replaced");
}

/// One that is too old says so, with an exit code of its own.
fn is_refused(cluster: &mut Cluster, name: &str, role: &str) {
    cluster.start_role(name, role, &[("EXECUTOR__HOST", name)]);
    let (status, took) = cluster.role(name).ended();
    let lines = cluster.role(name).lines();
    assert_eq!(status.code(), Some(8), "{name}: {lines}");
    assert!(lines.contains("level 2") && lines.contains("reads up to level 1"), "{name}: {lines}");
    println!("an older {role} was refused after {took:.1?}");
}

/// OPS-2, OPS-9: the roles of a cluster are replaced one after the other while it works, by processes that read one level
/// more. Nothing is lost or done twice, no request waits for longer than the bound, the level is raised only after the last
/// old process, and an old one that comes afterwards is refused.
#[test]
fn every_role_is_upgraded_under_load() {
    let beats = [("PROCESS__HEARTBEAT_MS", "500"), ("PROCESS__EXPIRE_AFTER_MS", "20000")];
    let mut cluster = Cluster::start_with(&[("PROCESS__READS", "1"), beats[0], beats[1]]);
    let other = cluster.start_another_api("api-2", &[]);
    cluster.start_producers("producers", &[]);
    EXECUTORS.iter().for_each(|name| cluster.start_executor(name, 5_000));
    cluster.apply(JOBS);
    let job = cluster.json(&["job", "show", "demo/nothing"])["id"].clone();
    until("every process is registered", || (behind(&cluster).len() == 8).then_some(()));
    let (server, key) = cluster.api();
    let (servers, stop) = ([server, other], AtomicBool::new(false));
    let (batches, longest) = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&servers, &key, &job, &stop));
        upgrade(&mut cluster);
        until("the level is raised", || (level(&cluster)["level"] == 2).then_some(()));
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        loading.join().unwrap()
    });
    println!("{batches} batches while every role was replaced; the longest wait for one: {longest:.1?}");
    assert!(batches > 20, "{batches}");
    cluster.succeeded("group=demo", usize::try_from(batches.min(1_000)).unwrap());

    let mut journal = cluster.journal();
    let history = History::of(journal.events());
    assert_eq!(history.of_job("demo/nothing").len() as i64, batches, "lost or doubled");
    let is_raise = |event: &&Event| matches!(event, Event::Level(LevelEvent::Raised { .. }));
    assert_eq!(journal.events().filter(is_raise).count(), 1);
    cluster.set("PROCESS__READS", "1");
    for (name, role) in [("late", "projector"), ("late-dispatcher", "dispatcher"), ("executor-1", "executor")]
    {
        is_refused(&mut cluster, name, role);
    }
    cluster.set("PROCESS__READS", "2");
    let checked = cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}
