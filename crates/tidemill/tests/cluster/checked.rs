//! The checker over the journal of a cluster, on Kafka, while it works and from a copy.

use jiff::SignedDuration;
use tidemill_model::Timestamp;

use crate::kit::Cluster;

const JOBS: &str = "jobs: [{name: nothing, group: demo, type: noop, max_concurrent: 100}]";
const BEGIN: Timestamp = Timestamp::constant(1_704_067_200);

/// BYD-9: `verify --journal` on a live Kafka cluster keeps every rule, a copy of it gives the same, and one
/// partition whose owner was killed has its second epoch in it.
#[test]
fn journal_of_a_cluster_keeps_every_rule() {
    let mut cluster = Cluster::start();
    cluster.start_executor("executor-1", 1_000);
    cluster.apply(JOBS);
    let job = cluster.json(&["job", "show", "demo/nothing"])["id"].clone();
    let run = |from: i64| {
        for n in from..from + 10 {
            cluster.run_job(&job, BEGIN + SignedDuration::from_mins(n));
        }
    };
    run(0);
    let live = cluster.json(&["verify", "--journal"]);
    assert_eq!(live["finding_count"], 0, "{live:#}");
    let mut journal = cluster.journal();
    let owner = cluster.both_own(&mut journal)[Cluster::DEMO as usize].clone();
    cluster.signal(&owner, rustix::process::Signal::KILL);
    cluster.other_owner(&mut journal, Cluster::DEMO, &owner);
    run(10);
    cluster.succeeded("group=demo", 20);

    let file = cluster.path("x.journal");
    let file = file.to_str().unwrap();
    let copied = cluster.json(&["journal", "export", file]);
    assert!(copied["records"].as_u64().unwrap() > 40, "{copied:#}");
    let checked = cluster.json(&["verify", "--journal", file]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
    assert!(checked["events"].as_u64() > live["events"].as_u64(), "{checked:#}");
    let demo = &checked["partitions"][Cluster::DEMO as usize];
    assert!(demo["epoch"].as_u64().unwrap() >= 2, "{checked:#}");
}
