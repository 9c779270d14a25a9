//! Roles that are told to stop.

use std::time::Duration;

use rustix::process::Signal;
use tidemill_model::Timestamp;

use crate::kit::{Cluster, History, Journal, What, until};

/// What a role may take beyond the time that its settings give to others: less than the grace that it must not wait for.
const OWN: Duration = Duration::from_secs(30);
/// As configured: requests under way get this long.
const API_STOP: Duration = Duration::from_secs(5);
/// A job that waits for a file, and one that waits for long.
const JOBS: &str = r#"
jobs:
- name: waits
  group: demo
  type: shell
  retries: 1
  retry_interval_s: 1
  command: 'touch "$TIDEMILL_PARAM_DIR/started-$TIDEMILL_ATTEMPT"; until test -e "$TIDEMILL_PARAM_DIR/go"; do sleep 0.05; done'
- {name: long, group: demo, type: shell, command: 'touch "$TIDEMILL_PARAM_DIR/long"; exec sleep 1000'}
"#;
const TIME: Timestamp = Timestamp::constant(1_704_067_200);

fn apply(cluster: &Cluster) {
    let dir = format!("dir={}", cluster.path("").display());
    let file = cluster.path("jobs.yaml");
    std::fs::write(&file, JOBS).unwrap();
    cluster.json(&["job", "apply", "-f", file.to_str().unwrap(), "--param", &dir]);
    cluster.knows("demo/long");
}

fn run(cluster: &Cluster, job: &str) {
    let job = cluster.json(&["job", "show", job])["id"].clone();
    cluster.run_job(&job, TIME);
}

fn there(cluster: &Cluster, file: &str) {
    until(&format!("{file} is there"), || cluster.path(file).exists().then_some(()));
}

/// OPS-6: what runs at an executor that stops gets its grace. One that does not end in it is ended and handed
/// over to another executor; one that does end is on record before the executor goes. A second signal ends the
/// process at once.
#[test]
fn stopping_executor_finishes_or_hands_over() {
    let mut cluster = Cluster::start();
    apply(&cluster);
    cluster.start_executor("impatient", 500);
    run(&cluster, "demo/waits");
    there(&cluster, "started-1");
    cluster.start_executor("patient", 60_000);
    let took = cluster.role("impatient").stop();
    println!("an executor with 0.5 s of grace and a job that goes on: stopped in {took:.1?}");
    assert!(took < Duration::from_millis(500) + Duration::from_secs(1) + OWN, "{took:?}");

    there(&cluster, "started-2");
    cluster.signal("patient", Signal::TERM);
    cluster.role("patient").says(&["Stopping"]);
    std::fs::write(cluster.path("go"), "").unwrap();
    let (status, took) = cluster.role("patient").ended();
    println!("an executor whose job ends by itself: stopped {took:.1?} after that");
    assert_eq!(status.code(), Some(0));
    assert!(took < OWN, "{took:?}");
    cluster.succeeded("group=demo", 1);

    cluster.start_executor("hasty", 60_000);
    run(&cluster, "demo/long");
    there(&cluster, "long");
    cluster.signal("hasty", Signal::TERM);
    cluster.role("hasty").says(&["Stopping"]);
    cluster.signal("hasty", Signal::TERM);
    let (status, took) = cluster.role("hasty").ended();
    // What ran is killed, and that is on record.
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(took < OWN, "{took:?}");
    println!("an executor told twice: stopped in {took:.1?}");
    History::of(cluster.journal().events());
}

/// Whether the executor on `host` is in this state.
fn is(cluster: &Cluster, state: &str) -> Option<()> {
    let listed = cluster.json(&["worker", "ls"]);
    let workers = listed["items"].as_array()?;
    workers.iter().any(|worker| worker["host"] == "host" && worker["state"] == state).then_some(())
}

/// EXE-12, OPS-2: a stopped executor whose jobs stay leaves, and says so; meanwhile it gets nothing, and its next life takes over what
/// runs, as the attempt that it was. Then it is stopped with nothing running, has left, and nobody takes it for lost.
#[test]
fn stopped_executor_leaves_its_jobs_to_its_successor() {
    let mut cluster = Cluster::start();
    apply(&cluster);
    cluster.start_keeping_executor("host");
    run(&cluster, "demo/waits");
    there(&cluster, "started-1");
    let took = cluster.role("host").stop();
    assert!(took < OWN, "{took:?}");
    until("it leaves", || is(&cluster, "leaving"));
    cluster.start_keeping_executor("host");
    std::fs::write(cluster.path("go"), "").unwrap();
    cluster.succeeded("group=demo", 1);
    assert!(!cluster.path("started-2").exists(), "it ran once");
    cluster.role("host").stop();
    until("it has left", || is(&cluster, "left"));
    History::of(cluster.journal().events());
}

/// OPS-6: interface, dispatchers and projector end by themselves, in the order of an orderly stop. A dispatcher
/// hands over what it owns, so that the other need not wait until it is missed; the last one leaves a word too,
/// and the tables have it all.
#[test]
fn roles_stop_in_order() {
    let mut cluster = Cluster::start();
    cluster.apply("jobs: [{name: nothing, group: demo, type: anchor}]");
    run(&cluster, "demo/nothing");
    let mut journal = cluster.journal();
    let owner = cluster.both_own(&mut journal)[Cluster::DEMO as usize].clone();

    let took = cluster.role(&owner).stop();
    assert!(took < OWN, "{took:?}");
    let other = until("all is handed over", || {
        let owners = cluster.owners(&mut journal);
        owners.iter().all(|it| it.as_ref().is_some_and(|it| *it != owner)).then(|| owners[0].clone())
    });
    let other = other.unwrap();
    println!("{owner} stopped in {took:.1?} and handed over to {other}");
    assert!(resigned(&mut journal, Cluster::DEMO));
    run(&cluster, "demo/nothing");

    let mut times = Vec::new();
    // Somebody follows the feed: that must not keep the interface.
    let mut feed = cluster.follows();
    for role in ["api", other.as_str(), "projector"] {
        times.push((role.to_owned(), cluster.role(role).stop()));
    }
    println!("stopped: {times:.1?}");
    assert!(times[0].1 < API_STOP + OWN && times[1].1 < OWN && times[2].1 < OWN, "{times:?}");
    feed.kill();
    assert!((0..3).all(|partition| journal.head(partition).resigned), "{:?}", journal.head(0));
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}

/// Whether somebody has left the partition and somebody else claimed it after that.
fn resigned(journal: &mut Journal, partition: u32) -> bool {
    let entries = &journal.catch_up()[partition as usize].entries;
    let left = entries.iter().rposition(|it| matches!(it, What::Resigned));
    left.is_some_and(|left| entries[left..].iter().any(|it| matches!(it, What::Claim(_))))
}
