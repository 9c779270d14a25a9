//! A cluster whose journals leave Kafka.

use rustix::process::Signal;
use tidemill_log::Topic;

use crate::kit::{Cluster, until};

const JOBS: &str = "jobs: [{name: nothing, group: demo, type: noop, max_concurrent: 100}]";

/// OPS-8, EVT-6: with deletion configured the topic begins later; another dispatcher takes over, the tables are rebuilt and
/// verified, and the feed is read from its beginning, all through the archive.
#[test]
fn cluster_goes_on_with_journals_that_left_kafka() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive").display().to_string();
    let mut cluster = Cluster::start_with(&[
        ("ARCHIVE__PLACE", &archive),
        ("ARCHIVE__DELETE_FROM_KAFKA", "true"),
        ("ARCHIVE__KEEP_DAYS", "0"),
        ("ARCHIVE__KEEP_MB", "0"),
        ("ARCHIVE__INTERVAL_S", "1"),
    ]);
    cluster.start_executor("executor-1", 1_000);
    cluster.apply(JOBS);
    let run = |cluster: &Cluster| cluster.succeeds(&["job", "run", "demo/nothing", "--concurrent", "--wait"]);
    (0..3).for_each(|_| drop(run(&cluster)));
    let log = cluster.log();
    cluster.start_archiver("archiver-1");
    // What is begun is not due yet; this closes it.
    cluster.succeeds(&["archive", "run"]);
    let begins = |partition| log.range(Topic::Journal, partition).unwrap().start;
    until("the journals begin later", || (begins(0) > 0 && begins(Cluster::DEMO) > 0).then_some(()));
    for name in ["dispatcher-1", "dispatcher-2"] {
        cluster.signal(name, Signal::KILL);
    }
    cluster.start_dispatcher("dispatcher-3");
    cluster.restart_projector();
    run(&cluster);
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
    cluster.succeeds(&["rebuild"]);
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
    let first =
        cluster.succeeds(&["events", "tail", "--from", "start", "--type", "job.defined", "--limit", "1"]);
    assert!(first.contains("job.defined"), "{first}");
    let status = cluster.json(&["status"]);
    let partitions = status["storage"]["archive"]["partitions"].as_array().unwrap();
    assert!(partitions[0]["log_begins"].as_u64().unwrap() > 0, "{status}");
    assert_eq!(cluster.json(&["archive", "verify"])["findings"], serde_json::json!([]));
    assert_eq!(cluster.json(&["verify", "--journal"])["finding_count"], 0);
}
