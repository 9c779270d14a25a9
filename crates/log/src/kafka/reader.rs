//! Reads one partition from Kafka, on the caller's thread.
//!
//! librdkafka fetches on threads of its own; its callback for a queue that is no longer empty sets our signal,
//! and so does a waker. So a wait ends at once for either, and nothing is polled in circles.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::Offset;

use super::config::KafkaConfig;
use super::connection::{number, watermarks};
use super::context::Plain;
use crate::signal::{Heard, Signal, deadline};
use crate::{Error, Reader, Record, Source, Topic, Waker};

/// The client's own events are served at least this often.
const EVENTS: Duration = Duration::from_secs(1);
/// After this long without a record the broker is asked whether there is none.
const QUIET: Duration = Duration::from_secs(5);

pub(crate) struct KafkaReader {
    config: KafkaConfig,
    topic: Topic,
    partition: u32,
    name: String,
    next: u64,
    /// Before the consumer, which it has to be dropped before.
    queue: PartitionQueue<Plain>,
    consumer: Arc<BaseConsumer<Plain>>,
    signal: Arc<Signal>,
    /// What came before the partition's queue was split off.
    early: VecDeque<Record>,
    failed: Option<Error>,
    watch: Watch,
}

/// Notices a client that fetches no more though the partition goes on: after a broker was fenced and came back,
/// librdkafka can wait for ever for the check of its leader's epoch (its issue 4492).
struct Watch {
    /// Since when nothing was read, or asked for.
    since: Instant,
    /// The partition's end then.
    end: Option<u64>,
}

impl Watch {
    fn new() -> Self {
        Self { since: Instant::now(), end: None }
    }

    /// Whether what the broker had a while ago has still not come. `ask` gives the partition's end.
    fn is_stalled(&mut self, next: u64, ask: impl FnOnce() -> Option<u64>) -> bool {
        if self.since.elapsed() < QUIET {
            return false;
        }
        let stalled = self.end.is_some_and(|end| next < end);
        *self = Self { since: Instant::now(), end: ask() };
        stalled
    }
}

impl KafkaReader {
    pub(crate) fn start(
        config: &KafkaConfig,
        topic: Topic,
        partition: u32,
        next: u64,
    ) -> Result<Self, Error> {
        Self::start_with(config.clone(), topic, partition, next, Arc::default())
    }

    fn start_with(
        config: KafkaConfig,
        topic: Topic,
        partition: u32,
        next: u64,
        signal: Arc<Signal>,
    ) -> Result<Self, Error> {
        let name = config.topic_name(topic);
        let failed = |source: Source| Error::Read { topic, partition, source };
        let kafka = |error: KafkaError| failed(error.into());
        let consumer: BaseConsumer<Plain> = config
            .reader()
            .create_with_context(Plain)
            .map_err(|error| Error::open("make a Kafka consumer", error))?;
        let consumer = Arc::new(consumer);
        let mut assigned = TopicPartitionList::with_capacity(1);
        let offset = i64::try_from(next).map_err(|error| failed(error.into()))?;
        assigned.add_partition_offset(&name, number(partition), Offset::Offset(offset)).map_err(kafka)?;
        consumer.assign(&assigned).map_err(kafka)?;
        let mut queue = consumer
            .split_partition_queue(&name, number(partition))
            .ok_or_else(|| failed("the client has no queue for the partition".into()))?;
        let ear = Arc::clone(&signal);
        queue.set_nonempty_callback(move || ear.news());
        let early = VecDeque::new();
        let (failed, watch) = (None, Watch::new());
        Ok(Self { config, topic, partition, name, next, queue, consumer, signal, early, failed, watch })
    }

    /// A client that fetches no more is made anew.
    fn look_after(&mut self) -> Result<(), Error> {
        let (consumer, name, partition) = (&self.consumer, &self.name, self.partition);
        let ask = || consumer.fetch_watermarks(name, number(partition), EVENTS).ok();
        let ask = || ask().and_then(|(_, high)| u64::try_from(high).ok());
        if self.watch.is_stalled(self.next, ask) {
            tracing::warn!(
                topic = self.name,
                partition,
                next = self.next,
                "the client fetches no more; begins anew"
            );
            let signal = Arc::clone(&self.signal);
            *self = Self::start_with(self.config.clone(), self.topic, partition, self.next, signal)?;
        }
        Ok(())
    }

    /// Everything that is there, up to `max_records`, without waiting.
    fn take(&mut self, max_records: usize) -> Result<Vec<Record>, Error> {
        while let Some(result) = self.consumer.poll(Duration::ZERO) {
            match result {
                Ok(message) => self.early.push_back(record(&message)),
                Err(error) => self.judge(error)?,
            }
        }
        let mut records = Vec::new();
        while records.len() < max_records {
            let Some(record) = self.early.pop_front() else { break };
            records.push(record);
        }
        while records.len() < max_records {
            let error = match self.queue.poll(Duration::ZERO) {
                None => break,
                Some(Ok(message)) => {
                    records.push(record(&message));
                    continue;
                }
                Some(Err(error)) => error,
            };
            if let Err(error) = self.judge(error) {
                // What was read before it is given first.
                self.failed = Some(error);
                break;
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
        let read = |error: KafkaError| Err(Error::Read { topic, partition, source: error.into() });
        let KafkaError::MessageConsumption(code) = error else { return read(error) };
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => {
                let range = match watermarks(&self.consumer, &self.name, partition) {
                    Ok(range) => range,
                    Err(error) => return read(error),
                };
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
                self.watch = Watch::new();
                return Ok(records);
            }
            self.look_after()?;
            match self.signal.wait(end.min(Instant::now() + EVENTS)) {
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
    use super::*;

    /// What has only just been appended is given the time to come.
    #[test]
    fn reader_is_stalled_when_what_was_there_before_does_not_come() {
        let mut watch = Watch::new();
        let long_ago = || Instant::now().checked_sub(QUIET).unwrap();
        assert!(!watch.is_stalled(7, || unreachable!()), "nothing is asked before it has been quiet");
        for (next, end, stalled) in
            [(7, Some(7), false), (7, Some(9), false), (8, Some(9), true), (8, None, true)]
        {
            watch.since = long_ago();
            assert_eq!(watch.is_stalled(next, || end), stalled, "{next}");
        }
        watch.since = long_ago();
        assert!(!watch.is_stalled(8, || None), "a broker that does not answer tells nothing");
    }
}
