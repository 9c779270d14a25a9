//! Consumer groups: one that only suggests owners (it subscribes to the commands and reads nothing), and one that reads a
//! topic that others write; the brokers keep how far that is.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::config::KafkaConfig;
use super::connection::number;
use super::context::{Plain, Said, find_again, log_lines};
use crate::{Error, Intake, Membership, Taken, Topic};

/// Whatever is assigned is paused at once.
struct Paused {
    said: Said,
}

log_lines!(Paused);

impl ConsumerContext for Paused {
    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(assigned) => {
                if let Err(error) = consumer.pause(assigned) {
                    tracing::warn!(%error, "the suggested partitions are read although nobody needs it");
                }
            }
            Rebalance::Revoke(_) => {}
            Rebalance::Error(error) => tracing::warn!(%error, "the suggestion of owners is held up"),
        }
    }
}

pub(crate) struct Group {
    consumer: BaseConsumer<Paused>,
}

impl Group {
    pub(crate) fn join(config: &KafkaConfig, group: &str, member: &str) -> Result<Self, Error> {
        let consumer: BaseConsumer<Paused> = config
            .member(group, member)
            .create_with_context(Paused { said: Said::new(config) })
            .map_err(failed)?;
        consumer.subscribe(&[&config.topic_name(Topic::Commands)]).map_err(failed)?;
        Ok(Self { consumer })
    }
}

fn failed(error: KafkaError) -> Error {
    Error::Membership { source: error.into() }
}

impl Membership for Group {
    fn suggested(&mut self, timeout: Duration) -> Result<Vec<u32>, Error> {
        match self.consumer.poll(timeout) {
            None | Some(Ok(_)) => {}
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                return Err(failed(error));
            }
            Some(Err(error)) => tracing::warn!(%error, "the suggestion of owners is held up"),
        }
        find_again(self.consumer.client());
        let assigned = self.consumer.assignment().map_err(failed)?;
        let elements = assigned.elements();
        let mut partitions: Vec<u32> =
            elements.iter().filter_map(|element| u32::try_from(element.partition()).ok()).collect();
        partitions.sort_unstable();
        Ok(partitions)
    }
}

pub(crate) struct Subscribed {
    topic: String,
    consumer: BaseConsumer<Plain>,
}

impl Subscribed {
    pub(crate) fn join(config: &KafkaConfig, topic: &str, member: &str) -> Result<Self, Error> {
        let failed = |error: KafkaError| Error::open(format!("read the topic {topic}"), error);
        let consumer: BaseConsumer<Plain> =
            config.intake(member).create_with_context(Plain::new(config)).map_err(failed)?;
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
        find_again(self.consumer.client());
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
