//! BYD-19, BYD-20: what follows a failed attempt, and what an attempt passes on, through the command line.

use std::thread;
use std::time::{Duration, Instant};

use crate::server::{Server, run_job, text};
use serde_json::{Value, json};
use tidemill_model::Timestamp;

const PATIENCE: Duration = Duration::from_secs(60);

fn ended(server: &Server, batch: &str) -> Value {
    let begun_at = Instant::now();
    loop {
        let shown = server.json(&["batch", "show", batch]);
        if shown["state"] == "finished" {
            return shown;
        }
        assert!(begun_at.elapsed() < PATIENCE, "it does not end: {shown}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// BYD-19: exit codes that mean *no retry* and *skip*; children of what was skipped go on.
#[test]
fn exit_codes_of_real_processes_mean_what_the_job_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs:\n\
        - {name: gone, group: default, type: shell, command: exit 9, retries: 5, exit_codes: {no_retry: [9]}}\n\
        - {name: idle, group: default, type: shell, command: exit 4, retries: 5, exit_codes: {skip: [4, 5]}}\n\
        - {name: child, group: default, type: noop, parents: [idle]}\n",
    );
    let gone = ended(&server, &run_job(&server, "default/gone"));
    assert_eq!(
        (&gone["result"], gone["attempts"].as_array().unwrap().len()),
        (&json!("failed"), 1),
        "{gone}"
    );
    let idle = ended(&server, &run_job(&server, "default/idle"));
    assert_eq!(
        (&idle["result"], idle["attempts"].as_array().unwrap().len()),
        (&json!("skipped"), 1),
        "{idle}"
    );
    assert!(idle["message"].as_str().unwrap().contains("exit code 4"), "{idle}");
    let child = server.json(&["batch", "ls", "--job", "default/child"])["items"][0]["id"].to_string();
    assert_eq!(ended(&server, &child)["result"], "success");
}

/// BYD-19, JOB-5: pauses between attempts grow; what was written comes out again.
#[test]
fn pauses_between_real_attempts_grow() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs: [{name: a, group: default, type: shell, command: exit 1, retries: 2, retry_interval_s: 1, \
         retry_backoff: {factor: 2.5, max_interval_s: 60}, exit_codes: {skip: [7]}}]",
    );
    let shown = ended(&server, &run_job(&server, "default/a"));
    let time = |attempt: usize, field: &str| -> Timestamp {
        shown["attempts"][attempt][field].as_str().unwrap().parse().unwrap()
    };
    let pause = |before: usize| time(before + 1, "started_at").duration_since(time(before, "finished_at"));
    assert!(pause(0).as_millis() >= 1_000 && pause(1).as_millis() >= 2_500, "{shown}");
    let exported = text(&server.run(&["job", "export", "--group", "default"]).stdout);
    let changes = server.apply(&exported)["changes"].clone();
    assert!(changes.as_array().unwrap().iter().all(|change| change["change"] == "unchanged"), "{changes}");
    assert_eq!(server.json(&["job", "show", "default/a"])["retry_backoff"]["factor"], 2.5);
}

/// BYD-20: a job's values are recorded with its attempt, and are in the templates of its children; a file that is no
/// object of texts, or too long, fails the attempt and says so. A parameter given by hand stands in for a value that is
/// missing.
#[test]
fn values_go_from_a_process_to_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs:\n\
        - {name: count, group: default, type: shell, \
           command: 'echo \"{\\\"rows\\\": \\\"42\\\"}\" > $TIDEMILL_VALUES'}\n\
        - {name: tell, group: default, type: shell, command: 'echo $TIDEMILL_PARAM_ROWS rows', parents: [count], \
           parameters: {rows: '${values.count.rows}'}}\n\
        - {name: wrong, group: default, type: shell, command: 'echo 42 > $TIDEMILL_VALUES'}\n\
        - {name: long, group: default, type: shell, command: 'head -c 8193 /dev/zero > $TIDEMILL_VALUES'}\n\
        - {name: lacks, group: default, type: shell, command: 'echo', arguments: ['${values.count.days}'], parents: [count]}\n\
        - {name: asks, group: default, type: shell, command: 'echo \"$TIDEMILL_PARAM_DAYS days\"', parents: [count], \
           parameters: {days: '${values.count.days}'}}\n",
    );
    let count = ended(&server, &run_job(&server, "default/count"));
    assert_eq!(count["result"], "success", "{count}");
    assert_eq!(count["attempts"][0]["values"], json!({"rows": "42"}), "{count}");
    let child = |job: &str| server.json(&["batch", "ls", "--job", job])["items"][0]["id"].to_string();
    let tell = child("default/tell");
    assert_eq!(ended(&server, &tell)["result"], "success");
    assert_eq!(text(&server.run(&["batch", "logs", &tell]).stdout), "42 rows\n");
    let lacks = ended(&server, &child("default/lacks"));
    assert_eq!(lacks["result"], "failed", "{lacks}");
    assert!(lacks["message"].as_str().unwrap().contains("passed no value days on"), "{lacks}");
    assert_eq!(ended(&server, &child("default/asks"))["result"], "failed");
    let time = count["logical_time"].as_str().unwrap();
    let given = server.json(&[
        "job",
        "run",
        "default/asks",
        "--concurrent",
        "--logical-time",
        time,
        "--param",
        "days=3",
    ]);
    let given = given["batch"].to_string();
    assert_eq!(ended(&server, &given)["result"], "success");
    assert_eq!(text(&server.run(&["batch", "logs", &given]).stdout), "3 days\n");
    for (job, fault) in [("wrong", "is not a JSON object of texts"), ("long", "is longer than 8192 bytes")] {
        let shown = ended(&server, &run_job(&server, &format!("default/{job}")));
        assert_eq!(shown["result"], "failed", "{shown}");
        assert!(shown["message"].as_str().unwrap().contains(fault), "{shown}");
    }
    assert_eq!(server.json(&["verify", "--journal"])["finding_count"], 0);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}
