//! How an interface hears what was decided.

use jiff::SignedDuration;
use rustix::process::Signal;
use tidemill_log::Topic;
use tidemill_model::Timestamp;

use crate::kit::{Cluster, until};

const JOBS: &str = "jobs: [{name: nothing, group: demo, type: anchor}]";

/// Replies to an interface come from the owner's process by line, and the topic gets none of them. An owner that is killed takes
/// its line with it; what the next one replies comes by line again. No request is without its outcome meanwhile.
#[test]
fn replies_come_by_line_from_whoever_owns_the_partition() {
    let cluster = Cluster::start();
    cluster.apply(JOBS);
    let job = cluster.json(&["job", "show", "demo/nothing"])["id"].clone();
    let log = cluster.log();
    let mut seconds = 0;
    let mut by_line = |cluster: &Cluster| {
        let ends = || -> u64 {
            let partitions = 0..log.partitions(Topic::Replies);
            partitions.map(|partition| log.range(Topic::Replies, partition).unwrap().end).sum()
        };
        until("replies go by line", || {
            let before = ends();
            for _ in 0..5 {
                seconds += 1;
                cluster.run_job(&job, Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds));
            }
            (ends() == before).then_some(())
        });
    };
    by_line(&cluster);
    let mut journal = cluster.journal();
    let partition = Cluster::DEMO;
    let owner = cluster.both_own(&mut journal)[partition as usize].clone();
    cluster.signal(&owner, Signal::KILL);
    let other = cluster.other_owner(&mut journal, partition, &owner);
    println!("{other} took over from {owner}");
    by_line(&cluster);
}
