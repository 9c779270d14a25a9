//! How to reach Kafka, and with which settings.

use std::collections::BTreeMap;
use std::fmt;

use rdkafka::ClientConfig;
use serde::{Deserialize, Serialize};

use super::security::KafkaSecurity;
use crate::{Error, QueueBound, Topic};

/// The broker's `max.message.bytes`, and the clients'.
pub(crate) const MAX_MESSAGE_BYTES: u64 = 4 * 1024 * 1024;

/// How the log on Kafka is set up.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// Brokers to begin with, `host:port`, separated by commas.
    pub brokers: String,
    /// What the topics' names begin with. Default `tidemill`: `tidemill.commands` and so on.
    #[serde(default = "prefix")]
    pub prefix: String,
    /// How many partitions the log is made with; never changed later. Default 16.
    #[serde(default = "partitions")]
    pub partitions: u32,
    /// Accepts topics with one replica: what the broker loses, is lost. Default false.
    #[serde(default)]
    pub single_broker: bool,
    /// What one producer may have under way.
    #[serde(default)]
    pub queue: QueueBound,
    /// How the connections to them are protected; never written out.
    #[serde(skip)]
    pub security: KafkaSecurity,
    /// More settings of librdkafka, as for addresses. Those that the protocol fixes are refused.
    #[serde(default)]
    pub extra: BTreeMap<String, String>,
}

/// Without the values of more settings, which may be secrets.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { brokers, prefix, partitions, single_broker, queue, security, extra } = self;
        f.debug_struct("KafkaConfig")
            .field("brokers", brokers)
            .field("prefix", prefix)
            .field("partitions", partitions)
            .field("single_broker", single_broker)
            .field("queue", queue)
            .field("security", security)
            .field("extra", &extra.keys())
            .finish()
    }
}

fn prefix() -> String {
    "tidemill".to_owned()
}

const fn partitions() -> u32 {
    16
}

/// What every client has.
const COMMON: [(&str, &str); 4] = [
    ("socket.nagle.disable", "true"),
    ("message.max.bytes", "4194304"),
    // What a broker that had just begun said of partitions is believed for this long, not for 5 minutes.
    ("topic.metadata.refresh.interval.ms", "10000"),
    // `find_again` does it: librdkafka's own way can stop for ever.
    ("metadata.recovery.strategy", "none"),
];

const PRODUCER: [(&str, &str); 4] = [
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("linger.ms", "0"),
    // After this long the outcome of a record is unknown.
    ("message.timeout.ms", "10000"),
];

const READER: [(&str, &str); 13] = [
    ("check.crcs", "true"),
    ("isolation.level", "read_uncommitted"),
    // An offset that is not there is an error, never a jump.
    ("auto.offset.reset", "error"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("allow.auto.create.topics", "false"),
    // A broker answers as soon as it has a byte; where nothing comes, each reader asks again this seldom. From
    // 1,000 on, its client takes the broker for busy meanwhile.
    ("fetch.min.bytes", "1"),
    ("fetch.wait.max.ms", "900"),
    // A reader that caught up after its queue was full fetches again at once.
    ("fetch.queue.backoff.ms", "2"),
    ("queued.min.messages", "50000"),
    ("queued.max.messages.kbytes", "16384"),
    // Readers are in no group, so no one may find them slow.
    ("max.poll.interval.ms", "86400000"),
    // Not `all brokers down` for each second of an outage.
    ("reconnect.backoff.max.ms", "1000"),
];

const MEMBER: [(&str, &str); 7] = [
    ("session.timeout.ms", "6000"),
    ("heartbeat.interval.ms", "500"),
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("auto.offset.reset", "latest"),
    ("enable.auto.commit", "false"),
    ("allow.auto.create.topics", "false"),
    ("queued.max.messages.kbytes", "1024"),
];

impl KafkaConfig {
    /// A log at these brokers, with all else as by default.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            prefix: prefix(),
            partitions: partitions(),
            single_broker: false,
            queue: QueueBound::default(),
            security: KafkaSecurity::default(),
            extra: BTreeMap::new(),
        }
    }

    /// The topic's name at the broker.
    #[must_use]
    pub fn topic_name(&self, topic: Topic) -> String {
        format!("{}.{}", self.prefix, topic.name())
    }

    fn client(&self, settings: &[(&str, &str)]) -> ClientConfig {
        let mut client = ClientConfig::new();
        for (key, value) in &self.extra {
            client.set(key, value);
        }
        for (key, value) in self.security.settings() {
            client.set(key, value);
        }
        client.set("bootstrap.servers", &self.brokers);
        for (key, value) in COMMON.iter().chain(settings) {
            client.set(*key, *value);
        }
        client
    }

    pub(crate) fn admin(&self) -> ClientConfig {
        self.client(&[])
    }

    /// The producer's own queue is counted by us; librdkafka's is larger, for it counts until all
    /// completions of one answer have run.
    pub(crate) fn producer(&self) -> ClientConfig {
        let mut client = self.client(&PRODUCER);
        let records = self.queue.records.saturating_mul(2).clamp(1000, 10_000_000);
        let kilobytes = (self.queue.bytes / 512).clamp(16 * 1024, 2_097_151);
        client.set("queue.buffering.max.messages", records.to_string());
        client.set("queue.buffering.max.kbytes", kilobytes.to_string());
        client
    }

    pub(crate) fn reader(&self) -> ClientConfig {
        let mut client = self.client(&READER);
        // A name is asked for, although `assign` joins no group.
        client.set("group.id", format!("{}.readers", self.prefix));
        client
    }

    pub(crate) fn member(&self, group: &str, member: &str) -> ClientConfig {
        let mut client = self.client(&MEMBER);
        client.set("group.id", format!("{}.{group}", self.prefix));
        client.set("client.id", member);
        client
    }

    /// A member of the group that reads what others write: from the first record on, where it has none done.
    pub(crate) fn intake(&self, member: &str) -> ClientConfig {
        let mut client = self.member("intake", member);
        client.set("auto.offset.reset", "earliest");
        client
    }

    /// Settings that would break the protocol are refused rather than overruled in silence.
    pub(crate) fn check_extra(&self) -> Result<(), Error> {
        let fixed = COMMON.iter().chain(&PRODUCER).chain(&READER).chain(&MEMBER).map(|(key, _)| *key);
        let aliases = ["request.required.acks", "queue.buffering.max.ms", "delivery.timeout.ms"];
        let ours = ["bootstrap.servers", "metadata.broker.list", "group.id", "transactional.id"];
        let queue = ["queue.buffering.max.messages", "queue.buffering.max.kbytes"];
        let mut fixed = fixed.chain(aliases).chain(ours).chain(queue);
        match fixed.find(|key| self.extra.contains_key(*key)) {
            None => Ok(()),
            Some(key) => Err(Error::open(
                format!("use the Kafka setting {key} from the configuration"),
                "the protocol fixes it; remove it",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_that_the_protocol_fixes_is_refused_and_others_pass() {
        let mut config = KafkaConfig::new("localhost:9092");
        config.extra.insert("ssl.key.password".to_owned(), "sesame".to_owned());
        assert!(config.check_extra().is_ok());
        assert_eq!(config.producer().get("ssl.key.password"), Some("sesame"));
        assert!(!format!("{config:?}").contains("sesame"));
        config.extra.insert("acks".to_owned(), "1".to_owned());
        let text = config.check_extra().unwrap_err().to_string();
        assert_eq!(text, "cannot use the Kafka setting acks from the configuration");
        assert_eq!(config.producer().get("acks"), Some("all"));
    }
}
