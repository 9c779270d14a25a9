//! What librdkafka says, in our log lines.

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;

/// For clients without callbacks of their own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain;

impl ClientContext for Plain {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        complain(&error, reason);
    }
}

impl ConsumerContext for Plain {}

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
