//! BYD-16, BYD-17: what people say of batches and groups, through the command line and REST.

use crate::facts::facts;
use crate::server::{Server, code, run_job, text, until};
use serde_json::{Value, json};
use tidemill_log::SqliteView;

fn show_until(server: &Server, batch: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    until(what, || Some(server.json(&["batch", "show", batch])).filter(|shown| holds(shown)))
}

fn newest(server: &Server, job: &str) -> String {
    until("a batch", || {
        let batches = server.json(&["batch", "ls", "--job", job]);
        Some(batches["items"].as_array()?.first()?["id"].to_string())
    })
}

/// BYD-16: a failed batch is marked success, and its child goes on; who, when and why stand in the batch.
#[test]
fn failed_batch_is_marked_and_its_child_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs: [{name: p, group: default, type: shell, command: exit 1}, \
         {name: c, group: default, type: noop, parents: [p]}]",
    );
    let batch = run_job(&server, "default/p");
    show_until(&server, &batch, "it fails", |shown| shown["result"] == "failed");
    let child = newest(&server, "default/c");
    assert_eq!(server.json(&["batch", "why", &child])["conditions"][0]["kind"], "dependency");
    let refused = server.run(&["batch", "mark", &batch, "success", "--reason", " "]);
    assert_ne!(code(&refused), 0);
    assert!(text(&refused.stderr).contains("must be 1 to 500 characters"), "{}", text(&refused.stderr));
    server.json(&["batch", "mark", &batch, "success", "--reason", "loaded by hand"]);
    let shown = show_until(&server, &batch, "the mark", |shown| !shown["result_overridden_at"].is_null());
    assert_eq!(
        (&shown["result"], &shown["overridden_result"]),
        (&json!("success"), &json!("success")),
        "{shown}"
    );
    assert_eq!(
        (&shown["result_overridden_by"], &shown["result_override_reason"]),
        (&json!("admin"), &json!("loaded by hand"))
    );
    show_until(&server, &child, "the child", |shown| shown["result"] == "success");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// BYD-16: a running batch is ended first, with its processes; REST says the same as the command line.
#[test]
fn running_batch_is_killed_and_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: p, group: default, type: shell, command: exec sleep 1000}]");
    let batch = run_job(&server, "default/p");
    show_until(&server, &batch, "it runs", |shown| shown["state"] == "running");
    let path = format!("/api/batches/{batch}/mark");
    let mark = json!({"result": "skipped", "reason": "not needed today"});
    assert_eq!(server.post(&path, "m-1", &mark).0, 200);
    let shown = show_until(&server, &batch, "it ends", |shown| shown["state"] == "finished");
    assert_eq!(
        (&shown["result"], &shown["message"]),
        (&json!("skipped"), &json!("not needed today")),
        "{shown}"
    );
    assert_eq!(shown["attempts"][0]["result"], "killed");
    let listed = server.json(&["batch", "ls", "--result", "skipped"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let (status, refused) = server.post(&path, "m-2", &json!({"result": "killed", "reason": "x"}));
    assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("result")), "{refused}");
}

/// BYD-17, DSP-1: a frozen group generates and does not assign; `why` says so; lifted, it goes on. A key that is
/// bound to a group freezes that group and no other, and everything takes a super administrator.
#[test]
fn frozen_group_generates_and_waits() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    server.json(&[
        "freeze",
        "set",
        "--group",
        "default",
        "--latest",
        "2020-01-01T00:00:00.000Z",
        "--reason",
        "moved",
    ]);
    let batch = run_job(&server, "default/a");
    let why = until("it is frozen", || {
        let why = server.json(&["batch", "why", &batch])["conditions"][0].clone();
        (why["kind"] == "frozen").then_some(why)
    });
    assert!(why["message"].as_str().unwrap().contains("2020-01-01T00:00:00.000Z (admin: moved)"), "{why}");
    let listed = until("the freeze", || {
        let listed = server.json(&["freeze", "ls"])["items"].clone();
        (!listed.as_array().unwrap().is_empty()).then_some(listed)
    });
    assert_eq!((&listed[0]["group"], &listed[0]["reason"]), (&json!("default"), &json!("moved")), "{listed}");
    let old = server.json(&[
        "job",
        "run",
        "default/a",
        "--concurrent",
        "--logical-time",
        "2019-12-31T00:00:00.000Z",
    ])["batch"]
        .to_string();
    show_until(&server, &old, "it ends", |shown| shown["result"] == "success");
    assert_eq!(server.json(&["batch", "show", &batch])["state"], "waiting");
    server.json(&["freeze", "lift", "--group", "default"]);
    show_until(&server, &batch, "it ends", |shown| shown["result"] == "success");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// DSP-1, JOB-5: the earliest start is shown, kept back for, and exported as written.
#[test]
fn batch_waits_for_its_earliest_start() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs: [{name: a, group: default, type: noop, max_concurrent: 5, earliest_start_minutes: 30}]",
    );
    let ahead = run_job(&server, "default/a");
    let why = server.json(&["batch", "why", &ahead])["conditions"].clone();
    assert_eq!(why[0]["kind"], "earliest_start", "{why}");
    let waited = [3, 12, 40].into_iter().any(|seconds| {
        let time = tidemill_model::Timestamp::from(jiff::Timestamp::now())
            - jiff::SignedDuration::from_secs(1_800 - seconds);
        let soon =
            server.json(&["job", "run", "default/a", "--concurrent", "--logical-time", &time.to_string()]);
        let soon = soon["batch"].to_string();
        let shown = show_until(&server, &soon, "it ends", |shown| shown["state"] == "finished");
        let time =
            |field: &str| -> tidemill_model::Timestamp { shown[field].as_str().unwrap().parse().unwrap() };
        assert!(time("assigned_at") >= time("earliest_start_at"), "{shown}");
        // Where this is slow, that time has come before the batch has.
        time("generated_at") < time("earliest_start_at")
    });
    assert!(waited, "none was generated before its earliest start");
    let exported = text(&server.run(&["job", "export", "--group", "default"]).stdout);
    assert!(exported.contains("earliest_start_minutes: 30"), "{exported}");
    let changes = server.apply(&exported)["changes"].clone();
    assert_eq!(changes[0]["change"], "unchanged");
}

/// BYD-18: children of a failed parent fail, are skipped, run, or run because of it, in its group and in another; after
/// a rerun of it that succeeds, what waited goes on; of one that succeeded, what runs on failure is skipped; the rules
/// are exported as written.
#[test]
fn children_of_a_failed_parent_do_what_their_jobs_say() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "lake"]);
    let go = dir.path().join("go");
    server.apply(
        &"jobs:\n\
        - {name: p, group: default, type: shell, command: test -e GO}\n\
        - {name: fails, group: default, type: noop, parents: [p], on_parent_failure: fail}\n\
        - {name: skips, group: default, type: noop, parents: [p], on_parent_failure: skip}\n\
        - {name: runs, group: default, type: noop, parents: [p], on_parent_failure: run}\n\
        - {name: rescues, group: default, type: noop, parents: [p], run_if: failure}\n\
        - {name: waits, group: default, type: noop, parents: [p]}\n\
        - {name: fails, group: lake, type: anchor, parents: [default/p], on_parent_failure: fail}\n\
        - {name: rescues, group: lake, type: anchor, parents: [default/p], run_if: failure}\n\
        - {name: waits, group: lake, type: anchor, parents: [default/p]}\n"
            .replace("GO", go.to_str().unwrap()),
    );
    until("the parent's group knows that another one wants each of its batches", || {
        let facts = facts(&SqliteView::open(&dir.path().join("log")).unwrap());
        let followed = facts.iter().filter(|fact| fact.event.kind() == "parent.subscribed");
        (followed.count() >= 2).then_some(())
    });
    let result = |job: &str, result: &str| {
        until(job, || {
            let shown = server.json(&["batch", "show", &newest(&server, job)]);
            (shown["result"] == result).then_some(shown)
        })
    };
    let time = "2026-03-01T00:00:00.000Z";
    let batch = server.json(&["job", "run", "default/p", "--concurrent", "--logical-time", time])["batch"]
        .to_string();
    for group in ["default", "lake"] {
        let failed = result(&format!("{group}/fails"), "failed");
        assert!(
            failed["message"].as_str().unwrap().contains("its parent default/p of 2026-03-01"),
            "{failed}"
        );
        result(&format!("{group}/rescues"), "success");
        let waits = newest(&server, &format!("{group}/waits"));
        assert_eq!(server.json(&["batch", "why", &waits])["conditions"][0]["kind"], "dependency");
    }
    result("default/skips", "skipped");
    result("default/runs", "success");

    std::fs::write(&go, "").unwrap();
    server.json(&["batch", "rerun", &batch]);
    result("default/waits", "success");
    result("lake/waits", "success");
    server.json(&["job", "run", "default/p", "--concurrent", "--logical-time", "2026-03-02T00:00:00.000Z"]);
    for job in ["default/rescues", "lake/rescues"] {
        let skipped = result(job, "skipped");
        assert!(skipped["message"].as_str().unwrap().contains("it runs only on failure"), "{skipped}");
    }

    let shown = server.json(&["job", "show", "default/skips"]);
    assert_eq!(
        (&shown["on_parent_failure"], &shown["run_if"]),
        (&json!("skip"), &json!("success")),
        "{shown}"
    );
    let exported = text(&server.run(&["job", "export", "--group", "default"]).stdout);
    assert!(
        exported.contains("on_parent_failure: fail") && exported.contains("run_if: failure"),
        "{exported}"
    );
    let changes = server.apply(&exported)["changes"].clone();
    assert!(changes.as_array().unwrap().iter().all(|change| change["change"] == "unchanged"), "{changes}");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}
