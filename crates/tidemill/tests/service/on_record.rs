//! What is on record is shown: who changed what, versions and their differences, when a process started, what was set
//! aside, and the feed from a time on; through the command line and REST of the real program.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::facts::{facts, is_public, public_and_internal};
use crate::server::feed::Feed;
use crate::server::{Server, run_job, text, until};
use serde_json::{Value, json};
use tidemill_log::{Log, SqliteConfig, SqliteLog, SqliteView, Topic, append_wait};
use tidemill_model::{Actor, Command, CommandRecord, JobCommand, JobId, ShardId, Timestamp};

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap_or_else(|| panic!("{value}")).parse().unwrap()
}

fn items(value: &Value) -> &Vec<Value> {
    value["items"].as_array().unwrap_or_else(|| panic!("{value}"))
}

/// One field of every row.
fn column(value: &Value, field: &str) -> Vec<Value> {
    items(value).iter().map(|row| row[field].clone()).collect()
}

/// A second administrator, as `--key` takes it.
fn key(server: &Server, app: &str) -> String {
    server.json(&["key", "apply", app, "--role", "super_administrator"])["key"].as_str().unwrap().to_owned()
}

/// A command that has to succeed.
fn does(server: &Server, arguments: &[&str]) {
    let output = server.run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
}

/// TBL-1: a batch has started when its first attempt's process has, in its own row as in the attempt's.
#[test]
fn a_batch_starts_when_its_first_process_does() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs: [{name: again, group: default, type: shell, retries: 1, retry_interval_s: 0, \
         command: 'test $TIDEMILL_ATTEMPT = 2'}]",
    );
    let batch = run_job(&server, "default/again");
    let shown = until("it ends", || {
        Some(server.json(&["batch", "show", &batch])).filter(|shown| shown["state"] == "finished")
    });
    let attempts = shown["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{shown:#}");
    assert_eq!(time(&shown["started_at"]), time(&attempts[0]["started_at"]), "{shown:#}");
    assert!(time(&attempts[0]["granted_at"]) < time(&shown["started_at"]), "{shown:#}");
    assert!(time(&shown["started_at"]) < time(&attempts[1]["started_at"]), "{shown:#}");
}

/// JOB-5: every version of a definition, who defined it, what differs between two, and who waits for a job.
#[test]
fn versions_their_differences_and_children_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let ops = key(&server, "ops");
    let apply = |file: &str, key: &str| {
        let path = dir.path().join("jobs.yaml");
        std::fs::write(&path, file).unwrap();
        does(&server, &["job", "apply", "-f", path.to_str().unwrap(), "--key", key]);
    };
    let admin = std::fs::read_to_string(dir.path().join("admin.key")).unwrap().trim().to_owned();
    let parent = |rest: &str| format!("jobs:\n- {{name: a, group: default, type: noop, {rest}}}\n");
    apply(&parent("comment: one"), &admin);
    apply(
        &format!(
            "{}- {{name: b, group: default, type: noop, parents: [{{job: a, mapping: same}}]}}\n\
             - {{name: c, group: default, type: noop, parents: [a]}}\n",
            parent("comment: two, retries: 3")
        ),
        &ops,
    );
    let versions = server.json(&["job", "versions", "default/a"]);
    assert_eq!(column(&versions, "version"), [2, 1]);
    let admin_app = admin.split(':').next().unwrap();
    assert_eq!(column(&versions, "defined_by"), ["ops", admin_app]);
    let diff = server.json(&["job", "diff", "default/a", "1", "2"]);
    let fields = diff["fields"].as_array().unwrap();
    let fields: Vec<_> = fields.iter().map(|field| (&field["field"], &field["old"], &field["new"])).collect();
    let (one, two) = (json!("one"), json!("two"));
    assert_eq!(fields[0], (&json!("comment"), &one, &two), "{diff:#}");
    assert_eq!((fields.len(), fields[1].0, fields[1].2), (2, &json!("retries"), &json!(3)), "{diff:#}");
    let first = server.json(&["job", "show", "default/a", "--at-version", "1"]);
    assert_eq!((&first["version"], &first["definition"]["comment"]), (&json!(1), &one), "{first:#}");
    let children = server.json(&["job", "children", "default/a"]);
    assert_eq!(column(&children, "name"), ["default/b", "default/c"]);
    assert_eq!(column(&children, "mapping"), ["same", "same"]);

    let id = server.json(&["job", "show", "default/a"])["id"].clone();
    let (status, absent) = server.get(&format!("/api/jobs/{id}/versions/7"));
    assert_eq!((status, &absent["code"]), (404, &json!("unknown")), "{absent}");
    let (status, bad) = server.get(&format!("/api/jobs/{id}/versions/x/diff/1"));
    assert_eq!((status, &bad["errors"][0]["field"]), (422, &json!("version")), "{bad}");
    let page = server.get(&format!("/api/jobs/{id}/children?limit=1")).1;
    assert_eq!((items(&page).len(), page["next"].is_string()), (1, true), "{page}");
}

/// JOB-5: who changed, switched off or deleted a job is shown, after a large `apply` and a deletion that waited for the
/// group's answer, too; and who drained a worker.
#[test]
fn who_changed_disabled_and_drained_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let ops = key(&server, "ops");
    let many: String = (0..450).map(|n| format!("- {{name: j{n}, group: default, type: noop}}\n")).collect();
    let path = dir.path().join("jobs.yaml");
    std::fs::write(&path, format!("jobs:\n{many}")).unwrap();
    does(&server, &["job", "apply", "-f", path.to_str().unwrap(), "--key", &ops]);
    let job = |name: &str| server.json(&["job", "show", name]);
    assert_eq!(job("default/j0")["changed_by"], "ops");
    assert_eq!(job("default/j449")["changed_by"], "ops");
    assert_eq!(column(&server.json(&["job", "versions", "default/j449"]), "defined_by"), ["ops"]);

    does(&server, &["job", "disable", "default/j1", "--key", &ops]);
    let off = until("it is off", || Some(job("default/j1")).filter(|job| job["enabled"] == false));
    assert_eq!((&off["disabled_by"], &off["disabled_at"]), (&json!("ops"), &off["changed_at"]), "{off}");
    does(&server, &["job", "enable", "default/j1"]);
    let on = until("it is on", || Some(job("default/j1")).filter(|job| job["enabled"] == true));
    assert!(on["disabled_by"].is_null() && on["disabled_at"].is_null() && on["changed_by"] != "ops", "{on}");
    let id = on["id"].to_string();
    does(&server, &["job", "delete", "default/j1", "--key", &ops]);
    let gone = until("it is gone", || Some(job(&id)).filter(|job| !job["deleted_at"].is_null()));
    assert_eq!(gone["changed_by"], "ops", "{gone}");

    let worker = items(&server.json(&["worker", "ls"]))[0]["id"].as_str().unwrap().to_owned();
    let worker_now = || server.json(&["worker", "show", &worker]);
    does(&server, &["worker", "drain", &worker, "--key", &ops]);
    let drained = until("it is drained", || Some(worker_now()).filter(|worker| worker["drained"] == true));
    assert_eq!(drained["drained_by"], "ops", "{drained}");
    does(&server, &["worker", "resume", &worker]);
    let resumed = until("it works again", || Some(worker_now()).filter(|worker| worker["drained"] == false));
    assert!(resumed["drained_by"].is_null(), "{resumed}");
}

/// BYD-2: old versions of a calendar are shown with their days and who defined them, after it was removed, too.
#[test]
fn old_versions_of_calendars_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let define = |holidays: &str| {
        let path = dir.path().join("calendars.yaml");
        std::fs::write(&path, format!("calendars: [{{name: site, holidays: [{holidays}]}}]")).unwrap();
        does(&server, &["calendar", "apply", "-f", path.to_str().unwrap()]);
    };
    define("'2026-01-01'");
    define("'2026-01-01', '2026-05-01'");
    let versions = until("both are there", || {
        Some(server.json(&["calendar", "versions", "site"])).filter(|versions| items(versions).len() == 2)
    });
    assert_eq!(column(&versions, "date_count"), [2, 1]);
    assert!(column(&versions, "defined_by").iter().all(Value::is_string), "{versions}");
    let oldest = items(&versions)[1]["version"].to_string();
    let old = || server.json(&["calendar", "show", "site", "--at-version", &oldest]);
    assert_eq!(old()["calendars"][0]["holidays"], json!(["2026-01-01"]));
    does(&server, &["calendar", "delete", "site"]);
    until("it is gone", || {
        let (status, _) = server.get("/api/calendars/site");
        (status == 404).then_some(())
    });
    assert_eq!(old()["calendars"][0]["holidays"], json!(["2026-01-01"]));
    assert_eq!(server.get("/api/calendars/other/versions").0, 404);
    assert_eq!(server.get("/api/calendars/site/versions/99").0, 404);
}

/// EVT-4: the feed opens at a time: in each partition with the first event of that time or later.
#[test]
fn the_feed_opens_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: before, group: default, type: noop}]");
    until("both partitions have it", || {
        let job = server.json(&["job", "show", "default/before"]);
        (!job["id"].is_null()).then_some(())
    });
    run_job(&server, "default/before");
    // The clock of decisions counts milliseconds.
    let first = server.json(&["job", "show", "default/before"])["defined_at"].clone();
    let since = until("the clock moves on", || {
        let now = Timestamp::from(jiff::Timestamp::now());
        (now.as_millisecond() > time(&first).as_millisecond() + 5).then_some(now)
    });
    server.apply("jobs: [{name: after, group: default, type: noop}]");
    let tail = |from: &str, kind: &str, limit: &str| {
        let arguments = ["events", "tail", "--from", from, "--type", kind, "--limit", limit, "-o", "json"];
        let output = server.run(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let names = |events: &[Value]| -> Vec<String> {
        events
            .iter()
            .map(|event| event["data"]["definition"]["spec"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&tail("start", "job.defined", "2")), ["before", "after"]);
    let later = tail(&since.to_string(), "job.", "1");
    assert_eq!(names(&later), ["after"], "{later:#?}");
    assert!(later.iter().all(|event| time(&event["time"]) >= since), "{later:#?}");
    let all = tail("2000-01-01T00:00:00.000Z", "job.defined", "2");
    assert_eq!(names(&all), ["before", "after"]);
    let refused = server.run(&["events", "tail", "--from", "yesterday"]);
    assert!(text(&refused.stderr).contains("must be start, end or a time"), "{}", text(&refused.stderr));
    let (status, problem) = server.get("/api/events?from=yesterday");
    assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!("from")), "{problem}");
}

/// EVT-4: bookkeeping between shards stays in the journal: the feed has every public event once, and no other; who
/// filters by an internal kind is told so.
#[test]
fn internal_events_stay_in_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    does(&server, &["group", "apply", "other"]);
    let mut feed = Feed::follow(dir.path());
    server.apply(
        "jobs: [{name: p, group: default, type: noop}, {name: c, group: other, type: anchor, parents: [default/p]}]",
    );
    run_job(&server, "default/p");
    until("the child's batch succeeds", || {
        let batches = server.json(&["batch", "ls", "--job", "other/c"]);
        items(&batches).iter().any(|batch| batch["result"] == "success").then_some(())
    });
    let facts = facts(&SqliteView::open(&dir.path().join("log")).unwrap());
    let (mut missing, internal) = public_and_internal(&facts);
    for kind in ["job.replicated", "message.received", "outbox.acknowledged", "parent.subscribed"] {
        assert!(internal.contains(&kind), "{kind}: {internal:?}");
    }
    let mut seen = BTreeSet::new();
    while !missing.is_empty() {
        let event = feed.next();
        let text = |field: &str| event[field].as_str().unwrap().to_owned();
        assert!(is_public(&text("type")), "{event}");
        let name = (text("source"), text("id"));
        if let Some(kind) = missing.remove(&name) {
            assert_eq!(text("type"), format!("tidemill.{kind}.v1"));
        }
        assert!(seen.insert(name), "twice: {event}");
    }
    let refused =
        server.run(&["events", "tail", "--from", "start", "--type", "parent.subscribed", "--limit", "1"]);
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("parent.subscribed is in the journal only"), "{told}");
}

/// Appends to the commands of the catalogue's partition, as somebody with the right may.
fn append(data: &Path, records: Vec<Vec<u8>>) {
    let mut config = SqliteConfig::new(data.join("log"));
    config.partitions = 2;
    let log = SqliteLog::open(&config, Box::new(|reason| panic!("{reason}"))).unwrap();
    let producer = log.producer().unwrap();
    for record in records {
        append_wait(&*producer, Topic::Commands, 0, b"0", record, Duration::from_secs(30)).unwrap();
    }
}

/// EVT-9: what was set aside is listed, counted and shown with its reason; a command that can be decided now is sent
/// again, once, in the name of who asked; what cannot be is refused by a true reason, and stays.
#[test]
fn dead_letters_are_shown_counted_and_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    let job: i64 = server.json(&["job", "show", "default/a"])["id"].as_i64().unwrap();
    assert_eq!(server.stop(), Some(0));
    let oversize_sender_field = CommandRecord {
        shard: ShardId::CATALOGUE,
        request: None,
        reply_to: None,
        actor: Actor { app: "x".repeat(600).into(), user: None },
        command: Command::Job(JobCommand::Switch { job: JobId(job), enabled: false }),
    };
    append(dir.path(), vec![b"no command".to_vec(), serde_json::to_vec(&oversize_sender_field).unwrap()]);

    let server = Server::start(dir.path());
    let letters = || server.json(&["dead-letters", "ls"]);
    let both = until("both are set aside", || Some(letters()).filter(|found| items(found).len() == 2));
    assert_eq!(column(&both, "kind"), ["command", "command"]);
    assert_eq!(server.json(&["status"])["open_dead_letters"], 2);
    let ids: Vec<String> = column(&both, "id").iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    let garbage = server.json(&["dead-letters", "show", &ids[0]]);
    assert_eq!(garbage["command"], "no command");
    assert!(garbage["obstacle"].as_str().unwrap().contains("no command that this version can read"));
    let refused = server.run(&["dead-letters", "redrive", &ids[0]]);
    assert_eq!(crate::server::code(&refused), 3, "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("no command that this version can read"));

    let long = server.json(&["dead-letters", "show", &ids[1]]);
    assert!(long["reason"].as_str().unwrap().contains("actor.app is longer"), "{long}");
    assert!(long["obstacle"].is_null(), "{long}");
    let ops = key(&server, "ops");
    does(&server, &["dead-letters", "redrive", &ids[1], "--key", &ops]);
    let off = until("the job is off", || {
        Some(server.json(&["job", "show", "default/a"])).filter(|job| job["enabled"] == false)
    });
    assert_eq!(off["disabled_by"], "ops", "{off}");
    let left = until("one is left", || Some(letters()).filter(|found| items(found).len() == 1));
    assert_eq!(column(&left, "id"), [ids[0].as_str()]);
    assert_eq!(server.json(&["status"])["open_dead_letters"], 1);
    let all = server.json(&["dead-letters", "ls", "--all", "--kind", "command"]);
    let sent = &items(&all)[1];
    let told = (&sent["open"], &sent["redriven_by"], &sent["redrive_outcome"]);
    assert_eq!(told, (&json!(false), &json!("ops"), &json!("done")), "{all:#}");
    let again = server.run(&["dead-letters", "redrive", &ids[1]]);
    assert!(text(&again.stderr).contains("was sent again already, by ops"), "{}", text(&again.stderr));
    assert_eq!(server.get("/api/dead-letters/0:999999:0").0, 404);
    assert_eq!(server.get("/api/dead-letters/x").0, 422);
    assert_eq!(server.get("/api/dead-letters?kind=other").0, 422);
    let checked = server.json(&["verify"]);
    assert_eq!(checked["difference_count"], 0, "{checked:#}");
}
