//! API-5: what rows, values and `why` tell of parents that the caller may not see.

use reqwest::Method;
use serde_json::{Value, json};
use tidemill_model::{
    BatchCommand, BatchId, BatchState, Command, Condition, JobId, LiveAnswer, Timestamp, Why,
};
use tidemill_store::rows::OverrideRow;

use crate::fixture::{Answers, Fixture, send};
use crate::owner::OFFSET;
use crate::persons::{EXTRACT, LOAD, OTHER, call, fixture};
use crate::rows::{T0, Writer, batch};
use crate::support::{definition, job};
use crate::without_tables::{Followed, decides, key};

/// `load`, whose batch `other` of another department blocks and which runs without one of its batches, among others.
async fn blocked() -> (Fixture, Followed) {
    let (fixture, journal) = fixture().await;
    let mut blocked = batch(9, 0);
    (blocked.job_id, blocked.job_name) = (LOAD, "load".into());
    (blocked.blocked_by, blocked.blocked_by_time, blocked.blocked_since) = (Some(OTHER), Some(T0), Some(T0));
    let parent = |job: i64| json!({"job": job, "logical_time": "2025-03-01T00:00:00.000Z"});
    let without = OverrideRow {
        batch_id: blocked.id,
        external_dependencies: "[]".into(),
        parents: json!([parent(EXTRACT), parent(OTHER)]).to_string().into(),
        overridden_by: "root".into(),
        reason: "late".into(),
        overridden_at: T0,
        ..OverrideRow::default()
    };
    Writer::new(&*fixture.tables).rows(vec![blocked]).rows(vec![without]).commit(OFFSET + 2);
    (fixture, journal)
}

/// API-5: a row says which parent blocks a batch, and what it runs without, to who may be told of that parent.
#[tokio::test]
async fn rows_tell_of_parents_what_why_tells() {
    let (fixture, _journal) = blocked().await;
    let id = batch(9, 0).id;
    let told = async |person: &str| {
        let of = async |path: String| call(&fixture, "portal", person, Method::GET, &path).await.body;
        let listed = of(format!("/api/batches?job={LOAD}&blocked=true")).await["items"][0].take();
        let (detail, job) = (of(format!("/api/batches/{id}")).await, of(format!("/api/jobs/{LOAD}")).await);
        assert_eq!((&listed["id"], &job["newest_batch"]["id"]), (&json!(id), &json!(id)), "{person}");
        (vec![listed, detail.clone(), job["newest_batch"].clone()], detail["dependency_overrides"][0].clone())
    };
    let blocked =
        |row: &Value| ["blocked_by", "blocked_by_time", "blocked_since"].map(|field| row[field].clone());
    let time = json!("2025-03-01T00:00:00.000Z");
    for person in ["dee", "adm"] {
        let (rows, without) = told(person).await;
        for row in rows {
            assert_eq!(blocked(&row), [json!(OTHER), time.clone(), time.clone()], "{person}: {row}");
        }
        assert_eq!(without["parents"].as_array().unwrap().len(), 2, "{person}: {without}");
    }
    for person in ["ann", "vic"] {
        let (rows, without) = told(person).await;
        for row in rows {
            assert_eq!(blocked(&row), [const { Value::Null }; 3], "{person}: {row}");
        }
        assert_eq!(without["parents"], json!([{"job": EXTRACT, "logical_time": time}]), "{person}");
        assert_eq!(without["reason"], "late", "{person}: {without}");
    }
}

/// API-5, BYD-20: a run by hand is given no value of a parent that the caller may only depend on.
#[tokio::test]
async fn parameters_by_hand_read_values_of_parents_that_one_sees() {
    let (fixture, _journal) = fixture().await;
    let run = async |key: &str, person: &str, text: &str| {
        let path = format!("/api/jobs/{LOAD}/run");
        let request = fixture.request(Method::POST, &path, key);
        let request = if person.is_empty() { request } else { request.header("X-User", person) };
        send(request.json(&json!({"parameters": {"plain": "1", "rows": text}}))).await
    };
    // `dee` may depend on other/other, and no more.
    for person in ["ann", "dee"] {
        for (text, read) in [
            ("${values.other/other.rows}", "${values.other/other.rows}"),
            ("a ${values.extract.n} ${values.other/other.rows}", "${values.other/other.rows}"),
            ("${values.nothing.rows}", "${values.nothing.rows}"),
        ] {
            let told = run("portal", person, text).await;
            assert_eq!(told.status, 422, "{person} {text}: {}", told.body);
            let error = &told.body["errors"][0];
            assert_eq!(
                (&error["field"], &error["value"]),
                (&json!("parameters.rows"), &json!(read)),
                "{person}"
            );
            assert!(error["rule"].as_str().unwrap().contains("`view`"), "{person}: {error}");
        }
    }
    assert!(fixture.owner.seen().is_empty(), "nothing is sent");
    let whole = "${values.other/other.rows}";
    let fits = [
        ("portal", "dee", "${values.extract.rows} ${values.demo/extract.n}"),
        ("portal", "dee", "$${values.other/other.rows}"),
        ("portal", "adm", whole),
        ("root", "", whole),
    ];
    for (key, person, text) in fits {
        let told = run(key, person, text).await;
        assert_eq!(told.status, 200, "{person} {text}: {}", told.body);
        let sent = fixture.owner.seen().pop().unwrap().command;
        let Command::Batch(BatchCommand::RunJob { parameters, .. }) = sent else { panic!("{sent:?}") };
        assert_eq!(parameters["rows"], text);
    }
}

/// API-5, OPS-4: while no table can be read, `why` tells of the parents that are known; of others it says that there are some.
#[tokio::test]
async fn why_tells_what_is_known_while_no_table_can_be_read() {
    let time: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    let once = |shard: i64| (9 << 12) | shard;
    let answers: Answers = Box::new(move |_, _| {
        let of = |parent: i64, kind: &str| Condition {
            job: Some(JobId(parent)),
            logical_time: Some(time),
            ..Condition::new(kind, format!("waits for job {parent}"), None)
        };
        let parents = [job(1), once(1), job(2), once(2), job(77)].map(|parent| of(parent, "dependency"));
        Ok(LiveAnswer::Why(Why {
            batch: BatchId(4097),
            state: BatchState::Waiting,
            result: None,
            conditions: parents.into(),
            left_out: Vec::new(),
            blocked: Some(of(job(1), "blocked")),
        }))
    });
    let fixture = Fixture::without_tables(decides(), answers).await;
    let mut journal = Followed::follow(&fixture);
    let group = |number: u16, name: &str| {
        let group =
            json!({"group": number, "name": name, "shard": number, "worker_key": "aa", "settings": {}});
        json!({"catalogue": {"group_defined": group}})
    };
    let mut foreign = definition(job(2), "foreign", json!([]));
    (foreign["group_id"], foreign["spec"]["group"]) = (json!(2), json!("other"));
    let defined =
        |definition: Value| json!({"job": {"defined": {"definition": definition, "enabled": true}}});
    let own = defined(definition(job(1), "load", json!([])));
    journal.decide(
        &fixture,
        vec![group(1, "demo"), group(2, "other"), key("etl", &["demo"]), own, defined(foreign)],
    );
    let why = send(fixture.request(Method::GET, "/api/batches/4097/why", "etl")).await;
    assert_eq!(why.status, 200, "{}", why.body);
    let conditions = &why.body["conditions"];
    for (told, parent) in [job(1), once(1)].into_iter().enumerate() {
        assert_eq!(conditions[told]["message"], format!("waits for job {parent}"), "{conditions}");
    }
    for hidden in [2, 3, 4] {
        assert_eq!(conditions[hidden]["message"], "waits for a parent that the caller may not see");
        assert_eq!(conditions[hidden]["job"], Value::Null, "{conditions}");
    }
    let blocked = &why.body["blocked"];
    assert_eq!((&blocked["job"], &blocked["kind"]), (&json!(job(1)), &json!("blocked")), "{blocked}");
}
