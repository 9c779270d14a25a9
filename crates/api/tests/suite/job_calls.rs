//! API-1, API-2: the job calls, with the fields that are given from outside.

use reqwest::Method;
use serde_json::{Value, json};
use tidemill_api::Config;
use tidemill_model::{
    Answer, BatchCommand, BatchId, BatchResult, BatchState, Command, JobCommand, JobId, LiveAnswer,
    LiveQuery, Outcome, Rejection, ShardId, Why, WorkerCommand, WorkerId,
};
use tidemill_store::rows::WorkerRow;

use crate::fixture::{Answered, Fixture, answers_done, send};
use crate::owner::OFFSET;
use crate::rows::{SECRET, Writer, worker};

const JOB: JobId = JobId((77 << 12) | 1);

async fn fixture() -> Fixture {
    let script = |command: &tidemill_model::CommandRecord| match &command.command {
        Command::Batch(BatchCommand::SubmitJob(_)) => {
            Some(Outcome::Answered(Answer::Submitted { job: JOB, batch: Some(BatchId(4097)) }))
        }
        Command::Job(JobCommand::Define { .. }) => {
            Some(Outcome::Answered(Answer::Submitted { job: JobId(4096), batch: None }))
        }
        _ => Some(Outcome::Done),
    };
    Fixture::start(Box::new(script)).await
}

fn body(extra: Value) -> Value {
    let mut body = json!({
        "app_name": "demo-user", "app_key": SECRET, "job_name": "hello", "user": "ann",
        "job_type": "shell", "command": "echo hello", "group_id": 1,
    });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_job_without_cron_and_dependencies_goes_to_its_groups_shard() {
    let fixture = fixture().await;
    let request = body(json!({"priority": 10, "parameters": {"n": 3, "deep": true, "city": "Trier"}}));
    let answered = send(fixture.open(Method::POST, "/api/job/submit").json(&request)).await;
    assert_eq!(
        (answered.status, answered.body),
        (200, json!({"job_id": JOB.0, "accept": true, "message": ""}))
    );
    let seen = fixture.owner.seen();
    assert_eq!(seen[0].shard, ShardId(1));
    assert_eq!((&*seen[0].actor.app, seen[0].actor.user.as_deref()), ("demo-user", Some("ann")));
    expect_test::expect![[r#"
        {
          "batch": {
            "submit_job": {
              "name": "hello",
              "group": "demo",
              "group_id": 1,
              "app_name": "demo-user",
              "owner": "ann",
              "type": "shell",
              "program": {
                "command": "echo hello"
              },
              "parameters": {
                "city": "Trier",
                "deep": "true",
                "n": "3"
              },
              "priority": 0,
              "retries": 0,
              "retry_interval_s": 0
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&seen[0].command).unwrap());
}

#[tokio::test]
async fn cron_goes_to_the_catalogue_and_dependencies_where_they_are_known() {
    let fixture = fixture().await;
    for (extra, shard) in [
        (json!({"cron_expression": "0 0 23 * * ?"}), 0),
        (json!({"cron_expression": "", "dependency_jobids": JOB.0}), 1),
        (json!({"dependency_jobids": [JOB.0, JOB.0]}), 1),
        (json!({"dependency_jobids": format!("{},4096", JOB.0)}), 0),
        (json!({"dependency_jobids": 4096}), 0),
        (json!({"dependency_jobids": 4098}), 0),
    ] {
        let answered = send(fixture.open(Method::POST, "/api/job/submit").json(&body(extra.clone()))).await;
        assert_eq!(answered.body["accept"], true, "{extra}: {answered:?}");
        let last = fixture.owner.seen().pop().unwrap();
        assert_eq!(last.shard, ShardId(shard), "{extra}");
        match last.command {
            Command::Batch(BatchCommand::SubmitJob(submission)) => assert_eq!(submission.parents, [JOB]),
            Command::Job(JobCommand::Define { job, parents }) => {
                assert_eq!(job.schedule.is_some(), parents.is_empty(), "{extra}");
                assert_eq!(u8::from(job.priority), 9, "the default, 1, is the lowest");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A secret in a header stays out of access logs; the fields are then not needed.
#[tokio::test]
async fn headers_may_carry_the_key() {
    let fixture = fixture().await;
    let mut request = body(json!({}));
    request.as_object_mut().unwrap().retain(|name, _| !name.starts_with("app_"));
    let submit = || fixture.open(Method::POST, "/api/job/submit").json(&request);
    assert_eq!(send(submit()).await.status, 401);
    let answered = send(submit().header("X-App-Name", "demo-user").header("X-App-Key", SECRET)).await;
    assert_eq!(answered.body["accept"], true);
}

/// API-4: the job calls take the key of a repeat too.
#[tokio::test]
async fn a_repeated_submission_is_one_job() {
    let mut counter = 0;
    let fixture = Fixture::start(Box::new(move |_| {
        counter += 1;
        Some(Outcome::Answered(Answer::Submitted { job: JobId(counter), batch: None }))
    }))
    .await;
    let submit = || {
        fixture.open(Method::POST, "/api/job/submit").json(&body(json!({}))).header("Idempotency-Key", "k")
    };
    assert_eq!(send(submit()).await.body["job_id"], 1);
    assert_eq!(send(submit()).await.body["job_id"], 1);
}

#[tokio::test]
async fn a_key_submits_to_its_groups_only() {
    let fixture = fixture().await;
    let answered =
        send(fixture.open(Method::POST, "/api/job/submit").json(&body(json!({"group_id": 2})))).await;
    assert_eq!(
        (answered.status, &answered.body["accept"], &answered.body["job_id"]),
        (200, &json!(false), &json!(-1))
    );
    let missing =
        send(fixture.open(Method::POST, "/api/job/submit").json(&body(json!({"group_id": 77})))).await;
    let told = |of: &Answered, group: &str| of.body.to_string().replace(group, "N");
    assert_eq!(told(&answered, "2"), told(&missing, "77"), "as if there were no such group");
    assert!(fixture.owner.seen().is_empty());
}

#[tokio::test]
async fn status_is_a_number_and_a_result() {
    let answers = |shard: ShardId, query: LiveQuery| {
        assert_eq!(shard, ShardId(1));
        Ok(match query {
            LiveQuery::NewestBatch { job } if job == JOB => {
                LiveAnswer::NewestBatch { batch: Some(BatchId(4097)), state: Some(BatchState::Finished) }
            }
            LiveQuery::NewestBatch { job: JobId(8192) } => {
                LiveAnswer::NewestBatch { batch: Some(BatchId(8193)), state: Some(BatchState::Running) }
            }
            LiveQuery::Why { batch } => {
                let (state, result) = (BatchState::Finished, Some(BatchResult::Failed));
                LiveAnswer::Why(Why {
                    batch,
                    state,
                    result,
                    conditions: Vec::new(),
                    left_out: Vec::new(),
                    blocked: None,
                })
            }
            LiveQuery::NewestBatch { .. }
            | LiveQuery::WantedExternalDependencies { .. }
            | LiveQuery::WantedQuality { .. }
            | LiveQuery::Pool { .. }
            | LiveQuery::TaskLedger { .. }
            | LiveQuery::User { .. }
            | LiveQuery::Worker { .. }
            | LiveQuery::Level
            | LiveQuery::Notified { .. }
            | LiveQuery::Mailboxes { .. }
            | LiveQuery::CheckDirectory { .. }
            | LiveQuery::PlanApply { .. } => LiveAnswer::NotFound,
        })
    };
    let fixture = Fixture::with(Config::default(), answers_done(), Box::new(answers)).await;
    let status = |job: i64| {
        let path = format!("/api/job/status?app_name=viewer&app_key={SECRET}&job_id={job}");
        send(fixture.open(Method::GET, &path))
    };
    assert_eq!(status(JOB.0).await.body, json!({"job_id": JOB.0, "status": 3, "result": "failed"}));
    assert_eq!(status(8192).await.body, json!({"job_id": 8192, "status": 2, "result": ""}));
    assert_eq!(status(4096).await.body["status"], 0, "the tables know its newest batch");
    assert_eq!(status((5 << 12) | 1).await.code(), (404, "unknown"));
    assert_eq!(status(5 << 12).await.code(), (404, "unknown"));
}

#[tokio::test]
async fn kill_says_whether_the_batch_ends() {
    let mut outcomes = vec![
        Outcome::Done,
        Outcome::Refused(Rejection::BatchAlreadyFinished { batch: 4097, result: "success".into() }),
    ];
    outcomes.reverse();
    let fixture = Fixture::start(Box::new(move |_| outcomes.pop())).await;
    let kill = || {
        let path = format!("/api/job/kill?app_name=demo-user&app_key={SECRET}&job_id={JOB}");
        send(fixture.open(Method::DELETE, &path))
    };
    assert_eq!(kill().await.body, json!({"job_id": JOB.0, "success": true}));
    let late = kill().await;
    assert_eq!((late.status, &late.body["success"]), (200, &json!(false)));
    assert!(late.body["message"].as_str().unwrap().contains("already finished"));
    assert_eq!(fixture.owner.seen()[0].shard, ShardId(1));
    assert_eq!(fixture.owner.seen()[0].command, Command::Batch(BatchCommand::KillJob { job: JOB }));
}

#[tokio::test]
async fn a_worker_goes_off_duty_and_on_again() {
    let fixture = fixture().await;
    let switch = |port: i32, status: i32| {
        let body = json!({"app_name": "demo-user", "app_key": SECRET, "ip": "127.0.0.1", "port": port, "status": status});
        send(fixture.open(Method::POST, "/api/worker/status").json(&body))
    };
    assert_eq!(switch(9, 0).await.body, json!({"ip": "127.0.0.1", "port": 9, "success": true}));
    assert_eq!(switch(9, 1).await.body["success"], true);
    for (port, status) in [(10, 0), (9, 2)] {
        let refused = switch(port, status).await;
        assert_eq!(
            (refused.status, &refused.body["success"], &refused.body["port"]),
            (200, &json!(false), &json!(port))
        );
    }
    let commands: Vec<_> = fixture.owner.seen().into_iter().map(|record| record.command).collect();
    let worker = tidemill_model::WorkerId::new("w1");
    assert_eq!(
        commands,
        [
            Command::Worker(WorkerCommand::Drain { worker: worker.clone() }),
            Command::Worker(WorkerCommand::Resume { worker })
        ]
    );
}

/// API-1, API-2, API-3: what is no JSON object is refused as such, in the call's own fields as well.
#[tokio::test]
async fn bodies_of_job_calls_are_objects() {
    let fixture = fixture().await;
    for (path, own) in [("/api/job/submit", "accept"), ("/api/worker/status", "success")] {
        for body in [json!([]), json!(["demo-user", SECRET]), json!(7), json!("a"), Value::Null] {
            let key = format!("demo-user:{SECRET}");
            let answered = send(fixture.open(Method::POST, path).bearer_auth(key).json(&body)).await;
            assert_eq!(answered.code(), (400, "not_an_object"), "{path} {body}: {answered:?}");
            assert_eq!(answered.body[own], false, "{path} {body}");
        }
    }
    assert!(fixture.owner.seen().is_empty());
}

/// API-2, API-3: refusals hold the fields of their call with the types that the document has.
#[tokio::test]
async fn refusals_of_job_calls_fit_their_schemas() {
    let fixture = fixture().await;
    let key = format!("demo-user:{SECRET}");
    for job in ["", "x", "0", "-1"] {
        let path = format!("/api/job/kill?job_id={job}");
        let answered = send(fixture.open(Method::DELETE, &path).bearer_auth(&key)).await;
        assert_eq!((answered.status, &answered.body["success"]), (200, &json!(false)), "{job}");
        assert_eq!(answered.body["job_id"], -1, "{job}");
    }
    for body in [json!({}), json!({"ip": 7, "port": "9", "status": 0}), json!({"port": 1_u64 << 40})] {
        let answered =
            send(fixture.open(Method::POST, "/api/worker/status").bearer_auth(&key).json(&body)).await;
        assert_eq!((answered.status, &answered.body["success"]), (200, &json!(false)), "{body}");
        assert_eq!((&answered.body["ip"], &answered.body["port"]), (&json!(""), &json!(-1)), "{body}");
    }
    assert!(fixture.owner.seen().is_empty());
}

/// API-2: a worker is found by other spellings of its address and by other names of its host, where no other worker has them.
#[tokio::test]
async fn worker_is_found_by_every_name_of_its_host() {
    let fixture = fixture().await;
    let on = |id: &str, host: &str, address: &str| WorkerRow {
        id: id.into(),
        host: host.into(),
        ..worker(address)
    };
    let left = WorkerRow { state: "left".into(), ..on("w7", "single", "10.0.0.7:31") };
    let foreign = WorkerRow { group_name: "other".into(), ..on("w8", "single", "10.0.0.8:31") };
    Writer::new(&*fixture.tables)
        .rows(vec![
            on("w2", "twin", "10.0.0.2:30"),
            on("w3", "twin", "10.0.0.3:30"),
            on("w4", "Single", "[fd00::4]:31"),
            left,
            foreign,
        ])
        .commit(OFFSET + 2);
    let drain = |ip: &str, port: i32| {
        let body = json!({"app_name": "demo-user", "app_key": SECRET, "ip": ip, "port": port, "status": 0});
        send(fixture.open(Method::POST, "/api/worker/status").json(&body))
    };
    for (ip, port, found) in [
        ("127.0.0.1", 9, "w1"),
        ("::ffff:127.0.0.1", 9, "w1"),
        ("localhost", 9, "w1"),
        ("10.0.0.3", 30, "w3"),
        ("fd00:0::0:4", 31, "w4"),
        ("single", 31, "w4"),
    ] {
        let answered = drain(ip, port).await;
        assert_eq!(answered.body, json!({"ip": ip, "port": port, "success": true}), "{ip}");
        let wanted = Command::Worker(WorkerCommand::Drain { worker: WorkerId::new(found) });
        assert_eq!(fixture.owner.seen().pop().unwrap().command, wanted, "{ip}");
    }
    let done = fixture.owner.seen().len();
    let both = drain("twin", 30).await.body;
    assert_eq!((&both["success"], &both["errors"][0]["field"]), (&json!(false), &json!("ip")), "{both}");
    assert!(both["message"].as_str().unwrap().contains("10.0.0.2:30, 10.0.0.3:30"), "{both}");
    for (ip, port, field) in [("", 9, "ip"), ("127.0.0.1", 0, "port"), ("127.0.0.1", 65_536, "port")] {
        let refused = drain(ip, port).await.body;
        assert_eq!(
            (&refused["success"], &refused["errors"][0]["field"]),
            (&json!(false), &json!(field)),
            "{ip}"
        );
    }
    for (ip, port) in [("10.0.0.8", 31), ("10.0.0.2", 31), ("nowhere.invalid", 30)] {
        assert_eq!(drain(ip, port).await.body["code"], "unknown", "{ip}");
    }
    assert_eq!(fixture.owner.seen().len(), done, "what is refused changes nothing");
}

/// API-2: a worker that is there goes before one that has left, and before what workers of others registered.
#[tokio::test]
async fn address_means_a_live_worker_of_the_callers_own() {
    let fixture = fixture().await;
    let on = |id: &str, state: &str, host: &str, address: &str| WorkerRow {
        id: id.into(),
        state: state.into(),
        host: host.into(),
        ..worker(address)
    };
    let later = |row: WorkerRow| WorkerRow { registered_at: row.registered_at + 1, ..row };
    let foreign = |row: WorkerRow| WorkerRow { group_name: "other".into(), ..row };
    Writer::new(&*fixture.tables)
        .rows(vec![
            on("w2", "live", "shared", "10.0.0.2:32"),
            foreign(later(on("w3", "live", "else", "shared:32"))),
            on("w4", "live", "shared", "10.0.0.4:33"),
            later(on("w5", "gone", "else", "shared:33")),
            on("w6", "live", "else", "shared:34"),
            later(on("w7", "lost", "else", "shared:34")),
            later(on("w8", "left", "else", "shared:34")),
            on("w9", "left", "else", "shared:35"),
            foreign(on("x1", "live", "else", "shared:36")),
        ])
        .commit(OFFSET + 2);
    let drain = |port: i32| {
        let body =
            json!({"app_name": "demo-user", "app_key": SECRET, "ip": "shared", "port": port, "status": 0});
        send(fixture.open(Method::POST, "/api/worker/status").json(&body))
    };
    for (port, found) in [(32, "w2"), (33, "w4"), (34, "w6"), (35, "w9")] {
        let answered = drain(port).await.body;
        assert_eq!(answered, json!({"ip": "shared", "port": port, "success": true}));
        let wanted = Command::Worker(WorkerCommand::Drain { worker: WorkerId::new(found) });
        assert_eq!(fixture.owner.seen().pop().unwrap().command, wanted, "{port}");
    }
    let (theirs, nobodys) = (drain(36).await.body, drain(37).await.body);
    assert_eq!(theirs["code"], "unknown", "{theirs}");
    assert_eq!(theirs.to_string().replace("36", "37"), nobodys.to_string());
}

/// API-1, API-2: a part of a key is not passed over where headers show one: it may be another one.
#[tokio::test]
async fn part_of_a_key_is_not_passed_over() {
    let fixture = fixture().await;
    let key = format!("demo-user:{SECRET}");
    let status = |fields: &str| {
        let path = format!("/api/job/status?job_id=4096{fields}");
        send(fixture.open(Method::GET, &path).bearer_auth(&key))
    };
    assert_eq!(status("").await.status, 200);
    assert_eq!(status("&app_name=demo-user").await.status, 200, "it is the name of the same key");
    for (fields, field) in [("&app_name=viewer", "app_name"), ("&app_key=x", "app_key")] {
        let refused = status(fields).await;
        assert_eq!(
            (refused.status, &refused.body["errors"][0]["field"]),
            (422, &json!(field)),
            "{refused:?}"
        );
        assert!(!refused.body.to_string().contains("\"x\""), "no secret is told: {refused:?}");
    }
    let half = "/api/job/status?job_id=4096&app_name=demo-user";
    assert_eq!(send(fixture.open(Method::GET, half)).await.status, 401);
    for (extra, field) in [(json!({"app_name": 7}), "app_name"), (json!({"app_name": "viewer"}), "app_name")]
    {
        let mut request = body(extra);
        request.as_object_mut().unwrap().remove("app_key");
        let refused =
            send(fixture.open(Method::POST, "/api/job/submit").bearer_auth(&key).json(&request)).await;
        assert_eq!(
            (&refused.body["accept"], &refused.body["errors"][0]["field"]),
            (&json!(false), &json!(field))
        );
    }
    assert!(fixture.owner.seen().is_empty());
}

/// API-1: what has to be there is missed by name, and each field has its type.
#[tokio::test]
async fn submission_names_the_field_that_is_missing_or_of_another_type() {
    let fixture = fixture().await;
    let submit = async |request: &Value| {
        let answered = send(fixture.open(Method::POST, "/api/job/submit").json(request)).await;
        assert_eq!((answered.status, &answered.body["job_id"]), (200, &json!(-1)), "{answered:?}");
        assert_eq!(answered.body["accept"], false, "{answered:?}");
        answered.body["message"].as_str().unwrap().to_owned()
    };
    for field in ["job_name", "user", "job_type", "command", "group_id"] {
        let mut request = body(json!({}));
        request.as_object_mut().unwrap().remove(field);
        let message = submit(&request).await;
        assert!(message.contains(field), "{field}: {message}");
    }
    for (field, value) in [
        ("job_name", json!(7)),
        ("cron_expression", json!(7)),
        ("dependency_jobids", json!({"job": 1})),
        ("user", json!("")),
        ("job_type", json!(7)),
        ("command", json!(["true"])),
        ("group_id", json!("demo")),
        ("priority", json!(0)),
        ("priority", json!(11)),
        ("parameters", json!(["a"])),
        ("parameters", json!({"a": [1]})),
        ("colour", json!("red")),
    ] {
        let message = submit(&body(json!({field: value}))).await;
        assert!(message.contains(field), "{field}: {message}");
    }
    assert!(fixture.owner.seen().is_empty());
}
