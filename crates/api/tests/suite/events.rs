use std::time::Duration;

use reqwest::Method;

use crate::fixture::{Fixture, answers_done};

/// The stream as text, until it ends.
async fn read(request: reqwest::RequestBuilder) -> String {
    let response = request.timeout(Duration::from_secs(20)).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response.text().await.unwrap()
}

fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
}

async fn fixture() -> Fixture {
    let fixture = Fixture::start(answers_done()).await;
    fixture.publish(0, "key.defined", "key/root");
    fixture.publish(1, "batch.generated", "batch/4097");
    fixture.publish(2, "batch.generated", "batch/4098");
    fixture.publish(1, "batch.finished", "batch/4097");
    fixture
}

#[tokio::test]
async fn events_have_cursor_type_and_data_and_the_stream_ends_at_its_limit() {
    let fixture = fixture().await;
    let text = read(fixture.get("/api/events?from=start&limit=2")).await;
    expect_test::expect![[r#"
        id: 0
        event: key.defined
        data: {"id":"0"}

        id: 1
        event: batch.generated
        data: {"id":"1"}

    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn a_stream_goes_on_after_its_cursor() {
    let fixture = fixture().await;
    assert_eq!(ids(&read(fixture.get("/api/events?cursor=1&limit=2")).await), ["2", "3"]);
    let again = fixture.get("/api/events?cursor=0&limit=1").header("Last-Event-ID", "2");
    assert_eq!(ids(&read(again).await), ["3"]);
}

#[tokio::test]
async fn filters_are_prefixes() {
    let fixture = fixture().await;
    assert_eq!(ids(&read(fixture.get("/api/events?from=start&type=batch.f&limit=1")).await), ["3"]);
    let whole = "/api/events?from=start&type=tidemill.batch.finished.v1&limit=1";
    assert_eq!(ids(&read(fixture.get(whole)).await), ["3"]);
    assert_eq!(
        ids(&read(fixture.get("/api/events?from=start&subject=batch/4097&limit=2")).await),
        ["1", "3"]
    );
}

/// EVT-4: a filter that no public event can pass is refused, and the answer says where to look.
#[tokio::test]
async fn filters_on_what_is_not_on_the_feed_are_refused() {
    let fixture = fixture().await;
    for (given, says) in [
        (
            "job.replicated",
            &["of job there are job.defined", "in the journal only: it is a shard's copy"][..],
        ),
        (
            "tidemill.parent.subscribed.v1",
            &["parent.subscribed is in the journal only", "begin with alarm, apply"],
        ),
        ("command.dead_lettered", &["GET /api/dead-letters"]),
        ("outbox", &["the kinds begin with alarm, ", "docs/reference/events.md"]),
        ("batch.finish3d", &["batch.finished", "batch.generated"]),
    ] {
        let answer =
            fixture.get(&format!("/api/events?from=start&limit=1&type={given}")).send().await.unwrap();
        assert_eq!(answer.status(), 422, "{given}");
        let problem: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(problem["errors"][0]["field"], "type", "{problem}");
        assert_eq!(problem["errors"][0]["value"], given, "{problem}");
        let rule = problem["errors"][0]["rule"].as_str().unwrap();
        assert!(says.iter().all(|said| rule.contains(said)), "{given}: {rule}");
        assert_eq!(
            rule.contains("in the journal only"),
            given.contains('.') && !given.contains('3'),
            "{rule}"
        );
    }
}

/// API-5: a key sees the events of its groups, and hashes of secrets only who manages keys.
#[tokio::test]
async fn a_key_sees_what_it_reaches() {
    let fixture = fixture().await;
    let bound = fixture.request(Method::GET, "/api/events?from=start&limit=2", "demo-user");
    assert_eq!(ids(&read(bound).await), ["1", "3"]);
    let viewer = fixture.request(Method::GET, "/api/events?from=start&limit=3", "viewer");
    assert_eq!(ids(&read(viewer).await), ["1", "2", "3"]);
}
