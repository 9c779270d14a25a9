//! A topic that others write, read by a consumer group; the brokers keep how far it is.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::config::KafkaConfig;
use super::connection::number;
use super::context::Plain;
use crate::{Error, Intake, Taken};

pub(crate) struct Subscribed {
    topic: String,
    consumer: BaseConsumer<Plain>,
}

impl Subscribed {
    pub(crate) fn join(config: &KafkaConfig, topic: &str, member: &str) -> Result<Self, Error> {
        let failed = |error: KafkaError| Error::open(format!("read the topic {topic}"), error);
        let consumer: BaseConsumer<Plain> =
            config.intake(member).create_with_context(Plain).map_err(failed)?;
        consumer.subscribe(&[topic]).map_err(failed)?;
        Ok(Self { topic: topic.to_owned(), consumer })
    }

    fn failed(&self, error: KafkaError) -> Error {
        Error::Intake { topic: self.topic.clone(), source: error.into() }
    }
}

impl Intake for Subscribed {
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Taken>, Error> {
        let end = Instant::now() + timeout;
        let mut taken = Vec::new();
        while taken.len() < max_records {
            // The first is waited for; whatever else is there comes with it.
            let wait =
                if taken.is_empty() { end.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => taken.push(Taken {
                    partition: u32::try_from(message.partition()).unwrap_or_default(),
                    offset: u64::try_from(message.offset()).unwrap_or_default(),
                    value: message.payload().unwrap_or_default().to_vec(),
                }),
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => return Err(self.failed(error)),
                Some(Err(error)) => {
                    tracing::warn!(%error, topic = self.topic, "the topic cannot be read at the moment");
                }
            }
        }
        Ok(taken)
    }

    fn done(&mut self, partition: u32, below: u64) -> Result<(), Error> {
        let mut offsets = TopicPartitionList::with_capacity(1);
        let offset = Offset::Offset(i64::try_from(below).unwrap_or(i64::MAX));
        offsets
            .add_partition_offset(&self.topic, number(partition), offset)
            .map_err(|error| self.failed(error))?;
        self.consumer.commit(&offsets, CommitMode::Sync).map_err(|error| self.failed(error))
    }
}
