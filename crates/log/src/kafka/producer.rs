//! Appends to Kafka.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext, PurgeConfig};

use super::config::KafkaConfig;
use super::connection::number;
use super::context::{complain, log};
use crate::in_flight::{InFlight, Pending};
use crate::port::Done;
use crate::{AppendError, Error, Producer, Topic};

/// How long the thread that serves deliveries sleeps when nothing happens.
const IDLE: Duration = Duration::from_millis(100);

/// Passes outcomes on.
struct Deliveries;

/// A pending append on its way through librdkafka. The lock is never waited for: it only lets a completion,
/// which one thread at a time may have, pass for something that threads may share.
struct Travelling(Mutex<Pending>);

impl Travelling {
    fn finish(self, outcome: Result<u64, AppendError>) {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).finish(outcome);
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        complain(&error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Travelling>;

    fn delivery(&self, result: &DeliveryResult<'_>, pending: Box<Travelling>) {
        let outcome = outcome(result);
        // Others of the same answer still wait for theirs.
        if catch_unwind(AssertUnwindSafe(|| pending.finish(outcome))).is_err() {
            tracing::error!("the completion of an append panicked");
        }
    }
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

pub(crate) struct KafkaProducer {
    client: Arc<BaseProducer<Deliveries>>,
    in_flight: Arc<InFlight>,
    names: [String; Topic::ALL.len()],
    counts: [u32; Topic::ALL.len()],
    stop: Arc<AtomicBool>,
}

impl KafkaProducer {
    pub(crate) fn start(config: &KafkaConfig, counts: [u32; Topic::ALL.len()]) -> Result<Self, Error> {
        let client: BaseProducer<Deliveries> = config
            .producer()
            .create_with_context(Deliveries)
            .map_err(|error| Error::open("make a Kafka producer", error))?;
        let (client, stop) = (Arc::new(client), Arc::new(AtomicBool::new(false)));
        let (served, stopped) = (Arc::clone(&client), Arc::clone(&stop));
        thread::Builder::new()
            .name("kafka-producer".to_owned())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    served.poll(IDLE);
                }
                // The last to let go of the client: what is left is purged, and told to be unknown.
            })
            .map_err(|error| Error::open("start a Kafka producer's thread", error))?;
        let names = Topic::ALL.map(|topic| config.topic_name(topic));
        Ok(Self { client, in_flight: InFlight::new(config.queue), names, counts, stop })
    }
}

/// The completion may be the one that drops the producer, on the serving thread: so nothing is waited for here.
impl Drop for KafkaProducer {
    fn drop(&mut self) {
        self.client.purge(PurgeConfig::default().queue().inflight());
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Producer for KafkaProducer {
    fn append(&self, topic: Topic, partition: u32, key: &[u8], value: Vec<u8>, done: Done) {
        if topic.is_too_large(key, &value) {
            return done(Err(AppendError::TooLarge));
        }
        let count = self.counts[topic.index()];
        if partition >= count {
            let error = Error::NoSuchPartition { topic, partition, count };
            return done(Err(AppendError::Refused(error.to_string())));
        }
        let Some(pending) = self.in_flight.enter(key.len() + value.len(), done) else { return };
        let record =
            BaseRecord::with_opaque_to(&self.names[topic.index()], Box::new(Travelling(Mutex::new(pending))))
                .partition(number(partition))
                .key(key)
                .payload(value.as_slice());
        if let Err((error, record)) = self.client.send(record) {
            // It was not even queued.
            let refused = match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::QueueFull) => AppendError::Full,
                Some(RDKafkaErrorCode::MessageSizeTooLarge) => AppendError::TooLarge,
                _ => AppendError::Refused(error.to_string()),
            };
            record.delivery_opaque.finish(Err(refused));
        }
    }

    fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.in_flight.flush(timeout)
    }
}

#[cfg(test)]
mod tests;
