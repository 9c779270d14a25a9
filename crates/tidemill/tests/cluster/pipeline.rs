//! The example over a git repository's history, undisturbed and disturbed.

use std::time::Instant;

use jiff::SignedDuration;
use rustix::process::{Pid, test_kill_process};
use tidemill_model::{AlarmEvent, AlarmKind, Event, Timestamp};

use crate::kit::{Cluster, GitHistory, History, Journal, What, until};

const UNDISTURBED: Timestamp = Timestamp::constant(1_704_067_200);
const DISTURBED: Timestamp = Timestamp::constant(1_704_070_800);

/// A cluster with two executors, after an undisturbed run.
fn with_pipeline() -> (Cluster, GitHistory, Journal) {
    let mut cluster = Cluster::start();
    cluster.start_executor("executor-1", 30_000);
    cluster.start_executor("executor-2", 30_000);
    let work = GitHistory::define(&cluster);
    begin(&cluster, UNDISTURBED);
    end(&cluster, UNDISTURBED);
    let mut journal = cluster.journal();
    cluster.both_own(&mut journal);
    (cluster, work, journal)
}

fn begin(cluster: &Cluster, logical_time: Timestamp) {
    cluster.json(&[
        "job",
        "run",
        "demo/check-extract",
        "--concurrent",
        "--logical-time",
        &logical_time.to_string(),
    ]);
}

/// Waits until all seven have succeeded.
fn end(cluster: &Cluster, logical_time: Timestamp) {
    end_of(cluster, logical_time, 7);
}

fn end_of(cluster: &Cluster, logical_time: Timestamp, count: usize) {
    let later = logical_time + SignedDuration::from_mins(1);
    cluster.succeeded(&format!("group=demo&from={logical_time}&to={later}"), count);
}

/// Journal and files tell the same story, and the disturbed run left the same tables as the undisturbed one.
fn compare(work: &GitHistory, journal: &mut Journal) {
    let history = History::of(journal.events());
    for logical_time in [UNDISTURBED, DISTURBED] {
        work.agrees(&history, logical_time);
    }
    let undisturbed = work.tables(UNDISTURBED);
    assert!(undisturbed.values().all(|rows| !rows.is_empty()), "{undisturbed:?}");
    assert_eq!(work.tables(DISTURBED), undisturbed);
}

/// A2, DSP-6, OPS-6: two dispatchers share the partitions; the owner of the pipeline is killed in the middle. The
/// other takes over, takes what was reported meanwhile, and nothing is done twice. How long that takes is measured by
/// `make chaos`, which holds it to 10 s.
#[test]
fn pipeline_goes_on_when_its_dispatcher_is_killed() {
    let (mut cluster, work, mut journal) = with_pipeline();
    let owners = cluster.both_own(&mut journal);
    let owner = owners[Cluster::DEMO as usize].clone();
    work.hold("authors");
    work.hold("churn-per-file");
    begin(&cluster, DISTURBED);
    let held = ["authors", "churn-per-file"].map(|job| work.started(job, DISTURBED));

    let epoch = journal.head(Cluster::DEMO).epoch;
    let killed_at = Instant::now();
    cluster.role(&owner).kill();
    // It ends while nobody owns the partition: the new owner has to learn of it from the commands.
    work.release("churn-per-file");
    let other = cluster.other_owner(&mut journal, Cluster::DEMO, &owner);
    let claimed = killed_at.elapsed();
    until("the new owner works", || {
        let part = &journal.catch_up()[Cluster::DEMO as usize];
        let claim = part.entries.iter().position(|it| matches!(it, What::Claim(it) if it.epoch > epoch))?;
        part.entries[claim..].iter().any(|it| matches!(it, What::Envelope(_))).then_some(())
    });
    let worked = killed_at.elapsed();
    println!("takeover from {owner} by {other}: claimed after {claimed:.1?}, worked after {worked:.1?}");

    work.release("authors");
    end(&cluster, DISTURBED);
    compare(&work, &mut journal);
    // Neither attempt was disturbed by the change of owners.
    let history = History::of(journal.events());
    for line in held {
        let stories = history.of_job(&format!("demo/{}", line.job));
        let attempts: Vec<_> = stories.iter().map(|story| story.attempts.len()).collect();
        assert!(attempts.iter().all(|count| *count == 1), "{}: {attempts:?}", line.job);
    }
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}

/// A2: an executor is killed with an attempt on it. Nobody renews its lease, at whose end its shim ends it, and the other executor
/// does the batch again.
#[test]
fn pipeline_goes_on_when_an_executor_is_killed() {
    let (mut cluster, work, mut journal) = with_pipeline();
    work.hold("authors");
    begin(&cluster, DISTURBED);
    let held = work.started("authors", DISTURBED);
    // What has ended is on record: of what has not, nobody could know whether it ended well.
    end_of(&cluster, DISTURBED, 5);
    let host = cluster.host_of(&held.token);

    let killed_at = Instant::now();
    cluster.role(&host).kill();
    let pid = Pid::from_raw(held.pid).unwrap();
    until("the attempt's process is gone", || test_kill_process(pid).is_err().then_some(()));
    println!("killed {host}: its attempt was gone after {:.1?}", killed_at.elapsed());
    work.release("authors");
    end(&cluster, DISTURBED);
    println!("and all had succeeded after {:.1?}", killed_at.elapsed());
    compare(&work, &mut journal);

    let history = History::of(journal.events());
    let stories = history.of_job("demo/authors");
    let story = stories.iter().find(|story| story.logical_time == DISTURBED).unwrap();
    assert_eq!(story.attempts.len(), 2, "{:?}", story.attempts);
    assert_ne!(cluster.host_of(&story.success().unwrap().to_string()), host);
    // EXE-8: people could have brought the executor back before its lease was over.
    let warning = |event: &Event| {
        matches!(event, Event::Alarm(AlarmEvent::Raised { kind: AlarmKind::LeaseHalfOver, message, .. })
        if message.contains(&format!("({host})")) && message.contains("the attempts of demo/authors of "))
    };
    assert_eq!(journal.events().filter(|event| warning(event)).count(), 1);
    assert_eq!(cluster.json(&["verify"])["difference_count"], 0);
}
