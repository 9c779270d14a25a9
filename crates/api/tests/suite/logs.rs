//! LOG-2, LOG-3: logs come from the worker that wrote them.

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::http::HeaderMap;
use axum::routing::get;
use reqwest::Method;
use serde_json::json;
use tidemill_api::Config;
use tidemill_model::{BatchId, BatchState, LiveAnswer, LiveQuery};

use crate::fixture::{Fixture, answers_done, send};
use crate::owner::OFFSET;
use crate::rows::{SECRET, Writer, attempt, batch, worker};

/// A worker's log server that says what it was asked.
async fn worker_at_work() -> String {
    let part = |Path(token): Path<i64>, RawQuery(query): RawQuery, headers: HeaderMap| async move {
        let key = headers["authorization"].to_str().unwrap().to_owned();
        let content = format!("{token} {} {key}\n", query.unwrap());
        axum::Json(json!({"content": content, "offset": 40, "is_end": true}))
    };
    let whole = |Path(token): Path<i64>| async move { format!("all of {token}\n") };
    let router = Router::new().route("/logs/{token}", get(part)).route("/logs/{token}/download", get(whole));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn fixture() -> Fixture {
    let config = Config { logs_key: "for-logs".to_owned(), ..Config::default() };
    let finished = BatchId(batch(1, 3).id);
    let answers = move |_, query: LiveQuery| match query {
        LiveQuery::NewestBatch { job } if job.0 == 4096 => {
            Ok(LiveAnswer::NewestBatch { batch: Some(finished), state: Some(BatchState::Finished) })
        }
        LiveQuery::NewestBatch { .. } => Ok(LiveAnswer::NewestBatch { batch: None, state: None }),
        LiveQuery::Why { .. }
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
        | LiveQuery::PlanApply { .. } => Ok(LiveAnswer::NotFound),
    };
    let fixture = Fixture::with(config, answers_done(), Box::new(answers)).await;
    let address = worker_at_work().await;
    Writer::new(&*fixture.tables).rows(vec![worker(&address)]).commit(OFFSET + 1);
    fixture
}

#[tokio::test]
async fn a_part_comes_from_the_worker_with_the_clusters_key() {
    let fixture = fixture().await;
    let path = format!("/api/batches/{}/log?type=2&offset=7&lines=3", batch(1, 3).id);
    let answered = send(fixture.get(&path)).await;
    let content = format!("{} type=2&offset=7&lines=3 Bearer for-logs\n", attempt().id);
    assert_eq!(answered.body, json!({"attempt": 1, "content": content, "offset": 40, "is_end": true}));
}

#[tokio::test]
async fn the_whole_log_is_a_file() {
    let fixture = fixture().await;
    let path = format!("/api/batches/{}/log/download", batch(1, 3).id);
    let response = fixture.get(&path).send().await.unwrap();
    let name = format!("attachment; filename=\"batch-{}-attempt-1.stdout.log\"", batch(1, 3).id);
    assert_eq!(response.headers()["content-disposition"], name.as_str());
    assert_eq!(response.text().await.unwrap(), format!("all of {}\n", attempt().id));
}

#[tokio::test]
async fn a_batch_without_an_attempt_has_an_empty_log_that_goes_on() {
    let fixture = fixture().await;
    let answered = send(fixture.get(&format!("/api/batches/{}/log?offset=3", batch(3, 0).id))).await;
    assert_eq!(answered.body, json!({"content": "", "offset": 3, "is_end": false}));
    let attempt = send(fixture.get(&format!("/api/batches/{}/log?attempt=1", batch(3, 0).id))).await;
    assert_eq!(attempt.code(), (404, "no_log"));
}

#[tokio::test]
async fn a_worker_that_does_not_answer_is_named() {
    let fixture = Fixture::start(answers_done()).await;
    let answered = send(fixture.get(&format!("/api/batches/{}/log", batch(1, 3).id))).await;
    assert_eq!(answered.code(), (503, "worker_unreachable"));
    assert!(answered.body["detail"].as_str().unwrap().contains("127.0.0.1:9"));
}

/// API-2: the log calls mean a job's newest batch.
#[tokio::test]
async fn log_calls_of_a_job_have_their_own_fields() {
    let fixture = fixture().await;
    let log = |query: &str| {
        let path = format!("/api/log?app_name=viewer&app_key={SECRET}&{query}");
        send(fixture.open(Method::GET, &path))
    };
    let answered = log("job_id=4096&type=1").await;
    let content = format!("{} type=1&offset=0&lines=100 Bearer for-logs\n", attempt().id);
    let wanted = json!({"job_id": 4096, "type": 1, "is_end": true, "log": content, "offset": 40});
    assert_eq!(answered.body, wanted);
    let none = json!({"job_id": 8192, "type": 2, "is_end": false, "log": "", "offset": 5});
    assert_eq!(log("job_id=8192&type=2&offset=5").await.body, none);
    assert_eq!(log("job_id=4096").await.code(), (422, "invalid"));
    assert_eq!(log("job_id=999&type=1").await.code(), (404, "unknown"));
    let path = format!("/api/log/download?app_name=viewer&app_key={SECRET}&job_id=4096&type=1");
    let file = fixture.open(Method::GET, &path).send().await.unwrap();
    assert_eq!(file.text().await.unwrap(), format!("all of {}\n", attempt().id));
}
