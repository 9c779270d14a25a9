//! Appends to Kafka.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext, PurgeConfig};

use super::config::KafkaConfig;
use super::connection::number;
use super::context::{Said, find_again, log_lines};
use super::send_batches::{Left, Next, SendBatches, Sizeable};
use crate::in_flight::{InFlight, Pending};
use crate::port::Done;
use crate::{AppendError, Error, Producer, Topic};

/// How long the thread that serves deliveries waits at a time; at the end of each wait the client spins for up to 1 ms.
const IDLE: Duration = Duration::from_secs(1);

/// How long a broker that is asked ahead of the first append may take to answer.
const ASKING: Duration = Duration::from_millis(500);

/// Passes outcomes on, and hands over what waited for them.
struct Deliveries {
    said: Said,
    /// Not there while the last of it is being dropped: then nothing waits any more.
    feed: OnceLock<Weak<Feed>>,
}

/// A pending append on its way through librdkafka. The lock is never waited for: it only lets a completion,
/// which one thread at a time may have, pass for something that threads may share.
struct Travelling {
    lane: usize,
    pending: Mutex<Pending>,
}

impl Travelling {
    fn arrive(self) -> (usize, Pending) {
        (self.lane, self.pending.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

log_lines!(Deliveries);

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Travelling>;

    fn delivery(&self, result: &DeliveryResult<'_>, travelling: Box<Travelling>) {
        let (lane, pending) = travelling.arrive();
        let feed = self.feed.get().and_then(Weak::upgrade);
        let outcome = match outcome(result) {
            // Of several in one request, only the first lacks its offset: librdkafka counts on from there.
            Ok(_) if feed.as_ref().is_some_and(|feed| feed.send_batches.is_in_doubt(lane)) => {
                Err(follows_unknown())
            }
            known => known,
        };
        let left =
            if matches!(outcome, Err(AppendError::Unknown(_))) { Left::InDoubt } else { Left::Certain };
        // First, so that the broker has something to do meanwhile.
        let given_up = feed.map(|feed| feed.leave(lane, left)).unwrap_or_default();
        tell(pending, outcome);
        give_up(given_up);
    }
}

/// Others of the same answer still wait for theirs, so a completion that panics does not keep it from them.
fn tell(pending: Pending, outcome: Result<u64, AppendError>) {
    if catch_unwind(AssertUnwindSafe(|| pending.finish(outcome))).is_err() {
        tracing::error!("the completion of an append panicked");
    }
}

fn give_up(waiting: Vec<Waiting>) {
    for Waiting { pending, .. } in waiting {
        tell(pending, Err(follows_unknown()));
    }
}

fn follows_unknown() -> AppendError {
    AppendError::Unknown("it followed one whose outcome is unknown".to_owned())
}

/// Only what can be known for certain is more than unknown: a retry may have met another error than the first
/// attempt, which may have landed.
fn outcome(result: &DeliveryResult<'_>) -> Result<u64, AppendError> {
    match result {
        Ok(message) => u64::try_from(message.offset())
            .map_err(|_| AppendError::Unknown("acknowledged without an offset".to_owned())),
        Err((error, _)) => Err(match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => AppendError::TooLarge,
            _ => AppendError::Unknown(error.to_string()),
        }),
    }
}

/// A record that waits for those before it.
struct Waiting {
    key: Vec<u8>,
    value: Vec<u8>,
    pending: Pending,
}

impl Sizeable for Waiting {
    fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// The client, and what waits to be handed to it.
struct Feed {
    client: BaseProducer<Deliveries>,
    send_batches: SendBatches<Waiting>,
    names: [String; Topic::ALL.len()],
    counts: [u32; Topic::ALL.len()],
    stop: AtomicBool,
}

impl Feed {
    fn make(config: &KafkaConfig, counts: [u32; Topic::ALL.len()]) -> Result<Arc<Self>, Error> {
        let client: BaseProducer<Deliveries> = config
            .producer()
            .create_with_context(Deliveries { said: Said::new(config), feed: OnceLock::new() })
            .map_err(|error| Error::open("make a Kafka producer", error))?;
        let feed = Arc::new(Self {
            client,
            send_batches: SendBatches::new(counts.iter().map(|count| *count as usize).sum()),
            names: Topic::ALL.map(|topic| config.topic_name(topic)),
            counts,
            stop: AtomicBool::new(false),
        });
        let known = feed.client.context().feed.set(Arc::downgrade(&feed));
        assert!(known.is_ok(), "the context of a client is that of one feed");
        Ok(feed)
    }

    fn has_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Serves deliveries until it is stopped.
    fn serve(&self) {
        self.get_ready();
        while !self.has_stopped() {
            self.client.poll(IDLE);
            find_again(self.client.client());
        }
    }

    /// Asks for the topics' leaders ahead of the first append. librdkafka asks for a producer's number when a broker
    /// has told it of topics, and otherwise only each half second: without this the first append took a second.
    fn get_ready(&self) {
        let topics = self.names.iter().zip(self.counts).filter(|(_, count)| *count > 0);
        for (name, _) in topics {
            // A broker that is away is waited for by librdkafka itself.
            if self.has_stopped() || self.client.client().fetch_metadata(Some(name), ASKING).is_err() {
                return;
            }
            self.client.poll(Duration::ZERO);
        }
    }

    /// The lanes of a topic follow those of the topics before it.
    fn lane(&self, topic: Topic, partition: u32) -> usize {
        let before: u32 = self.counts[..topic.index()].iter().sum();
        (before + partition) as usize
    }

    fn place(&self, lane: usize) -> (&str, i32) {
        let mut partition =
            u32::try_from(lane).expect("the partitions of all topics are numbered in 32 bits");
        for (name, count) in self.names.iter().zip(self.counts) {
            if partition < count {
                return (name, number(partition));
            }
            partition -= count;
        }
        unreachable!("each lane is that of a partition")
    }

    fn enter(&self, lane: usize, waiting: Waiting) {
        self.hand_over(lane, self.send_batches.enter(lane, waiting));
    }

    /// One that was handed over has its outcome. Gives those that have to be given up.
    #[must_use]
    fn leave(&self, lane: usize, left: Left) -> Vec<Waiting> {
        match self.send_batches.leave(lane, left) {
            Next::HandOver(send_batch) => {
                self.hand_over(lane, send_batch);
                Vec::new()
            }
            Next::GiveUp(waiting) => waiting,
        }
    }

    /// Hands a lot to librdkafka, and those that may follow it at once.
    fn hand_over(&self, lane: usize, mut send_batch: Vec<Waiting>) {
        while !send_batch.is_empty() {
            for waiting in send_batch {
                let Some((refused, pending)) = self.send(lane, waiting) else { continue };
                match self.send_batches.leave(lane, Left::Certain) {
                    Next::HandOver(none) => {
                        assert!(none.is_empty(), "no lot is given while one is handed over")
                    }
                    Next::GiveUp(waiting) => give_up(waiting),
                }
                tell(pending, Err(refused));
            }
            send_batch = self.send_batches.handed_over(lane);
        }
    }

    /// Gives it back if it was not even queued.
    fn send(&self, lane: usize, waiting: Waiting) -> Option<(AppendError, Pending)> {
        let Waiting { key, value, pending } = waiting;
        let (name, partition) = self.place(lane);
        let travelling = Box::new(Travelling { lane, pending: Mutex::new(pending) });
        let record = BaseRecord::with_opaque_to(name, travelling);
        let record = record.partition(partition).key(key.as_slice()).payload(value.as_slice());
        let (error, record) = self.client.send(record).err()?;
        let refused = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::QueueFull) => AppendError::Full,
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => AppendError::TooLarge,
            _ => AppendError::Refused(error.to_string()),
        };
        Some((refused, record.delivery_opaque.arrive().1))
    }
}

pub(crate) struct KafkaProducer {
    feed: Arc<Feed>,
    in_flight: Arc<InFlight>,
}

impl KafkaProducer {
    pub(crate) fn start(config: &KafkaConfig, counts: [u32; Topic::ALL.len()]) -> Result<Self, Error> {
        let feed = Feed::make(config, counts)?;
        let served = Arc::clone(&feed);
        thread::Builder::new()
            .name("kafka-producer".to_owned())
            // The last to let go of the client: what is left is purged, and told to be unknown.
            .spawn(move || served.serve())
            .map_err(|error| Error::open("start a Kafka producer's thread", error))?;
        Ok(Self { feed, in_flight: InFlight::new(config.queue) })
    }
}

/// The completion may be the one that drops the producer, on the serving thread: so nothing is waited for here.
impl Drop for KafkaProducer {
    fn drop(&mut self) {
        // First what waits, or it would follow what is purged. Forgotten, each tells that its outcome is unknown.
        drop(self.feed.send_batches.give_up());
        self.feed.client.purge(PurgeConfig::default().queue().inflight());
        self.feed.stop.store(true, Ordering::Relaxed);
    }
}

impl Producer for KafkaProducer {
    fn append(&self, topic: Topic, partition: u32, key: &[u8], value: Vec<u8>, done: Done) {
        if topic.is_too_large(key, &value) {
            return done(Err(AppendError::TooLarge));
        }
        if let Err(error) = topic.check_partition(partition, self.feed.counts[topic.index()]) {
            return done(Err(AppendError::Refused(error.to_string())));
        }
        let Some(pending) = self.in_flight.enter(key.len() + value.len(), done) else { return };
        self.feed.enter(self.feed.lane(topic, partition), Waiting { key: key.to_vec(), value, pending });
    }

    fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.in_flight.flush(timeout)
    }
}

#[cfg(test)]
mod tests;
