//! The log on Kafka.
//!
//! ```text
//!  append ──► BaseProducer ──► broker ──► BaseConsumer, one per reader ──► poll
//!               │ own thread serves deliveries          │ a callback wakes the reader
//! ```
//! - Partition numbers are always ours; keys are only for people and tools.
//! - No transactions and no fencing by the broker: the chain is the fence.
//! - What is appended while some of the partition are on their way waits for them, and then goes as one lot.
//! - Appends are idempotent within one producer. A timeout, a fatal error, or a success without an offset is
//!   [`Unknown`](crate::AppendError::Unknown); the owner drops the producer and claims again.
//! - The log id is made by whoever opens the log first, as the genesis of the journal's partition 0. Of
//!   several, the first in the log counts, and all read it back.

mod archived;
mod config;
mod connection;
mod context;
mod ends;
mod genesis;
mod membership;
mod producer;
mod reader;
mod security;
mod send_batches;
mod topics;
mod watch;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub use config::KafkaConfig;
pub use security::{KafkaCertificate, KafkaLogin, KafkaMechanism, KafkaSecurity, KafkaTls};

use crate::{
    Error, From, Genesis, Head, Intake, Log, LogId, Membership, Producer, Reader, Readers, Topic, Usage,
};
use connection::Connection;
use membership::{Group, Subscribed};

/// A log on Kafka.
pub struct KafkaLog {
    id: LogId,
    connection: Connection,
}

impl KafkaLog {
    /// Makes the topics that do not exist, with the settings that the protocol needs; gives their names.
    /// Topics that do exist are left as they are: [`KafkaLog::open`] judges them.
    ///
    /// # Errors
    /// The broker does not answer, or does not want to.
    pub fn create_topics(config: &KafkaConfig) -> Result<Vec<String>, Error> {
        topics::create(config)
    }

    /// Checks that all topics exist and have the settings without which records could be lost.
    ///
    /// # Errors
    /// The first that does not: its topic, setting, value, and what it has to be.
    pub fn check_topics(config: &KafkaConfig) -> Result<(), Error> {
        topics::check(&Connection::open(config)?).map(drop)
    }

    /// Opens the log: checks the topics, writes the geneses that are missing, and reads the log id.
    ///
    /// # Errors
    /// As [`KafkaLog::check_topics`]; or a journal does not begin with its genesis.
    pub fn open(config: &KafkaConfig) -> Result<Self, Error> {
        Self::open_archived(config, &|first| Err(Error::JournalBeginsLater { partition: 0, first }))
    }

    /// The same, of a log whose first records may be archived: `origin` gives the genesis of partition 0 where the topic
    /// begins later, with the offset that it is told.
    ///
    /// # Errors
    /// As [`KafkaLog::open`]; `origin`.
    pub fn open_archived(
        config: &KafkaConfig,
        origin: &dyn Fn(u64) -> Result<Genesis, Error>,
    ) -> Result<Self, Error> {
        let mut connection = Connection::open(config)?;
        connection.counts = topics::check(&connection)?;
        let id = genesis::ensure(&connection, origin)?;
        Ok(Self { id, connection })
    }
}

impl Readers for KafkaLog {
    fn log_id(&self) -> &LogId {
        &self.id
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.connection.counts[topic.index()]
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(self.connection.reader(topic, partition, from)?))
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.connection.range(topic, partition)
    }
}

impl Log for KafkaLog {
    fn keeps_acknowledged(&self) -> bool {
        !self.connection.config.single_broker
    }

    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        Ok(Arc::new(self.connection.producer()?))
    }

    fn release_archived(&self, below: u64, head: &Head) -> Result<(), Error> {
        archived::release(&self.connection, &self.id, below, head)
    }

    fn membership(&self, member: &str) -> Result<Box<dyn Membership>, Error> {
        Ok(Box::new(Group::join(&self.connection.config, "owners", member)?))
    }

    fn peers(&self, role: &str, member: &str) -> Result<Box<dyn Membership>, Error> {
        // Another word than for owners and readers: whoever joined theirs would take partitions from them.
        Ok(Box::new(Group::join(&self.connection.config, &format!("peers.{role}"), member)?))
    }

    fn intake(&self, topic: &str, member: &str) -> Result<Box<dyn Intake>, Error> {
        Ok(Box::new(Subscribed::join(&self.connection.config, topic, member)?))
    }

    fn usage(&self) -> Result<Usage, Error> {
        Ok(Usage::default())
    }

    fn stalled_readers(&self) -> BTreeMap<Topic, u64> {
        self.connection.stalls.counts()
    }
}
