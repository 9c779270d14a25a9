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

/// The broker has so long to answer a question on the side.
const EVENTS: Duration = Duration::from_secs(1);
/// After this long without a record the broker is asked whether there is none, and after this long again whether it came.
const QUIET: Duration = Duration::from_millis(600);
/// How late that is noticed. With the question and its answer a client that fetches no more is found within 2 s.
const LOOK: Duration = Duration::from_millis(300);

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
    fn is_stalled(&mut self, now: Instant, next: u64, ask: impl FnOnce() -> Option<u64>) -> bool {
        if now.saturating_duration_since(self.since) < QUIET {
            return false;
        }
        let stalled = self.end.is_some_and(|end| next < end);
        *self = Self { since: now, end: ask() };
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
        if self.watch.is_stalled(Instant::now(), self.next, ask) {
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
    use super::*;

    /// What has only just been appended is given the time to come.
    #[test]
    fn reader_is_stalled_when_what_was_there_before_does_not_come() {
        let mut watch = Watch::new();
        let mut now = watch.since;
        assert!(!watch.is_stalled(now, 7, || unreachable!()), "nothing is asked before it has been quiet");
        for (next, end, stalled) in
            [(7, Some(7), false), (7, Some(9), false), (8, Some(9), true), (8, None, true)]
        {
            now += QUIET;
            assert_eq!(watch.is_stalled(now, next, || end), stalled, "{next}");
        }
        assert!(!watch.is_stalled(now + QUIET, 8, || None), "a broker that does not answer tells nothing");
    }

    /// A client that fetches no more, though there is more, is found within 2 s; one that has everything is not.
    #[test]
    fn stalled_client_is_found_within_two_seconds() {
        let begin = Instant::now();
        for (next, end, found) in [(7, Some(9), true), (9, Some(9), false), (7, None, false)] {
            let mut watch = Watch::new();
            watch.since = begin;
            let looks = (1..=6).map(|look| begin + look * LOOK);
            let first = looks.into_iter().find(|now| watch.is_stalled(*now, next, || end));
            assert_eq!(first.is_some(), found, "{next} of {end:?}");
            assert!(first.is_none_or(|at| at - begin < Duration::from_secs(2)));
        }
    }

    /// What came while nobody asked was not missed: the end of a moment ago is what counts.
    #[test]
    fn client_that_reads_on_is_not_stalled() {
        let begin = Instant::now();
        let mut watch = Watch { since: begin, end: None };
        for look in 1..20_u32 {
            let end = u64::from(look) * 10;
            assert!(!watch.is_stalled(begin + look * QUIET, end, || Some(end + 10)), "{look}");
        }
    }
}
