use std::time::Duration;

use reqwest::Method;

use crate::site::{Site, answers_done};

/// The stream as text, until it ends.
async fn read(request: reqwest::RequestBuilder) -> String {
    let response = request.timeout(Duration::from_secs(20)).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response.text().await.unwrap()
}

fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
}

async fn site() -> Site {
    let site = Site::start(answers_done()).await;
    site.publish(0, "key.defined", "key/root");
    site.publish(1, "batch.generated", "batch/4097");
    site.publish(2, "batch.generated", "batch/4098");
    site.publish(1, "batch.finished", "batch/4097");
    site
}

#[tokio::test]
async fn events_have_cursor_type_and_data_and_the_stream_ends_at_its_limit() {
    let site = site().await;
    let text = read(site.get("/api/events?from=start&limit=2")).await;
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
    let site = site().await;
    assert_eq!(ids(&read(site.get("/api/events?cursor=1&limit=2")).await), ["2", "3"]);
    let again = site.get("/api/events?cursor=0&limit=1").header("Last-Event-ID", "2");
    assert_eq!(ids(&read(again).await), ["3"]);
}

#[tokio::test]
async fn filters_are_prefixes() {
    let site = site().await;
    assert_eq!(ids(&read(site.get("/api/events?from=start&type=batch.f&limit=1")).await), ["3"]);
    let whole = "/api/events?from=start&type=tidemill.batch.finished.v1&limit=1";
    assert_eq!(ids(&read(site.get(whole)).await), ["3"]);
    assert_eq!(ids(&read(site.get("/api/events?from=start&subject=batch/4097&limit=2")).await), ["1", "3"]);
}

/// API-5: a key sees the events of its groups, and hashes of secrets only who manages keys.
#[tokio::test]
async fn a_key_sees_what_it_reaches() {
    let site = site().await;
    let bound = site.request(Method::GET, "/api/events?from=start&limit=2", "demo-user");
    assert_eq!(ids(&read(bound).await), ["1", "3"]);
    let viewer = site.request(Method::GET, "/api/events?from=start&limit=3", "viewer");
    assert_eq!(ids(&read(viewer).await), ["1", "2", "3"]);
}
