//! The topic of the public feed, compared with the journal.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_log::{From, Log, Topic};
use tidemill_model::Timestamp;

use crate::facts::{facts, is_public, public_and_internal};
use crate::kit::Cluster;

const JOBS: &str = "jobs:\n- {name: p, group: demo, type: anchor}\n- {name: c, group: mail, type: anchor, parents: [demo/p]}\n";
const BEGIN: Timestamp = Timestamp::constant(1_704_067_200);
const PATIENCE: Duration = Duration::from_secs(60);

/// EVT-4: the topic has every public event of the journal and no internal one, also where the publisher was killed behind
/// records that have internal events only: what follows is neither lost nor, but for an append of unknown outcome,
/// published twice.
#[test]
fn topic_has_the_public_events_and_no_other() {
    let mut cluster = Cluster::start();
    let key = cluster.json(&["group", "ls"])["items"][0]["worker_key"].clone();
    cluster.post("/api/groups", &json!({"name": "mail", "worker_key": key}));
    cluster.apply(JOBS);
    let job = cluster.json(&["job", "show", "demo/p"])["id"].clone();
    let log = cluster.log();
    for round in 0..3 {
        cluster.run_job(&job, BEGIN + SignedDuration::from_mins(round));
        cluster.succeeded("group=mail", usize::try_from(round).unwrap() + 1);
        let facts = facts(&*log);
        let (public, internal) = public_and_internal(&facts);
        for kind in [
            "job.replicated",
            "message.received",
            "outbox.acknowledged",
            "parent.subscribed",
            "parent_status.updated",
        ] {
            assert!(internal.contains(&kind), "{kind}: {internal:?}");
        }
        let begun_at = Instant::now();
        let topic = loop {
            let topic = topic(&*log);
            let names: BTreeSet<_> = topic.iter().map(|(name, _)| name).collect();
            if public.keys().all(|name| names.contains(name)) {
                break topic;
            }
            assert!(begun_at.elapsed() < PATIENCE, "{} of {} are published", names.len(), public.len());
        };
        for (name, event_type) in &topic {
            assert!(is_public(event_type), "{event_type} {name:?}");
        }
        let names: BTreeSet<_> = topic.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), topic.len(), "an event is published twice");
        cluster.restart_projector();
    }
}

/// Source and id of every record, and its type.
fn topic(log: &dyn Log) -> Vec<((String, String), String)> {
    let mut found = Vec::new();
    for partition in 0..log.partitions(Topic::Events) {
        let range = log.range(Topic::Events, partition).unwrap();
        let mut reader = log.reader(Topic::Events, partition, From::Start).unwrap();
        let mut next = range.start;
        while next < range.end {
            for record in reader.poll(1_000, Duration::from_secs(10)).unwrap() {
                next = record.offset + 1;
                let event: Value = serde_json::from_slice(&record.value).unwrap();
                let text = |field: &str| event[field].as_str().unwrap().to_owned();
                found.push(((text("source"), text("id")), text("type")));
            }
        }
    }
    found
}
