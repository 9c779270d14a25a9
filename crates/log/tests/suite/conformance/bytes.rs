//! Facts of appending and reading.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_log::{
    AppendError, Done, Error, From, MAX_FRAME_BYTES, MAX_RECORD_BYTES, NewRecord, QueueBound, Topic,
};

use super::fixture::{Make, PARTITIONS, PATIENCE, append, fixture, pipeline, read};

pub(crate) fn offsets_are_dense_and_in_order(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    let values: Vec<Vec<u8>> = (0..1000_u32).map(|number| number.to_string().into_bytes()).collect();
    let outcomes = pipeline(producer.as_ref(), Topic::Commands, 1, values.clone());
    assert_eq!(outcomes, (0..1000).map(Ok).collect::<Vec<_>>());
    let records = fixture.read_all(Topic::Commands, 1);
    assert_eq!(records.iter().map(|record| record.offset).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
    assert_eq!(records.iter().map(|record| record.value.to_vec()).collect::<Vec<_>>(), values);
    assert!(records.iter().all(|record| record.key == b"key" && record.timestamp_ms > 1_600_000_000_000));
}

pub(crate) fn reader_begins_at_the_start_the_end_or_an_offset(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    for value in ["0", "1", "2"] {
        append(producer.as_ref(), Topic::Commands, 0, value).unwrap();
    }
    let begins = [From::Start, From::Offset(1), From::Offset(3), From::End];
    let readers = begins.map(|from| fixture.reader(Topic::Commands, 0, from));
    append(producer.as_ref(), Topic::Commands, 0, "3").unwrap();
    for (mut reader, first) in readers.into_iter().zip([0, 1, 3, 3]) {
        let records = read(reader.as_mut(), 4 - first);
        assert_eq!(
            records.iter().map(|record| record.offset).collect::<Vec<_>>(),
            (first as u64..4).collect::<Vec<_>>()
        );
    }
}

pub(crate) fn offset_that_is_not_there_is_an_error(make: &Make) {
    let fixture = fixture(make);
    append(fixture.producer().as_ref(), Topic::Commands, 0, "0").unwrap();
    let error = fixture.log.reader(Topic::Commands, 0, From::Offset(2)).err();
    assert!(matches!(error, Some(Error::OffsetOutOfRange { wanted: 2, low: 0, high: 1, .. })), "{error:?}");
}

/// Durable and volatile topics alike.
pub(crate) fn waiting_reader_wakes_on_an_append(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    for topic in Topic::ALL.into_iter().filter(|topic| *topic != Topic::Journal) {
        let mut reader = fixture.reader(topic, 2, From::End);
        let (waits, waiting) = mpsc::channel();
        let started = Instant::now();
        let thread = thread::spawn(move || {
            waits.send(()).unwrap();
            reader.poll(10, PATIENCE).unwrap()
        });
        waiting.recv().unwrap();
        append(producer.as_ref(), topic, 2, "wake").unwrap();
        let records = thread.join().unwrap();
        assert_eq!(records.iter().map(|record| &record.value[..]).collect::<Vec<_>>(), [b"wake"]);
        assert!(started.elapsed() < PATIENCE);
    }
}

/// Who polls without waiting until there is nothing, and then waits to be told, misses nothing.
pub(crate) fn listener_is_told_whenever_there_is_more_to_read(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    for topic in Topic::ALL.into_iter().filter(|topic| *topic != Topic::Journal) {
        let mut reader = fixture.reader(topic, 2, From::End);
        let (tell, told) = mpsc::channel();
        reader.waker().listen(move || {
            let _ = tell.send(());
        });
        for number in 0..5 {
            while !reader.poll(1, Duration::ZERO).unwrap().is_empty() {}
            append(producer.as_ref(), topic, 2, number.to_string()).unwrap();
            let records = loop {
                told.recv_timeout(PATIENCE).unwrap();
                let records = reader.poll(10, Duration::ZERO).unwrap();
                if !records.is_empty() {
                    break records;
                }
            };
            assert_eq!(
                records.iter().map(|record| &record.value[..]).collect::<Vec<_>>(),
                [number.to_string().as_bytes()]
            );
        }
    }
}

pub(crate) fn waker_ends_a_wait(make: &Make) {
    let fixture = fixture(make);
    let mut reader = fixture.reader(Topic::Commands, 0, From::End);
    let waker = reader.waker();
    let started = Instant::now();
    let thread = thread::spawn(move || {
        let first = reader.poll(10, PATIENCE).unwrap();
        (first, reader)
    });
    waker.wake();
    let (first, mut reader) = thread.join().unwrap();
    assert_eq!(first, []);
    waker.wake();
    assert_eq!(reader.poll(10, PATIENCE).unwrap(), [], "used while nobody waits, it ends the next wait");
    assert!(started.elapsed() < PATIENCE, "neither wait lasted to its end");
}

pub(crate) fn order_is_kept_per_producer(make: &Make) {
    let fixture = fixture(make);
    thread::scope(|scope| {
        for writer in 0..4_u32 {
            let producer = fixture.producer();
            scope.spawn(move || {
                let values = (0..500_u32).map(|number| format!("{writer} {number}").into_bytes());
                let outcomes = pipeline(producer.as_ref(), Topic::Commands, 0, values);
                let offsets: Vec<u64> = outcomes.into_iter().map(Result::unwrap).collect();
                assert!(offsets.is_sorted());
            });
        }
    });
    let records = fixture.read_all(Topic::Commands, 0);
    for writer in 0..4_u32 {
        let prefix = format!("{writer} ");
        let texts = records.iter().map(|record| String::from_utf8(record.value.to_vec()).unwrap());
        let own: Vec<String> = texts.filter(|text| text.starts_with(&prefix)).collect();
        assert_eq!(own, (0..500).map(|number| format!("{writer} {number}")).collect::<Vec<_>>());
    }
}

/// Of several, one that is refused keeps no other from the log.
pub(crate) fn records_appended_together_have_an_outcome_each(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    let (told, outcomes) = mpsc::channel();
    let record = |number: usize, topic, partition, value: Vec<u8>| {
        let told = told.clone();
        let done: Done = Box::new(move |outcome| told.send((number, outcome)).unwrap());
        NewRecord { topic, partition, key: b"key".to_vec(), value: value.into(), acted_on: false, done }
    };
    let (commands, replies) = (Topic::Commands, Topic::Replies);
    producer.append_all(vec![
        record(0, commands, 0, b"a".to_vec()),
        record(1, commands, 0, vec![0; MAX_RECORD_BYTES]),
        record(2, replies, 1, b"b".to_vec()),
        record(3, commands, PARTITIONS, b"c".to_vec()),
        record(4, commands, 0, b"d".to_vec()),
    ]);
    producer.append_all(Vec::new());
    let mut outcomes: Vec<_> = (0..5).map(|_| outcomes.recv_timeout(PATIENCE).unwrap()).collect();
    outcomes.sort_by_key(|(number, _)| *number);
    let outcomes: Vec<_> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    let [Ok(0), Err(AppendError::TooLarge), Ok(0), Err(AppendError::Refused(_)), Ok(1)] = &outcomes[..]
    else {
        panic!("{outcomes:?}");
    };
    let values = |topic, partition| {
        let records = fixture.read_all(topic, partition).into_iter();
        records.map(|record| String::from_utf8(record.value.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((values(commands, 0), values(replies, 1)), (vec!["a".into(), "d".into()], vec!["b".into()]));
}

pub(crate) fn partitions_and_topics_are_apart(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    for topic in Topic::ALL.into_iter().filter(|topic| *topic != Topic::Journal) {
        assert_eq!(fixture.log.partitions(topic), PARTITIONS);
        for partition in 0..PARTITIONS {
            let value = format!("{topic} {partition}");
            assert_eq!(append(producer.as_ref(), topic, partition, value), Ok(0));
        }
    }
    for topic in Topic::ALL.into_iter().filter(|topic| *topic != Topic::Journal) {
        for partition in 0..PARTITIONS {
            let records = fixture.read_all(topic, partition);
            assert_eq!(records.len(), 1);
            assert_eq!(&records[0].value[..], format!("{topic} {partition}").as_bytes());
        }
    }
}

pub(crate) fn poll_gives_no_more_than_asked_for(make: &Make) {
    let fixture = fixture(make);
    pipeline(fixture.producer().as_ref(), Topic::Commands, 0, (0..10_u8).map(|number| vec![number]));
    let mut reader = fixture.reader(Topic::Commands, 0, From::Start);
    let mut numbers = Vec::new();
    while numbers.len() < 10 {
        let records = reader.poll(3, PATIENCE).unwrap();
        assert!((1..=3).contains(&records.len()));
        numbers.extend(records.iter().map(|record| record.value[0]));
    }
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
}

/// The timers and leases of the owner stand on this.
pub(crate) fn acknowledged_record_is_below_the_end_asked_for_later(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    for _ in 0..50 {
        let offset = append(producer.as_ref(), Topic::Commands, 0, "x").unwrap();
        assert_eq!(fixture.log.range(Topic::Commands, 0).unwrap(), 0..offset + 1);
    }
}

pub(crate) fn record_over_the_bound_is_too_large_and_the_largest_is_not(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    let too_large = append(producer.as_ref(), Topic::Commands, 0, vec![0; MAX_RECORD_BYTES - 2]);
    assert_eq!(too_large, Err(AppendError::TooLarge), "the key of 3 bytes counts");
    assert_eq!(append(producer.as_ref(), Topic::Commands, 0, vec![7; MAX_RECORD_BYTES - 3]), Ok(0));
    let too_large = append(producer.as_ref(), Topic::Journal, 0, vec![0; MAX_FRAME_BYTES + 1]);
    assert_eq!(too_large, Err(AppendError::TooLarge));
    let records = fixture.read_all(Topic::Commands, 0);
    assert_eq!(records.iter().map(|record| record.value.len()).collect::<Vec<_>>(), [MAX_RECORD_BYTES - 3]);
}

pub(crate) fn full_queue_takes_nothing(make: &Make) {
    let fixture = make(QueueBound { records: 16, bytes: 1 << 20 });
    let producer = fixture.producer();
    let (told, outcomes) = mpsc::channel();
    let (mut appended, mut acknowledged, mut full) = (0, 0, 0);
    while full == 0 {
        assert!(appended < 5_000_000, "the queue never filled");
        for _ in 0..64 {
            let told = told.clone();
            let done = Box::new(move |outcome: Result<u64, AppendError>| told.send(outcome).unwrap());
            producer.append(Topic::Commands, 0, b"", vec![0; 100], done);
            appended += 1;
        }
        for outcome in outcomes.try_iter() {
            match outcome {
                Ok(_) => acknowledged += 1,
                Err(AppendError::Full) => full += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    producer.flush(PATIENCE).unwrap();
    acknowledged += outcomes.try_iter().filter(Result::is_ok).count();
    assert_eq!(fixture.log.range(Topic::Commands, 0).unwrap(), 0..acknowledged as u64);
    assert!(append(producer.as_ref(), Topic::Commands, 0, "later").is_ok(), "there is room again");
}

pub(crate) fn unknown_partition_is_refused(make: &Make) {
    let fixture = fixture(make);
    let outcome = append(fixture.producer().as_ref(), Topic::Commands, PARTITIONS, "x");
    assert!(matches!(outcome, Err(AppendError::Refused(_))), "{outcome:?}");
    let error = fixture.log.reader(Topic::Commands, PARTITIONS, From::Start).err();
    assert!(matches!(error, Some(Error::NoSuchPartition { count: PARTITIONS, .. })), "{error:?}");
    let error = fixture.log.range(Topic::Commands, PARTITIONS).err();
    assert!(matches!(error, Some(Error::NoSuchPartition { count: PARTITIONS, .. })), "{error:?}");
}

/// An owner drops its producer on an unknown outcome: each append still gets an answer, and a true one.
pub(crate) fn completions_outlive_their_producer(make: &Make) {
    let fixture = fixture(make);
    let producer = fixture.producer();
    let (told, outcomes) = mpsc::channel();
    for number in 0..200_u32 {
        let told = told.clone();
        let done = Box::new(move |outcome| told.send((number, outcome)).unwrap());
        producer.append(Topic::Commands, 0, b"", number.to_be_bytes().to_vec(), done);
    }
    drop((producer, told));
    let outcomes: Vec<(u32, Result<u64, AppendError>)> = outcomes.into_iter().collect();
    assert_eq!(outcomes.len(), 200, "every completion was called, once");
    let records = fixture.read_all(Topic::Commands, 0);
    for (number, outcome) in outcomes {
        match outcome {
            Ok(offset) => {
                let found =
                    records.iter().find(|record| record.offset == offset).expect("it was acknowledged");
                assert_eq!(&found.value[..], number.to_be_bytes());
            }
            Err(AppendError::Unknown(_)) => {}
            Err(AppendError::Refused(_) | AppendError::Full | AppendError::TooLarge) => {
                assert!(records.iter().all(|record| record.value[..] != number.to_be_bytes()));
            }
        }
    }
}

pub(crate) fn only_member_is_suggested_everything(make: &Make) {
    let fixture = fixture(make);
    let mut membership = fixture.log.membership("me").unwrap();
    let end = Instant::now() + PATIENCE;
    let all: Vec<u32> = (0..PARTITIONS).collect();
    while membership.suggested(Duration::from_millis(200)).unwrap() != all {
        assert!(Instant::now() < end, "not all partitions were suggested");
    }
}
