//! What librdkafka says, in our log lines.

use std::sync::{Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// What a client says goes to our log lines and to nobody else.
macro_rules! log_lines {
    ($context:ty) => {
        impl rdkafka::client::ClientContext for $context {
            fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
                crate::kafka::context::log(level, facility, message);
            }

            fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
                crate::kafka::context::complain(&error, reason);
            }
        }
    };
}

pub(super) use log_lines;

/// For clients without callbacks of their own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain;

log_lines!(Plain);

impl ConsumerContext for Plain {}

/// For the client that asks: whoever gets no answer is told what went wrong.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    trouble: Mutex<Option<Trouble>>,
}

#[derive(Debug)]
struct Trouble {
    /// The broker is there, and one of the two does not take the other.
    is_refusal: bool,
    reason: String,
}

impl Asking {
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

impl ClientContext for Asking {
    /// That a broker hangs up at the first request, as where it expects TLS, is told by such a line alone.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == "FAIL" {
            self.note(false, message.split_once("]: ").map_or(message, |(_thread, rest)| rest));
        }
        match level {
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {}
            _ => log(level, facility, message),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        complain(&error, reason);
        match error.rdkafka_error_code() {
            // It says less than why each of them is.
            Some(RDKafkaErrorCode::AllBrokersDown) => {}
            Some(RDKafkaErrorCode::SSL | RDKafkaErrorCode::Authentication) => self.note(true, reason),
            _ => self.note(false, reason),
        }
    }
}

impl ConsumerContext for Asking {}

pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
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
pub(crate) fn complain(error: &KafkaError, reason: &str) {
    tracing::warn!(%error, reason, "Kafka is in trouble");
}
