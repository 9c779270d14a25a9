//! The audit list: which facts are rows of it, and what is told of them.

use std::sync::Arc;

use serde_json::{Value, json};
use tidemill_journal::Shutdown;
use tidemill_log::Log;
use tidemill_model::Timestamp;
use tidemill_projector::{Config, purge_audit, rebuild, verify};
use tidemill_store::rows::{AuditRow, DirectoryEntryRow};
use tidemill_store::{AuditFilter, PageRequest, ReadAudit, ReadTables, Row, Select, Tables};

use crate::support::{
    Database, Owner, START_MS, asked, assigned, by_timer, catalogue, definition, ended, generated, granted,
    id, job, log, shard, time,
};

fn project(log: &Arc<dyn Log>, tables: &dyn Tables) {
    rebuild(&Config::default(), &**log, tables, &Shutdown::new(), &mut |_| {}).unwrap();
    let report = verify(&**log, tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.differences);
}

/// The rows, the oldest first.
fn rows(log: &Arc<dyn Log>) -> Vec<AuditRow> {
    let database = Database::new();
    project(log, &*database.tables);
    let mut rows = database.tables.audit(&AuditFilter::default(), &PageRequest::first(999)).unwrap().items;
    rows.reverse();
    rows
}

/// As `kind object`, with who asked.
fn told(rows: &[AuditRow]) -> Vec<String> {
    let of = |row: &AuditRow| match &row.person {
        Some(person) => format!("{}/{person}: {} {}", row.app, row.kind, row.object),
        None => format!("{}: {} {}", row.app, row.kind, row.object),
    };
    rows.iter().map(of).collect()
}

fn detail(row: &AuditRow) -> Value {
    serde_json::from_str(&row.detail).unwrap()
}

const ANN: Option<&str> = Some("ann");

/// Of the catalogue, by somebody.
fn defined(name: &str, body: Value) -> (u16, Value) {
    (0, json!({"catalogue": {name: body}}))
}

/// API-9: definitions stand in the list as they were and as they are, by who asked for them and when; neither a secret nor its hash
/// does.
#[test]
fn definitions_are_told_as_they_were_and_as_they_are() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    let key = |hash: &str, role: &str| {
        defined("key_defined", json!({"app": "etl", "hash": hash, "role": role, "groups": ["demo"]}))
    };
    let group = |lease: u64| {
        let body = json!({
            "group": 1, "name": "demo", "shard": 1, "worker_key": "aa", "settings": {"lease_ms": lease},
        });
        defined("group_defined", body)
    };
    let pool = |slots: u32| {
        let spec = json!({"name": "lane", "slots": slots, "group": "demo"});
        defined("pool_defined", json!({"pool": {"version": slots, "spec": spec}}))
    };
    asked(&mut owner, ("ops", ANN), Some("r-1"), vec![group(60_000)]);
    asked(&mut owner, ("ops", ANN), None, vec![key("5ec7e7aaaa", "user")]);
    asked(&mut owner, ("ops", None), None, vec![key("5ec7e7bbbb", "viewer")]);
    asked(&mut owner, ("ops", None), None, vec![key("5ec7e7bbbb", "user")]);
    asked(&mut owner, ("ops", ANN), None, vec![group(90_000)]);
    asked(&mut owner, ("ops", ANN), None, vec![pool(2)]);
    asked(&mut owner, ("ops", ANN), None, vec![pool(3)]);
    asked(&mut owner, ("ops", ANN), None, vec![defined("pool_deleted", json!({"name": "lane"}))]);
    let revoked = owner.now_ms + 7;
    asked(&mut owner, ("ops", ANN), None, vec![defined("key_revoked", json!({"app": "etl"}))]);
    let rows = rows(&log);
    let expected = [
        "ops/ann: group.defined group/1",
        "ops/ann: key.defined key/etl",
        "ops: key.defined key/etl",
        "ops: key.defined key/etl",
        "ops/ann: group.defined group/1",
        "ops/ann: pool.defined pool/lane",
        "ops/ann: pool.defined pool/lane",
        "ops/ann: pool.deleted pool/lane",
        "ops/ann: key.revoked key/etl",
    ];
    assert_eq!(told(&rows), expected);
    assert_eq!((rows[0].request.as_deref(), rows[1].request.as_deref()), (Some("r-1"), None));
    assert_eq!((&*rows[0].group_name, &*rows[1].group_name, &*rows[6].group_name), ("demo", "", "demo"));
    assert_eq!((&*rows[7].group_name, rows[8].at), ("demo", revoked));
    let user = json!({"role": "user", "groups": ["demo"], "run_as": [], "may": [], "department": null});
    let viewer = json!({"role": "viewer", "groups": ["demo"], "run_as": [], "may": [], "department": null});
    assert_eq!(detail(&rows[1]), json!({"after": user, "new_secret": true}));
    let changed = json!({"before": user, "after": viewer, "fields": ["role"], "new_secret": true});
    assert_eq!(detail(&rows[2]), changed);
    assert_eq!(detail(&rows[3])["new_secret"], false);
    assert_eq!(detail(&rows[8]), json!({"before": user}));
    let settings = detail(&rows[4]);
    let lease = |of: &str| settings[of]["settings"]["lease_ms"].as_u64();
    assert_eq!((lease("before"), lease("after")), (Some(60_000), Some(90_000)));
    assert_eq!(settings["fields"], json!(["settings"]));
    let slots = |row: usize, of: &str| detail(&rows[row])[of]["slots"].as_u64();
    assert_eq!((slots(6, "before"), slots(6, "after"), slots(7, "before")), (Some(2), Some(3), Some(3)));
    let all: String = rows.iter().map(|row| format!("{row:?}")).collect();
    assert!(!all.contains("5ec7e7"), "{all}");
}

/// API-9: of jobs the list has versions and the fields that differ; one row for each job of an apply, however it is carried out.
#[test]
fn jobs_are_told_by_version_and_fields() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    let changed = |n: i64, name: &str, version: u32, retries: u32| {
        let mut definition = definition(job(n), name, json!([]));
        (definition["version"], definition["spec"]["retries"]) = (json!(version), json!(retries));
        (0, json!({"job": {"defined": {"definition": definition, "enabled": version < 3}}}))
    };
    asked(&mut owner, ("etl", ANN), None, vec![changed(1, "load", 2, 5), changed(3, "new", 1, 1)]);
    asked(&mut owner, ("etl", ANN), None, vec![changed(2, "report", 3, 1)]);
    asked(&mut owner, ("etl", ANN), None, vec![(0, json!({"job": {"disabled": {"job": job(1)}}}))]);
    // A large one is carried out by the owner, in the name of who asked.
    let by = json!({"app": "etl", "user": "ann"});
    let advanced = json!({"apply": {"advanced": {"apply": "a-1", "done": 1, "by": by}}});
    by_timer(&mut owner, vec![changed(3, "new", 2, 1), (0, advanced)]);
    // So is a deletion that waited for what the shards say.
    let received = (0, json!({"partition": {"message_received": {"from": 1, "number": 1}}}));
    let decided = json!({"deletion": {"decided": {
        "question": 1, "request": "r-9", "outcome": "done", "by": by,
    }}});
    let deleted = (0, json!({"job": {"deleted": {"job": job(1)}}}));
    asked(&mut owner, ("owner", None), None, vec![received, (0, decided), deleted]);
    let rows = rows(&log);
    let expected = [
        "etl/ann: job.defined job/4096",
        "etl/ann: job.defined job/12288",
        "etl/ann: job.defined job/8192",
        "etl/ann: job.disabled job/4096",
        "etl/ann: job.defined job/12288",
        "etl/ann: job.deleted job/4096",
    ];
    assert_eq!(told(&rows), expected);
    assert!(rows.iter().all(|row| &*row.group_name == "demo"));
    let first = json!({
        "name": "demo/load", "before": {"version": 1}, "after": {"version": 2}, "fields": ["retries"],
    });
    assert_eq!(detail(&rows[0]), first);
    assert_eq!(detail(&rows[1]), json!({"name": "demo/new", "after": {"version": 1}}));
    assert_eq!(detail(&rows[2])["fields"], json!(["enabled", "parents"]));
    let switched = json!({"name": "demo/load", "before": {"enabled": true}, "after": {"enabled": false}, "fields": ["enabled"]});
    assert_eq!(detail(&rows[3]), switched);
    assert_eq!((rows[4].request.as_deref(), rows[5].request.as_deref()), (Some("a-1"), Some("r-9")));
    assert_eq!(detail(&rows[5]), json!({"name": "demo/load", "before": {"version": 2}}));
}

/// API-9: what follows from an action is none, nor is what workers, owners, timers and programs of attempts do. Batches name who asked
/// for them.
#[test]
fn consequences_are_no_actions() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let of = |n: i64, origin: &str| {
        let mut event = generated(n, job(1), json!([]));
        event["batch"]["generated"]["origin"] = json!(origin);
        (1, event)
    };
    let by = json!({"app": "etl", "user": "ann"});
    let kill = |n: i64, token: i64, reason: &str| {
        let body = json!({"batch": id(n), "token": id(token), "by": by, "reason": reason});
        (1, json!({"attempt": {"kill_requested": body}}))
    };
    let killed = |n: i64| (1, json!({"batch": {"finished": {"batch": id(n), "result": "killed", "by": by}}}));
    let marked = |n: i64| {
        let body = json!({
            "batch": id(n), "job": job(1), "logical_time": time(START_MS), "result": "success", "by": by, "reason": "seen",
        });
        (1, json!({"batch": {"result_overridden": body}}))
    };
    by_timer(&mut owner, vec![of(1, "schedule")]);
    // Its child is generated with it.
    asked(&mut owner, ("etl", ANN), Some("run"), vec![of(2, "manual"), of(3, "parent")]);
    for n in 1..=2 {
        by_timer(&mut owner, vec![(1, assigned(n, n, 1)), (1, granted(n, n))]);
    }
    let started = json!({"attempt": {"started": {"batch": id(2), "token": id(2)}}});
    asked(&mut owner, ("worker", None), None, vec![(1, started)]);
    let code = json!({"attempt": {"user_code_reported": {"batch": id(2), "token": id(2), "code": 0}}});
    asked(&mut owner, ("attempt:8193", None), None, vec![(1, code)]);
    asked(&mut owner, ("etl", ANN), None, vec![kill(2, 2, "late")]);
    asked(&mut owner, ("worker", None), None, vec![(1, ended(2, 2, 1, "killed")), killed(2)]);
    // One that waits ends at once.
    asked(&mut owner, ("etl", ANN), None, vec![killed(3)]);
    asked(&mut owner, ("etl", None), None, vec![marked(1), kill(1, 1, "marked success: seen")]);
    by_timer(&mut owner, vec![kill(1, 1, "timeout")]);
    // Another shard's message, whoever asked for what it says.
    let received = (1, json!({"partition": {"message_received": {"from": 0, "number": 1}}}));
    asked(&mut owner, ("owner", None), None, vec![received, of(4, "rerun")]);
    let drained = |host: &str| {
        let host = json!({"worker": {"host_drained": {"host": host, "by": by, "reason": "disk"}}});
        vec![(1, host), (1, json!({"worker": {"drained": {"worker": "w-1"}}}))]
    };
    asked(&mut owner, ("ops", None), None, drained("node"));
    asked(&mut owner, ("ops", None), None, vec![(1, json!({"worker": {"resumed": {"worker": "w-1"}}}))]);
    let rows = rows(&log);
    let expected = [
        "etl/ann: batch.generated batch/8193",
        "etl/ann: kill.requested batch/8193",
        "etl/ann: batch.finished batch/12289",
        "etl: batch.result_overridden batch/4097",
        "ops: host.drained host/node",
        "ops: worker.resumed worker/w-1",
    ];
    assert_eq!(told(&rows), expected);
    assert!(rows.iter().all(|row| &*row.group_name == "demo"));
    let killed = detail(&rows[1]);
    assert_eq!((&killed["reason"], &killed["job_name"]), (&json!("late"), &json!("load")));
    assert_eq!(detail(&rows[3])["result"], "success");
    let database = Database::new();
    project(&log, &*database.tables);
    let trigger = |n: i64| database.tables.batch(id(n)).unwrap().unwrap().triggered_by;
    assert_eq!(trigger(2).as_deref(), Some("etl/ann"));
    assert_eq!([1, 3, 4].map(trigger), [None, None, None]);
}

/// API-9: refused calls are rows; who is at the command line of the host is named by what that did.
#[test]
fn refused_calls_and_restores_are_told() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    let refused = |app: &str, count: u32| {
        let refusal = json!({
            "app": app, "person": "eve", "call": "POST /api/keys", "address": "10.0.0.9", "reason": "forbidden",
            "count": count, "first_at": time(START_MS), "last_at": time(START_MS + 9),
        });
        (0, json!({"access": {"refused": {"refusal": refusal}}}))
    };
    asked(&mut owner, ("process", None), None, vec![refused("etl", 3), refused(&"x".repeat(300), 1)]);
    let restored =
        json!({"partition": {"restored": {"generation": 1, "ids_above": 9, "by": "bob", "upto": 4}}});
    by_timer(&mut owner, vec![(0, restored)]);
    let rows = rows(&log);
    let long = "x".repeat(64);
    let expected = [
        "etl/eve: access.refused POST /api/keys",
        &format!("{long}/eve: access.refused POST /api/keys"),
        "operator/bob: log.restored partition",
    ];
    assert_eq!(told(&rows), expected);
    assert_eq!((rows[0].times, rows[1].times), (3, 1));
    let expected = json!({
        "address": "10.0.0.9", "reason": "forbidden", "first_at": time(START_MS), "last_at": time(START_MS + 9),
    });
    assert_eq!(detail(&rows[0]), expected);
}

/// API-9: people and departments as they were and as they are, also once what is long has to be cut.
#[test]
fn the_directory_is_told_whole() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    let person = |phone: &str| {
        let person = json!({"name": "ann", "phone": phone, "mail": "ann@example.org"});
        (0, json!({"directory": {"person_defined": {"person": person}}}))
    };
    let department = |title: &str| {
        let people: Vec<String> =
            (0..200).map(|n| format!("{title}-person-with-a-long-name-of-{n:0>80}")).collect();
        let turns: Vec<Value> = people.iter().map(|name| json!([name])).collect();
        let rota = json!({"zone": "UTC", "starts": "2026-01-01T00:00:00", "days": 7, "turns": turns});
        let department = json!({"name": "desk", "title": title, "on_call": rota});
        (0, json!({"directory": {"department_defined": {"department": department}}}))
    };
    asked(&mut owner, ("hr", ANN), None, vec![person("+4912345")]);
    asked(&mut owner, ("hr", ANN), None, vec![person("+4999999"), department("a"), department("b")]);
    let deleted = json!({"directory": {"person_deleted": {"name": "ann"}}});
    asked(&mut owner, ("hr", ANN), None, vec![(0, deleted)]);
    let rows = rows(&log);
    assert_eq!(rows.len(), 5, "{:?}", told(&rows));
    let phone = |of: &str| detail(&rows[1])[of]["phone"].clone();
    assert_eq!((phone("before"), phone("after")), (json!("+4912345"), json!("+4999999")));
    assert_eq!(detail(&rows[4])["before"]["mail"], "ann@example.org");
    let cut = detail(&rows[3]);
    assert_eq!((&cut["cut"], &cut["fields"]), (&json!(true), &json!(["on_call", "title"])));
    assert!(cut["before"]["bytes"].as_u64().unwrap() > 16_384, "{cut}");
    assert!(rows.iter().all(|row| row.detail.len() <= 16 * 1024));
    let database = Database::new();
    project(&log, &*database.tables);
    let left = database.tables.select(&Select::new(DirectoryEntryRow::TABLE, &["kind", "name"])).unwrap();
    let left: Vec<_> = left.into_iter().map(|row| DirectoryEntryRow::from_values(row).unwrap()).collect();
    assert_eq!(left.iter().map(|row| (&*row.kind, &*row.name)).collect::<Vec<_>>(), [("department", "desk")]);
}

/// API-9: what is old leaves the list, also of tables that are rebuilt; `verify` knows of it.
pub(crate) fn old_rows_leave_the_list(tables: &Arc<dyn Tables>) {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    for n in 0..9 {
        let event = if n % 2 == 0 { "disabled" } else { "enabled" };
        asked(&mut owner, ("etl", ANN), None, vec![(0, json!({"job": {event: {"job": job(1)}}}))]);
    }
    let count = || tables.audit(&AuditFilter::default(), &PageRequest::first(99)).unwrap().items.len();
    project(&log, &**tables);
    assert_eq!(count(), 9);
    let before = Timestamp::from_millisecond(owner.now_ms - 14).unwrap();
    assert_eq!(purge_audit(&**tables, before, &Shutdown::new()).unwrap(), 6);
    assert_eq!(count(), 3);
    let report = verify(&*log, &**tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.differences);
    project(&log, &**tables);
    assert_eq!(count(), 3, "tables that are rebuilt");
}

#[test]
fn old_rows_leave_the_list_in_a_file() {
    old_rows_leave_the_list(&Database::new().tables);
}
