//! GEN-10: what a shard has evicted never makes an answer wrong: reruns, marks and waits of batches so old that their
//! owner holds little of them, through the command line and REST.

use crate::server::{Server, code, text, until};
use serde_json::{Value, json};

/// A job and others that wait for it, in two groups, for days that no schedule reaches. Its command fails where its parameter
/// says so, and writes down the others.
fn fixture(data: &std::path::Path, comment: &str, command: &str) -> Server {
    let server = Server::start(data);
    server.json(&["group", "apply", "other"]);
    define(&server, comment, command);
    server
}

fn define(server: &Server, comment: &str, command: &str) {
    let daily = "schedule: {period: day, zone: UTC}, max_concurrent: 10";
    server.apply(&format!(
        "jobs:\n\
        - {{name: p, group: default, type: shell, comment: {comment}, parameters: {{x: none}}, {daily},\n   \
           command: '{command}'}}\n\
        - {{name: past, group: default, type: shell, parameters: {{x: none}}, depends_on_past: true, {daily},\n   \
           command: 'test $TIDEMILL_PARAM_X != bad'}}\n\
        - {{name: c, group: default, type: noop, parents: [p], {daily}}}\n\
        - {{name: far, group: other, type: anchor, parents: [default/p], {daily}}}\n"
    ));
}

fn day(number: usize) -> String {
    format!("2026-{:02}-{:02}T00:00:00.000Z", 1 + number / 28, 1 + number % 28)
}

/// Runs a job by hand for days one after the other, so many that the oldest leave what the owner holds in full. The
/// n-th gets `x=n`, but for those that are to fail.
fn run_days(server: &Server, job: &str, count: usize, bad: &[usize]) -> Vec<String> {
    let run = |number: usize| {
        let x = if bad.contains(&number) { "x=bad".to_owned() } else { format!("x={number}") };
        let words = ["job", "run", job, "--logical-time", &day(number), "--param", &x];
        let batch = server.json(&words)["batch"].to_string();
        until("it ends", || (shown(server, &batch)["state"] == "finished").then_some(()));
        batch
    };
    (0..count).map(run).collect()
}

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

/// The newest run of a logical time, as `batch show` has it.
fn newest(server: &Server, job: &str, time: &str) -> Value {
    let batches = server.json(&["batch", "ls", "--job", job, "--from", time, "--limit", "100"]);
    let of_time = batches["items"].as_array().unwrap().iter().filter(|batch| batch["logical_time"] == time);
    let newest = of_time.max_by_key(|batch| batch["run"].as_u64()).expect("the time has a batch");
    shown(server, &newest["id"].to_string())
}

/// GEN-10: a rerun of a batch, a planned rerun and a clear of a logical time that its shard has evicted use the
/// parameters that the batch had; a rerun of an older run uses that one's own.
#[test]
fn reruns_of_evicted_batches_keep_their_parameters() {
    let dir = tempfile::tempdir().unwrap();
    let command = format!("echo $TIDEMILL_PARAM_X >> {}/ran", dir.path().display());
    let server = fixture(dir.path(), "first", &command);
    let batches = run_days(&server, "default/p", 30, &[]);
    let ran = || std::fs::read_to_string(dir.path().join("ran")).unwrap();
    let last = || ran().lines().last().unwrap().to_owned();
    let rerun = server.json(&["batch", "rerun", &batches[0], "--wait"]);
    assert_eq!((rerun["parameters"].clone(), last()), (json!({"x": "0"}), "0".to_owned()), "{rerun}");

    let span = ["--from", &day(1), "--to", &day(1), "--yes", "--wait"];
    let output = server.run(&[&["rerun", "plan", "default/p"][..], &span].concat());
    assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
    let planned = newest(&server, "default/p", &day(1));
    assert_eq!((&planned["run"], &planned["parameters"]), (&json!(2), &json!({"x": "1"})), "{planned}");
    assert_eq!(last(), "1");

    let output = server.run(&["batch", "clear", &batches[2], "--yes", "--wait"]);
    assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
    let cleared = newest(&server, "default/p", &day(2));
    assert_eq!((&cleared["run"], &cleared["parameters"]), (&json!(2), &json!({"x": "2"})), "{cleared}");
    assert_eq!(last(), "2");

    // Another run of the same time has other parameters; each batch's rerun has its own.
    server.json(&["job", "run", "default/p", "--logical-time", &day(3), "--param", "x=other", "--wait"]);
    let older = server.json(&["batch", "rerun", &batches[3], "--wait"]);
    assert_eq!((&older["run"], &older["parameters"]), (&json!(3), &json!({"x": "3"})), "{older}");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// GEN-10, BYD-3: the definition that an evicted batch had is still known, and so is its version.
#[test]
fn recorded_definition_of_an_evicted_batch_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let command = |word: &str| format!("echo {word} $TIDEMILL_PARAM_X >> {}/ran", dir.path().display());
    let server = fixture(dir.path(), "first", &command("first"));
    run_days(&server, "default/p", 30, &[]);
    define(&server, "second", &command("second"));
    for (definition, version, line) in [("recorded", 1, "first 4"), ("today", 2, "second 4")] {
        let span = ["--from", &day(4), "--to", &day(4), "--definition", definition, "--yes", "--wait"];
        let output = server.run(&[&["rerun", "plan", "default/p"][..], &span].concat());
        assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
        let batch = newest(&server, "default/p", &day(4));
        assert_eq!(batch["job_version"], version, "{batch}");
        assert_eq!(
            std::fs::read_to_string(dir.path().join("ran")).unwrap().lines().last(),
            Some(line),
            "{batch}"
        );
    }
}

/// GEN-10, BYD-16: a failed batch that its shard has evicted is marked, and the child that waits for it goes on; an
/// older run of it is refused for what it is.
#[test]
fn evicted_batch_is_marked_and_its_child_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path(), "first", "test $TIDEMILL_PARAM_X != bad");
    let batches = run_days(&server, "default/p", 30, &[1, 2]);
    let child = server.json(&["job", "run", "default/c", "--logical-time", &day(1)])["batch"].to_string();
    let why = server.json(&["batch", "why", &child]);
    let message = why["conditions"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("run 1 failed"), "{message}");
    let far = server.json(&["job", "run", "other/far", "--logical-time", &day(1)])["batch"].to_string();
    until("the other group has heard", || {
        let why = server.json(&["batch", "why", &far]);
        why["conditions"][0]["message"].as_str()?.ends_with("said that run 1 failed").then_some(())
    });
    server.json(&["batch", "mark", &batches[1], "success", "--reason", "loaded by hand"]);
    for child in [&child, &far] {
        until("the child goes on", || (shown(&server, child)["result"] == "success").then_some(()));
    }
    let marked = shown(&server, &batches[1]);
    assert_eq!(
        (&marked["result"], &marked["overridden_result"]),
        (&json!("success"), &json!("success")),
        "{marked}"
    );

    let rerun =
        server.json(&["job", "run", "default/p", "--logical-time", &day(2), "--param", "x=2", "--wait"]);
    let older = server.run(&["batch", "mark", &batches[2], "success", "--reason", "too late"]);
    assert_ne!(code(&older), 0);
    let newest = rerun["id"].to_string();
    assert!(text(&older.stderr).contains(&format!("mark batch {newest} (run 2)")), "{}", text(&older.stderr));
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// GEN-10, DEP-3: `depends_on_past` waits for a failed predecessor though its shard has evicted it.
#[test]
fn evicted_failed_predecessor_keeps_the_next_batch_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path(), "first", "exit 0");
    let first = run_days(&server, "default/past", 1, &[0]);
    // Each of these would wait for the one before it, so every second day is left out.
    for number in 1..30 {
        let time = day(2 * number);
        server.json(&["job", "run", "default/past", "--logical-time", &time, "--param", "x=fine", "--wait"]);
    }
    let next = server.json(&["job", "run", "default/past", "--logical-time", &day(1)])["batch"].to_string();
    let why = server.json(&["batch", "why", &next]);
    assert_eq!(why["conditions"][0]["kind"], "dependency", "{why}");
    server.json(&["batch", "mark", &first[0], "success", "--reason", "loaded by hand"]);
    until("the next goes on", || (shown(&server, &next)["result"] == "success").then_some(()));
}
