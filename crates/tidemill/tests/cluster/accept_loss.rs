//! Commands that are lost at the broker.

use serde_json::Value;
use tidemill_log::Topic;

use crate::kit::{Cluster, until};

const JOBS: &str = "jobs: [{name: nothing, group: demo, type: anchor}]";
const DISPATCHERS: [&str; 2] = ["dispatcher-1", "dispatcher-2"];

/// Gives the exit code, and what it says for programs.
fn accept_loss(cluster: &Cluster, partition: u32) -> (i32, Value) {
    let partition = partition.to_string();
    let output = cluster.run(&[
        "partition",
        "accept-loss",
        "--partition",
        &partition,
        "--reason",
        "a test",
        "--by",
        "the test",
        "-o",
        "json",
    ]);
    let told = if output.status.success() { &output.stdout } else { &output.stderr };
    let told = String::from_utf8_lossy(told);
    let last = told.find("{\n").map_or(&*told, |at| &told[at..]);
    (output.status.code().unwrap(), serde_json::from_str(last).unwrap_or_else(|_| panic!("{told}")))
}

fn refused(cluster: &Cluster, partition: u32, why: &str) {
    let (code, told) = accept_loss(cluster, partition);
    assert_eq!(code, 3, "{told}");
    assert!(told["error"].as_str().unwrap().contains(why), "{told}");
}

fn works(cluster: &Cluster, second: i64) {
    let job = cluster.json(&["job", "show", "demo/nothing"])["id"].clone();
    cluster.run_job(&job, tidemill_model::Timestamp::from_second(second).unwrap());
    cluster.succeeded(&format!("job={job}"), second as usize);
}

/// Rule 5: a partition whose commands were deleted, or whose topic was recreated, stops with a named error; an
/// operator lets it go on, on record, and only then.
#[test]
fn lost_commands_stop_partitions_until_the_loss_is_accepted() {
    let mut cluster = Cluster::start();
    cluster.apply(JOBS);
    works(&cluster, 1);
    refused(&cluster, Cluster::DEMO, "it has an owner that answers at");
    for name in DISPATCHERS {
        cluster.role(name).stop();
    }
    refused(&cluster, Cluster::DEMO, "nothing was lost");

    cluster.delete_records(Topic::Commands, Cluster::DEMO);
    cluster.start_dispatcher("dispatcher-1");
    cluster.role("dispatcher-1").says(&["the partition stops", "accept-loss --partition 1"]);
    let (code, accepted) = accept_loss(&cluster, Cluster::DEMO);
    assert_eq!(code, 0, "{accepted}");
    assert!(accepted["kept_from"].as_u64() > accepted["done"].as_u64(), "{accepted}");
    // The dispatcher that runs sees it by itself.
    works(&cluster, 2);
    cluster.role("dispatcher-1").stop();
    refused(&cluster, Cluster::DEMO, "nothing was lost");

    cluster.recreate(Topic::Commands);
    cluster.start_dispatcher("dispatcher-2");
    for partition in [0, Cluster::DEMO] {
        let hint = format!("accept-loss --partition {partition}");
        cluster.role("dispatcher-2").says(&["the partition stops", &hint]);
        let (code, accepted) = accept_loss(&cluster, partition);
        assert_eq!(code, 0, "{accepted}");
        assert!(accepted["resumed_at"].as_u64() < accepted["done"].as_u64(), "{accepted}");
    }
    cluster.apply("jobs: [{name: nothing, group: demo, type: anchor, owner: another}]");
    works(&cluster, 3);
    let feed = cluster.succeeds(&[
        "events",
        "tail",
        "--from",
        "start",
        "--type",
        "command_loss.accepted",
        "--limit",
        "3",
        "-o",
        "json",
    ]);
    assert_eq!(feed.matches("\"by\":\"the test\"").count(), 3, "{feed}");
    until("the tables have all", || {
        let status = cluster.json(&["status"]);
        let partitions = status["partitions"].as_array().unwrap().clone();
        partitions.iter().all(|it| it["lag_records"] == 0).then_some(())
    });
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}
