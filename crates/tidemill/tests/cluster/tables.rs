//! Read tables that are lost, rebuilt, or changed by hand, while work goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use jiff::SignedDuration;
use rustix::process::Signal;
use serde_json::json;
use tidemill_model::Timestamp;

use crate::kit::{Cluster, History, until};
use crate::views_of_jobs::{EXPECTED, JOBS as VIEWED, jobs};

const JOBS: &str = "jobs: [{name: nothing, group: demo, type: noop, max_concurrent: 100}]";

/// Ends the load, also where the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A7, EVT-7: with every read table dropped by hand under load, the tables come back; a rebuild beside the
/// projector ends with the same tables, and `verify` names what is then changed by hand.
#[test]
fn tables_come_back_under_load() {
    let mut cluster = Cluster::start();
    cluster.start_executor("executor-1", 1_000);
    cluster.apply(JOBS);
    let job = cluster.json(&["job", "show", "demo/nothing"])["id"].clone();
    let (enough, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let more = |n: u64| {
        let wanted = done.load(Ordering::SeqCst) + n;
        until(&format!("{n} more are done"), || (done.load(Ordering::SeqCst) >= wanted).then_some(()));
    };
    thread::scope(|scope| {
        let ends = Ends(&enough);
        scope.spawn(|| {
            let begin: Timestamp = "2024-01-01T00:00:00.000Z".parse().unwrap();
            while !enough.load(Ordering::SeqCst) {
                let n = done.load(Ordering::SeqCst);
                cluster.run_job(&job, begin + SignedDuration::from_secs(n as i64));
                done.store(n + 1, Ordering::SeqCst);
            }
        });
        more(50);
        drop_tables(&cluster, "%");
        // Work needs none of them, and the projector rebuilds them by itself.
        more(50);
        until("they are back", || cluster.run(&["job", "ls"]).status.success().then_some(()));
        // The switch stays, and what it points to is gone: that is for a person to fix.
        drop_tables(&cluster, "g%");
        println!("rebuilt what was dropped: {}", cluster.succeeds(&["rebuild"]).trim());
        more(50);
        println!("rebuilt what is in use: {}", cluster.succeeds(&["rebuild"]).trim());
        let report = cluster.json(&["verify"]);
        assert_eq!(report["difference_count"], 0, "{report}");
        more(20);
        drop(ends);
    });
    let count = done.load(Ordering::SeqCst) as usize;
    until("all are in the tables", || {
        let sql = "SELECT CAST(COUNT(*) AS CHAR) FROM batches WHERE result = 'success'";
        (cluster.database.column(sql) == [count.to_string()]).then_some(())
    });
    assert_eq!(History::of(cluster.journal().events()).of_job("demo/nothing").len(), count);
    row_changed_by_hand_is_named(&cluster);
}

/// OPS-2, EVT-7: on a server that has tables of another version, with a column that this one does not have, the projector
/// builds its own beside them, killed as often as may be, and swaps; work goes on meanwhile, interfaces say how far it is, and
/// a rebuild from a time comes to the same.
#[test]
fn tables_of_another_version_are_built_beside() {
    let mut cluster = Cluster::start();
    cluster.start_executor("executor-1", 1_000);
    cluster.apply(JOBS);
    let job = cluster.json(&["job", "show", "demo/nothing"])["id"].clone();
    let begin: Timestamp = "2024-01-01T00:00:00.000Z".parse().unwrap();
    (0..30).for_each(|n| cluster.run_job(&job, begin + SignedDuration::from_secs(n)));
    let number = |cluster: &Cluster, sql: &str| -> u32 { cluster.database.column(sql)[0].parse().unwrap() };
    let ended = |count: usize| {
        move |cluster: &Cluster| {
            let sql = "SELECT CAST(COUNT(*) AS CHAR) FROM batches WHERE result = 'success'";
            until("all are in the tables", || {
                (cluster.database.column(sql) == [count.to_string()]).then_some(())
            });
        }
    };
    ended(30)(&cluster);
    cluster.role("projector").kill();
    let first = number(&cluster, "SELECT CAST(value AS CHAR) FROM tidemill_meta WHERE name = 'active'");
    for sql in [
        format!("ALTER TABLE g{first}_batches RENAME COLUMN message TO text"),
        "UPDATE tidemill_generations SET format = 18".to_owned(),
        "UPDATE tidemill_forms SET form = 18".to_owned(),
    ] {
        cluster.database.execute(&sql);
    }
    let refused = cluster.run(&["job", "ls"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("being built beside those of another one: 0 of "), "{told}");
    let sets = "SELECT CAST(COUNT(*) AS CHAR) FROM tidemill_generations";
    for _ in 0..2 {
        cluster.start_role("projector", "projector", &[]);
        until("it begins a set beside", || (number(&cluster, sets) == 2).then_some(()));
        cluster.role("projector").kill();
    }
    cluster.start_role("projector", "projector", &[]);
    until("it swaps", || cluster.run(&["job", "ls"]).status.success().then_some(()));
    assert_eq!(number(&cluster, sets), 2, "the old tables stay for the version before");
    assert_eq!(number(&cluster, &format!("SELECT CAST(COUNT(text) AS CHAR) FROM g{first}_batches")), 30);
    (30..40).for_each(|n| cluster.run_job(&job, begin + SignedDuration::from_secs(n)));
    ended(40)(&cluster);
    let since = jiff::Timestamp::now().to_string();
    (40..45).for_each(|n| cluster.run_job(&job, begin + SignedDuration::from_secs(n)));
    ended(45)(&cluster);
    let planned = cluster.json(&["rebuild", "--from", &since, "--dry-run", "--compare"]);
    assert_eq!(planned["comparison"]["difference_count"], 0, "{planned}");
    let rebuilt = cluster.json(&["rebuild", "--from", &since]);
    assert!(rebuilt["copied_rows"].as_u64().unwrap() >= 40, "{rebuilt}");
    let report = cluster.json(&["verify"]);
    assert_eq!(report["difference_count"], 0, "{report}");
    assert_eq!(number(&cluster, sets), 2);
}

/// TBL-2, TBL-3: the views on MySQL show what a cluster does; while its projector stands still, the status shows for how long
/// the tables have lacked something, and nothing of it once the projector goes on.
#[test]
fn views_follow_a_cluster_and_the_status_shows_how_far_behind() {
    let mut cluster = Cluster::start();
    cluster.start_executor("executor-1", 1_000);
    cluster.apply(&jobs("demo"));
    let ids = VIEWED.map(|job| cluster.json(&["job", "show", &format!("demo/{job}")])["id"].clone());
    let time: Timestamp = "2024-01-01T00:00:00.000Z".parse().unwrap();
    ids.iter().for_each(|job| cluster.run_job(job, time));
    for (view, sql, expected) in EXPECTED {
        until(&format!("{view} shows {expected:?}"), || {
            (cluster.database.column(sql) == expected).then_some(())
        });
    }
    let lags = |cluster: &Cluster| -> Vec<(u64, u64)> {
        let status = cluster.json(&["status"]);
        let of = |it: &serde_json::Value| Some((it["lag_records"].as_u64()?, it["lag_ms"].as_u64()?));
        status["partitions"].as_array().unwrap().iter().filter_map(of).collect()
    };
    until("the tables have all", || lags(&cluster).iter().all(|lag| *lag == (0, 0)).then_some(()));
    cluster.signal("projector", Signal::STOP);
    cluster.run_job(&ids[0], time + SignedDuration::from_secs(1));
    let longest = |lags: &[(u64, u64)]| lags.iter().map(|(_, ms)| *ms).max();
    let first = until("the tables lack something", || {
        let lags = lags(&cluster);
        lags.iter().any(|(records, _)| *records > 0).then(|| longest(&lags)).flatten()
    });
    until("it is lacked for longer", || (longest(&lags(&cluster)) > Some(first)).then_some(()));
    cluster.signal("projector", Signal::CONT);
    until("the tables have all again", || lags(&cluster).iter().all(|lag| *lag == (0, 0)).then_some(()));
}

/// Drops all tables of such names by hand, and all views.
fn drop_tables(cluster: &Cluster, like: &str) {
    let of_kind = |kind: &str, like: &str| {
        let sql = format!(
            "SELECT table_name FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_type = '{kind}' AND table_name LIKE '{like}'"
        );
        cluster.database.column(&sql)
    };
    let (views, tables) = (of_kind("VIEW", "%"), of_kind("BASE TABLE", like));
    assert!(views.len() > 3 && tables.len() > 6, "{views:?} {tables:?}");
    cluster.database.execute(&format!("DROP VIEW {}", views.join(", ")));
    cluster.database.execute(&format!("DROP TABLE {}", tables.join(", ")));
}

fn row_changed_by_hand_is_named(cluster: &Cluster) {
    let report = cluster.json(&["verify"]);
    assert_eq!(report["difference_count"], 0, "{report}");
    let table = format!("g{}_batches", report["generation"]);
    let batch = cluster.database.column("SELECT CAST(MIN(id) AS CHAR) FROM batches").remove(0);
    cluster.database.execute(&format!("UPDATE {table} SET attempt = 77 WHERE id = {batch}"));
    let output = cluster.run(&["verify", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["difference_count"], 1, "{report}");
    let difference = &report["differences"][0];
    let expected =
        json!({"table": "batches", "key": batch, "column": "attempt", "expected": "1", "found": "77"});
    assert_eq!(*difference, expected);
}
