//! The feed: from the journal with a cursor, and published to its topic.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Owner, catalogue, lives, log, shard};
use serde_json::{Value, json};
use tidemill_log::{From, Log, MemoryLog, Topic, append_wait};
use tidemill_model::{Audience, Timestamp};
use tidemill_projector::{
    Error, FeedCursor, FeedReader, Journal, Progress, PublishConfig, Shutdown, Start, publish,
};

const LONG: Duration = Duration::from_secs(30);

fn ids(reader: &mut FeedReader, most: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < most {
        let Some((_, event)) = reader.next(Duration::ZERO).unwrap() else { break };
        let json: Value = serde_json::from_slice(&event.json).unwrap();
        ids.push(format!("{} {}", json["source"].as_str().unwrap(), json["id"].as_str().unwrap()));
    }
    ids
}

/// What only shards tell one another.
fn internal(number: u64) -> (u16, Value) {
    (1, json!({"partition": {"message_received": {"from": 0, "number": number}}}))
}

/// Journals in which every third record has internal events in front, between and behind, and the last ones of each have
/// nothing else.
fn journals() -> (MemoryLog, Arc<dyn Log>, Vec<u64>) {
    let (memory, log) = log(2);
    let mut catalogues = Owner::claim(&*log, 0);
    catalogues.decide(catalogue());
    let mut owner = Owner::claim(&*log, 1);
    owner.decide(shard());
    for (number, mut decision) in (0..).zip(lives(1, 30, 2)) {
        if number % 3 == 0 {
            decision.insert(0, internal(number));
            decision.insert(decision.len() / 2, internal(number));
            decision.push(internal(number));
            owner.decide(vec![internal(number)]);
        }
        owner.decide(decision);
    }
    let ends = [&mut catalogues, &mut owner].map(|owner| owner.decide_all(vec![vec![internal(99)]; 5]));
    (memory, log, ends.to_vec())
}

/// What the feed has to have: every public event of the journals, by source and id, and how many are internal.
fn public(log: &dyn Log) -> (BTreeSet<String>, usize) {
    let (mut public, mut internal) = (BTreeSet::new(), 0);
    for partition in 0..log.partitions(Topic::Journal) {
        let mut journal = Journal::open(log, partition, "the test", Start::Beginning).unwrap();
        while let Some(entry) = journal.next(Duration::ZERO).unwrap() {
            for (index, recorded) in entry.envelope.events.iter().enumerate() {
                match recorded.event.of_kind().audience {
                    Audience::Public(_) => {
                        public.insert(format!(
                            "tidemill/{}/{partition} {}-{index}",
                            log.log_id(),
                            entry.offset
                        ));
                    }
                    Audience::Internal(_) => internal += 1,
                }
            }
        }
    }
    (public, internal)
}

/// EVT-4: the feed and its topic have every public event of the journal, and no internal one.
#[test]
fn internal_events_stay_in_the_journal() {
    let (_, log, ends) = journals();
    let (public, internal) = public(&*log);
    assert!(internal > 60, "{internal}");
    assert_eq!(expected(&*log), public);
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

/// EVT-4: the cursor moves on behind internal events; on a long way through them the reader lets go of its caller, and
/// says that there is more.
#[test]
fn cursor_moves_behind_internal_events() {
    let (_, log) = log(2);
    let mut owner = Owner::claim(&*log, 1);
    let last = owner.decide_all((0..3_000).map(|number| vec![internal(number)]).collect());
    let mut reader = FeedReader::new(&*log, FeedCursor::start(log.log_id())).unwrap();
    let mut looks = 0;
    loop {
        assert!(reader.next(Duration::ZERO).unwrap().is_none());
        looks += 1;
        if !reader.is_skipping() {
            break;
        }
    }
    assert!(looks > 1, "3,000 records were read at once");
    assert_eq!(*reader.cursor(), FeedCursor::after(log.log_id(), [(1, last)]));
    let cursor = FeedCursor::parse(&reader.cursor().to_string()).unwrap();
    let drained = owner.decide(vec![internal(1), (1, json!({"worker": {"drained": {"worker": "w-1"}}}))]);
    for reader in [&mut reader, &mut FeedReader::new(&*log, cursor).unwrap()] {
        let (_, event) = reader.next(LONG).unwrap().unwrap();
        assert_eq!((event.offset, event.index, event.kind), (drained, 1, "worker.drained"));
        assert!(reader.next(Duration::ZERO).unwrap().is_none());
    }
}

/// EVT-4: wherever a reader stops, the next one goes on there: nothing twice, nothing left out.
#[test]
fn feed_goes_on_after_every_cursor() {
    let (_, log, _) = journals();
    let start = FeedCursor::start(log.log_id());
    let all = ids(&mut FeedReader::new(&*log, start.clone()).unwrap(), usize::MAX);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    for stop in (0..all.len()).step_by(13) {
        let mut reader = FeedReader::new(&*log, start.clone()).unwrap();
        let mut seen = ids(&mut reader, stop);
        let cursor = FeedCursor::parse(&reader.cursor().to_string()).unwrap();
        seen.extend(ids(&mut FeedReader::new(&*log, cursor).unwrap(), usize::MAX));
        assert_eq!(seen.iter().collect::<BTreeSet<_>>(), all.iter().collect::<BTreeSet<_>>(), "{stop}");
        assert_eq!(seen.len(), all.len(), "{stop}");
    }
}

/// EVT-4: at a time the feed begins, in every partition, with the first event of that time or later; a cursor that it
/// gives is good before another partition has had its first one.
#[test]
fn feed_begins_at_a_time() {
    let (_, log) = log(2);
    let (mut first, mut second) = (Owner::claim(&*log, 0), Owner::claim(&*log, 1));
    first.decide(catalogue());
    second.decide(shard());
    let drained =
        |owner: &mut Owner| owner.decide(vec![(1, json!({"worker": {"drained": {"worker": "w-1"}}}))]);
    let last_before = drained(&mut second);
    let since = second.now_ms + 1;
    // Of that time, and nothing for the feed to begin with.
    second.now_ms = since + 50;
    second.decide(vec![internal(1)]);
    first.now_ms = since + 100;
    let defined = first.decide(vec![(0, json!({"catalogue": {"key_revoked": {"app": "etl"}}}))]);
    let at = Timestamp::from_millisecond(since).unwrap();
    let cursor = FeedCursor::since(log.log_id(), at);
    let cursor = FeedCursor::parse(&cursor.to_string()).unwrap();
    let mut reader = FeedReader::new(&*log, cursor).unwrap();
    let (cursor, event) = reader.next(LONG).unwrap().unwrap();
    assert_eq!((event.offset, event.kind), (defined, "key.revoked"));
    assert!(reader.next(Duration::ZERO).unwrap().is_none(), "{last_before} is earlier");
    second.now_ms = since - 7 - 2;
    drained(&mut second);
    second.now_ms = since - 7;
    let on_time = drained(&mut second);
    let cursor = FeedCursor::parse(&cursor.to_string()).unwrap();
    for reader in [&mut reader, &mut FeedReader::new(&*log, cursor).unwrap()] {
        let (_, event) = reader.next(LONG).unwrap().unwrap();
        assert_eq!((event.offset, event.kind), (on_time, "worker.drained"));
        assert!(reader.next(Duration::ZERO).unwrap().is_none());
    }
}

#[test]
fn feed_after_the_end_has_only_what_comes() {
    let (_, log, ends) = journals();
    let records = ends.into_iter().enumerate().map(|(index, end)| (u32::try_from(index).unwrap(), end));
    let mut reader = FeedReader::new(&*log, FeedCursor::after(log.log_id(), records)).unwrap();
    assert!(reader.next(Duration::ZERO).unwrap().is_none());
    let mut owner = Owner::claim(&*log, 1);
    let offset = owner.decide(vec![(1, serde_json::json!({"worker": {"drained": {"worker": "w-1"}}}))]);
    let (_, event) = reader.next(LONG).unwrap().unwrap();
    assert_eq!((event.offset, event.kind, event.subject.as_str()), (offset, "worker.drained", "worker/w-1"));
}

#[test]
fn cursor_of_another_log_is_refused() {
    let (_, one) = log(1);
    let (_, other) = log(1);
    let cursor = FeedCursor::start(other.log_id());
    assert!(matches!(FeedReader::new(&*one, cursor), Err(Error::BadCursor { .. })));
    assert!(matches!(FeedCursor::parse("%"), Err(Error::BadCursor { .. })));
    let beyond = FeedCursor::after(one.log_id(), [(0, 99)]);
    assert!(matches!(FeedReader::new(&*one, beyond), Err(Error::PositionMismatch { .. })));
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
    assert!(matches!(error, Error::PositionMismatch { partition: 0, .. }), "{error}");
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
