//! A consumer group that only suggests owners: it subscribes to the commands and reads nothing.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;

use super::config::KafkaConfig;
use super::context::log_lines;
use crate::{Error, Membership, Topic};

/// Whatever is assigned is paused at once.
struct Paused;

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
    /// The group of those who own partitions.
    pub(crate) const OWNERS: &'static str = "owners";

    pub(crate) fn join(config: &KafkaConfig, group: &str, member: &str) -> Result<Self, Error> {
        let consumer: BaseConsumer<Paused> =
            config.member(group, member).create_with_context(Paused).map_err(failed)?;
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
        let assigned = self.consumer.assignment().map_err(failed)?;
        let elements = assigned.elements();
        let mut partitions: Vec<u32> =
            elements.iter().filter_map(|element| u32::try_from(element.partition()).ok()).collect();
        partitions.sort_unstable();
        Ok(partitions)
    }
}
