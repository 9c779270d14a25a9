//! Every call of the document × every kind of key.

use std::fmt::Write as _;

use expect_test::expect_file;
use reqwest::Method;
use serde_json::{Value, json};
use tidemill_store::rows::{BulkRow, DeadLetterRow, PoolRow, PullTaskRow, RerunRow};

use crate::audit::audit_row;
use crate::fixture::{Fixture, answers_done};
use crate::owner::OFFSET;
use crate::rows::{T0, Writer, batch, definitions, key};

const ROLES: [&str; 4] = ["viewer", "user", "administrator", "super_administrator"];
/// Which groups a key is bound to: none, that of all objects here, another one.
const BOUND: [(&str, &[&str]); 3] = [("fixture", &[]), ("demo", &["demo"]), ("other", &["other"])];

fn pool(name: &str, group: Option<&str>) -> PoolRow {
    PoolRow {
        name: name.into(),
        version: 1,
        slots: 2,
        rate_starts: None,
        rate_interval_s: None,
        group_name: group.map(Into::into),
        comment: "".into(),
        changed_at: T0,
    }
}

fn rerun(id: i64, kind: &str) -> RerunRow {
    RerunRow {
        id,
        kind: kind.into(),
        state: "planned".into(),
        spec: "{}".into(),
        groups: r#"["demo"]"#.into(),
        reason: "".into(),
        concurrency: 1,
        jobs: 1,
        jobs_skipped: 0,
        jobs_left_out: 0,
        planned: 1,
        started: 0,
        succeeded: 0,
        failed: 0,
        skipped: 0,
        blocked: 0,
        message: "".into(),
        requested_by: "somebody".into(),
        requested_at: T0,
        planned_at: None,
        approved_by: None,
        approved_at: None,
        changed_by: None,
        changed_at: None,
        ended_at: None,
    }
}

fn task() -> PullTaskRow {
    PullTaskRow {
        id: (1 << 12) | 1,
        shard: 1,
        group_name: "demo".into(),
        executor_kind: "group".into(),
        executor: "demo".into(),
        name: None,
        template: None,
        rotating: false,
        start_at: T0,
        dispatch_times: 1,
        version: 1,
        state: "valid".into(),
        definition: "{}".into(),
        taken: 0,
        live: 0,
        completed: 0,
        returned: 0,
        expired: 0,
        received_at: T0,
        changed_at: None,
        ended_at: None,
        purged_before: None,
    }
}

/// Objects of group demo, and what groups share.
fn objects(fixture: &Fixture) {
    let bulk = BulkRow {
        id: 1,
        action: "kill".into(),
        result: None,
        reason: "".into(),
        items: 1,
        done: 1,
        refused: 0,
        requested_by: "somebody".into(),
        requested_at: T0,
        ended_at: Some(T0),
    };
    let letter = DeadLetterRow {
        journal_partition: 0,
        kind: "command".into(),
        subject: "999".into(),
        journal_offset: 4,
        event_index: 0,
        reason: "panicked".into(),
        recorded_at: T0,
        is_open: true,
        closed_at: None,
        redriven_by: None,
        redrive_outcome: None,
    };
    let keys = ROLES.iter().flat_map(|role| {
        BOUND.iter().map(move |(bound, groups)| key(&format!("{role}-{bound}"), role, groups))
    });
    Writer::new(&*fixture.tables)
        .rows(keys.collect())
        .rows(vec![pool("lane", Some("demo")), pool("wide", None)])
        .rows(vec![rerun(1, "rerun"), rerun(2, "cold_start")])
        .rows(vec![task()])
        .rows(vec![bulk])
        .rows(vec![letter])
        .rows(vec![audit_row(0, "demo")])
        .commit(OFFSET + 1);
}

/// The path with its objects, all of group demo.
fn filled(path: &str) -> String {
    let (job, batch) = (definitions()[0].id.to_string(), batch(1, 3).id.to_string());
    let id = match path.split('/').nth(2) {
        Some("batches") => batch.as_str(),
        Some("jobs") => job.as_str(),
        Some("workers") => "w1",
        Some("dead-letters") => "0:4:0",
        Some("audit") => "1740787200000:0:0:0",
        Some("pull") | Some("attempts") => "4097",
        _ => "1",
    };
    let more = [
        ("{id}", id),
        ("{name}", "lane"),
        ("{group}", "demo"),
        ("{job}", "extract"),
        ("{scope}", "demo"),
        ("{user}", "ann"),
        ("{app}", "admin"),
    ];
    let numbers = [("{version}", "1"), ("{other}", "1"), ("{partition}", "0")];
    let path =
        more.iter().chain(&numbers).fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    match by_query(&path) {
        Some(query) => format!("{path}?{query}"),
        None if path == "/api/events" => path + "?from=start",
        None => path,
    }
}

/// Of the calls that name an object in their query, which.
fn by_query(path: &str) -> Option<String> {
    let (job, batch) = (definitions()[0].id, batch(1, 3).id);
    match path {
        "/api/log" | "/api/log/download" => Some(format!("job_id={job}&type=1")),
        "/api/job/status" | "/api/job/kill" => Some(format!("job_id={job}")),
        path if path.ends_with("/log/search") => Some("text=x".to_owned()),
        "/api/attempts" => Some(format!("batch={batch}")),
        _ => None,
    }
}

/// What the call takes, about group demo.
fn body(verb: &str, path: &str) -> Value {
    let times = ("2026-03-01T00:00:00.000Z", "2026-03-02T00:00:00.000Z");
    match (verb, path) {
        ("post", "/api/jobs/apply") => json!({"jobs": [{"name": "a", "group": "demo", "type": "noop"}]}),
        ("post", "/api/jobs/{id}/rename") => json!({"name": "x"}),
        ("post", "/api/jobs/{id}/move") => json!({"group": "demo"}),
        ("post", "/api/batches/{id}/mark") => json!({"result": "success", "reason": "r"}),
        ("post", "/api/workers/{id}/vouch") => json!({"reason": "r"}),
        ("post", "/api/batches/{id}/vouch" | "/api/batches/{id}/adopt") => {
            json!({"attempt": 1, "reason": "r"})
        }
        ("post", "/api/workers/{id}/end-stray") => json!({"attempt": 1, "reason": "r"}),
        ("post", "/api/batches/{id}/override") => json!({"what": "all", "reason": "r"}),
        ("post", "/api/batches/{id}/quality") => json!({"allowed": true}),
        ("post", "/api/bulk") => json!({"action": "kill", "filter": {"group": "demo"}, "reason": "r"}),
        ("post", "/api/reruns") => json!({"jobs": [definitions()[0].id], "from": times.0, "to": times.1}),
        ("post", "/api/cold-starts") => json!({"period": "day", "from": times.0, "to": times.1}),
        ("post", "/api/groups") => json!({"name": "demo", "worker_key": "ab"}),
        ("put", "/api/level/hold") => json!({"reason": "r"}),
        ("put", "/api/freezes/{scope}") => json!({"reason": "r"}),
        ("post", "/api/keys" | "/api/admin/keys") => json!({"app": "x", "role": "viewer"}),
        ("post", "/api/third-party") => json!({"code": "erp", "logical_time": times.0}),
        ("post", "/api/probes") => json!({"batch": batch(1, 3).id}),
        ("post", "/api/calendars") => json!({"name": "c", "weekend": ["saturday"]}),
        ("post", "/api/pools") => json!({"name": "lane", "slots": 2, "group": "demo"}),
        ("post", "/api/pull/users") => json!({"group": "demo", "users": ["zoe"]}),
        ("post", "/api/pull/users/{user}/move") => json!({"to": "demo"}),
        ("post", "/api/pull") => json!({"user": "ann"}),
        ("post", "/api/pull/complete") => json!({"user": "ann", "grant": 4097, "result": "ok"}),
        ("post", "/api/pull/return") => json!({"user": "ann", "grant": 4097}),
        ("post" | "put", "/api/pull/tasks" | "/api/pull/tasks/{id}") => {
            json!({"executor": {"group": "demo"}, "when": {"once": {"start": times.0}}})
        }
        ("post", "/api/admin/partitions/{partition}/set-time") => json!({"at": times.0}),
        ("post", "/api/job/submit") => {
            json!({"job_name": "a", "user": "ann", "job_type": "shell", "group_id": 1, "command": "true"})
        }
        ("post", "/api/worker/status") => json!({"ip": "127.0.0.1", "port": 9, "status": 0}),
        _ => json!({}),
    }
}

/// What became of a call, as far as rights go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum May {
    /// It got past the question of rights.
    Yes,
    /// It is refused, with the reason.
    No,
    /// There is no such thing, for that one.
    Missing,
}

async fn may(fixture: &Fixture, app: Option<&str>, verb: &str, path: &str, body: &Value) -> May {
    let method = Method::from_bytes(verb.to_uppercase().as_bytes()).unwrap();
    let request = match app {
        Some(app) => fixture.request(method.clone(), path, app),
        None => fixture.open(method.clone(), path),
    };
    let request =
        if method == Method::GET || method == Method::DELETE { request } else { request.json(body) };
    let answered = request.send().await.unwrap();
    let status = answered.status().as_u16();
    assert!(status != 401 || app.is_none() || path.ends_with("/code"), "{app:?} {verb} {path}");
    // The stream has no end, and these calls answer in a form of their own.
    let own_form = ["/api/job/", "/api/log", "/api/worker/status"].iter().any(|of| path.starts_with(of));
    if own_form && status == 200 {
        let text = answered.text().await.unwrap();
        let is = |what: &str| text.contains(what);
        let is_missing = is("there is no") || is("must be the number of a group");
        return if is("forbidden") {
            May::No
        } else if is_missing {
            May::Missing
        } else {
            May::Yes
        };
    }
    match status {
        401 | 403 => May::No,
        404 if answered.text().await.unwrap().contains("urn:tidemill:problem:unknown") => May::Missing,
        _ => May::Yes,
    }
}

/// What stands for the objects here, and for some that are nowhere.
fn names() -> Vec<(String, String)> {
    let (job, batch) = (definitions()[0].id.0, batch(1, 3).id);
    let numbers = [job, batch, 4097].map(|id| (id.to_string(), (id + (7_000 << 12)).to_string()));
    let words = [("demo", "nowhere"), ("w1", "w9"), ("\"ann\"", "\"nobody\""), ("users/ann", "users/nobody")];
    let more = [("extract", "nothing"), ("127.0.0.1", "127.0.0.9"), ("\"group_id\":1,", "\"group_id\":77,")];
    let site = ["audit/1740787200000:0:0:0", "reruns/1"].map(|place| (place.to_owned(), format!("{place}9")));
    let words = words.into_iter().chain(more).map(|(here, nowhere)| (here.to_owned(), nowhere.to_owned()));
    numbers.into_iter().chain(words).chain(site).collect()
}

/// The same about objects that are nowhere.
fn missing(text: &str) -> String {
    names().iter().fold(text.to_owned(), |text, (here, nowhere)| text.replace(here, nowhere))
}

/// What is answered, whatever the objects are called.
async fn answer(fixture: &Fixture, app: &str, verb: &str, path: &str, body: &Value) -> String {
    let method = Method::from_bytes(verb.to_uppercase().as_bytes()).unwrap();
    let request = fixture.request(method.clone(), path, app);
    let request =
        if method == Method::GET || method == Method::DELETE { request } else { request.json(body) };
    let answered = request.send().await.unwrap();
    let status = answered.status();
    // The stream has no end.
    let text = if path.starts_with("/api/events") { String::new() } else { answered.text().await.unwrap() };
    let both = names().into_iter().flat_map(|(here, nowhere)| [here, nowhere]);
    let own = ["nobody", "ann", "1740787200000:0:0:09", "1740787200000:0:0:0", "rerun 19", "rerun 1"];
    let own =
        own.into_iter().chain(["\"77\"", "\"1\"", "\"19\"", "\\\"77\\\"", "\\\"1\\\""]).map(str::to_owned);
    let mut all: Vec<String> = both.chain(own).collect();
    all.sort_by_key(|name| std::cmp::Reverse(name.len()));
    format!("{status} {}", all.iter().fold(text, |text, name| text.replace(name.as_str(), "IT")))
}

async fn line(fixture: &Fixture, verb: &str, path: &str, body: &Value) -> (String, Vec<May>) {
    let mut all = vec![may(fixture, None, verb, path, body).await];
    for (bound, _) in BOUND {
        for role in ROLES {
            all.push(may(fixture, Some(&format!("{role}-{bound}")), verb, path, body).await);
        }
    }
    let word = |may: &May| match may {
        May::Yes => 'x',
        May::No => '.',
        May::Missing => '-',
    };
    let words: Vec<String> = all.iter().map(|may| word(may).to_string()).collect();
    let (none, keys) = words.split_first().unwrap();
    let keys: Vec<String> = keys.chunks(ROLES.len()).map(<[String]>::concat).collect();
    (format!("{none} {}", keys.join(" ")), all)
}

/// API-5: what each key may is what the committed table says, and no call gives more than it declares: nothing below its
/// rank, nothing of the site to a bound key of whatever rank, nothing of a group to a key that is bound to another.
#[tokio::test]
async fn every_call_gives_each_key_what_it_declares() {
    let fixture = Fixture::start(answers_done()).await;
    objects(&fixture);
    let mut broken = Vec::new();
    let mut table = String::from(
        "What each key may, by call: `x` it may, `.` it may not, `-` there is no such thing for it. Objects are of group demo. Columns: no key; then viewer, user,\n\
         administrator and super_administrator, bound to no group, bound to demo, bound to another group.\n\n",
    );
    for (path, operations) in tidemill_api::document()["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            let (words, all) = line(&fixture, verb, &filled(path), &body(verb, path)).await;
            writeln!(table, "{words}  {verb} {path}").unwrap();
            let Some(role) = operation["x-role"].as_str() else { continue };
            let rank = ROLES.iter().position(|known| *known == role).unwrap();
            assert_eq!(all[0], May::No, "{verb} {path} without a key");
            if operation["x-reach"] == "group" {
                let app = format!("{}-other", ROLES[rank]);
                let (path, body) = (filled(path), body(verb, path));
                let foreign = answer(&fixture, &app, verb, &path, &body).await;
                let gone = serde_json::from_str(&missing(&body.to_string())).unwrap();
                let missing = answer(&fixture, &app, verb, &missing(&path), &gone).await;
                if foreign != missing {
                    broken.push(format!("{verb} {path} of another group: {foreign}\nof none: {missing}"));
                }
            }
            let is_list = *verb == "get" && !path.contains('{') && by_query(path).is_none();
            for (bound, (name, _)) in BOUND.iter().enumerate() {
                for (role, may) in all[1 + bound * ROLES.len()..][..ROLES.len()].iter().enumerate() {
                    // What is of the site is so for the key that may everything.
                    let of_all = all[ROLES.len()];
                    let wanted: &[May] = match operation["x-reach"].as_str().unwrap() {
                        "group" if role < rank && bound == 2 => &[May::No, May::Missing],
                        _ if role < rank => &[May::No],
                        "site" if bound != 0 => &[May::No],
                        "own" if bound != 0 => &[May::Missing],
                        // Looked at above: it is as if there were no such thing.
                        "group" if bound == 2 && !is_list => &[May::Yes, May::Missing],
                        _ => &[of_all],
                    };
                    if !wanted.contains(may) {
                        let role = ROLES[role];
                        broken.push(format!(
                            "{verb} {path} by a {role} bound to {name}: {may:?}, not {wanted:?}"
                        ));
                    }
                }
            }
        }
    }
    for (verb, path, body) in [
        ("post", "/api/pools", json!({"name": "wide", "slots": 1})),
        ("delete", "/api/pools/wide", json!({})),
        ("post", "/api/probes", json!({})),
        ("put", "/api/freezes/*", json!({"reason": "r"})),
        ("delete", "/api/freezes/*", json!({})),
        ("post", "/api/bulk", json!({"action": "kill", "filter": {"state": "running"}, "reason": "r"})),
        ("post", "/api/reruns/2/approve", json!({})),
        ("post", "/api/reruns/2/cancel", json!({})),
    ] {
        let (words, _) = line(&fixture, verb, path, &body).await;
        writeln!(table, "{words}  {verb} {path} {body}").unwrap();
    }
    assert!(
        broken.is_empty(),
        "this is not what the calls declare (`x-role`, `x-reach`): {broken:#?}\nThey may need an object of group demo: by their \
         query in `by_query`, by their path in `filled`, in their body in `body`"
    );
    expect_file!["rights.txt"].assert_eq(&table);
}

/// API-5: the page of rights is what the code says; `make schemas` writes it.
#[test]
fn committed_page_of_rights_is_what_the_code_says() {
    expect_file!["../../../../docs/reference/rights.md"].assert_eq(&tidemill_api::rights_reference());
}
