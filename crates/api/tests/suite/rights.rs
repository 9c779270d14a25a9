//! API-5: who may do what.

use reqwest::Method;
use serde_json::json;
use tidemill_model::{Answer, BatchId, Outcome};

use crate::fixture::{Fixture, send};
use crate::owner::OFFSET;
use crate::rows::{Writer, batch, key};

async fn fixture() -> Fixture {
    Fixture::start(Box::new(|command| match &command.command {
        tidemill_model::Command::Batch(tidemill_model::BatchCommand::RunJob { .. }) => {
            Some(Outcome::Answered(Answer::Generated { batch: BatchId(1), disabled: false }))
        }
        _ => Some(Outcome::Done),
    }))
    .await
}

/// API-5: whoever may not make a call is told before a body of it has come, with a key for the request, too.
#[tokio::test]
async fn rank_is_looked_at_before_the_body_comes() {
    let fixture = fixture().await;
    let never =
        reqwest::Body::wrap_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let call = fixture.request(Method::POST, "/api/jobs/apply", "viewer").header("Idempotency-Key", "k");
    let answered = send(call.header("Content-Type", "application/json").body(never)).await;
    assert_eq!(answered.status, 403, "{answered:?}");
}

#[tokio::test]
async fn roles_and_groups_bound_what_a_key_may_do() {
    let fixture = fixture().await;
    let batch = format!("/api/batches/{}", batch(1, 3).id);
    let kill = format!("{batch}/kill");
    let mark = format!("{batch}/mark");
    let (waive, quality) = (format!("{batch}/override"), format!("{batch}/quality"));
    let (get, post) = (Method::GET, Method::POST);
    for (app, method, path, status) in [
        ("viewer", &get, batch.as_str(), 200),
        ("viewer", &post, kill.as_str(), 403),
        ("viewer", &post, "/api/jobs/4096/run", 403),
        ("demo-user", &post, "/api/jobs/4096/run", 200),
        ("demo-user", &post, kill.as_str(), 200),
        ("viewer", &post, mark.as_str(), 403),
        ("viewer", &post, waive.as_str(), 403),
        ("viewer", &post, quality.as_str(), 403),
        ("demo-user", &get, "/api/jobs/12288", 404),
        ("demo-user", &post, "/api/jobs/12288/run", 404),
        ("demo-user", &get, "/api/groups/other/jobs/other", 404),
        ("demo-user", &get, "/api/jobs?group=other", 200),
        ("demo-user", &get, "/api/jobs/export?group=other", 200),
        ("demo-user", &get, "/api/attempts", 200),
        ("demo-user", &get, "/api/attempts?job=12288", 200),
        ("demo-user", &get, "/api/attempts?worker=w1", 200),
        ("both", &get, "/api/jobs", 200),
        ("both", &get, "/api/jobs?group=other", 200),
        ("admin", &get, "/api/keys", 403),
        ("root", &get, "/api/keys", 200),
    ] {
        let answered = send(fixture.request(method.clone(), path, app)).await;
        assert_eq!(answered.status, status, "{app} {method} {path}: {answered:?}");
    }
    for app in ["viewer", "demo-user", "admin"] {
        let group =
            fixture.request(Method::POST, "/api/groups", app).json(&json!({"name": "x", "worker_key": "ab"}));
        assert_eq!(send(group).await.status, 403, "{app}");
    }
    // BYD-17: a group for those who may act on it, everything for super administrators.
    for (app, group, status) in [
        ("viewer", "demo", 403),
        ("demo-user", "demo", 200),
        ("demo-user", "other", 404),
        ("admin", "other", 200),
        ("admin", "*", 403),
        ("root", "*", 200),
    ] {
        let path = format!("/api/freezes/{group}");
        for method in [Method::PUT, Method::DELETE] {
            let mut asked = fixture.request(method.clone(), &path, app);
            if method == Method::PUT {
                asked = asked.json(&json!({"reason": "moved"}));
            }
            assert_eq!(send(asked).await.status, status, "{app} {method} {path}");
        }
    }
    // DEP-2, DEP-7, DEP-9: what concerns everything is not for everybody.
    let report = json!({"code": "erp", "logical_time": "2026-03-01T00:00:00.000Z"});
    let skip = json!({"what": "all", "reason": "late"});
    for (app, path, body, status) in [
        ("viewer", "/api/third-party", &report, 403),
        ("demo-user", "/api/third-party", &report, 403),
        ("admin", "/api/third-party", &report, 200),
        ("demo-user", "/api/probes", &json!({}), 403),
        ("admin", "/api/probes", &json!({}), 200),
        ("demo-user", waive.as_str(), &skip, 403),
        ("admin", waive.as_str(), &skip, 200),
    ] {
        let answered = send(fixture.request(Method::POST, path, app).json(body)).await;
        assert_eq!(answered.status, status, "{app} {path}: {answered:?}");
    }
    let foreign = json!({"jobs": [{"name": "a", "group": "other", "type": "noop"}]});
    let apply = fixture.request(Method::POST, "/api/jobs/apply", "demo-user").json(&foreign);
    let told = send(apply).await;
    assert_eq!((told.status, &told.body["errors"][0]["field"]), (422, &json!("jobs[0].group")), "{told:?}");
    assert_eq!(told.body["errors"][0]["rule"], "there is no such group");
}

/// API-5: a key is told which calls it may make, and why it may not make the others.
#[tokio::test]
async fn a_key_is_told_what_it_may() {
    let fixture = fixture().await;
    let told = async |app: &str, call: &str| {
        let mine = send(fixture.request(Method::GET, "/api/me/rights", app)).await.body;
        assert_eq!(mine["app"], app);
        let calls = mine["calls"].as_array().unwrap();
        let found =
            calls.iter().find(|told| told["call"] == call).unwrap_or_else(|| panic!("{call}")).clone();
        (found["allowed"].as_bool().unwrap(), found["reason"].as_str().unwrap().to_owned())
    };
    for (app, call, allowed, reason) in [
        ("viewer", "GET /api/batches/{id}", true, "for the whole site"),
        (
            "viewer",
            "POST /api/batches/{id}/kill",
            false,
            "key viewer has the role viewer; this needs operate, which the role user has",
        ),
        ("demo-user", "POST /api/batches/{id}/kill", true, "for what is of demo"),
        (
            "demo-user",
            "GET /api/people",
            false,
            "key demo-user is bound to demo; this concerns the whole site",
        ),
        ("root", "POST /api/keys", true, "for the whole site"),
    ] {
        let (is_allowed, said) = told(app, call).await;
        assert_eq!(is_allowed, allowed, "{app} {call}: {said}");
        assert!(said.starts_with(reason), "{app} {call}: {said}");
    }
}

#[tokio::test]
async fn lists_show_a_bound_key_its_own_group() {
    let fixture = fixture().await;
    let jobs = send(fixture.request(Method::GET, "/api/jobs", "demo-user")).await.body;
    assert!(jobs["items"].as_array().unwrap().iter().all(|job| job["group"] == "demo"));
    assert_eq!(jobs["items"].as_array().unwrap().len(), 2);
    let groups = send(fixture.request(Method::GET, "/api/groups", "demo-user")).await.body;
    assert_eq!(groups["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn keys_are_listed_without_their_hashes() {
    let fixture = fixture().await;
    let keys = send(fixture.get("/api/keys")).await.body;
    assert_eq!(keys["items"].as_array().unwrap().len(), 5);
    assert!(!keys.to_string().contains("hash"));
}

#[tokio::test]
async fn a_changed_secret_counts_at_once() {
    let fixture = fixture().await;
    assert_eq!(send(fixture.get("/api/groups")).await.status, 200);
    let mut changed = key("root", "super_administrator", &[]);
    changed.hash = "0".repeat(64).into();
    let mut viewer = key("viewer", "viewer", &[]);
    viewer.hash = key("root", "viewer", &[]).hash;
    Writer::new(&*fixture.tables).rows(vec![changed, viewer]).commit(OFFSET + 1);
    let fresh = send(fixture.open(Method::GET, "/api/groups").bearer_auth("root:another-secret")).await;
    assert_eq!(fresh.status, 401);
    assert_eq!(send(fixture.request(Method::GET, "/api/groups", "viewer")).await.status, 200);
}
