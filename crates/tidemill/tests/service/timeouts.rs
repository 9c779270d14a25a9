//! TMO-1 to TMO-5: batches that have not got somewhere in time, through the command line, REST and the feed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::{Server, TIDEMILL, run_job, text, until};
use jiff::SignedDuration;
use serde_json::Value;
use tidemill_model::Timestamp;

/// The batch, once the field says something.
fn marked(server: &Server, batch: &str, field: &str) -> Value {
    until(field, || Some(server.json(&["batch", "show", batch])).filter(|shown| !shown[field].is_null()))
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    })
}

/// The batch of `job` that its parent's batch brings.
fn child_of(server: &Server, parent: &str, job: &str) -> String {
    run_job(server, parent);
    until("the child's batch", || {
        let batches = server.json(&["batch", "ls", "--job", job]);
        Some(batches["items"].as_array()?.first()?["id"].to_string())
    })
}

/// The alarms of the feed about this batch, by kind: all that come before a batch that is made now.
fn alarms(server: &Server, batch: &str) -> Vec<String> {
    let last = run_job(server, "default/last");
    let mut tail = Command::new(TIDEMILL)
        .args(["events", "tail", "--from", "start", "-o", "json", "--data"])
        .arg(&server.data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kinds = Vec::new();
    for line in BufReader::new(tail.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let is = |kind: &str, batch: &str| {
            event["type"] == format!("tidemill.{kind}.v1") && event["subject"] == format!("batch/{batch}")
        };
        if is("alarm.raised", batch) {
            kinds.push(event["data"]["kind"].as_str().unwrap().to_owned());
        }
        if is("batch.finished", &last) {
            break;
        }
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
    kinds
}

fn fixture(data: &Path) -> Server {
    let server = Server::start(data);
    server.apply(&format!(
        "jobs:\n\
        - {{name: last, group: default, type: noop}}\n\
        - {{name: failing, group: default, type: shell, command: exit 1, output_timeout_s: 2}}\n\
        - {{name: child, group: default, type: noop, parents: [failing], dependency_timeout_s: 1}}\n\
        - {{name: slow, group: default, type: shell, output_timeout_s: 1, \
            command: 'until [ -e {} ]; do sleep 0.05; done'}}\n\
        - {{name: endless, group: default, type: shell, command: exec sleep 1000, output_timeout_s: 1, \
            cancel_on_timeout: true}}\n\
        {}",
        data.join("go").display(),
        late(Timestamp::from(jiff::Timestamp::now())),
    ));
    server
}

/// The job that has to be successful by this time of day.
fn late(by: Timestamp) -> String {
    let by = by.strftime("%H:%M:%S");
    format!(
        "- {{name: late, group: default, type: shell, command: exec sleep 1000, not_successful_by: '{by}'}}\n"
    )
}

/// Its batch, which is there before that time of today: where this is slow, not the first that is tried.
fn run_late(server: &Server) -> String {
    let batch = [4, 15, 50].into_iter().find_map(|seconds| {
        let by = Timestamp::from(jiff::Timestamp::now()) + SignedDuration::from_secs(seconds);
        server.apply(&format!("jobs:\n{}", late(by)));
        let batch = run_job(server, "default/late");
        let shown = server.json(&["batch", "show", &batch]);
        let generated_at: Timestamp = shown["generated_at"].as_str().unwrap().parse().unwrap();
        if generated_at.as_second() < by.as_second() {
            return Some(batch);
        }
        server.json(&["batch", "kill", &batch]);
        ended(server, &batch);
        None
    });
    batch.expect("one that is there in time")
}

/// TMO-1, ALM-5: a batch that waits past its dependency timeout is marked, and stays as it is; people are told
/// once, by the feed.
#[test]
fn waiting_batch_is_marked_and_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let batch = child_of(&server, "default/failing", "default/child");
    let shown = marked(&server, &batch, "dependency_timeout_at");
    assert_eq!((&shown["state"], &shown["result"]), (&Value::from("waiting"), &Value::Null), "{shown}");
    assert_eq!(alarms(&server, &batch), ["dependency_timeout"]);
}

/// TMO-2, TMO-4: a batch that is not successful in time is marked, by duration and by time of day; the mark stays
/// and the batch may still succeed, unless its job says that it is ended.
#[test]
fn late_batch_is_marked_and_may_succeed_or_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let [slow, endless, failing] =
        ["default/slow", "default/endless", "default/failing"].map(|job| run_job(&server, job));
    let late = run_late(&server);
    marked(&server, &slow, "output_timeout_at");
    std::fs::write(dir.path().join("go"), "").unwrap();
    let shown = ended(&server, &slow);
    assert_eq!(shown["result"], "success", "{shown}");
    assert!(!shown["output_timeout_at"].is_null(), "{shown}");
    let shown = ended(&server, &endless);
    assert_eq!(shown["result"], "killed", "{shown}");
    assert!(!shown["output_timeout_at"].is_null(), "{shown}");
    marked(&server, &late, "not_successful_by_at");
    until("it runs all the same", || {
        (server.json(&["batch", "show", &late])["state"] == "running").then_some(())
    });
    let shown = marked(&server, &failing, "output_timeout_at");
    assert_eq!(shown["result"], "failed", "{shown}");
    let output = "output_timeout";
    for (batch, kind) in [(slow, output), (endless, output), (failing, output), (late, "not_successful_by")] {
        assert_eq!(alarms(&server, &batch), [kind]);
    }
}

/// TMO-3: what passed while the server was down is marked and told of when it is there again, and once.
#[test]
fn timeout_in_an_outage_is_told_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let jobs =
        "jobs: [{name: child, group: default, type: noop, parents: [failing], dependency_timeout_s: 3}]";
    server.apply(jobs);
    let batch = child_of(&server, "default/failing", "default/child");
    server.signal("-KILL");
    let down_at = Instant::now();
    drop(server);
    until("the timeout passes", || (down_at.elapsed() > Duration::from_secs(4)).then_some(()));
    for _ in 0..2 {
        let server = Server::start(dir.path());
        let back_at = Timestamp::from(jiff::Timestamp::now());
        let shown = marked(&server, &batch, "dependency_timeout_at");
        let result_overridden_at: Timestamp =
            shown["dependency_timeout_at"].as_str().unwrap().parse().unwrap();
        assert!(
            result_overridden_at < back_at + SignedDuration::from_secs(60),
            "{result_overridden_at}, back at {back_at}"
        );
        assert_eq!(alarms(&server, &batch), ["dependency_timeout"]);
        assert_eq!(server.json(&["verify"])["difference_count"], 0);
        assert_eq!(server.stop(), Some(0));
    }
}

/// JOB-5, TMO-2: timeouts come out as they went in, and `job show` tells them.
#[test]
fn timeouts_are_exported_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let exported = text(&server.run(&["job", "export", "--group", "default"]).stdout);
    for line in
        ["dependency_timeout_s: 1", "output_timeout_s: 1", "cancel_on_timeout: true", "not_successful_by:"]
    {
        assert!(exported.contains(line), "{line} is not in {exported}");
    }
    let again = server.apply(&exported);
    let changes = again["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["change"] == "unchanged"), "{changes:?}");
    assert_eq!(server.json(&["job", "show", "default/slow"])["output_timeout_s"], 1);
}

/// TMO-5: an attempt that runs longer than allowed is ended, says so, and counts as failed: another one follows.
#[test]
fn attempt_over_its_execution_timeout_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs: [{name: long, group: default, type: shell, command: 'sleep 1000 & sleep 1000', \
         execution_timeout_s: 1, retries: 1, retry_interval_s: 0}]",
    );
    let batch = run_job(&server, "default/long");
    let shown = ended(&server, &batch);
    assert_eq!(shown["result"], "failed", "{shown}");
    assert!(shown["message"].as_str().unwrap().contains("execution timeout"), "{shown}");
    let attempts = shown["attempts"].as_array().unwrap();
    let results: Vec<_> = attempts.iter().map(|attempt| attempt["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["timed_out", "timed_out"]);
    let exported = text(&server.run(&["job", "export", "--group", "default"]).stdout);
    assert!(exported.contains("execution_timeout_s: 1"), "{exported}");
}

/// TMO-1: the timeouts of a batch that its parent's generation made count from the base time of its logical time, which is
/// the parent's fire, and not from whenever it was generated.
#[test]
fn timeouts_of_a_child_count_from_its_parents_fire() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs:\n\
         - {name: tick, group: default, type: noop, schedule: {cron: '* * * * * ?', zone: UTC}}\n\
         - {name: child, group: default, type: noop, parents: [tick], third_party: [erp], dependency_timeout_s: 1}\n",
    );
    let mut tail = Command::new(TIDEMILL)
        .args(["events", "tail", "--from", "start", "-o", "json", "--data"])
        .arg(&server.data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let marked = events.find(|event| event["type"] == "tidemill.timeout.reached.v1").unwrap();
    tail.kill().unwrap();
    tail.wait().unwrap();
    let batch = marked["subject"].as_str().unwrap().trim_start_matches("batch/");
    let shown = server.json(&["batch", "show", batch]);
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let waited = time(&marked["data"]["deadline"]).duration_since(time(&shown["logical_time"]));
    assert_eq!(waited, SignedDuration::from_secs(1), "{marked} {shown}");
}
