use serde_json::json;
use tidemill_model::{
    Answer, BatchCommand, BatchId, CatalogueCommand, Command, GroupId, Outcome, Rejection, ShardId,
};

use crate::fixture::{Fixture, answers_done, send};
use crate::rows::{SECRET, batch};

fn generated(number: i64) -> Option<Outcome> {
    Some(Outcome::Answered(Answer::Generated { batch: BatchId(number), disabled: false }))
}

/// API-4: a repeat with the same key gets the first answer, not a second batch.
#[tokio::test]
async fn double_submit_with_one_key_gives_the_first_answer() {
    let mut made = 0;
    let fixture = Fixture::start(Box::new(move |_| {
        made += 1;
        generated(made)
    }))
    .await;
    let run = |key: &str| send(fixture.post("/api/jobs/4096/run", &json!({})).header("Idempotency-Key", key));
    let first = run("k1").await;
    assert_eq!((first.status, &first.body), (200, &json!({"batch": 1, "position": "0:7"})));
    assert_eq!(run("k1").await.body, first.body);
    assert_eq!(run("k2").await.body["batch"], 2);
    let reused =
        send(fixture.post("/api/jobs/4096/enable", &json!({})).header("Idempotency-Key", "k1")).await;
    assert_eq!(reused.code(), (409, "idempotency_key_reused"));
    let other =
        fixture.request(reqwest::Method::POST, "/api/jobs/4096/run", "admin").header("Idempotency-Key", "k1");
    assert_ne!(send(other).await.body["batch"], 1, "a key counts for one application only");
}

/// A job that the catalogue has and its group's shard has not heard of yet is asked for again.
#[tokio::test]
async fn run_right_after_apply_waits_for_the_groups_shard() {
    let mut asked = 0;
    let fixture = Fixture::start(Box::new(move |_| {
        asked += 1;
        if asked < 3 { Some(Outcome::Refused(Rejection::unknown("job", 4096))) } else { generated(5) }
    }))
    .await;
    let run = || send(fixture.post("/api/jobs/4096/run", &json!({})).header("Idempotency-Key", "k"));
    assert_eq!(run().await.body["batch"], 5);
    let seen = fixture.owner.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|command| command.shard == ShardId(1)), "{seen:?}");
    assert_eq!(run().await.body["batch"], 5, "the repeat goes the same way");
}

#[tokio::test]
async fn every_write_sends_its_command_to_the_shard_that_decides() {
    let fixture = Fixture::start(Box::new(|command| match &command.command {
        Command::Batch(BatchCommand::Rerun { .. } | BatchCommand::RunJob { .. }) => generated(9),
        Command::Catalogue(CatalogueCommand::DefineGroup { .. }) => {
            Some(Outcome::Answered(Answer::Group { group: GroupId(3), shard: ShardId(3) }))
        }
        _ => Some(Outcome::Done),
    }))
    .await;
    let id = batch(1, 3).id;
    for (path, body) in [
        ("/api/jobs/4096/disable".to_owned(), json!({})),
        (format!("/api/batches/{id}/kill"), json!({"reason": "wrong input"})),
        (format!("/api/batches/{id}/rerun"), json!({})),
        ("/api/workers/w1/drain".to_owned(), json!({})),
        ("/api/groups".to_owned(), json!({"name": "third", "worker_key": "ab"})),
        ("/api/keys".to_owned(), json!({"app": "new", "role": "user", "secret": SECRET, "groups": ["demo"]})),
    ] {
        let answered = send(fixture.post(&path, &body).header("X-User", "ann")).await;
        assert_eq!(
            (answered.status, &answered.body["position"]),
            (200, &json!("0:7")),
            "{path}: {answered:?}"
        );
    }
    let deleted = send(fixture.request(reqwest::Method::DELETE, "/api/keys/new", "root")).await;
    assert_eq!(deleted.status, 200);
    let seen = fixture.owner.seen();
    let sent: Vec<String> = seen
        .iter()
        .map(|record| format!("{} {}", record.shard, serde_json::to_string(&record.command).unwrap()))
        .collect();
    expect_test::expect![[r#"
        [
            "0 {\"job\":{\"switch\":{\"job\":4096,\"enabled\":false}}}",
            "1 {\"batch\":{\"kill\":{\"batch\":4097,\"reason\":\"wrong input\"}}}",
            "1 {\"batch\":{\"rerun\":{\"batch\":4097,\"job\":4096,\"logical_time\":\"2025-03-02T00:00:00.000Z\",\"recorded\":{\"run\":0}}}}",
            "1 {\"worker\":{\"drain\":{\"worker\":\"w1\"}}}",
            "0 {\"catalogue\":{\"define_group\":{\"name\":\"third\",\"worker_key\":\"ab\",\"settings\":{\"start_timeout_ms\":300000,\"lost_after_ms\":30000,\"lease_ms\":600000,\"lease_margin_ms\":5000,\"on_silence\":\"kill\",\"kill_grace_ms\":10000}}}}",
            "0 {\"catalogue\":{\"define_key\":{\"app\":\"new\",\"hash\":\"62249369389075490555a758353aec61500c6218fa597252d52dc4bd0148f12d\",\"role\":\"user\",\"groups\":[\"demo\"],\"first_only\":false}}}",
            "0 {\"catalogue\":{\"revoke_key\":{\"app\":\"new\"}}}",
        ]
    "#]].assert_debug_eq(&sent);
    assert!(seen[..6].iter().all(|record| record.actor.user.as_deref() == Some("ann")));
    assert!(seen.iter().all(|record| &*record.actor.app == "root"));
}

#[tokio::test]
async fn a_secret_that_is_not_given_is_drawn_and_only_its_hash_is_sent() {
    let fixture = Fixture::start(answers_done()).await;
    let answered = send(fixture.post("/api/keys", &json!({"app": "new", "role": "viewer"}))).await;
    let secret = answered.body["secret"].as_str().unwrap().to_owned();
    assert!(secret.len() >= 32);
    let sent = serde_json::to_string(&fixture.owner.seen()).unwrap();
    assert!(!sent.contains(&secret));
    let short =
        send(fixture.post("/api/keys", &json!({"app": "new", "role": "viewer", "secret": "short"}))).await;
    assert_eq!(short.code(), (422, "invalid"));
    assert!(!short.body.to_string().contains("\"short\""));
}
