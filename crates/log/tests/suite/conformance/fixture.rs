//! A log to test, and hands to use it.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tidemill_log::{
    AppendError, Chain, Frame, From, Head, Log, Producer, QueueBound, Reader, Record, Topic, append_wait,
};

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Every log under test is made with so many.
pub(crate) const PARTITIONS: u32 = 3;

/// A fresh log; what it stands on goes when this is dropped.
pub(crate) struct Fixture {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) _ground: Box<dyn std::any::Any>,
}

pub(crate) type Make = dyn Fn(QueueBound) -> Fixture;

pub(crate) fn fixture(make: &Make) -> Fixture {
    make(QueueBound::default())
}

impl Fixture {
    pub(crate) fn producer(&self) -> Arc<dyn Producer> {
        self.log.producer().unwrap()
    }

    pub(crate) fn reader(&self, topic: Topic, partition: u32, from: From) -> Box<dyn Reader> {
        self.log.reader(topic, partition, from).unwrap()
    }

    /// Everything that is there now.
    pub(crate) fn read_all(&self, topic: Topic, partition: u32) -> Vec<Record> {
        let range = self.log.range(topic, partition).unwrap();
        let mut reader = self.reader(topic, partition, From::Start);
        read(reader.as_mut(), usize::try_from(range.end - range.start).unwrap())
    }

    /// Everything of the journal that is there now, judged.
    pub(crate) fn history(&self, partition: u32) -> History {
        let mut history = History::default();
        for record in self.read_all(Topic::Journal, partition) {
            if history.chain.accept(record.offset, &record.value).accepted().is_some() {
                history.accepted.push(record.value.frame().unwrap());
            }
        }
        history
    }

    pub(crate) fn head(&self, partition: u32) -> Head {
        self.history(partition).chain.head().unwrap().clone()
    }
}

/// What a reader makes of a journal.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct History {
    pub(crate) chain: Chain,
    pub(crate) accepted: Vec<Frame>,
}

impl History {
    /// Bodies of the accepted envelopes.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let envelopes = self.accepted.iter().filter(|frame| frame.kind == tidemill_log::Kind::Envelope);
        envelopes.map(|frame| String::from_utf8(frame.body.clone()).unwrap()).collect()
    }
}

/// Reads exactly so many records.
pub(crate) fn read(reader: &mut dyn Reader, count: usize) -> Vec<Record> {
    let end = Instant::now() + PATIENCE;
    let mut records = Vec::new();
    while records.len() < count {
        assert!(Instant::now() < end, "{} of {count} records within {PATIENCE:?}", records.len());
        records.extend(reader.poll(count - records.len(), Duration::from_secs(1)).unwrap());
    }
    records
}

pub(crate) fn append(
    producer: &dyn Producer,
    topic: Topic,
    partition: u32,
    value: impl Into<Vec<u8>>,
) -> Result<u64, AppendError> {
    append_wait(producer, topic, partition, b"key", value.into(), PATIENCE)
}

/// Appends all without waiting in between; gives the outcomes in the order of the appends.
pub(crate) fn pipeline(
    producer: &dyn Producer,
    topic: Topic,
    partition: u32,
    values: impl IntoIterator<Item = Vec<u8>>,
) -> Vec<Result<u64, AppendError>> {
    let (told, outcomes) = mpsc::channel();
    for (number, value) in values.into_iter().enumerate() {
        let told = told.clone();
        producer.append(
            topic,
            partition,
            b"key",
            value,
            Box::new(move |outcome| told.send((number, outcome)).unwrap()),
        );
    }
    drop(told);
    let mut outcomes: Vec<_> = outcomes.into_iter().collect();
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
