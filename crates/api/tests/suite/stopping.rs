//! OPS-6: the interface stops in order, within its time.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tidemill_api::Config;
use tidemill_model::{LiveAnswer, Outcome};

use crate::fixture::{Fixture, answers_done, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_under_way_is_finished_and_streams_end() {
    let (came, comes) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    let script = Box::new(move |_: &_| {
        came.send(()).unwrap();
        goes.recv().unwrap();
        Some(Outcome::Done)
    });
    let mut fixture = Fixture::start(script).await;
    let stream = fixture.get("/api/events").send().await.unwrap();
    let write = tokio::spawn(send(fixture.post("/api/jobs/4096/enable", &json!({}))));
    tokio::task::spawn_blocking(move || comes.recv().unwrap()).await.unwrap();
    fixture.stop.take().unwrap().send(()).unwrap();
    // The stream's end shows that the signal has been heard.
    assert_eq!(stream.text().await.unwrap(), "");
    go.send(()).unwrap();
    assert_eq!(write.await.unwrap().status, 200);
    fixture.serving.await.unwrap().unwrap();
    let refused = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(refused.get(format!("http://{}/healthz", fixture.address)).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_never_ends_does_not_hold_the_stop() {
    let config = Config { stop_timeout_ms: 50, write_timeout_ms: 60_000, ..Config::default() };
    let (came, comes) = mpsc::channel();
    let script = Box::new(move |_: &_| {
        let _ = came.send(());
        None
    });
    let mut fixture = Fixture::with(config, script, Box::new(|_, _| Ok(LiveAnswer::NotFound))).await;
    let write = fixture.post("/api/jobs/4096/enable", &json!({})).send();
    let write = tokio::spawn(write);
    tokio::task::spawn_blocking(move || comes.recv().unwrap()).await.unwrap();
    let stopped_at = Instant::now();
    fixture.stop.take().unwrap().send(()).unwrap();
    fixture.serving.await.unwrap().unwrap();
    assert!(stopped_at.elapsed() < Duration::from_secs(50), "the write has a minute");
    write.abort();
}

#[tokio::test]
async fn a_living_instance_is_healthy_and_ready() {
    let fixture = Fixture::start(answers_done()).await;
    assert_eq!(send(fixture.open(Method::GET, "/healthz")).await.status, 200);
    assert_eq!(send(fixture.open(Method::GET, "/readyz")).await.status, 200);
}

/// OPS-7: whoever asks without a key whether an instance is ready makes it look once, however many ask.
#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_whether_it_is_ready_cost_one_look() {
    let fixture = Fixture::start(answers_done()).await;
    let asked = (0..100).map(|_| tokio::spawn(fixture.open(reqwest::Method::GET, "/readyz").send()));
    for asked in asked.collect::<Vec<_>>() {
        assert_eq!(asked.await.unwrap().unwrap().status(), 200);
    }
}
