use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};
use tidemill_api::Config;
use tidemill_cluster::LiveError;
use tidemill_model::{BatchId, BatchState, Condition, LiveAnswer, LiveQuery, ShardId, Why};

use crate::fixture::{Fixture, answers_done, send};
use crate::owner::OFFSET;
use crate::rows::{Writer, batch, job_row};

fn names(answered: &Value, field: &str) -> Vec<String> {
    let items = answered["items"].as_array().unwrap();
    items.iter().map(|item| item[field].to_string()).collect()
}

async fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came to that");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// API-3: lists are paged and filtered.
#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let fixture = Fixture::start(answers_done()).await;
    let mut ids = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = send(fixture.get(&format!("/api/batches?limit=2{cursor}"))).await.body;
        ids.extend(names(&page, "id"));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(ids, [3, 2, 1].map(|n| batch(n, 0).id.to_string()));
    for (filter, count) in [
        ("state=running", 1),
        ("state=0", 1),
        ("result=success", 1),
        ("job=4096", 3),
        ("job=8192", 0),
        ("group=other", 0),
        ("from=2025-03-03T01:00:00%2B01:00", 2),
        ("to=2025-03-03T00:00:00.000Z", 1),
    ] {
        let page = send(fixture.get(&format!("/api/batches?{filter}"))).await.body;
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{filter}");
    }
    let jobs = send(fixture.get("/api/jobs?group=demo&enabled=true&type=shell")).await.body;
    assert_eq!(names(&jobs, "name"), ["\"extract\"", "\"load\""]);
    assert_eq!(names(&send(fixture.get("/api/groups")).await.body, "name"), ["\"demo\"", "\"other\""]);
    assert_eq!(names(&send(fixture.get("/api/workers?state=live")).await.body, "id"), ["\"w1\""]);
    let attempts = send(fixture.get(&format!("/api/attempts?batch={}", batch(1, 3).id))).await.body;
    assert_eq!(names(&attempts, "attempt"), ["1"]);
}

#[tokio::test]
async fn a_batch_shows_what_it_waited_for_and_its_attempts() {
    let fixture = Fixture::start(answers_done()).await;
    let answered = send(fixture.get(&format!("/api/batches/{}", batch(1, 3).id))).await;
    expect![[r#"
        200 application/json
        {
          "assigned_at": null,
          "attempt": 1,
          "attempt_count": 1,
          "attempts": [
            {
              "attempt": 1,
              "batch": 4097,
              "cpu_ms": 40,
              "duration_ms": 5000,
              "excess": "memory_alarm",
              "excess_limit": 1,
              "excess_seen": 2,
              "exit_code": 0,
              "external_work": [
                "application_1700000000000_0001"
              ],
              "external_work_unconfirmed": true,
              "finished_at": "2025-03-01T00:00:05.000Z",
              "granted_at": "2025-03-01T00:00:00.000Z",
              "id": 4097,
              "interrupted": false,
              "job": 4096,
              "message": "",
              "peak_memory_kib": 2048,
              "peak_processes": 3,
              "read_kib": 16,
              "result": "success",
              "signal": null,
              "started_at": "2025-03-01T00:00:00.000Z",
              "unenforced_limits": [
                "cpu"
              ],
              "user_code": null,
              "values": {},
              "worker": "w1",
              "written_kib": 32
            }
          ],
          "blocked_by": null,
          "blocked_by_time": null,
          "blocked_since": null,
          "calendar_version": null,
          "counted_parents": 0,
          "dependencies": [
            {
              "logical_time": "2025-03-01T00:00:00.000Z",
              "mapping": "offset",
              "met": true,
              "met_at": "2025-03-01T00:00:00.000Z",
              "parent": 12288,
              "parent_name": "other/other"
            }
          ],
          "dependency_overrides": [],
          "dependency_timeout_at": null,
          "earliest_start_at": null,
          "external_dependencies": [],
          "final_ended_at": null,
          "final_message": null,
          "final_result": null,
          "final_token": null,
          "finished_at": "2025-03-02T00:00:05.000Z",
          "generated_at": "2025-03-02T00:00:00.000Z",
          "group": "demo",
          "hidden_dependencies": 0,
          "id": 4097,
          "job": 4096,
          "job_name": "extract",
          "job_version": 1,
          "kill_requested_at": null,
          "killed_by": null,
          "logical_time": "2025-03-02T00:00:00.000Z",
          "message": "",
          "not_successful_by_at": null,
          "origin": "schedule",
          "output_timeout_at": null,
          "outputs": [],
          "overridden_result": null,
          "parameters": {},
          "quality": null,
          "ready_at": "2025-03-02T00:00:00.000Z",
          "rerun": null,
          "rerun_number": null,
          "result": "success",
          "result_overridden_at": null,
          "result_overridden_by": null,
          "result_override_reason": null,
          "retry_at": null,
          "return_count": 0,
          "returned": [],
          "run": 0,
          "start_by": null,
          "started_at": null,
          "state": "finished",
          "token": null,
          "triggered_by": null,
          "type": "shell",
          "unmet": 0,
          "user_codes": [],
          "worker": "w1"
        }
    "#]]
    .assert_eq(&answered.text());
}

#[tokio::test]
async fn a_job_is_found_by_id_and_by_name_and_shows_its_parents() {
    let fixture = Fixture::start(answers_done()).await;
    let by_id = send(fixture.get("/api/jobs/8192")).await;
    assert_eq!(by_id.body, send(fixture.get("/api/groups/demo/jobs/load")).await.body);
    expect![[r#"
        [
          {
            "job": 4096,
            "mapping": "same",
            "name": "demo/extract"
          },
          {
            "job": 12288,
            "mapping": {
              "offset": 1
            },
            "name": "other/other"
          },
          {
            "job": 8192,
            "mapping": {
              "offset": 1
            },
            "name": "demo/load"
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&by_id.body["parents"]).unwrap());
    let newest = send(fixture.get("/api/groups/demo/jobs/extract")).await.body;
    assert_eq!(newest["newest_batch"]["id"], batch(3, 0).id);
}

#[tokio::test]
async fn a_job_may_have_the_name_of_a_call() {
    let fixture = Fixture::start(answers_done()).await;
    let rows = ["run", "enable", "disable", "preview"]
        .iter()
        .zip(10..)
        .map(|(name, counter)| job_row(&crate::rows::definition(counter, "demo", name)));
    Writer::new(&*fixture.tables).rows(rows.collect()).commit(OFFSET + 1);
    for name in ["run", "enable", "disable", "preview"] {
        let answered = send(fixture.get(&format!("/api/groups/demo/jobs/{name}"))).await;
        assert_eq!((answered.status, &answered.body["name"]), (200, &json!(name)));
    }
}

/// JOB-7: a preview shows the times on the zone's clock and the command as it will run.
#[tokio::test]
async fn preview_resolves_templates_on_the_clock_of_the_zone() {
    let fixture = Fixture::start(answers_done()).await;
    let answered = send(fixture.get("/api/jobs/4096/preview?n=2&after=2025-03-29T00:00:00.000Z")).await;
    expect![[r#"
        200 application/json
        {
          "fires": [
            {
              "at": "2025-03-30T00:01:00+01:00",
              "command": "echo 2025-03-30 Trier",
              "environment": {
                "TIDEMILL_ATTEMPT": "1",
                "TIDEMILL_BATCH": "0",
                "TIDEMILL_JOB": "extract",
                "TIDEMILL_LOGICAL_TIME": "2025-03-30T00:00:00+01:00",
                "TIDEMILL_PARAM_CITY": "Trier",
                "TIDEMILL_RUN": "0"
              },
              "final_command": null,
              "inputs": [],
              "logical_time": "2025-03-30T00:00:00+01:00",
              "output_path": null,
              "outputs": [],
              "parameters": {
                "city": "Trier"
              },
              "program": {
                "command": "echo 2025-03-30 Trier"
              }
            },
            {
              "at": "2025-03-31T00:01:00+02:00",
              "command": "echo 2025-03-31 Trier",
              "environment": {
                "TIDEMILL_ATTEMPT": "1",
                "TIDEMILL_BATCH": "0",
                "TIDEMILL_JOB": "extract",
                "TIDEMILL_LOGICAL_TIME": "2025-03-31T00:00:00+02:00",
                "TIDEMILL_PARAM_CITY": "Trier",
                "TIDEMILL_RUN": "0"
              },
              "final_command": null,
              "inputs": [],
              "logical_time": "2025-03-31T00:00:00+02:00",
              "output_path": null,
              "outputs": [],
              "parameters": {
                "city": "Trier"
              },
              "program": {
                "command": "echo 2025-03-31 Trier"
              }
            }
          ],
          "zone": "Europe/Berlin"
        }
    "#]]
    .assert_eq(&answered.text());
}

/// API-7: a read waits until the tables show the write, and says so when they do not.
#[tokio::test]
async fn at_least_waits_for_the_tables() {
    let config = Config { at_least_timeout_ms: 60_000, ..Config::default() };
    let fixture = Fixture::with(config, answers_done(), Box::new(|_, _| Ok(LiveAnswer::NotFound))).await;
    assert_eq!(send(fixture.get(&format!("/api/batches?at_least=0:{OFFSET}"))).await.status, 200);
    let waiting = tokio::spawn(send(fixture.get(&format!(
        "/api/batches/{}?at_least=0:{}",
        batch(9, 0).id,
        OFFSET + 1
    ))));
    Writer::new(&*fixture.tables).rows(vec![batch(9, 0)]).commit(OFFSET + 1);
    assert_eq!(waiting.await.unwrap().status, 200);

    let config = Config { at_least_timeout_ms: 30, ..Config::default() };
    let fixture = Fixture::with(config, answers_done(), Box::new(|_, _| Ok(LiveAnswer::NotFound))).await;
    let late = send(fixture.get("/api/batches?at_least=0:99")).await;
    assert_eq!(late.code(), (504, "not_yet_visible"));
}

/// OPS-7, DSP-1: one question about the past is answered at a time; a key that asks all the time is refused beyond its own
/// bound, and keeps no other key from its answer.
#[tokio::test]
async fn questions_of_one_key_about_the_past_keep_no_other_key_out() {
    let fixture = Fixture::start(answers_done()).await;
    let path = format!("/api/batches/{}/why?as_of=2026-01-01T00:00:00.000Z", batch(1, 3).id);
    let ask = |app: &str| tokio::spawn(send(fixture.request(reqwest::Method::GET, &path, app)));
    let asked = || fixture.past.asked.load(Ordering::SeqCst);
    fixture.past.is_held.store(true, Ordering::SeqCst);
    let own: Vec<_> = (0..8).map(|_| ask("root")).collect();
    until(|| asked() > 0 && own.iter().filter(|answer| answer.is_finished()).count() >= 6).await;
    let other = ask("admin");
    // It is refused or waits; a wait shows only in that it is not refused.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    fixture.past.is_held.store(false, Ordering::SeqCst);
    let other = other.await.unwrap();
    assert_ne!(other.status, 429, "{other:?}");
    let mut refused = 0;
    for answer in own {
        let answer = answer.await.unwrap();
        if answer.status == 429 {
            assert!(answer.body["detail"].as_str().unwrap().contains("the bound for one key"), "{answer:?}");
            refused += 1;
        }
    }
    assert_eq!(refused, 6);
}

/// DEP-8: why comes from the owner; what has ended also from the tables.
#[tokio::test]
async fn why_is_asked_from_the_owner() {
    let waiting = BatchId(batch(3, 0).id);
    let answers = move |shard: ShardId, query: LiveQuery| {
        assert_eq!(shard, ShardId(1));
        if query == (LiveQuery::Why { batch: waiting }) {
            let condition = Condition {
                kind: "no_worker".to_owned(),
                message: "no worker of group demo runs shell".to_owned(),
                since: None,
                job: None,
                logical_time: None,
                pools: Vec::new(),
            };
            let conditions = vec![condition];
            return Ok(LiveAnswer::Why(Why {
                batch: waiting,
                state: BatchState::Waiting,
                result: None,
                conditions,
                left_out: Vec::new(),
                blocked: None,
            }));
        }
        if query == (LiveQuery::Why { batch: BatchId(batch(1, 3).id) }) {
            return Ok(LiveAnswer::NotFound);
        }
        Err(LiveError::NoOwner { shard })
    };
    let fixture = Fixture::with(Config::default(), answers_done(), Box::new(answers)).await;
    let why = |id: i64| send(fixture.get(&format!("/api/batches/{id}/why")));
    assert_eq!(why(waiting.0).await.body["conditions"][0]["kind"], "no_worker");
    let finished = why(batch(1, 3).id).await.body;
    assert_eq!((&finished["state"], &finished["result"]), (&json!("finished"), &json!("success")));
    assert_eq!(why(batch(2, 2).id).await.code(), (503, "owner_unavailable"));
}

#[tokio::test]
async fn status_names_the_partitions() {
    let fixture = Fixture::start(answers_done()).await;
    let status = send(fixture.get("/api/status")).await;
    assert_eq!((status.status, &status.body["partitions"][0]["journal_end"]), (200, &json!(8)));
    assert_eq!(status.body["sinks"], json!([]));
    assert_eq!(status.body["stalled_readers"], json!({ "journal": 2 }));
}

#[tokio::test]
async fn a_deleted_job_is_not_listed_and_still_known_by_its_id() {
    let fixture = Fixture::start(answers_done()).await;
    let mut row = job_row(&crate::rows::definitions()[2]);
    row.deleted_at = Some(crate::rows::T0);
    Writer::new(&*fixture.tables).rows(vec![row]).commit(OFFSET + 1);
    assert_eq!(send(fixture.get("/api/jobs?group=other")).await.body["items"], json!([]));
    assert_eq!(send(fixture.get("/api/jobs/12288")).await.body["deleted_at"], "2025-03-01T00:00:00.000Z");
}
