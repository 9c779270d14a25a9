//! The feed, published to its topic.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_journal::Error as JournalError;
use tidemill_journal::{FeedCursor, FeedReader, Progress, Shutdown};
use tidemill_log::{From, Log, Topic, append_wait};
use tidemill_projector::{Error, PublishConfig, publish};

use crate::support::{Owner, ids, internal, journals, log, public};

const LONG: Duration = Duration::from_secs(30);

/// EVT-4: the topic of the feed has every public event of the journal, and no internal one.
#[test]
fn internal_events_stay_in_the_journal() {
    let (_, log, ends) = journals();
    let (public, _) = public(&*log);
    publish_to(&log, &ends).unwrap();
    assert_eq!(published(&*log).into_iter().collect::<BTreeSet<_>>(), public);
}

/// EVT-4: behind the last public event the publisher goes on through internal ones, and says that it has; whoever begins
/// again there publishes nothing twice and leaves nothing out.
#[test]
fn publisher_goes_on_behind_internal_events() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    let mut seen = 0;
    // At first there is nothing public; later more records than are read back.
    for round in 0..4 {
        let last = owner.decide_all(vec![vec![internal(round)]; 90]);
        publish_to(&log, &[last]).unwrap();
        assert_eq!(published(&*log).len(), seen);
        let drained =
            vec![internal(round), (1, json!({"worker": {"drained": {"worker": "w-1"}}})), internal(round)];
        let last = owner.decide(drained);
        publish_to(&log, &[last]).unwrap();
        seen += 1;
        assert_eq!(published(&*log).len(), seen);
    }
    assert_eq!(published(&*log).into_iter().collect::<BTreeSet<_>>(), public(&*log).0);
}

/// Runs the publisher until it has read these journals to their ends.
fn publish_to(log: &Arc<dyn Log>, ends: &[u64]) -> Result<(), Error> {
    let (progress, shutdown) = (Progress::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let config = PublishConfig { window: 20 };
        let running = scope.spawn({
            let (progress, shutdown) = (&progress, &shutdown);
            move || publish(&config, log, progress, shutdown)
        });
        for (partition, end) in (0..).zip(ends) {
            assert!(progress.wait_until(partition, *end, LONG));
        }
        shutdown.request();
        running.join().unwrap()
    })
}

fn published(log: &dyn Log) -> Vec<String> {
    let mut found = Vec::new();
    for partition in 0..log.partitions(Topic::Events) {
        let end = log.range(Topic::Events, partition).unwrap().end;
        let mut reader = log.reader(Topic::Events, partition, From::Start).unwrap();
        let mut next = 0;
        while next < end {
            for record in reader.poll(1000, LONG).unwrap() {
                next = record.offset + 1;
                let json: Value = serde_json::from_slice(&record.value).unwrap();
                assert_eq!(json["partitionkey"].as_str().unwrap().as_bytes(), record.key);
                let (source, id) = (json["source"].as_str().unwrap(), json["id"].as_str().unwrap());
                assert_eq!(source, format!("tidemill/{}/{partition}", log.log_id()));
                found.push(format!("{source} {id}"));
            }
        }
    }
    found
}

fn expected(log: &dyn Log) -> BTreeSet<String> {
    let mut reader = FeedReader::new(log, FeedCursor::start(log.log_id())).unwrap();
    ids(&mut reader, usize::MAX).into_iter().collect()
}

/// EVT-4: one record per event, in the journal's order, in the journal's partition; a restart adds nothing.
#[test]
fn every_event_is_published_once_and_in_order() {
    let (_, log, ends) = journals();
    publish_to(&log, &ends).unwrap();
    let first = published(&*log);
    assert_eq!(first.len(), expected(&*log).len());
    assert_eq!(first.iter().cloned().collect::<BTreeSet<_>>(), expected(&*log));
    let mut owner = Owner::claim(&*log, 1);
    let more = owner.decide(vec![(1, serde_json::json!({"worker": {"drained": {"worker": "w-1"}}}))]);
    publish_to(&log, &[ends[0], more]).unwrap();
    let second = published(&*log);
    assert_eq!(second.len(), first.len() + 1);
    assert_eq!(second.iter().cloned().collect::<BTreeSet<_>>(), expected(&*log));
}

/// EVT-4: appends that fail, or whose outcome is lost, leave no event out.
#[test]
fn failed_appends_leave_no_event_out() {
    use tidemill_log::memory::Fault;
    let (memory, log, ends) = journals();
    let mut count = 0_u32;
    memory.set_faults(move |append| {
        if append.topic != Topic::Events {
            return Fault::None;
        }
        count += 1;
        match count {
            1 | 4 | 9 | 60 => Fault::DropUnknown,
            23 => Fault::LandUnknown,
            _ => Fault::None,
        }
    });
    publish_to(&log, &ends).unwrap();
    assert_eq!(published(&*log).into_iter().collect::<BTreeSet<_>>(), expected(&*log));
}

/// Rule 11: a topic that holds something else than this journal's feed stops the publisher by name.
#[test]
fn foreign_records_in_the_topic_stop_the_publisher() {
    let (_, log, ends) = journals();
    publish_to(&log, &ends).unwrap();
    let mut reader = log.reader(Topic::Events, 0, From::Start).unwrap();
    let record = reader.poll(1, LONG).unwrap().remove(0);
    let other =
        String::from_utf8(record.value.to_vec()).unwrap().replace("tidemill.group.defined", "tidemill.x.y");
    let append = |value: &str| {
        let producer = log.producer().unwrap();
        append_wait(&*producer, Topic::Events, 0, b"0", value.as_bytes().to_vec(), LONG).unwrap();
    };
    append(&other);
    let error = publish_to_failure(&log);
    assert!(matches!(error, Error::Journal(JournalError::PositionMismatch { partition: 0, .. })), "{error}");
    append("not JSON");
    let error = publish_to_failure(&log);
    assert!(matches!(error, Error::ForeignFeed { partition: 0, .. }), "{error}");
}

/// Runs the publisher until a partition has ended with an error.
fn publish_to_failure(log: &Arc<dyn Log>) -> Error {
    let (progress, shutdown) = (Progress::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| publish(&PublishConfig::default(), log, &progress, &shutdown));
        while progress.partitions().get(&0).is_none_or(|it| it.error.is_none()) {
            std::thread::yield_now();
        }
        shutdown.request();
        running.join().unwrap().unwrap_err()
    })
}
