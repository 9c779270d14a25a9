//! Reads one partition from Kafka, on the caller's thread.
//!
//! librdkafka fetches on threads of its own; its callback for a queue that is no longer empty sets our signal,
//! and so does a waker. So a wait ends at once for either, and nothing is polled in circles.
//!
//! A client can stop fetching for good. A reader that is being polled finds that and begins anew within 2 s of a record that
//! does not come, however often the partition has one, where the broker answers in 0.2 s:
//!
//! ```text
//!  record ─┬─ at most QUIET + LOOK ─► the end is asked for ─┬─ at most QUIET + LOOK ─► still not come: begins anew
//!          └─ 0.9 s, and the answer (EVENTS at most)        └─ 0.9 s
//! ```
//! What a broker that is away does not answer tells nothing; the time counts from its first answer. How often it happened is
//! counted by topic ([`Log::stalled_readers`](crate::Log::stalled_readers)).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::Offset;

use super::config::KafkaConfig;
use super::connection::{number, watermarks};
use super::context::{Listens as _, Plain, serve};
use crate::signal::{Heard, Signal, deadline};
use crate::{Error, Reader, Record, Topic, Waker};

/// The broker has so long to answer a question on the side.
const EVENTS: Duration = Duration::from_secs(1);
/// After this long without a record the broker is asked whether there is none, and after this long again whether it came.
const QUIET: Duration = Duration::from_millis(600);
/// How late that is noticed at most.
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
    topic: Topic,
    stalls: Arc<Stalls>,
}

impl Watch {
    fn new(topic: Topic, stalls: Arc<Stalls>) -> Self {
        Self { since: Instant::now(), end: None, topic, stalls }
    }

    /// Whether what the broker had a while ago has still not come, which is counted. `ask` gives the partition's end.
    fn is_stalled(&mut self, now: Instant, next: u64, ask: impl FnOnce() -> Option<u64>) -> bool {
        if now.saturating_duration_since(self.since) < QUIET {
            return false;
        }
        self.since = now;
        if self.end.take().is_some_and(|end| next < end) {
            self.stalls.count(self.topic);
            return true;
        }
        self.end = ask();
        false
    }
}

impl KafkaReader {
    pub(crate) fn start(
        config: &KafkaConfig,
        topic: Topic,
        partition: u32,
        next: u64,
        stalls: &Arc<Stalls>,
    ) -> Result<Self, Error> {
        let watch = Watch::new(topic, Arc::clone(stalls));
        Self::start_with(config.clone(), partition, next, Arc::default(), watch)
    }

    fn start_with(
        config: KafkaConfig,
        partition: u32,
        next: u64,
        signal: Arc<Signal>,
        watch: Watch,
    ) -> Result<Self, Error> {
        let topic = watch.topic;
        let name = config.topic_name(topic);
        let kafka = Error::read::<KafkaError>(topic, partition);
        let consumer: BaseConsumer<Plain> = config
            .reader()
            .create_with_context(Plain::new(&config))
            .map_err(|error| Error::open("make a Kafka consumer", error))?;
        let consumer = Arc::new(consumer);
        let mut assigned = TopicPartitionList::with_capacity(1);
        let offset = i64::try_from(next).map_err(Error::read(topic, partition))?;
        assigned.add_partition_offset(&name, number(partition), Offset::Offset(offset)).map_err(&kafka)?;
        consumer.assign(&assigned).map_err(kafka)?;
        let mut queue = consumer
            .split_partition_queue(&name, number(partition))
            .ok_or_else(|| Error::read(topic, partition)("the client has no queue for the partition"))?;
        let ear = Arc::clone(&signal);
        queue.set_nonempty_callback(move || ear.news());
        let (early, failed) = (VecDeque::new(), None);
        Ok(Self { config, topic, partition, name, next, queue, consumer, signal, early, failed, watch })
    }

    /// A client that fetches no more is rebuilt.
    fn look_after(&mut self) -> Result<(), Error> {
        let (consumer, name, partition) = (&self.consumer, &self.name, self.partition);
        let ask = || consumer.fetch_watermarks(name, number(partition), EVENTS);
        let ask = || ask().inspect_err(|error| consumer.context().said().note(error)).ok();
        let ask = || ask().and_then(|(_, high)| u64::try_from(high).ok());
        if self.watch.is_stalled(Instant::now(), self.next, ask) {
            tracing::warn!(
                topic = self.name,
                partition,
                next = self.next,
                "the client fetches no more; begins anew"
            );
            let watch = Watch::new(self.topic, Arc::clone(&self.watch.stalls));
            let signal = Arc::clone(&self.signal);
            *self = Self::start_with(self.config.clone(), partition, self.next, signal, watch)?;
        }
        Ok(())
    }

    /// Everything that is there, up to `max_records`, without waiting.
    fn take(&mut self, max_records: usize) -> Result<Vec<Record>, Error> {
        let (mut early, mut errors) = (Vec::new(), Vec::new());
        serve(&self.consumer, |result| match result {
            Ok(message) => early.push(record(&message)),
            Err(error) => errors.push(error),
        });
        self.early.extend(early);
        errors.into_iter().try_for_each(|error| self.judge(error))?;
        let mut records: Vec<Record> = self.early.drain(..max_records.min(self.early.len())).collect();
        while records.len() < max_records
            && let Some(result) = self.queue.poll(Duration::ZERO)
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
                let range = watermarks(&self.consumer, &self.name, partition);
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
                (self.watch.since, self.watch.end) = (Instant::now(), None);
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

/// A count for each topic.
#[derive(Debug, Default)]
pub(crate) struct Stalls([AtomicU64; Topic::ALL.len()]);

impl Stalls {
    pub(crate) fn count(&self, topic: Topic) {
        self.0[topic.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Those of topics that have any.
    pub(crate) fn counts(&self) -> BTreeMap<Topic, u64> {
        let counts = Topic::ALL.map(|topic| (topic, self.0[topic.index()].load(Ordering::Relaxed)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(since: Instant) -> Watch {
        Watch { since, ..Watch::new(Topic::Journal, Arc::default()) }
    }

    /// What has only just been appended is given the time to come. Each client that is found is counted, once, for its topic.
    #[test]
    fn reader_is_stalled_when_what_was_there_before_does_not_come() {
        let mut now = Instant::now();
        let mut watch = watch(now);
        assert!(!watch.is_stalled(now, 7, || unreachable!()), "nothing is asked before it has been quiet");
        let counted = |watch: &Watch| watch.stalls.counts();
        for (next, end, stalled, count) in [
            (7, Some(7), false, 0),
            (7, Some(9), false, 0),
            (8, None, true, 1),
            // A broker that does not answer tells nothing.
            (8, None, false, 1),
            (8, Some(9), false, 1),
            (9, Some(9), false, 1),
            (9, Some(10), false, 1),
            (9, None, true, 2),
        ] {
            now += QUIET;
            assert_eq!(watch.is_stalled(now, next, || end), stalled, "{next}");
            let expected = (count > 0).then_some((Topic::Journal, count));
            assert_eq!(counted(&watch), expected.into_iter().collect(), "{next}");
        }
    }

    /// A record that does not come, whenever it was appended, is noticed within 2 s where the broker answers in 0.1 s; a client
    /// that has everything is left alone.
    #[test]
    fn stalled_client_is_found_within_two_seconds() {
        let (begin, answer) = (Instant::now(), Duration::from_millis(100));
        for appended_ms in (0..4_000).step_by(50) {
            let appended = begin + Duration::from_millis(appended_ms);
            let found = |next: u64| {
                let (mut watch, mut now) = (watch(begin), begin);
                for _ in 0..100 {
                    now += LOOK;
                    let mut asked = Duration::ZERO;
                    let ask = || {
                        asked = answer;
                        Some(if now >= appended { 9 } else { 7 })
                    };
                    if watch.is_stalled(now, next, ask) {
                        return Some(now);
                    }
                    now += asked;
                }
                None
            };
            let at = found(7).expect("a client that fetches no more is found");
            assert!(at - appended < Duration::from_secs(2), "{appended_ms} ms: {:?}", at - appended);
            assert_eq!(found(9), None);
        }
    }

    /// What came while nobody asked was not missed: the end of a moment ago is what counts.
    #[test]
    fn client_that_reads_on_is_not_stalled() {
        let begin = Instant::now();
        let mut watch = watch(begin);
        for look in 1..20_u32 {
            let end = u64::from(look) * 10;
            assert!(!watch.is_stalled(begin + look * QUIET, end, || Some(end + 10)), "{look}");
        }
    }
}
