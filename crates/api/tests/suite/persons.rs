//! API-5: what people may, in whose name a key calls: by their role and departments, and by what is granted to them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use tidemill_api::Config;
use tidemill_model::{
    Answer, BatchCommand, BatchId, BatchState, Command, Condition, JobId, LeftOut, LiveAnswer, Outcome,
    Timestamp, Why,
};
use tidemill_store::rows::BatchDependencyRow;

use crate::fixture::{Answered, Answers, Fixture, send};
use crate::owner::{OFFSET, Script};
use crate::rows::{SECRET, Writer, batch, definitions, job_row};
use crate::without_tables::{Followed, key};

pub(crate) const EXTRACT: i64 = 1 << 12;
pub(crate) const LOAD: i64 = 2 << 12;
pub(crate) const OTHER: i64 = 3 << 12;

fn person(name: &str, role: &str, departments: &[&str], more: &Value) -> Value {
    let mut person = json!({"name": name, "role": role, "departments": departments});
    person.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"directory": {"person_defined": {"person": person}}})
}

fn department(name: &str, more: &Value) -> Value {
    let mut department = json!({"name": name});
    department.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"directory": {"department_defined": {"department": department}}})
}

fn rights_of(app: &str, more: Value) -> Value {
    let mut defined = key(app, &[]);
    let fields = defined["catalogue"]["key_defined"].as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    defined
}

/// `extract` is of department bi, `load` of ann, who is of bi, and `other` of finance. Every key and everybody else is in the
/// journal.
pub(crate) async fn fixture() -> (Fixture, Followed) {
    fixture_with(Box::new(|_, _| Ok(LiveAnswer::NotFound))).await
}

pub(crate) async fn fixture_with(answers: Answers) -> (Fixture, Followed) {
    let script: Script = Box::new(|command| match &command.command {
        Command::Batch(BatchCommand::RunJob { .. }) => {
            Some(Outcome::Answered(Answer::Generated { batch: BatchId(1), disabled: false }))
        }
        _ => Some(Outcome::Done),
    });
    let fixture = Fixture::with(Config::default(), script, answers).await;
    let mut rows: Vec<_> = definitions().iter().map(job_row).collect();
    let mut events = Vec::new();
    for (number, name) in [(1, "demo"), (2, "other")] {
        let group =
            json!({"group": number, "name": name, "shard": number, "worker_key": "aa", "settings": {}});
        events.push(json!({"catalogue": {"group_defined": group}}));
    }
    for ((row, definition), owner) in rows.iter_mut().zip(definitions()).zip(["bi", "ann", "finance"]) {
        row.owner = owner.into();
        row.owner_name = Some(owner.into());
        let mut definition = serde_json::to_value(definition).unwrap();
        definition["spec"]["owner"] = json!(owner);
        row.definition = definition.to_string().into();
        events.push(json!({"job": {"defined": {"definition": definition, "enabled": true}}}));
    }
    let mut of_other = batch(7, 3);
    (of_other.job_id, of_other.group_name, of_other.job_name) = (OTHER, "other".into(), "other".into());
    of_other.id = (7 << 12) | 2;
    Writer::new(&*fixture.tables).rows(rows).rows(vec![of_other]).commit(OFFSET + 1);
    let granted = |on: Value, may: &[&str]| json!({"grants": [{"on": on, "may": may}]});
    events.extend([
        rights_of("root", json!({"role": "super_administrator"})),
        rights_of("portal", json!({"role": "administrator"})),
        rights_of("reader", json!({"role": "viewer"})),
        rights_of("of-bi", json!({"role": "user", "department": "bi", "may": ["override"]})),
        department("bi", &json!({})),
        department("finance", &json!({})),
        department("guests", &granted(json!({"job": "demo/extract"}), &["read_logs"])),
        person("ann", "user", &["bi"], &json!({})),
        person("vic", "viewer", &["bi"], &json!({})),
        person("bob", "user", &["finance"], &json!({})),
        person("gus", "user", &["finance"], &granted(json!({"job": "demo/extract"}), &["operate"])),
        person("gia", "viewer", &[], &granted(json!({"group": "other"}), &["view", "edit"])),
        person("may", "viewer", &["guests"], &json!({})),
        person("dee", "user", &["bi"], &granted(json!({"job": "other/other"}), &["depend"])),
        person("dot", "user", &["finance"], &granted(json!({"job": "demo/extract"}), &["depend"])),
        person("adm", "administrator", &["finance"], &json!({})),
        person("off", "super_administrator", &["bi"], &json!({"enabled": false})),
    ]);
    let mut journal = Followed::follow(&fixture);
    journal.decide(&fixture, events);
    (fixture, journal)
}

pub(crate) async fn call(fixture: &Fixture, key: &str, person: &str, method: Method, path: &str) -> Answered {
    let request = fixture.request(method.clone(), path, key).header("X-User", person);
    send(if method == Method::GET { request } else { request.json(&json!({})) }).await
}

/// API-5: role, departments and grants, for everything that one can do with a job; what is not theirs is not there.
#[tokio::test]
async fn people_may_what_their_departments_and_grants_give_them() {
    let (fixture, _journal) = fixture().await;
    let (see, log) = (format!("/api/jobs/{EXTRACT}"), format!("/api/batches/{}/log/summary", batch(1, 3).id));
    let (run, off) = (format!("/api/jobs/{EXTRACT}/run"), format!("/api/jobs/{EXTRACT}/disable"));
    let kill = format!("/api/batches/{}/kill", batch(2, 2).id);
    let quality = format!("/api/batches/{}/quality", batch(1, 3).id);
    let foreign = format!("/api/jobs/{OTHER}/disable");
    let of_finance = format!("/api/batches/{}", (7 << 12) | 2);
    let codes = async |person: &str| {
        let mut codes = Vec::new();
        let get = (Method::GET, [&see, &log, &of_finance]);
        let post = (Method::POST, [&run, &kill, &off, &quality, &foreign]);
        for path in get.1 {
            codes.push(call(&fixture, "portal", person, get.0.clone(), path).await.status);
        }
        for path in post.1 {
            codes.push(call(&fixture, "portal", person, post.0.clone(), path).await.status);
        }
        codes
    };
    // No store of logs is configured here: 503 and 404 of a log are beyond the question of rights.
    for (person, expected) in [
        ("ann", [200, 503, 404, 200, 200, 200, 403, 404]),
        ("vic", [200, 503, 404, 403, 403, 403, 403, 403]),
        ("bob", [404, 404, 200, 404, 404, 404, 403, 200]),
        ("gus", [200, 403, 200, 200, 200, 403, 403, 200]),
        ("gia", [404, 404, 200, 403, 403, 404, 403, 200]),
        ("may", [200, 503, 404, 403, 403, 403, 403, 403]),
        // To depend on a job shows nothing of it.
        ("dee", [200, 503, 404, 200, 200, 200, 403, 404]),
        ("dot", [404, 404, 200, 404, 404, 404, 403, 200]),
        ("adm", [200, 503, 200, 200, 200, 200, 422, 200]),
        ("off", [403; 8]),
        ("nobody", [403; 8]),
    ] {
        assert_eq!(codes(person).await, expected, "{person}");
    }
    // Both the key and the person have to have it.
    assert_eq!(call(&fixture, "reader", "adm", Method::POST, &run).await.status, 403);
    assert_eq!(call(&fixture, "root", "adm", Method::GET, "/api/keys").await.status, 403);
    assert_eq!(send(fixture.get("/api/keys")).await.status, 200);
    let told = call(&fixture, "portal", "off", Method::GET, &see).await;
    let detail = told.body["detail"].as_str().unwrap();
    assert!(detail.starts_with("X-User is \"off\", and nobody of that name is enabled"), "{detail}");
}

/// API-5: what is foreign is answered as what is missing.
#[tokio::test]
async fn what_is_of_another_department_is_answered_as_what_is_missing() {
    let (fixture, _journal) = fixture().await;
    for (method, path) in [
        (Method::GET, "/api/jobs/JOB"),
        (Method::GET, "/api/jobs/JOB/definition"),
        (Method::GET, "/api/jobs/JOB/preview"),
        (Method::GET, "/api/jobs/JOB/versions"),
        (Method::GET, "/api/jobs/JOB/children"),
        (Method::POST, "/api/jobs/JOB/run"),
        (Method::POST, "/api/jobs/JOB/enable"),
        (Method::DELETE, "/api/jobs/JOB"),
        (Method::GET, "/api/batches/BATCH"),
        (Method::GET, "/api/batches/BATCH/why"),
        (Method::GET, "/api/batches/BATCH/usage"),
        (Method::GET, "/api/batches/BATCH/log"),
        (Method::GET, "/api/batches/BATCH/log/tail"),
        (Method::GET, "/api/batches/BATCH/log/download"),
        (Method::POST, "/api/batches/BATCH/kill"),
        (Method::POST, "/api/batches/BATCH/rerun"),
        (Method::GET, "/api/groups/other/jobs/NAME"),
        (Method::GET, "/api/job/status?job_id=JOB"),
    ] {
        let of = async |job: i64, batch: i64, name: &str| {
            let texts =
                [&*job.to_string(), &*batch.to_string(), &*format!("other/{name}")].map(str::to_owned);
            let filled = [("JOB", texts[0].as_str()), ("BATCH", &texts[1]), ("NAME", name)];
            let path = filled.iter().fold(path.to_owned(), |path, (word, text)| path.replace(word, text));
            let answered = call(&fixture, "portal", "ann", method.clone(), &path).await;
            let body = answered.body.to_string();
            texts.iter().fold(format!("{} {body}", answered.status), |text, word| text.replace(word, "IT"))
        };
        let foreign = of(OTHER, (7 << 12) | 2, "other").await;
        assert_eq!(foreign, of(77 << 12, (78 << 12) | 2, "nothing").await, "{method} {path}");
        assert!(foreign.starts_with("404"), "{method} {path}: {foreign}");
    }
}

/// API-5: who may depend on a job is told what it is called and how the batch stands that is waited for; who may not, that there is
/// a parent.
#[tokio::test]
async fn parents_are_named_to_who_may_depend_on_them() {
    let waiting = batch(3, 0).id;
    let time: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    let answers: Answers = Box::new(move |_, _| {
        let condition = |kind: &str| Condition {
            job: Some(JobId(OTHER)),
            logical_time: Some(time),
            ..Condition::new(kind, format!("waits for other/other of {time}: failed"), None)
        };
        let left_out =
            LeftOut { job: JobId(OTHER), logical_time: time, message: "leaves out other/other".to_owned() };
        Ok(LiveAnswer::Why(Why {
            batch: BatchId(waiting),
            state: BatchState::Waiting,
            result: None,
            conditions: vec![
                condition("dependency"),
                Condition::new("no_worker", "no worker".to_owned(), None),
            ],
            left_out: vec![left_out],
            blocked: Some(condition("blocked")),
        }))
    });
    let (fixture, mut journal) = fixture_with(answers).await;
    let dependency = BatchDependencyRow {
        batch_id: waiting,
        parent_id: OTHER,
        logical_time: time.as_millisecond(),
        mapping: "same".into(),
        met: false,
        met_at: None,
    };
    Writer::new(&*fixture.tables).rows(vec![dependency]).commit(OFFSET + 2);
    let told = async |key: &str, person: &str| {
        let of = async |path: String| {
            let request = fixture.request(Method::GET, &path, key);
            let request = if person.is_empty() { request } else { request.header("X-User", person) };
            send(request).await.body
        };
        (of(format!("/api/batches/{waiting}/why")).await, of(format!("/api/batches/{waiting}")).await)
    };
    for (key, person) in [("portal", "dee"), ("portal", "adm"), ("root", "")] {
        let (why, detail) = told(key, person).await;
        assert!(why["conditions"][0]["message"].as_str().unwrap().contains("other/other"), "{person}: {why}");
        assert_eq!((&why["blocked"]["job"], &why["left_out"][0]["job"]), (&json!(OTHER), &json!(OTHER)));
        assert_eq!(detail["dependencies"][0]["parent_name"], "other/other", "{person}: {detail}");
        assert_eq!(detail["hidden_dependencies"], 0, "{person}: {detail}");
    }
    let hidden = async |key: &str, person: &str| {
        let (why, detail) = told(key, person).await;
        let text = format!("{why} {}", detail["dependencies"]);
        assert!(!text.contains("other") && !text.contains(&OTHER.to_string()), "{person}: {text}");
        assert_eq!(why["conditions"][0]["message"], "waits for a parent that the caller may not see");
        assert_eq!(why["conditions"][1]["message"], "no worker", "{person}: {why}");
        assert_eq!(why["blocked"]["message"], "blocked by a parent that the caller may not see");
        assert_eq!((&detail["dependencies"], &detail["hidden_dependencies"]), (&json!([]), &json!(1)));
    };
    for (key, person) in [("portal", "ann"), ("portal", "vic"), ("of-bi", "")] {
        hidden(key, person).await;
    }
    // A grant that is lost is lost at once; and what a department may depend on, its keys may.
    journal.decide(&fixture, vec![person("dee", "user", &["bi"], &json!({}))]);
    hidden("portal", "dee").await;
    let depend = json!({"grants": [{"on": {"group": "other"}, "may": ["depend"]}]});
    journal.decide(&fixture, vec![department("bi", &depend)]);
    assert_eq!(told("of-bi", "").await.1["hidden_dependencies"], 0);
}

/// API-5: what runs once in its own group waits for no foreign job, and is told so as of one that is not there.
#[tokio::test]
async fn submissions_wait_for_what_one_sees() {
    let (fixture, _journal) = fixture().await;
    let mut once = job_row(&definitions()[0]);
    (once.id, once.submitted, once.owner) = ((9 << 12) | 1, true, "finance".into());
    once.owner_name = Some("finance".into());
    Writer::new(&*fixture.tables).rows(vec![once]).commit(OFFSET + 2);
    let submit = async |user: &str, parent: i64| {
        let body = json!({
            "app_name": "portal", "app_key": SECRET, "job_name": "once", "user": user, "job_type": "shell",
            "command": "true", "group_id": 1, "dependency_jobids": parent,
        });
        let told = send(fixture.open(Method::POST, "/api/job/submit").json(&body)).await.body;
        told.to_string().replace(&parent.to_string(), "JOB")
    };
    let (foreign, missing) = (submit("ann", (9 << 12) | 1).await, submit("ann", (99 << 12) | 1).await);
    assert_eq!(foreign, missing);
    assert!(foreign.contains("there is no job JOB"), "{foreign}");
    assert!(fixture.owner.seen().is_empty(), "nothing is sent");
    for (user, parent) in [("ann", EXTRACT), ("bob", (9 << 12) | 1)] {
        let told = submit(user, parent).await;
        assert!(!told.contains("there is no job"), "{user} {told}");
    }
    assert_eq!(fixture.owner.seen().len(), 2);
}

/// API-5: lists have what one may see, in full pages, and nothing else; filters do not widen them.
#[tokio::test]
async fn lists_show_what_one_may_see() {
    let (fixture, _journal) = fixture().await;
    let ids = async |key: &str, person: &str, path: &str| {
        let answered = call(&fixture, key, person, Method::GET, path).await;
        let items = answered.body["items"].as_array().unwrap_or_else(|| panic!("{path}: {answered:?}"));
        items.iter().map(|item| item["id"].as_i64().unwrap()).collect::<BTreeSet<_>>()
    };
    let batches: BTreeSet<i64> = [batch(1, 3), batch(2, 2), batch(3, 0)].map(|row| row.id).into();
    let of_other = BTreeSet::from([(7 << 12) | 2]);
    for (person, jobs, own, others) in [
        ("ann", vec![EXTRACT, LOAD], true, false),
        ("vic", vec![EXTRACT, LOAD], true, false),
        ("bob", vec![OTHER], false, true),
        ("gus", vec![EXTRACT, OTHER], true, true),
        ("gia", vec![OTHER], false, true),
        ("may", vec![EXTRACT], true, false),
        ("dee", vec![EXTRACT, LOAD], true, false),
        ("dot", vec![OTHER], false, true),
        ("adm", vec![EXTRACT, LOAD, OTHER], true, true),
    ] {
        let jobs: BTreeSet<i64> = jobs.into_iter().collect();
        assert_eq!(ids("portal", person, "/api/jobs").await, jobs, "{person}");
        assert_eq!(ids("portal", person, "/api/jobs?group=other").await.contains(&OTHER), others, "{person}");
        let seen = ids("portal", person, "/api/batches").await;
        assert_eq!(batches.is_subset(&seen), own, "{person}: {seen:?}");
        assert_eq!(of_other.is_subset(&seen), others, "{person}: {seen:?}");
        let attempts = ids("portal", person, "/api/attempts").await;
        assert_eq!(!attempts.is_empty(), own, "{person}: {attempts:?}");
        let path = format!("/api/batches?job={OTHER}");
        assert_eq!(ids("portal", person, &path).await == of_other, others, "{person}");
        let exported = call(&fixture, "portal", person, Method::GET, "/api/jobs/export").await;
        assert_eq!(exported.body["jobs"].as_array().unwrap().len(), jobs.len(), "{person}");
    }
    // A page of one is full, and the next one goes on.
    let mut seen = Vec::new();
    let mut path = "/api/batches?limit=1".to_owned();
    for _ in 0..3 {
        let page = call(&fixture, "portal", "ann", Method::GET, &path).await.body;
        seen.push(page["items"][0]["id"].as_i64().unwrap());
        path = format!("/api/batches?limit=1&cursor={}", page["next"].as_str().unwrap_or_default());
    }
    assert_eq!(seen, [batch(3, 0).id, batch(2, 2).id, batch(1, 3).id]);
    for (path, is_empty) in [("/api/workers", true), ("/api/pull/users", true), ("/api/groups", true)] {
        let shown = call(&fixture, "portal", "ann", Method::GET, path).await.body;
        assert_eq!(shown["items"].as_array().unwrap().is_empty(), is_empty, "{path}");
        let all = call(&fixture, "portal", "adm", Method::GET, path).await.body;
        assert!(!all["items"].as_array().unwrap().is_empty(), "{path}");
    }
}

/// API-5: a key that belongs to a department reaches the jobs of that, and speaks for nobody else; it may what it is given besides.
#[tokio::test]
async fn key_of_a_department_reaches_its_jobs() {
    let (fixture, _journal) = fixture().await;
    let status = async |method: Method, path: String| {
        let request = fixture.request(method.clone(), &path, "of-bi");
        send(if method == Method::GET {
            request
        } else {
            request.json(&json!({"what": "all", "reason": "r"}))
        })
        .await
        .status
    };
    assert_eq!(status(Method::GET, format!("/api/jobs/{EXTRACT}")).await, 200);
    assert_eq!(status(Method::GET, format!("/api/jobs/{OTHER}")).await, 404);
    assert_eq!(status(Method::GET, "/api/people".to_owned()).await, 403);
    assert_eq!(status(Method::GET, "/api/groups/demo/jobs/load".to_owned()).await, 200);
    assert_eq!(status(Method::POST, format!("/api/batches/{}/override", batch(3, 0).id)).await, 200);
    assert_eq!(status(Method::POST, format!("/api/batches/{}/override", (7 << 12) | 2)).await, 404);
    for (person, expected) in [("ann", 200), ("bob", 403), ("adm", 403), ("nobody", 403)] {
        let path = format!("/api/jobs/{LOAD}");
        assert_eq!(call(&fixture, "of-bi", person, Method::GET, &path).await.status, expected, "{person}");
    }
    // What it submits is owned by somebody of the department.
    let submit = async |user: &str| {
        let body = json!({
            "app_name": "of-bi", "app_key": SECRET, "job_name": "once", "user": user, "job_type": "shell",
            "command": "true", "group_id": 1,
        });
        send(fixture.open(Method::POST, "/api/job/submit").json(&body)).await.body
    };
    assert_eq!(submit("bob").await["accept"], false);
    assert_eq!(submit("somebody").await["errors"][0]["field"], "user");
}

/// API-5: a person is named by the header alone: an empty one names nobody, and a field of the call makes no other one of it.
#[tokio::test]
async fn nobody_becomes_somebody_else() {
    let (fixture, _journal) = fixture().await;
    let path = format!("/api/jobs/{EXTRACT}");
    assert_eq!(call(&fixture, "portal", "", Method::GET, &path).await.status, 403);
    let unreadable = reqwest::header::HeaderValue::from_bytes(b"M\xfcller").unwrap();
    let request = fixture.request(Method::GET, &path, "portal").header("X-User", unreadable);
    assert_eq!(send(request).await.status, 403);
    let body = json!({
        "app_name": "portal", "app_key": SECRET, "job_name": "once", "user": "adm", "job_type": "shell", "command": "true",
        "group_id": 1,
    });
    let submit = fixture.open(Method::POST, "/api/job/submit").header("X-User", "vic").json(&body);
    let told = send(submit).await.body;
    assert_eq!((&told["accept"], &told["errors"][0]["field"]), (&json!(false), &json!("user")), "{told}");
    // By name as by id: what is foreign is not there.
    let plan = async |job: &str| {
        let body = json!({"jobs": [job], "from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"});
        let request =
            fixture.request(Method::POST, "/api/reruns", "portal").header("X-User", "ann").json(&body);
        send(request).await.body.to_string().replace(job, "IT")
    };
    assert_eq!(plan("other/other").await, plan("other/nothing").await);
}

/// API-5: rights that end do so on what goes on, too; and a stream of whole groups is not for who sees jobs of some.
#[tokio::test]
async fn who_is_disabled_is_cut_off() {
    let (fixture, mut journal) = fixture().await;
    let feed = |person: &str| {
        fixture.request(Method::GET, "/api/events?from=start", "portal").header("X-User", person)
    };
    assert_eq!(feed("ann").send().await.unwrap().status().as_u16(), 403);
    let mut stream = feed("adm").send().await.unwrap().bytes_stream();
    journal.decide(&fixture, vec![person("adm", "administrator", &["finance"], &json!({"enabled": false}))]);
    let ended = async { while let Some(Ok(_)) = stream.next().await {} };
    tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
    assert_eq!(feed("adm").send().await.unwrap().status().as_u16(), 403);
}

/// API-5: people are told what they may, and why.
#[tokio::test]
async fn people_are_told_what_they_may() {
    let (fixture, _journal) = fixture().await;
    let mine = call(&fixture, "portal", "gus", Method::GET, "/api/me/rights").await.body;
    assert_eq!((&mine["person"], &mine["of_person"]["role"]), (&json!("gus"), &json!("user")));
    assert_eq!(mine["of_person"]["grants"][0]["on"], json!({"job": "demo/extract"}));
    let told = |call: &str| {
        let calls = mine["calls"].as_array().unwrap();
        let found = calls.iter().find(|told| told["call"] == call).unwrap();
        (found["allowed"].as_bool().unwrap(), found["reason"].as_str().unwrap().to_owned())
    };
    let reached = "for what is of department finance, job demo/extract".to_owned();
    assert_eq!(told("POST /api/batches/{id}/kill"), (true, reached));
    let needs = "gus has the role user; this needs override, which the role administrator has".to_owned();
    assert_eq!(told("POST /api/batches/{id}/override"), (false, needs));
    let bound = "gus has the role user; this needs administer, which the role administrator has".to_owned();
    assert_eq!(told("POST /api/calendars"), (false, bound));
}
