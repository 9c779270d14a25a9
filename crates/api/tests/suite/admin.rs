//! Operators: what they may, and that one operation goes on at a time.

use reqwest::Method;
use serde_json::{Value, json};
use tidemill_api::Config;
use tidemill_model::{Command, LiveAnswer, ShardCommand, ShardId};

use crate::fixture::{Fixture, answers_done, send};

const INTERNAL: &str = "internal-secret-of-16";
const LOGS: &str = "logs-secret-of-16-letters";
const OPERATOR: &str = "operator-secret-of-16";

async fn fixture() -> Fixture {
    let config = Config {
        internal_key: INTERNAL.to_owned(),
        logs_key: LOGS.to_owned(),
        operator_key: OPERATOR.to_owned(),
        ..Config::default()
    };
    Fixture::with(config, answers_done(), Box::new(|_, _| Ok(LiveAnswer::NotFound))).await
}

/// API-5: operating is for super administrators, and for those who have the operator's secret. The secrets of the live
/// port and of the logs open nothing here, for every host of the cluster has one of them.
#[tokio::test]
async fn only_operators_admin() {
    let fixture = fixture().await;
    for app in ["viewer", "demo-user"] {
        let asked = fixture.request(Method::POST, "/api/admin/rebuild", app);
        assert_eq!(send(asked).await.code(), (403, "forbidden"), "{app}");
    }
    for secret in ["", "internal", "operator-secret-of-17", INTERNAL, LOGS] {
        let asked = fixture.open(Method::GET, "/api/admin").bearer_auth(secret);
        assert_eq!(send(asked).await.code(), (401, "unauthorized"), "{secret}");
    }
    assert_eq!(send(fixture.get("/api/admin")).await.body, Value::Null);
    // The secret opens nothing else.
    let asked = fixture.open(Method::GET, "/api/jobs").bearer_auth(OPERATOR);
    assert_eq!(send(asked).await.code(), (401, "unauthorized"));
    let asked = fixture.open(Method::POST, "/api/admin/verify").bearer_auth(OPERATOR);
    let begun = send(asked).await;
    assert_eq!((begun.status, &begun.body["operation"]), (200, &json!("verify")));
}

/// EVT-7: what does not go together is refused by its name, and nothing begins.
#[tokio::test]
async fn rebuild_that_makes_no_sense_is_refused() {
    let fixture = fixture().await;
    for (body, field) in [
        (json!({"what": "hints", "from": "2026-01-01T00:00:00Z"}), "from"),
        (json!({"compare": true}), "compare"),
        (json!({"from": "noon"}), "from"),
        (json!({"what": "everything"}), "what"),
        (json!({"dry": true}), "dry"),
    ] {
        let answered = send(fixture.post("/api/admin/rebuild", &body)).await;
        assert_eq!(answered.code(), (422, "invalid"), "{answered:?}");
        assert_eq!(answered.body["errors"][0]["field"], field, "{answered:?}");
    }
    assert_eq!(send(fixture.get("/api/admin")).await.body, Value::Null);
    let whole = json!({"what": "all", "from": "2026-01-01T00:00:00Z", "dry_run": true, "compare": true});
    assert_eq!(send(fixture.post("/api/admin/rebuild", &whole)).await.status, 200);
}

#[tokio::test]
async fn second_operation_is_refused_while_the_first_goes_on() {
    let fixture = fixture().await;
    let begun = send(fixture.post("/api/admin/rebuild", &json!({}))).await;
    assert_eq!((begun.status, &begun.body["state"]), (200, &json!("running")));
    let second = send(fixture.post("/api/admin/verify", &json!({}))).await;
    assert_eq!(second.code(), (409, "operation_running"));
    assert_eq!(second.body["detail"], "a rebuild goes on, at record 3 of 8; one at a time");
    assert_eq!(send(fixture.get("/api/admin")).await.body, begun.body);
}

#[tokio::test]
async fn partition_clock_is_set_by_a_command_to_its_shard() {
    let fixture = fixture().await;
    let set = json!({"at": "2026-01-01T00:00:00.000Z"});
    let answered = send(fixture.post("/api/admin/partitions/0/set-time", &set)).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let seen = fixture.owner.seen();
    assert_eq!(seen[0].shard, ShardId(0));
    assert_eq!(
        seen[0].command,
        Command::Shard(ShardCommand::SetTime { now: "2026-01-01T00:00:00.000Z".parse().unwrap() })
    );
    for (partition, body, field) in
        [("1", &set, "partition"), ("x", &set, "partition"), ("0", &json!({"at": "noon"}), "at")]
    {
        let answered = send(fixture.post(&format!("/api/admin/partitions/{partition}/set-time"), body)).await;
        assert_eq!(answered.code(), (422, "invalid"), "{answered:?}");
        assert_eq!(answered.body["errors"][0]["field"], field, "{answered:?}");
    }
    assert_eq!(fixture.owner.seen().len(), 1);
}
