//! A cluster whose dispatchers begin with each other's snapshots.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::kit::{Cluster, until};

const JOBS: &str = "jobs:\n- {name: nothing, group: demo, type: noop, max_concurrent: 100}\n\
                    - {name: waits, group: demo, type: noop, third_party: [erp]}\n";

fn kill_dispatchers(cluster: &Cluster, names: &[&str]) {
    names.iter().for_each(|name| cluster.signal(name, Signal::KILL));
}

/// EVT-6: the dispatcher that takes over begins with a snapshot that another one took, and everything is as before; when all
/// snapshots are gone, the next one folds the journals from their first records, and it is as before again.
#[test]
fn dispatcher_that_takes_over_begins_with_another_ones_snapshot() {
    let place = tempfile::tempdir().unwrap();
    let snapshots = place.path().join("snapshots");
    let mut cluster = Cluster::start_with(&[
        ("SNAPSHOTS__PLACE", snapshots.to_str().unwrap()),
        ("SNAPSHOTS__EVERY_EVENTS", "1"),
        ("PROCESS__HEARTBEAT_MS", "500"),
    ]);
    cluster.start_executor("executor-1", 1_000);
    cluster.apply(JOBS);
    let run = |cluster: &Cluster| cluster.succeeds(&["job", "run", "demo/nothing", "--concurrent", "--wait"]);
    (0..3).for_each(|_| drop(run(&cluster)));
    let waiting = cluster.json(&["job", "run", "demo/waits"])["batch"].to_string();
    let past = tidemill_model::Timestamp::from(jiff::Timestamp::now()).to_string();
    run(&cluster);
    let named = |cluster: &Cluster| {
        let answer = cluster.json(&["snapshots", "check"]);
        let of = |partition: u32| answer["partitions"][partition as usize]["snapshot"].is_string();
        (of(0) && of(Cluster::DEMO)).then_some(())
    };
    until("snapshots are named", || named(&cluster));
    let why = |cluster: &Cluster| -> Vec<Value> {
        let now = cluster.json(&["batch", "why", &waiting]);
        let then = cluster.json(&["batch", "why", &waiting, "--as-of", &past]);
        vec![now["conditions"].clone(), then["conditions"].clone()]
    };
    let before = why(&cluster);
    assert_eq!(before[0][0]["kind"], "third_party", "{before:?}");
    kill_dispatchers(&cluster, &["dispatcher-1", "dispatcher-2"]);
    cluster.start_dispatcher("dispatcher-3");
    println!("{}", cluster.role("dispatcher-3").says(&["begins with the snapshot of record"]));
    run(&cluster);
    assert_eq!(why(&cluster), before);
    kill_dispatchers(&cluster, &["dispatcher-3"]);
    fs::remove_dir_all(&snapshots).unwrap();
    cluster.start_dispatcher("dispatcher-4");
    cluster.role("dispatcher-4").says(&["begins with the first record: no snapshot counts"]);
    run(&cluster);
    assert_eq!(why(&cluster), before);
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
    assert_eq!(cluster.json(&["verify", "--journal"])["finding_count"], 0);
}
