//! Reports of third parties on a topic of the site.

use serde_json::json;
use tidemill_log::{Log, Topic};

use crate::kit::{Cluster, until};

/// DEP-2, EVT-9: what stands on the topic satisfies a batch that waits for it and one that comes later; a record that
/// cannot be read is set aside, and holds up nothing.
#[test]
fn reports_on_a_topic_release_batches() {
    let mut cluster = Cluster::start();
    cluster.start_executor("executor-1", 1_000);
    let (topic, fixture) = cluster.topic_of_the_fixture();
    cluster.start_producers("producers-1", &[("THIRD_PARTY__TOPIC", &topic)]);
    cluster.apply("jobs:\n- {name: load, group: demo, type: noop, third_party: [erp]}\n");
    let run = |time: &str| {
        cluster.json(&["job", "run", "demo/load", "--concurrent", "--logical-time", time])["batch"]
            .to_string()
    };
    let first = run("2026-03-01T00:00:00.000Z");
    let why = until("it waits", || {
        let why = cluster.json(&["batch", "why", &first]);
        (why["conditions"][0]["kind"] == "third_party").then_some(why)
    });
    let then = tidemill_model::Timestamp::from(jiff::Timestamp::now()).to_string();
    let producer = fixture.producer().unwrap();
    let ready = |time: &str| json!({"code": "erp", "logical_time": time}).to_string();
    for value in ["nonsense".to_owned(), ready("2026-03-01T00:00:00.000Z"), ready("2026-03-02T00:00:00.000Z")]
    {
        let (key, value) = (b"erp", value.into_bytes());
        let patience = std::time::Duration::from_secs(30);
        tidemill_log::append_wait(&*producer, Topic::Events, 0, key, value, patience).unwrap();
    }
    cluster.succeeded("from=2026-03-01T00:00:00.000Z&to=2026-03-01T00:00:01.000Z", 1);
    assert_eq!(why["conditions"].as_array().unwrap().len(), 1, "{why}");
    // DSP-1: what kept it then, from the journal at the broker.
    let past = cluster.json(&["batch", "why", &first, "--as-of", &then]);
    assert_eq!(past["conditions"], why["conditions"], "{past}");
    // It was reported before anybody waited for it.
    run("2026-03-02T00:00:00.000Z");
    cluster.succeeded("from=2026-03-02T00:00:00.000Z&to=2026-03-02T00:00:01.000Z", 1);

    let log = cluster.log();
    let letters = |partition| {
        let count = log.range(Topic::DeadLetters, partition).unwrap().end as usize;
        let mut reader = log.reader(Topic::DeadLetters, partition, tidemill_log::From::Start).unwrap();
        let mut letters = Vec::new();
        until("all letters are read", || {
            letters.extend(reader.poll(10, std::time::Duration::from_millis(500)).unwrap());
            (letters.len() >= count).then_some(())
        });
        letters
    };
    let letters: Vec<_> = (0..log.partitions(Topic::DeadLetters)).flat_map(letters).collect();
    assert_eq!(letters.len(), 1);
    let letter: serde_json::Value = serde_json::from_slice(&letters[0].value).unwrap();
    assert_eq!((&letter["topic"], &letter["record"]), (&json!(topic), &json!("nonsense")));
    cluster.role("producers-1").stop();
}
