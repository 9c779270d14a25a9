//! The feed, straight from the journal, with a cursor.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tidemill_journal::{Error, FeedCursor, FeedReader, Journal, Start};
use tidemill_model::{Level, Timestamp};

use crate::support::{Owner, catalogue, ids, internal, journals, log, public, shard};

const LONG: Duration = Duration::from_secs(30);

/// EVT-4: the feed has every public event of the journal, and no internal one.
#[test]
fn feed_has_every_public_event_and_no_internal_one() {
    let (_, log, _) = journals();
    let (public, internal) = public(&*log);
    assert!(internal > 60, "{internal}");
    let mut reader = FeedReader::new(&*log, FeedCursor::start(log.log_id())).unwrap();
    assert_eq!(ids(&mut reader, usize::MAX).into_iter().collect::<BTreeSet<_>>(), public);
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

/// Rule 13, OPS-9: a reader stops at the record that raises the level beyond what it reads, and says what to do; one that
/// begins behind that record stops at the first one of the new level, whatever is in it.
#[test]
fn reader_stops_at_a_level_that_it_does_not_read() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(vec![internal(1)]);
    let raised = owner.decide(vec![(0, json!({"level": {"raised": {"level": 2}}}))]);
    let unknown = json!({"now": "2026-03-01T00:00:00.000Z", "level": 2, "events": [{"shard": 0, "event": {"new": {}}}]});
    let later = owner.write(unknown.to_string().into_bytes());
    let read_up_to = |reads: u32, start: Start| {
        let mut journal = Journal::open(&*log, 0, "the test", start).unwrap().up_to(Level::new(reads));
        loop {
            if let Err(error) = journal.next(LONG) {
                return error;
            }
        }
    };
    for (start, at) in [(Start::Beginning, raised), (Start::At(later), later)] {
        let error = read_up_to(1, start);
        let Error::TooNew { offset, level, reads, .. } = &error else { panic!("{error}") };
        assert_eq!((*offset, level.number(), reads.number()), (at, 2, 1));
        assert!(!error.is_outage() && error.remedy().is_some());
        assert!(error.to_string().contains("start a version that reads level 2"), "{error}");
    }
    assert!(matches!(read_up_to(2, Start::Beginning), Error::Body { offset, .. } if offset == later));
}
