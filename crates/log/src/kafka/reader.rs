//! Reads one partition from Kafka, on the caller's thread.
//!
//! librdkafka fetches on threads of its own; its callback for a queue that is no longer empty sets our signal,
//! and so does a waker. So a wait ends at once for either, and nothing is polled in circles.
//!
//! A client can stop fetching for good: see [`watch`](super::watch).

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::Offset;

use super::config::KafkaConfig;
use super::connection::{Connection, number, watermarks};
use super::context::{Plain, serve};
use super::ends::Ends;
use super::watch::{LOOK, Watch};
use crate::signal::{Heard, Signal, deadline};
use crate::{Error, Reader, Record, Topic, Waker};

pub(crate) struct KafkaReader {
    config: KafkaConfig,
    topic: Topic,
    partition: u32,
    name: String,
    next: u64,
    client: Fetching,
    signal: Arc<Signal>,
    /// What came before the partition's queue was split off.
    early: VecDeque<Record>,
    failed: Option<Error>,
    ends: Arc<Ends>,
    watch: Watch,
}

/// A client that fetches one partition.
struct Fetching {
    /// Before the consumer, which it has to be dropped before.
    queue: PartitionQueue<Plain>,
    consumer: Arc<BaseConsumer<Plain>>,
}

impl Fetching {
    fn start(
        config: &KafkaConfig,
        topic: Topic,
        partition: u32,
        next: u64,
        signal: &Arc<Signal>,
    ) -> Result<Self, Error> {
        let name = config.topic_name(topic);
        let kafka = Error::read::<KafkaError>(topic, partition);
        let consumer: BaseConsumer<Plain> = config
            .reader()
            .create_with_context(Plain::new(config))
            .map_err(|error| Error::open("make a Kafka consumer", error))?;
        let consumer = Arc::new(consumer);
        let mut assigned = TopicPartitionList::with_capacity(1);
        let offset = i64::try_from(next).map_err(Error::read(topic, partition))?;
        assigned.add_partition_offset(&name, number(partition), Offset::Offset(offset)).map_err(&kafka)?;
        consumer.assign(&assigned).map_err(kafka)?;
        let mut queue = consumer
            .split_partition_queue(&name, number(partition))
            .ok_or_else(|| Error::read(topic, partition)("the client has no queue for the partition"))?;
        let ear = Arc::clone(signal);
        queue.set_nonempty_callback(move || ear.news());
        Ok(Self { queue, consumer })
    }
}

impl KafkaReader {
    pub(crate) fn start(
        connection: &Connection,
        topic: Topic,
        partition: u32,
        next: u64,
    ) -> Result<Self, Error> {
        let config = connection.config.clone();
        let signal = Arc::default();
        let client = Fetching::start(&config, topic, partition, next, &signal)?;
        let name = config.topic_name(topic);
        let (early, failed) = (VecDeque::new(), None);
        let ends = Arc::clone(&connection.ends);
        let watch = Watch::new(topic, Arc::clone(&connection.stalls));
        Ok(Self { config, topic, partition, name, next, client, signal, early, failed, ends, watch })
    }

    /// A client that fetches no more is made anew.
    fn look_after(&mut self) -> Result<(), Error> {
        let Self { topic, partition, next, .. } = *self;
        let ask = || self.ends.ask(&self.name, partition, &self.signal);
        if self.watch.is_stalled(Instant::now(), next, ask) {
            tracing::warn!(topic = self.name, partition, next, "the client fetches no more; begins anew");
            let client = Fetching::start(&self.config, topic, partition, next, &self.signal)?;
            let stuck = std::mem::replace(&mut self.client, client);
            self.early.clear();
            // To close it may block for ever, so another thread does; if none can start, this one.
            drop(thread::Builder::new().name("kafka-stuck".to_owned()).spawn(move || drop(stuck)));
        }
        Ok(())
    }

    /// Everything that is there, up to `max_records`, without waiting.
    fn take(&mut self, max_records: usize) -> Result<Vec<Record>, Error> {
        let (mut early, mut errors) = (Vec::new(), Vec::new());
        serve(&self.client.consumer, |result| match result {
            Ok(message) => early.push(record(&message)),
            Err(error) => errors.push(error),
        });
        self.early.extend(early);
        errors.into_iter().try_for_each(|error| self.judge(error))?;
        let mut records: Vec<Record> = self.early.drain(..max_records.min(self.early.len())).collect();
        while records.len() < max_records
            && let Some(result) = self.client.queue.poll(Duration::ZERO)
        {
            match result.map(|message| record(&message)).map_err(|error| self.judge(error)) {
                Ok(record) => records.push(record),
                Err(Ok(())) => {}
                // What was read before it is given first.
                Err(Err(error)) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        // A client that lost its connection may fetch what it had fetched before.
        records.retain(|record| record.offset >= self.next);
        if let Some(last) = records.last() {
            self.next = last.offset + 1;
        }
        if records.is_empty() { self.failed.take().map_or(Ok(records), Err) } else { Ok(records) }
    }

    /// Most errors are those of a broker that will be back, and the client goes on by itself.
    fn judge(&self, error: KafkaError) -> Result<(), Error> {
        let (topic, partition) = (self.topic, self.partition);
        let read = |error: KafkaError| Err(Error::read(topic, partition)(error));
        let KafkaError::MessageConsumption(code) = error else { return read(error) };
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => {
                let range = watermarks(&self.client.consumer, &self.name, partition);
                let range = range.map_err(Error::read(topic, partition))?;
                let (wanted, low, high) = (self.next, range.start, range.end);
                Err(Error::OffsetOutOfRange { topic, partition, wanted, low, high })
            }
            RDKafkaErrorCode::BadMessage
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::TopicAuthorizationFailed => read(error),
            _ => {
                tracing::warn!(topic = self.name, partition, %error, "reading from Kafka is held up");
                Ok(())
            }
        }
    }
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    Record {
        offset: u64::try_from(message.offset()).expect("a record that was read has an offset"),
        timestamp_ms: message.timestamp().to_millis().unwrap_or_default(),
        key: message.key().unwrap_or_default().to_vec(),
        value: message.payload().unwrap_or_default().into(),
    }
}

impl Reader for KafkaReader {
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        let end = deadline(timeout);
        loop {
            let records = self.take(max_records.max(1))?;
            if !records.is_empty() {
                self.watch.read(Instant::now());
                return Ok(records);
            }
            self.look_after()?;
            match self.signal.wait(end.min(Instant::now() + LOOK)) {
                Heard::News => {}
                Heard::Woken => return Ok(Vec::new()),
                Heard::Nothing if Instant::now() >= end => return Ok(Vec::new()),
                Heard::Nothing => {}
            }
        }
    }

    fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.signal))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};

    use super::*;
    use crate::From;

    fn append(writer: &BaseProducer, name: &str, partition: i32) {
        let record = BaseRecord::<[u8], [u8]>::to(name).partition(partition).payload(b"value");
        writer.send(record).unwrap();
        writer.flush(Duration::from_secs(30)).unwrap();
    }

    /// Journals of two partitions in a cluster of one broker.
    fn two_journals(cluster: &MockCluster<'_, DefaultProducerContext>) -> (BaseProducer, Connection, String) {
        let config = KafkaConfig::new(cluster.bootstrap_servers());
        let name = config.topic_name(Topic::Journal);
        cluster.create_topic(&name, 2, 1).unwrap();
        let mut connection = Connection::open(&config).unwrap();
        connection.counts = [2; Topic::ALL.len()];
        (config.producer().create().unwrap(), connection, name)
    }

    /// OPS-3: a client that fetches no more is made anew, and others are left alone. One whose partition is paused does not end
    /// by itself, so nobody may wait for it.
    #[test]
    fn client_that_fetches_no_more_is_made_anew() {
        let cluster = MockCluster::new(1).unwrap();
        let (writer, connection, name) = two_journals(&cluster);
        let reader = |partition| connection.reader(Topic::Journal, partition, From::Start).unwrap();
        let (mut stalled, mut other) = (reader(0), reader(1));
        let mut paused = TopicPartitionList::new();
        paused.add_partition(&name, 0);
        stalled.client.consumer.pause(&paused).unwrap();
        append(&writer, &name, 0);
        append(&writer, &name, 1);
        let poll = |reader: &mut KafkaReader| reader.poll(1, Duration::from_secs(30)).unwrap().len();
        assert_eq!((poll(&mut other), poll(&mut stalled)), (1, 1));
        assert_eq!(connection.stalls.counts(), BTreeMap::from([(Topic::Journal, 1)]));
    }

    /// OPS-3: a broker that takes 1.5 s for every answer, as one with too much to do, is read all the same: a reader that has
    /// nothing yet keeps its connection, and is not taken for one that fetches no more.
    #[test]
    fn slow_broker_is_read() {
        let cluster = MockCluster::new(1).unwrap();
        let (writer, connection, name) = two_journals(&cluster);
        // Its client has a connection already, other than that of a new reader.
        connection.range(Topic::Journal, 0).unwrap();
        cluster.broker_round_trip_time(1, Duration::from_millis(1_500)).unwrap();
        let mut reader = KafkaReader::start(&connection, Topic::Journal, 0, 0).unwrap();
        for record in 0..3 {
            append(&writer, &name, 0);
            // Two answers are 3 s.
            let read = reader.poll(1, Duration::from_secs(15)).unwrap();
            assert_eq!(read.len(), 1, "record {record} does not come");
        }
        assert_eq!(connection.stalls.counts(), BTreeMap::new());
    }
}
