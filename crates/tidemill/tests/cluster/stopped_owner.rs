//! An owner that is stopped while others go on, and then let go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};

use jiff::SignedDuration;
use rustix::process::Signal;
use serde_json::Value;
use tidemill_cluster::{Config, SubmitRequest, Submitter, instance_id, request_id};
use tidemill_log::Log;
use tidemill_model::{Actor, Answer, BatchCommand, Command, JobId, Outcome, Reply, ShardId, Timestamp};

use crate::kit::{Cluster, History, PATIENCE, until};

/// Batches that the engine completes by itself: what counts here is how many decisions are under way.
const JOBS: &str = "jobs: [{name: nothing, group: demo, type: anchor}]";
/// Requests under way at once, so that the owner always has some before it.
const UNDER_WAY: i64 = 2_000;

/// A3: what a stopped owner writes when it wakes is void everywhere; it follows, and history is as if it had
/// never woken. The status shows as many void records as the chain counts.
#[test]
fn late_records_of_a_stopped_owner_are_void() {
    let mut cluster = Cluster::start();
    cluster.apply(JOBS);
    let job = cluster.json(&["job", "show", "demo/nothing"])["id"].clone();
    let mut journal = cluster.journal();
    let partition = Cluster::DEMO;
    let owner = cluster.both_own(&mut journal)[partition as usize].clone();

    let submit_requests = SubmitRequests::start(cluster.log(), &job);
    until("the owner works", || (submit_requests.granted() > UNDER_WAY).then_some(()));
    cluster.signal(&owner, Signal::STOP);
    let other = cluster.other_owner(&mut journal, partition, &owner);
    println!("{other} took over from the stopped {owner}");
    let count = submit_requests.all_granted();

    cluster.signal(&owner, Signal::CONT);
    let deposed = format!("partition={partition} ");
    println!("{}", cluster.role(&owner).says(&["owns the partition no longer", &deposed]));
    // What is void is counted once something after it counts.
    for n in 0..10 {
        cluster.run_job(&job, second(count as i64 + n));
    }
    until("the last are done", || {
        let history = History::of(journal.events());
        history.of_job("demo/nothing").iter().all(|story| story.result.is_some()).then_some(())
    });
    assert_eq!(History::of(journal.events()).of_job("demo/nothing").len(), count + 10);
    let status = until("the tables have all", || {
        let status = cluster.json(&["status"]);
        let partitions = status["partitions"].as_array().unwrap();
        partitions.iter().all(|it| it["lag_records"] == 0).then_some(status)
    });
    let voids = journal.voids();
    println!("void records by partition: {voids:?}");
    assert_eq!(shown(&status), voids);
    assert!(cluster.role(&owner).is_running());
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}

/// Requests for batches of one job, one after the other, each sent until it is answered.
struct SubmitRequests {
    granted: Arc<AtomicI64>,
    enough: Arc<AtomicBool>,
    /// Gives how many were sent.
    thread: JoinHandle<i64>,
}

impl SubmitRequests {
    fn start(log: Arc<dyn Log>, job: &Value) -> Self {
        let (granted, enough) = (Arc::<AtomicI64>::default(), Arc::<AtomicBool>::default());
        let job = serde_json::from_value(job.clone()).unwrap();
        let thread = thread::spawn({
            let (granted, enough) = (Arc::clone(&granted), Arc::clone(&enough));
            move || send(log, job, &granted, &enough)
        });
        Self { granted, enough, thread }
    }

    fn granted(&self) -> i64 {
        self.granted.load(Ordering::SeqCst)
    }

    /// Sends no more, and waits until all are granted; how many they are.
    fn all_granted(self) -> usize {
        self.enough.store(true, Ordering::SeqCst);
        self.thread.join().unwrap() as usize
    }
}

fn send(log: Arc<dyn Log>, job: JobId, granted: &Arc<AtomicI64>, enough: &AtomicBool) -> i64 {
    let config = Config { max_lag_ms: 60_000, ..Config::default() };
    let submitter = Submitter::start(log, instance_id("test"), config).unwrap();
    let mut sent = 0;
    while !enough.load(Ordering::SeqCst) {
        let left = || sent - granted.load(Ordering::SeqCst);
        until("requests are granted", || (left() < UNDER_WAY || enough.load(Ordering::SeqCst)).then_some(()));
        for _ in left()..UNDER_WAY {
            let command = Command::Batch(BatchCommand::RunJob {
                job,
                logical_time: Some(second(sent)),
                parameters: BTreeMap::new(),
                concurrent: true,
            });
            let actor = Actor { app: "test".into(), user: None };
            let submit_request = SubmitRequest { shard: ShardId(1), request: request_id(), actor, command };
            let granted = Arc::clone(granted);
            submitter.submit_with(submit_request, Some(PATIENCE), move |reply| {
                if matches!(reply, Ok(Reply { outcome: Outcome::Answered(Answer::Generated { .. }), .. })) {
                    granted.fetch_add(1, Ordering::SeqCst);
                }
            });
            sent += 1;
        }
    }
    until("all requests are granted", || (granted.load(Ordering::SeqCst) == sent).then_some(()));
    submitter.stop();
    sent
}

fn second(n: i64) -> Timestamp {
    let begin: Timestamp = "2024-01-01T00:00:00.000Z".parse().unwrap();
    begin + SignedDuration::from_secs(n)
}

fn shown(status: &Value) -> Vec<u64> {
    let partitions = status["partitions"].as_array().unwrap();
    partitions.iter().map(|it| it["void_records"].as_u64().unwrap()).collect()
}
