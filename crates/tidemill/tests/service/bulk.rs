//! BYD-3: one action for all that fit a filter, through the command line and REST.

use crate::server::{Server, run_job, text, until};
use serde_json::{Value, json};

/// Batches of `long-*` run until they are ended.
const JOBS: &str = "jobs:\n\
    - {name: long-a, group: default, type: shell, owner: eve, command: 'exec sleep 1000'}\n\
    - {name: long-b, group: default, type: shell, owner: ann, command: 'exec sleep 1000'}\n\
    - {name: short, group: default, type: noop}\n";

fn fixture(data: &std::path::Path) -> Server {
    let server = Server::start(data);
    server.apply(JOBS);
    server
}

fn state(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])["state"].clone()
}

fn ids(items: &Value) -> Vec<String> {
    items["items"].as_array().unwrap().iter().map(|item| item["id"].to_string()).collect()
}

/// The operation, once it has ended.
fn ended(server: &Server, bulk: &str) -> Value {
    until("the operation ends", || {
        Some(server.json(&["bulk", "show", bulk])).filter(|shown| !shown["ended_at"].is_null())
    })
}

/// BYD-3: a dry run lists what would be done and does nothing; the operation does it, says how far it is, and stands on
/// each batch with who and why.
#[test]
fn all_that_fit_are_killed_as_one_operation() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let (a, b) = (run_job(&server, "default/long-a"), run_job(&server, "default/long-b"));
    let planned = server.json(&["bulk", "kill", "--job", "long-*", "--dry-run"]);
    let mut listed = ids(&planned);
    listed.sort();
    assert_eq!((listed, &planned["found"]), (vec![a.clone(), b.clone()], &json!(2)));
    assert_ne!(state(&server, &a), "finished", "nothing was done");

    let begun =
        server.json(&["bulk", "kill", "--job", "long-*", "--owner", "eve", "--reason", "wrong input"]);
    let bulk = begun["bulk"].to_string();
    let done = ended(&server, &bulk);
    let counts = ["items", "done", "refused", "left"].map(|field| done[field].as_i64().unwrap());
    assert_eq!(counts, [1, 1, 0, 0], "{done}");
    assert_eq!(done["reason"], "wrong input");
    until("the batch ends", || (state(&server, &a) == "finished").then_some(()));
    let killed = server.json(&["batch", "show", &a]);
    assert_eq!(
        (&killed["result"], &killed["killed_by"]),
        (&json!("killed"), &done["requested_by"]),
        "{killed}"
    );
    assert_ne!(state(&server, &b), "finished", "of another owner");
    assert_eq!(ids(&server.json(&["bulk", "items", &bulk, "--outcome", "done"])), [a]);
}

/// BYD-3: what cannot be done to an item is said of that item; jobs are switched, batches marked and cleared.
#[test]
fn jobs_are_switched_and_batches_marked_and_cleared_by_filter() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let waits = |arguments: &[&str]| {
        let shown = server.json(&[&["bulk"], arguments, &["--reason", "so", "--wait"]].concat());
        (shown["done"].clone(), shown["refused"].clone())
    };
    let short = run_job(&server, "default/short");
    until("the batch ends", || (state(&server, &short) == "finished").then_some(()));
    assert_eq!(waits(&["mark", "failed", "--job", "short"]), (json!(1), json!(0)));
    until("the mark is shown", || {
        (server.json(&["batch", "show", &short])["result"] == "failed").then_some(())
    });
    assert_eq!(waits(&["clear", "--job", "short", "--result", "failed"]), (json!(1), json!(0)));
    let newest = server.json(&["bulk", "ls", "--limit", "1"])["items"][0]["id"].to_string();
    let rerun = server.json(&["bulk", "items", &newest])["items"][0]["rerun"].clone();
    assert_eq!(server.json(&["rerun", "show", &rerun.to_string()])["reason"], "so");
    let runs = until("the next run is shown", || {
        let listed = server.json(&["batch", "ls"]);
        Some(listed["items"].as_array().unwrap().len()).filter(|runs| *runs == 2)
    });
    assert_eq!(runs, 2);
    assert_eq!(waits(&["disable", "--group", "default"]), (json!(3), json!(0)));
    until("all are disabled", || {
        let enabled = server.json(&["job", "ls", "--enabled", "true"]);
        enabled["items"].as_array().unwrap().is_empty().then_some(())
    });
    assert_eq!(waits(&["enable", "--job", "long-?"]), (json!(2), json!(0)));
}

/// BYD-3, API-4: a filter that is empty, fits nothing, fits more than the limit or is of another kind is refused by name; a
/// repeat of a request is the same operation.
#[test]
fn filters_are_bounded_and_repeats_are_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let refused = |name: &str, body: Value| {
        let (status, answer) = server.post("/api/bulk", name, &body);
        assert_eq!((status, &answer["code"]), (422, &json!("invalid")), "{answer}");
        answer["errors"][0]["field"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused("1", json!({"action": "disable", "filter": {}, "reason": "so"})), "filter");
    assert_eq!(refused("2", json!({"action": "disable", "filter": {"job": "x*"}, "reason": "so"})), "filter");
    let many = json!({"action": "disable", "filter": {"group": "default"}, "reason": "so", "limit": 2});
    assert_eq!(refused("3", many), "filter");
    let mixed = json!({"action": "disable", "filter": {"state": "waiting"}, "reason": "so"});
    assert_eq!(refused("4", mixed), "filter.state");
    let silent = json!({"action": "disable", "filter": {"group": "default"}});
    assert_eq!(refused("5", silent), "reason");
    assert_eq!(
        refused("6", json!({"action": "mark", "filter": {"group": "default"}, "reason": "so"})),
        "result"
    );

    let body = json!({"action": "disable", "filter": {"job": "short"}, "reason": "so"});
    let (status, first) = server.post("/api/bulk", "once", &body);
    assert_eq!(status, 202, "{first}");
    ended(&server, &first["bulk"].to_string());
    // Nothing fits any more.
    let (_, again) = server.post("/api/bulk", "once", &body);
    assert_eq!(again["bulk"], first["bulk"]);
    assert_eq!(text(&server.run(&["bulk", "ls"]).stdout).lines().count(), 2, "a header and one operation");
}

/// BYD-3: what an owner refuses is shown with its reason, and the others are done.
#[test]
fn refused_items_are_shown_with_their_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let (short, long) = (run_job(&server, "default/short"), run_job(&server, "default/long-a"));
    until("the batch ends", || (state(&server, &short) == "finished").then_some(()));
    let (_, begun) = server.post(
        "/api/bulk",
        "mixed",
        &json!({"action": "kill", "filter": {"group": "default", "state": "finished"}, "reason": "so"}),
    );
    let bulk = begun["bulk"].to_string();
    let counts = ["items", "done", "refused"].map(|field| ended(&server, &bulk)[field].as_i64().unwrap());
    assert_eq!(counts, [1, 0, 1]);
    let items = server.json(&["bulk", "items", &bulk, "--outcome", "refused"]);
    assert_eq!(ids(&items), std::slice::from_ref(&short));
    let reason = items["items"][0]["reason"].as_str().unwrap();
    assert!(reason.contains(&short) && reason.contains("finished"), "{reason}");
    assert_ne!(state(&server, &long), "finished");
}

/// BYD-3: a server that is killed in the middle of an operation carries it on when it starts again, and each item is
/// done once.
#[test]
fn killed_server_carries_an_operation_on() {
    const JOBS: usize = 600;
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let jobs: String =
        (0..JOBS).map(|n| format!("- {{name: j-{n}, group: default, type: noop}}\n")).collect();
    server.apply(&format!("jobs:\n{jobs}"));
    let body = json!({"action": "disable", "filter": {"job": "j-*"}, "reason": "so"});
    let (status, begun) = server.post("/api/bulk", "large", &body);
    assert_eq!(status, 202, "{begun}");
    let bulk = begun["bulk"].to_string();
    server.signal("-KILL");
    server.child.wait().unwrap();
    let tables = rusqlite::Connection::open(dir.path().join("tables.sqlite")).unwrap();
    let ended_by_then: i64 = tables
        .query_row("SELECT COUNT(*) FROM bulk_operations WHERE ended_at IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(ended_by_then, 0, "it was killed in the middle");
    drop(tables);
    server = Server::start(dir.path());
    let done = ended(&server, &bulk);
    let counts = ["items", "done", "refused", "left"].map(|field| done[field].as_u64().unwrap());
    assert_eq!(counts, [JOBS as u64, JOBS as u64, 0, 0], "{done}");
    let disabled = server.json(&["job", "ls", "--enabled", "false", "--limit", "1000"]);
    assert_eq!(disabled["items"].as_array().unwrap().len(), JOBS);
    let events = server.run(&[
        "events",
        "tail",
        "--from",
        "start",
        "--type",
        "job.disabled",
        "--limit",
        "600",
        "-o",
        "json",
    ]);
    let mut switched: Vec<String> = text(&events.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|event| event["subject"].to_string())
        .collect();
    switched.sort();
    switched.dedup();
    assert_eq!(switched.len(), JOBS, "each job is switched once");
    let verified = server.json(&["verify", "--journal"]);
    assert_eq!(verified["finding_count"], 0, "{verified:#}");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}
