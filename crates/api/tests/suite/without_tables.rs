//! What is answered from the catalogue's journal: keys always, and what clients cannot put off while no table can be read.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidemill_journal::{Error, Journal, Shutdown, Start};
use tidemill_model::{
    Answer, BatchId, BatchState, Command, JobId, LiveAnswer, LiveQuery, Outcome, ShardId, TaskCommand,
};

use crate::fixture::{Fixture, answers_done, send};
use crate::owner::Script;
use crate::rows::SECRET;
use crate::support::{Owner, definition, job};

const LONG: Duration = Duration::from_secs(30);

/// The journal of the fixture's catalogue, and the thread that follows it.
pub(crate) struct Followed {
    owner: Owner,
    shutdown: Shutdown,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Followed {
    pub(crate) fn follow(fixture: &Fixture) -> Self {
        let shutdown = Shutdown::new();
        let owner = Owner::claim(&fixture.log, 0);
        let thread =
            tidemill_directory::follow(Arc::new(fixture.log.clone()), fixture.known.clone(), &shutdown);
        Self { owner, shutdown, thread: Some(thread.unwrap()) }
    }

    /// Decides, and waits until that is known.
    pub(crate) fn decide(&mut self, fixture: &Fixture, events: Vec<Value>) {
        let offset = self.owner.decide(events.into_iter().map(|event| (0, event)).collect());
        assert!(fixture.known.wait(offset, LONG) && fixture.known.wait_as_of(Instant::now(), LONG));
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.shutdown.request();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

pub(crate) fn key(app: &str, groups: &[&str]) -> Value {
    let hash: String = Sha256::digest(SECRET.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"catalogue": {"key_defined": {"app": app, "hash": hash, "role": "user", "groups": groups}}})
}

fn revoked(app: &str) -> Value {
    json!({"catalogue": {"key_revoked": {"app": app}}})
}

/// A group, a key for it, a job and a user, in no table.
fn catalogue() -> Vec<Value> {
    let group = json!({"group": 1, "name": "demo", "shard": 1, "worker_key": "aa", "settings": {}});
    let other = json!({"group": 2, "name": "other", "shard": 2, "worker_key": "aa", "settings": {}});
    let assigned = |group: &str, shard: u16, user: &str| json!({"catalogue": {"users_assigned": {"group": group, "shard": shard, "users": [user]}}});
    let mut of_account = definition(job(2), "report", json!([]));
    of_account["spec"]["run_as"] = json!("etl");
    vec![
        json!({"catalogue": {"group_defined": group}}),
        json!({"catalogue": {"group_defined": other}}),
        key("etl", &["demo"]),
        json!({"job": {"defined": {"definition": definition(job(1), "load", json!([])), "enabled": true}}}),
        json!({"job": {"defined": {"definition": of_account, "enabled": true}}}),
        assigned("demo", 1, "ann"),
        assigned("other", 2, "bob"),
    ]
}

pub(crate) fn decides() -> Script {
    Box::new(|command| {
        Some(match &command.command {
            Command::Batch(tidemill_model::BatchCommand::RunJob { .. }) => {
                Outcome::Answered(Answer::Generated { batch: BatchId(4097), disabled: false })
            }
            Command::Batch(tidemill_model::BatchCommand::SubmitJob(_)) => {
                Outcome::Answered(Answer::Submitted { job: JobId(8193), batch: Some(BatchId(8193)) })
            }
            Command::Task(TaskCommand::Pull { .. }) => {
                Outcome::Answered(Answer::NothingDue { next_at: None })
            }
            Command::Task(TaskCommand::Complete { grant, .. }) => {
                Outcome::Answered(Answer::Completed { grant: *grant })
            }
            _ => Outcome::Done,
        })
    })
}

/// OPS-4: no table can be read, and pull, complete, return, kill, run and submit are decided, each with the rights of its key; what
/// needs a table says so.
#[tokio::test]
async fn work_goes_on_while_no_table_can_be_read() {
    let answers = |_, query| match query {
        LiveQuery::NewestBatch { .. } => {
            Ok(LiveAnswer::NewestBatch { batch: Some(BatchId(4097)), state: Some(BatchState::Running) })
        }
        _ => Ok(LiveAnswer::NotFound),
    };
    let fixture = Fixture::without_tables(decides(), Box::new(answers)).await;
    let mut journal = Followed::follow(&fixture);
    journal.decide(&fixture, catalogue());
    let etl =
        |method: Method, path: String, body: Value| send(fixture.request(method, &path, "etl").json(&body));
    let post = |path: &str, body: Value| etl(Method::POST, path.to_owned(), body);
    let (load, report) = (job(1), job(2));
    let submit = json!({
        "app_name": "etl", "app_key": SECRET, "job_name": "once", "user": "ann", "job_type": "made-up",
        "command": "true", "group_id": 1, "dependency_jobids": [load],
    });
    let all = [
        ("/api/batches/4097/kill".to_owned(), json!({"reason": "wrong input"})),
        (format!("/api/jobs/{load}/run"), json!({"parameters": {"day": "1"}})),
        (format!("/api/jobs/{report}/run"), json!({})),
        ("/api/pull".to_owned(), json!({"user": "ann"})),
        ("/api/pull/complete".to_owned(), json!({"user": "ann", "grant": 4097, "result": "ok"})),
        ("/api/pull/return".to_owned(), json!({"user": "ann", "grant": 4097})),
        ("/api/job/submit".to_owned(), submit),
    ];
    for (path, body) in &all {
        let answer = post(path, body.clone()).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_ne!(answer.body["accept"], false, "{}", answer.body);
    }
    let killed = etl(Method::DELETE, format!("/api/job/kill?job_id={load}"), json!({})).await;
    assert_eq!((killed.status, &killed.body["success"]), (200, &json!(true)), "{}", killed.body);
    let status = etl(Method::GET, format!("/api/job/status?job_id={load}"), json!({})).await;
    assert_eq!((status.status, &status.body["status"]), (200, &json!(2)), "{}", status.body);
    let shards: Vec<_> = fixture.owner.seen().iter().map(|command| command.shard).collect();
    assert_eq!(shards, [ShardId(1); 8]);
    // What the key does not reach, what it may not, and who is not there, as with tables.
    assert_eq!(post("/api/pull", json!({"user": "bob"})).await.code(), (404, "user_unknown"));
    assert_eq!(post("/api/batches/4098/kill", json!({})).await.code(), (404, "unknown"));
    let told = post(&format!("/api/jobs/{report}/run"), json!({"parameters": {"day": "1"}})).await;
    assert_eq!(told.body["errors"][0]["field"], "parameters.day", "{}", told.body);
    assert_eq!(post("/api/pull", json!({"user": "nobody"})).await.status, 404);
    assert_eq!(post(&format!("/api/jobs/{}/run", job(9)), json!({})).await.code(), (404, "unknown"));
    assert_eq!(fixture.owner.count(), 8, "what is refused is not sent");
    let listed = etl(Method::GET, "/api/batches".to_owned(), json!({})).await;
    assert_eq!(listed.code(), (503, "tables_unavailable"));
    assert!(listed.body["detail"].as_str().unwrap().contains("database of the read tables is away"));
}

/// A journal that is read up to somewhere says nothing of today: until its end is reached, the tables say where a job runs.
#[tokio::test]
async fn what_is_not_read_to_its_end_is_not_used() {
    let fixture = Fixture::start(decides()).await;
    let mut owner = Owner::claim(&fixture.log, 0);
    let other = json!({"group": 2, "name": "other", "shard": 2, "worker_key": "aa", "settings": {}});
    let mut moved = definition(job(1), "load", json!([]));
    moved["group_id"] = json!(2);
    owner.decide(vec![
        (0, json!({"catalogue": {"group_defined": other}})),
        (0, json!({"job": {"defined": {"definition": moved, "enabled": true}}})),
    ]);
    let run = async |shard: u16| {
        let path = format!("/api/jobs/{}/run", job(1));
        assert_eq!(send(fixture.post(&path, &json!({}))).await.status, 200);
        assert_eq!(fixture.owner.seen().last().unwrap().shard, ShardId(shard));
    };
    let mut journal = Journal::open(&fixture.log, 0, "the test", Start::Beginning).unwrap();
    fixture.known.take(&journal.poll(100, Duration::ZERO).unwrap());
    assert!(fixture.known.job(JobId(job(1))).is_some() && !fixture.known.is_whole());
    run(1).await;
    let mut followed = Followed::follow(&fixture);
    followed.decide(&fixture, vec![key("root", &[])]);
    run(2).await;
}

/// API-5: keys count as the journal has them, whatever the tables show, which are behind.
#[tokio::test]
async fn keys_count_as_the_journal_has_them() {
    let fixture = Fixture::start(answers_done()).await;
    let asks = |app: &'static str| send(fixture.request(Method::GET, "/api/jobs", app));
    assert_eq!(asks("root").await.status, 200, "as long as nobody has read the journal, the tables say it");
    let mut journal = Followed::follow(&fixture);
    journal.decide(&fixture, vec![key("new", &[])]);
    assert_eq!((asks("root").await.status, asks("new").await.status), (401, 200));
    journal.decide(&fixture, vec![revoked("new")]);
    assert_eq!(asks("new").await.status, 401);
}

/// API-5: without tables and without a journal that was read nobody's key is good or bad.
#[tokio::test]
async fn where_nothing_can_be_read_a_key_is_neither_good_nor_bad() {
    let fixture = Fixture::without_tables(answers_done(), Box::new(|_, _| Ok(LiveAnswer::NotFound))).await;
    let answer = send(fixture.get("/api/jobs")).await;
    assert_eq!(answer.code(), (503, "tables_unavailable"));
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.starts_with("the keys are being read from the journal: 0 of 0 records"), "{detail}");
}

/// How long a stream goes on from now.
async fn ends(response: Response) -> Duration {
    let begun_at = Instant::now();
    let mut bytes = response.bytes_stream();
    tokio::time::timeout(LONG, async { while bytes.next().await.is_some_and(|chunk| chunk.is_ok()) {} })
        .await
        .expect("it ends");
    begun_at.elapsed()
}

/// API-5: event streams on which nothing happens end within a second of the record that revokes their key; those of other keys go
/// on.
#[tokio::test]
async fn quiet_streams_end_within_a_second_of_the_record() {
    let fixture = Fixture::start(answers_done()).await;
    let mut journal = Followed::follow(&fixture);
    journal.decide(&fixture, vec![key("one", &[]), key("other", &[])]);
    let open = |app: &'static str| fixture.request(Method::GET, "/api/events", app).send();
    let (one, other) = (open("one").await.unwrap(), open("other").await.unwrap());
    assert_eq!((one.status().as_u16(), other.status().as_u16()), (200, 200));
    journal.decide(&fixture, vec![revoked("one")]);
    let took = ends(one).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let mut bytes = other.bytes_stream();
    let goes_on = tokio::time::timeout(Duration::from_millis(500), bytes.next()).await;
    assert!(goes_on.is_err(), "nothing happens, and it is open");
}

/// API-5: a call does nothing by rights that its caller had when its head came, and has no more when its body is there.
#[tokio::test]
async fn rights_are_those_of_when_the_body_is_there() {
    let fixture = Fixture::start(decides()).await;
    let mut journal = Followed::follow(&fixture);
    journal.decide(&fixture, catalogue());
    let of_role = |role: &str| {
        let mut key = key("etl", &[]);
        key["catalogue"]["key_defined"]["role"] = json!(role);
        key
    };
    let (run, rebuild) = (format!("/api/jobs/{}/run", job(1)), "/api/admin/rebuild".to_owned());
    let changed = (409, json!("rights_changed"));
    let expected = [
        (&run, "user", "{\"concurrent\": true}", None, (200, Value::Null)),
        (&run, "user", "{\"concurrent\": true}", Some(of_role("viewer")), changed.clone()),
        (&run, "user", "{\"concurrent\": true}", Some(revoked("etl")), (401, json!("unauthorized"))),
        (&rebuild, "super_administrator", "{\"what\": \"hints\"}", Some(of_role("viewer")), changed),
    ];
    for (path, role, text, meanwhile, expected) in expected {
        journal.decide(&fixture, vec![of_role(role)]);
        let (to, body) = tokio::sync::mpsc::unbounded_channel::<Result<&str, std::io::Error>>();
        let body = futures_util::stream::unfold(body, async |mut body| Some((body.recv().await?, body)));
        let (begin, end) = text.split_at(5);
        to.send(Ok(begin)).unwrap();
        let request = fixture.request(Method::POST, path, "etl").header("content-type", "application/json");
        let asked = tokio::spawn(send(request.body(reqwest::Body::wrap_stream(body))));
        // Rights that were looked at just now are not looked at again.
        tokio::time::sleep(Duration::from_millis(400)).await;
        journal.decide(&fixture, meanwhile.into_iter().collect());
        to.send(Ok(end)).unwrap();
        drop(to);
        let answer = asked.await.unwrap();
        assert_eq!((answer.status, answer.body["code"].clone()), expected, "{path}: {}", answer.body);
    }
}

/// API-5: tables that lack records of the catalogue say nothing of a key, for it may be revoked in one of them.
#[tokio::test]
async fn a_key_is_not_taken_from_tables_that_are_behind() {
    let fixture = Fixture::start(answers_done()).await;
    let of = |app: &str| send(fixture.request(Method::GET, "/api/me/rights", app));
    assert_eq!(
        of("viewer").await.status,
        200,
        "nothing is known of the journal, and the tables have the key"
    );
    fixture.known.ends(1_000_000, Instant::now());
    let refused = of("root").await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("tables_behind")));
}
