//! What librdkafka says, in our log lines; and a client that forgot its brokers is told of them again.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::bindings::rd_kafka_brokers_add;
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;

use super::config::KafkaConfig;

/// One call serves at most so many events of a client.
const EVENTS: usize = 1_000;

/// What a client said to its context.
#[derive(Debug)]
pub(crate) struct Said {
    /// Those that the client began with.
    brokers: CString,
    events: AtomicU64,
    /// That it reaches no broker, since this was asked last.
    is_lost: AtomicBool,
}

impl Said {
    pub(crate) fn new(config: &KafkaConfig) -> Self {
        // A text with a zero in it makes no client.
        let brokers = CString::new(config.brokers.as_str()).unwrap_or_default();
        Self { brokers, events: AtomicU64::new(0), is_lost: AtomicBool::new(false) }
    }

    /// How many, up to now.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// What the client answered to a question, or said by itself.
    pub(crate) fn note(&self, error: &KafkaError) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }
}

pub(crate) trait Listens: ClientContext {
    fn said(&self) -> &Said;
}

/// Serves the events that a consumer has by now, up to [`EVENTS`]. A poll that does not wait returns the same after a log line as
/// with nothing queued, so the context counts what it gets.
pub(crate) fn serve<C: Listens + ConsumerContext>(
    consumer: &BaseConsumer<C>,
    mut each: impl FnMut(KafkaResult<BorrowedMessage<'_>>),
) {
    let events = || consumer.context().said().events();
    for _ in 0..EVENTS {
        let before = events();
        match consumer.poll(Duration::ZERO) {
            Some(result) => each(result),
            None if events() == before => break,
            None => {}
        }
    }
    find_again(consumer.client());
}

/// Tells a client that reaches no broker of those that it began with. Whoever serves a client calls this after it did.
///
/// A broker that has just begun can say that the cluster has none. A client that is told so forgets all that it knew, and
/// may never ask anybody again (librdkafka's issue 5301). In an outage it forgets nothing: one that it was told of twice is
/// given up with the next answer.
#[allow(unsafe_code)]
pub(crate) fn find_again<C: Listens>(client: &Client<C>) {
    let said = client.context().said();
    if !said.is_lost.swap(false, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the pointer is that of a client that is borrowed here, any thread may call this, and the text, which ends
    // with a zero, is copied.
    unsafe { rd_kafka_brokers_add(client.native_ptr(), said.brokers.as_ptr()) };
    tracing::info!("a Kafka client that reaches no broker is told of those it began with");
}

/// What a client says goes to our log lines and to nobody else.
macro_rules! log_lines {
    ($context:ty) => {
        impl crate::kafka::context::Listens for $context {
            fn said(&self) -> &crate::kafka::context::Said {
                &self.said
            }
        }

        impl rdkafka::client::ClientContext for $context {
            fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
                crate::kafka::context::log(&self.said, level, facility, message);
            }

            fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
                crate::kafka::context::complain(&self.said, &error, reason);
            }
        }
    };
}

pub(super) use log_lines;

/// For clients without callbacks of their own.
#[derive(Debug)]
pub(crate) struct Plain {
    said: Said,
}

impl Plain {
    pub(crate) fn new(config: &KafkaConfig) -> Self {
        Self { said: Said::new(config) }
    }
}

log_lines!(Plain);

impl ConsumerContext for Plain {}

/// For the client that asks: whoever gets no answer is told what went wrong.
#[derive(Debug)]
pub(crate) struct Asking {
    said: Said,
    trouble: Mutex<Option<Trouble>>,
}

#[derive(Debug)]
struct Trouble {
    /// The broker is there, and one of the two does not take the other.
    is_refusal: bool,
    reason: String,
}

impl Asking {
    pub(crate) fn new(config: &KafkaConfig) -> Self {
        Self { said: Said::new(config), trouble: Mutex::default() }
    }

    /// What went wrong since this was asked last: a refusal, else the last.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take().map(|trouble| trouble.reason)
    }

    fn note(&self, is_refusal: bool, reason: &str) {
        let mut known = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if is_refusal || !known.as_ref().is_some_and(|known| known.is_refusal) {
            *known = Some(Trouble { is_refusal, reason: reason.to_owned() });
        }
    }
}

impl Listens for Asking {
    fn said(&self) -> &Said {
        &self.said
    }
}

impl ClientContext for Asking {
    /// That a broker hangs up at the first request, as where it expects TLS, is told by such a line alone.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == "FAIL" {
            self.note(false, message.split_once("]: ").map_or(message, |(_thread, rest)| rest));
        }
        match level {
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => self.said.count(),
            _ => log(&self.said, level, facility, message),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        complain(&self.said, &error, reason);
        match error.rdkafka_error_code() {
            // It says less than why each of them is.
            Some(RDKafkaErrorCode::AllBrokersDown) => {}
            Some(RDKafkaErrorCode::SSL | RDKafkaErrorCode::Authentication) => self.note(true, reason),
            _ => self.note(false, reason),
        }
    }
}

impl ConsumerContext for Asking {}

pub(crate) fn log(said: &Said, level: RDKafkaLogLevel, facility: &str, message: &str) {
    said.count();
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => tracing::warn!(facility, "Kafka client: {message}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::info!(facility, "Kafka client: {message}")
        }
        RDKafkaLogLevel::Debug => tracing::debug!(facility, "Kafka client: {message}"),
    }
}

/// The client goes on by itself after these; what fails for good is told to whoever asked for it.
pub(crate) fn complain(said: &Said, error: &KafkaError, reason: &str) {
    said.note(error);
    tracing::warn!(%error, reason, "Kafka is in trouble");
}

#[cfg(test)]
mod tests;
