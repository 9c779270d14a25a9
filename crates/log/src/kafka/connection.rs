//! One configuration, the client that asks for offsets and metadata, and what is made from both.

use std::ops::Range;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;

use super::config::KafkaConfig;
use super::context::Plain;
use super::producer::KafkaProducer;
use super::reader::KafkaReader;
use crate::{Error, From, Topic};

/// How long a broker may take to answer a question.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

pub(crate) struct Connection {
    pub(crate) config: KafkaConfig,
    /// Reads nothing; asks.
    pub(crate) asker: BaseConsumer<Plain>,
    /// Partitions by topic, in the order of [`Topic::ALL`]; known once the topics were checked.
    pub(crate) counts: [u32; Topic::ALL.len()],
}

impl Connection {
    pub(crate) fn open(config: &KafkaConfig) -> Result<Self, Error> {
        config.check_extra()?;
        let asker = config.reader().create_with_context(Plain);
        let asker = asker.map_err(|error: KafkaError| Error::open("make a Kafka client", error))?;
        Ok(Self { config: config.clone(), asker, counts: [0; Topic::ALL.len()] })
    }

    pub(crate) fn producer(&self) -> Result<KafkaProducer, Error> {
        KafkaProducer::start(&self.config, self.counts)
    }

    pub(crate) fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<KafkaReader, Error> {
        let range = self.range(topic, partition)?;
        let next = match from {
            From::Start => range.start,
            From::End => range.end,
            From::Offset(wanted) if (range.start..=range.end).contains(&wanted) => wanted,
            From::Offset(wanted) => {
                let (low, high) = (range.start, range.end);
                return Err(Error::OffsetOutOfRange { topic, partition, wanted, low, high });
            }
        };
        KafkaReader::start(&self.config, topic, partition, next)
    }

    pub(crate) fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        let count = self.counts[topic.index()];
        if partition >= count {
            return Err(Error::NoSuchPartition { topic, partition, count });
        }
        let range = watermarks(&self.asker, &self.config.topic_name(topic), partition);
        // Serves the events of a client that is never read from.
        while self.asker.poll(Duration::ZERO).is_some() {}
        range.map_err(|error| Error::Range { topic, partition, source: error.into() })
    }
}

/// Asks the broker; nothing here comes from a cache.
pub(crate) fn watermarks(
    client: &BaseConsumer<Plain>,
    name: &str,
    partition: u32,
) -> Result<Range<u64>, KafkaError> {
    let (low, high) = client.fetch_watermarks(name, number(partition), ANSWER)?;
    Ok(offset(low)..offset(high))
}

pub(crate) fn number(partition: u32) -> i32 {
    i32::try_from(partition).expect("a partition that exists has a number of 31 bits")
}

fn offset(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or_default()
}
