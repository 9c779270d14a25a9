//! A6: what is wrong is refused with the field, its value and the rule, and nothing else happens.

use expect_test::{Expect, expect};
use reqwest::Method;
use serde_json::{Value, json};
use tidemill_api::Config;
use tidemill_model::{FieldError, LiveAnswer, Outcome, Rejection};

use crate::fixture::{Answered, Fixture, answers_done, send};

fn check(answered: &Answered, wanted: Expect) {
    assert_eq!(answered.media, "application/problem+json", "{answered:?}");
    wanted.assert_eq(&answered.text());
}

#[tokio::test]
async fn unknown_call_and_wrong_method_are_problems() {
    let fixture = Fixture::start(answers_done()).await;
    check(
        &send(fixture.get("/api/nothing")).await,
        expect![[r#"
        404 application/problem+json
        {
          "code": "no_such_call",
          "detail": "there is no /api/nothing here; /api/openapi.json lists every call",
          "errors": [],
          "status": 404,
          "title": "Not Found",
          "type": "urn:tidemill:problem:no_such_call"
        }
    "#]],
    );
    check(
        &send(fixture.request(Method::DELETE, "/api/batches", "root")).await,
        expect![[r#"
        405 application/problem+json
        {
          "code": "wrong_method",
          "detail": "/api/batches does not take DELETE; /api/openapi.json lists every call",
          "errors": [],
          "status": 405,
          "title": "Method Not Allowed",
          "type": "urn:tidemill:problem:wrong_method"
        }
    "#]],
    );
}

#[tokio::test]
async fn wrong_key_is_refused_wherever_it_is_shown() {
    let fixture = Fixture::start(answers_done()).await;
    for token in ["root:wrong", "nobody:correct-horse-battery", "root", ":", ""] {
        let answered = send(fixture.open(Method::GET, "/api/jobs").bearer_auth(token)).await;
        assert_eq!(answered.code(), (401, "unauthorized"), "{token}");
    }
    let body = json!({"app_name": "root", "app_key": "wrong", "job_name": "a"});
    check(
        &send(fixture.open(Method::POST, "/api/job/submit").json(&body)).await,
        expect![[r#"
        401 application/problem+json
        {
          "accept": false,
          "code": "unauthorized",
          "detail": "the application key is missing or wrong; send it as `Authorization: Bearer <app>:<secret>`",
          "errors": [],
          "job_id": -1,
          "message": "the application key is missing or wrong; send it as `Authorization: Bearer <app>:<secret>`",
          "status": 401,
          "title": "Unauthorized",
          "type": "urn:tidemill:problem:unauthorized"
        }
    "#]],
    );
    assert!(fixture.owner.seen().is_empty());
}

#[tokio::test]
async fn bad_bodies_are_problems() {
    let fixture = Fixture::start(answers_done()).await;
    let apply = || fixture.request(Method::POST, "/api/jobs/apply", "root");
    let json = "application/json";
    check(
        &send(apply().header("content-type", json).body("{\"jobs\": [")).await,
        expect![[r#"
            400 application/problem+json
            {
              "code": "bad_json",
              "detail": "the body must be JSON: EOF while parsing a list at line 1 column 10",
              "errors": [
                {
                  "field": "body",
                  "rule": "must be JSON: EOF while parsing a list at line 1 column 10",
                  "value": ""
                }
              ],
              "status": 400,
              "title": "Bad Request",
              "type": "urn:tidemill:problem:bad_json"
            }
        "#]],
    );
    check(
        &send(apply().body("jobs")).await,
        expect![[r#"
        415 application/problem+json
        {
          "code": "not_json",
          "detail": "the body must be JSON, with the header `Content-Type: application/json`",
          "errors": [],
          "status": 415,
          "title": "Unsupported Media Type",
          "type": "urn:tidemill:problem:not_json"
        }
    "#]],
    );
    check(
        &send(apply().header("content-type", json).body("\"jobs\"")).await,
        expect![[r#"
            422 application/problem+json
            {
              "code": "invalid",
              "detail": "body: \"\\\"jobs\\\"\": must be a JSON object",
              "errors": [
                {
                  "field": "body",
                  "rule": "must be a JSON object",
                  "value": "\"jobs\""
                }
              ],
              "status": 422,
              "title": "Unprocessable Entity",
              "type": "urn:tidemill:problem:invalid"
            }
        "#]],
    );
    let large = "x".repeat((1 << 20) + 1);
    check(
        &send(fixture.request(Method::POST, "/api/groups", "root").header("content-type", json).body(large))
            .await,
        expect![[r#"
        413 application/problem+json
        {
          "code": "too_large",
          "detail": "the body must have at most 1048576 bytes (max_body_bytes)",
          "errors": [
            {
              "field": "body",
              "rule": "must have at most 1048576 bytes (max_body_bytes)",
              "value": ""
            }
          ],
          "status": 413,
          "title": "Payload Too Large",
          "type": "urn:tidemill:problem:too_large"
        }
    "#]],
    );
    check(
        &send(apply().json(&json!({"jobs": [], "purge": []}))).await,
        expect![[r#"
            422 application/problem+json
            {
              "code": "invalid",
              "detail": "purge: \"[]\": unknown field `purge`, expected one of `jobs`, `prune`, `cancel`, `orphan_children`, `allow_unknown_type`",
              "errors": [
                {
                  "field": "purge",
                  "rule": "unknown field `purge`, expected one of `jobs`, `prune`, `cancel`, `orphan_children`, `allow_unknown_type`",
                  "value": "[]"
                }
              ],
              "status": 422,
              "title": "Unprocessable Entity",
              "type": "urn:tidemill:problem:invalid"
            }
        "#]],
    );
    assert!(fixture.owner.seen().is_empty());
}

fn spec(extra: Value) -> Value {
    let mut spec = json!({"name": "a", "group": "demo", "type": "noop"});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    spec
}

/// JOB-1: a field whose effect is not built is refused by name.
#[tokio::test]
async fn apply_names_the_place_of_every_bad_job() {
    let fixture = Fixture::start(answers_done()).await;
    let jobs = json!({"jobs": [
        spec(json!({})),
        spec(json!({"quality_gate": true})),
        spec(json!({"colour": "red"})),
        spec(json!({"name": "a/b"})),
        spec(json!({"priority": 10})),
    ]});
    let mut answered = send(fixture.post("/api/jobs/apply", &jobs)).await;
    // Every field that a job has is named; which there are is not what is tested.
    let rule = answered.body["errors"][0]["rule"].as_str().unwrap().to_owned();
    let known = rule.split_once("known are ").unwrap().1;
    assert_eq!(known.split(", ").count(), tidemill_model::JobSpec::fields().len());
    answered.body = serde_json::from_str(&answered.body.to_string().replace(known, "…")).unwrap();
    check(
        &answered,
        expect![[r#"
            422 application/problem+json
            {
              "code": "invalid",
              "detail": "jobs[2].colour: \"red\": is no field of a job; known are …; jobs[3].name: \"a/b\": job name \"a/b\" must be 1 to 200 characters: letters, digits, and . _ - after the first; jobs[4].priority: \"10\": priority 10 must be 0 (highest) to 9",
              "errors": [
                {
                  "field": "jobs[2].colour",
                  "rule": "is no field of a job; known are …",
                  "value": "red"
                },
                {
                  "field": "jobs[3].name",
                  "rule": "job name \"a/b\" must be 1 to 200 characters: letters, digits, and . _ - after the first",
                  "value": "a/b"
                },
                {
                  "field": "jobs[4].priority",
                  "rule": "priority 10 must be 0 (highest) to 9",
                  "value": "10"
                }
              ],
              "status": 422,
              "title": "Unprocessable Entity",
              "type": "urn:tidemill:problem:invalid"
            }
        "#]],
    );
    assert!(fixture.owner.seen().is_empty());
}

#[tokio::test]
async fn apply_is_bounded() {
    let fixture = Fixture::start(answers_done()).await;
    let many: Vec<Value> = (0..40_001).map(|n| spec(json!({"name": format!("n{n}")}))).collect();
    check(
        &send(fixture.post("/api/jobs/apply", &json!({"jobs": many}))).await,
        expect![[r#"
        413 application/problem+json
        {
          "code": "too_large",
          "detail": "one apply takes at most 40000 jobs; split it",
          "errors": [
            {
              "field": "jobs",
              "rule": "one apply takes at most 40000 jobs; split it",
              "value": "more than 40000"
            }
          ],
          "status": 413,
          "title": "Payload Too Large",
          "type": "urn:tidemill:problem:too_large"
        }
    "#]],
    );
    let large = spec(json!({"type": "shell", "command": "x".repeat(300_000)}));
    let answered = send(fixture.post("/api/jobs/apply", &json!({"jobs": [large]}))).await;
    assert_eq!(answered.code(), (413, "too_large"));
    assert!(fixture.owner.seen().is_empty());
}

#[tokio::test]
async fn rejections_of_the_owner_keep_their_fields() {
    let invalid = |field: &str, value: &str, rule: &str| Rejection::Invalid {
        fields: vec![FieldError::new(field, value, rule)],
    };
    let mut rejections = vec![
        invalid("jobs[0].schedule.cron", "* *", "has 2 fields"),
        Rejection::Cycle { path: vec!["demo/a".into(), "other/b".into(), "demo/a".into()] },
        Rejection::JobInUse { job: "demo/a".into(), reason: "other/b waits for it".into() },
        Rejection::JobNotMoved { job: "demo/a".into(), reason: "it has unfinished batches".into() },
        Rejection::JobMoving { job: "demo/a".into(), group: "other".into() },
        Rejection::LimitReached { what: "the number of jobs".into(), limit: 5 },
        Rejection::DeadLettered { reason: "panicked".into() },
    ];
    rejections.reverse();
    let fixture = Fixture::start(Box::new(move |_| rejections.pop().map(Outcome::Refused))).await;
    let apply = || fixture.post("/api/jobs/apply", &json!({"jobs": [spec(json!({}))]}));
    check(
        &send(apply()).await,
        expect![[r#"
        422 application/problem+json
        {
          "code": "invalid",
          "detail": "jobs[0].schedule.cron: \"* *\": has 2 fields",
          "errors": [
            {
              "field": "jobs[0].schedule.cron",
              "rule": "has 2 fields",
              "value": "* *"
            }
          ],
          "status": 422,
          "title": "Unprocessable Entity",
          "type": "urn:tidemill:problem:invalid"
        }
    "#]],
    );
    check(
        &send(apply()).await,
        expect![[r#"
        422 application/problem+json
        {
          "code": "cycle",
          "detail": "dependency cycle: demo/a → other/b → demo/a",
          "errors": [
            {
              "field": "parents",
              "rule": "a job cannot wait for itself, directly or through others; remove one of these parents",
              "value": "demo/a → other/b → demo/a"
            }
          ],
          "status": 422,
          "title": "Unprocessable Entity",
          "type": "urn:tidemill:problem:cycle"
        }
    "#]],
    );
    check(
        &send(apply()).await,
        expect![[r#"
        409 application/problem+json
        {
          "code": "job_in_use",
          "detail": "job demo/a cannot be deleted: other/b waits for it",
          "errors": [],
          "status": 409,
          "title": "Conflict",
          "type": "urn:tidemill:problem:job_in_use"
        }
    "#]],
    );
    assert_eq!(send(apply()).await.code(), (409, "job_not_moved"));
    assert_eq!(send(apply()).await.code(), (409, "job_moving"));
    let limit = send(apply()).await;
    assert_eq!((limit.code(), limit.retry_after.as_deref()), ((429, "limit_reached"), Some("5")));
    assert_eq!(send(apply()).await.code(), (500, "dead_lettered"));
}

#[tokio::test]
async fn unknown_ids_and_bad_parameters_are_problems() {
    let fixture = Fixture::start(answers_done()).await;
    check(
        &send(fixture.get("/api/jobs/999")).await,
        expect![[r#"
        404 application/problem+json
        {
          "code": "unknown",
          "detail": "there is no job 999",
          "errors": [
            {
              "field": "job",
              "rule": "must name a job that exists",
              "value": "999"
            }
          ],
          "status": 404,
          "title": "Not Found",
          "type": "urn:tidemill:problem:unknown"
        }
    "#]],
    );
    check(
        &send(fixture.get("/api/batches?stat=running")).await,
        expect![[r#"
            422 application/problem+json
            {
              "code": "invalid",
              "detail": "stat: \"running\": is not a parameter of this call; it takes limit, cursor, job, group, state, result, blocked, triggered_by, mine, from, to",
              "errors": [
                {
                  "field": "stat",
                  "rule": "is not a parameter of this call; it takes limit, cursor, job, group, state, result, blocked, triggered_by, mine, from, to",
                  "value": "running"
                }
              ],
              "status": 422,
              "title": "Unprocessable Entity",
              "type": "urn:tidemill:problem:invalid"
            }
        "#]],
    );
    for (path, status, code) in [
        ("/api/groups/demo/jobs/nothing", 404, "unknown"),
        ("/api/jobs/seven", 422, "invalid"),
        ("/api/batches/999", 404, "unknown"),
        ("/api/batches/-1/why", 422, "invalid"),
        ("/api/batches/+1/why", 422, "invalid"),
        ("/api/batches?job=0", 422, "invalid"),
        ("/api/batches/999/log", 404, "unknown"),
        ("/api/workers/nobody", 404, "unknown"),
        ("/api/batches?state=asleep", 422, "invalid"),
        ("/api/batches?from=yesterday", 422, "invalid"),
        ("/api/batches?limit=0", 422, "invalid"),
        ("/api/batches?cursor=xx", 422, "invalid"),
        ("/api/batches?limit=1&limit=2", 422, "invalid"),
        ("/api/jobs?enabled=maybe", 422, "invalid"),
        ("/api/jobs?at_least=7", 422, "invalid"),
        ("/api/jobs?at_least=%2B0:1", 422, "invalid"),
        ("/api/events?cursor=xx", 422, "invalid"),
        ("/api/events?from=now", 422, "invalid"),
        ("/api/jobs/4096/preview?n=1001", 422, "invalid"),
        ("/api/jobs/%ff", 422, "invalid"),
        ("/api/jobs?name=%ff", 422, "invalid"),
        ("/api/reruns?kind=nonsense", 422, "invalid"),
        ("/api/reruns?state=nonsense", 422, "invalid"),
        ("/api/reruns/1/batches?state=nonsense", 422, "invalid"),
    ] {
        let answered = send(fixture.get(path)).await;
        assert_eq!(answered.code(), (status, code), "{path}: {answered:?}");
        assert!(!answered.body["errors"].as_array().unwrap().is_empty(), "{path}: {answered:?}");
    }
    for (path, body) in [
        ("/api/jobs/999/run", json!({})),
        ("/api/jobs/999/enable", json!({})),
        ("/api/batches/999/kill", json!({})),
        ("/api/batches/999/rerun", json!({})),
        ("/api/workers/nobody/drain", json!({})),
    ] {
        assert_eq!(send(fixture.post(path, &body)).await.code(), (404, "unknown"), "{path}");
    }
    assert!(fixture.owner.seen().is_empty());
}

/// API-3: what two readers would read differently is refused: names given twice, and lists in place of objects.
#[tokio::test]
async fn ambiguous_bodies_are_refused() {
    let fixture = Fixture::start(answers_done()).await;
    for (body, status, code) in [
        (r#"{"user":"ann","user":"bob"}"#, 400, "bad_json"),
        (r#"{"user":"ann","u\u0073er":"bob"}"#, 400, "bad_json"),
        (r#"["ann"]"#, 422, "invalid"),
    ] {
        let json = fixture.post("/api/pull", &json!(null)).body(body.to_owned());
        let answered = send(json).await;
        assert_eq!(answered.code(), (status, code), "{body}: {answered:?}");
    }
    assert!(fixture.owner.seen().is_empty());
}

/// API-3: a path names the methods that the document has for it.
#[tokio::test]
async fn allowed_methods_are_the_documented_ones() {
    let fixture = Fixture::start(answers_done()).await;
    let document = send(fixture.get("/api/openapi.json")).await.body;
    for path in ["/api/jobs", "/api/keys", "/healthz", "/api/job/submit"] {
        let response = fixture.request(Method::PATCH, path, "root").send().await.unwrap();
        assert_eq!(response.status(), 405, "{path}");
        let allowed = response.headers()["allow"].to_str().unwrap().to_ascii_lowercase();
        let allowed: std::collections::BTreeSet<_> = allowed.split(", ").collect();
        let documented = document["paths"][path].as_object().unwrap().keys();
        assert_eq!(allowed, documented.map(String::as_str).collect(), "{path}");
    }
}

/// OPS-7: overload is answered with a time to try again; nothing waits without end.
#[tokio::test]
async fn overload_and_silence_are_answered() {
    let config = Config { write_timeout_ms: 100, max_streams: 1, ..Config::default() };
    let fixture = Fixture::with(config, Box::new(|_| None), Box::new(|_, _| Ok(LiveAnswer::NotFound))).await;
    let silent = send(fixture.post("/api/jobs/4096/enable", &json!({}))).await;
    assert_eq!(silent.code(), (504, "outcome_unknown"));
    let detail = silent.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("may or may not have been done") && detail.contains("Idempotency-Key"),
        "{detail}"
    );
    let _open = fixture.get("/api/events").send().await.unwrap();
    let second = send(fixture.get("/api/events")).await;
    assert_eq!((second.code(), second.retry_after.as_deref()), ((429, "overloaded"), Some("5")));
}

#[tokio::test]
async fn submission_that_is_refused_keeps_its_own_form() {
    let fixture = Fixture::start(answers_done()).await;
    let submit = |extra: Value| {
        let mut body = json!({
            "app_name": "root", "app_key": crate::rows::SECRET, "job_name": "a", "user": "ann",
            "job_type": "shell", "command": "true", "group_id": 1,
        });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        send(fixture.open(Method::POST, "/api/job/submit").json(&body))
    };
    let unknown_group = submit(json!({"group_id": 77})).await;
    expect![[r#"
        200 application/json
        {
          "accept": false,
          "code": "invalid",
          "errors": [
            {
              "field": "group_id",
              "rule": "must be the number of a group",
              "value": "77"
            }
          ],
          "job_id": -1,
          "message": "group_id: \"77\": must be the number of a group"
        }
    "#]]
    .assert_eq(&unknown_group.text());
    for (extra, field) in [
        (json!({"priority": 11}), "priority"),
        (json!({"priority": 0}), "priority"),
        (json!({"job_name": "a/b"}), "job_name"),
        (json!({"user": ""}), "user"),
        (json!({"dependency_jobids": "1;2"}), "dependency_jobids"),
        (json!({"parameters": {"a": []}}), "parameters.a"),
        (json!({"colour": "red"}), "colour"),
    ] {
        let answered = submit(extra).await;
        assert_eq!(answered.status, 200, "{answered:?}");
        assert_eq!((&answered.body["job_id"], &answered.body["accept"]), (&json!(-1), &json!(false)));
        assert_eq!(answered.body["errors"][0]["field"], field, "{answered:?}");
    }
    assert!(fixture.owner.seen().is_empty());
}

/// A6: a field that is a slip away from a known one is answered with that one.
#[tokio::test]
async fn slip_in_the_name_of_a_field_is_told() {
    let fixture = Fixture::start(answers_done()).await;
    let body = json!({"app": "new", "role": "viewer", "gruops": []});
    let answered = send(fixture.request(Method::POST, "/api/keys", "root").json(&body)).await;
    assert_eq!(answered.code(), (422, "invalid"));
    let rule = answered.body["errors"][0]["rule"].as_str().unwrap();
    assert!(rule.starts_with("did you mean `groups`?"), "{rule}");
}

/// API-4: a key of a repeat keeps to its rule in every call, also where it has no effect.
#[tokio::test]
async fn idempotency_key_is_checked_everywhere() {
    let fixture = Fixture::start(answers_done()).await;
    for path in ["/api/keys", "/api/pull", "/api/admin/verify", "/api/jobs/4096/enable"] {
        for key in ["", &"k".repeat(201), "a\tb"] {
            let request = fixture.request(Method::POST, path, "root").header("Idempotency-Key", key);
            let answered = send(request.json(&json!({}))).await;
            assert_eq!(answered.code(), (422, "invalid"), "{path} {key:?}: {answered:?}");
            assert_eq!(answered.body["errors"][0]["field"], "Idempotency-Key", "{path} {key:?}");
        }
    }
}
