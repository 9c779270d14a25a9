//! One configuration, the client that asks for offsets and metadata, and what is made from both.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;

use super::config::KafkaConfig;
use super::context::{Asking, Listens as _, serve};
use super::ends::Ends;
use super::producer::KafkaProducer;
use super::reader::KafkaReader;
use super::watch::Stalls;
use crate::{Error, From, Topic};

/// How long a broker may take to answer a question.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// What a client is told of a partition that is not there, or that its picture of the cluster lacks.
const UNKNOWN: [RDKafkaErrorCode; 3] = [
    RDKafkaErrorCode::UnknownPartition,
    RDKafkaErrorCode::UnknownTopic,
    RDKafkaErrorCode::UnknownTopicOrPartition,
];
/// What it is told of one that is just being made or moved.
const MOVED: [RDKafkaErrorCode; 2] =
    [RDKafkaErrorCode::NotLeaderForPartition, RDKafkaErrorCode::LeaderNotAvailable];
/// How often, and with which pauses, an unknown one is asked for again with a new picture.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// So many events of a client are looked at for why nobody answers.
const EVENTS: usize = 100;

pub(crate) struct Connection {
    pub(crate) config: KafkaConfig,
    /// Reads nothing; asks.
    asker: Arc<BaseConsumer<Asking>>,
    /// Partitions by topic, in the order of [`Topic::ALL`]; known once the topics were checked.
    pub(crate) counts: [u32; Topic::ALL.len()],
    /// Of the readers made here.
    pub(crate) stalls: Arc<Stalls>,
    pub(crate) ends: Arc<Ends>,
}

impl Connection {
    pub(crate) fn open(config: &KafkaConfig) -> Result<Self, Error> {
        config.check_extra()?;
        let mut client = config.reader();
        // Without this it does not say all that `Asking` has to know.
        client.set_log_level(RDKafkaLogLevel::Info);
        let asker = client.create_with_context(Asking::new(config));
        let asker = asker.map_err(|error: KafkaError| Error::open("make a Kafka client", error))?;
        let asker = Arc::new(asker);
        let ends = Arc::new(Ends::start(Arc::clone(&asker))?);
        let counts = [0; Topic::ALL.len()];
        Ok(Self { config: config.clone(), asker, counts, stalls: Arc::default(), ends })
    }

    /// The client for a question. Serves its events first, for it is never read from.
    pub(crate) fn asker(&self) -> &BaseConsumer<Asking> {
        serve(&self.asker, |_| ());
        &self.asker
    }

    /// What the brokers say of a topic. Where none answers, why not: the client tries again until the time is over.
    pub(crate) fn describe(&self, name: &str) -> Result<Metadata, Error> {
        let asker = self.asker();
        asker.fetch_metadata(Some(name), ANSWER).map_err(|error| {
            // Only now, for nobody serves them while the question waits; each poll ends with one of them.
            (0..EVENTS).take_while(|_| asker.poll(PAUSE).is_some()).for_each(drop);
            let what = format!("ask {} for the topic {name}", self.config.brokers);
            match asker.context().trouble() {
                Some(trouble) => Error::open(what, format!("{trouble}{}", self.other_port(&trouble))),
                None => Error::open(what, error),
            }
        })
    }

    /// A broker whose port is asked in the other way hangs up at the first bytes; so does one that is overloaded.
    fn other_port(&self, trouble: &str) -> &'static str {
        match self.config.security.tls {
            None if trouble.contains("state APIVERSION_QUERY") => {
                "; where its port is encrypted, the security protocol has to be ssl or sasl_ssl"
            }
            Some(_) if trouble.contains("Disconnected") && trouble.contains("state SSL_HANDSHAKE") => {
                "; where its port is not encrypted, the security protocol has to be plaintext or sasl_plaintext"
            }
            _ => "",
        }
    }

    pub(crate) fn producer(&self) -> Result<KafkaProducer, Error> {
        KafkaProducer::start(&self.config, self.counts)
    }

    pub(crate) fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<KafkaReader, Error> {
        let next = from.within(topic, partition, self.range(topic, partition)?)?;
        KafkaReader::start(self, topic, partition, next)
    }

    pub(crate) fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        topic.check_partition(partition, self.counts[topic.index()])?;
        let range = watermarks(self.asker(), &self.config.topic_name(topic), partition);
        let range = range.inspect_err(|error| self.asker.context().said().note(error));
        range.map_err(Error::range(topic, partition))
    }
}

/// Asks the broker. The client looks up in its cache who leads the partition; what the cache does not know, or was
/// told by a broker that had just begun, is asked anew, and who leads is waited for as long as for an answer.
pub(crate) fn watermarks<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    name: &str,
    partition: u32,
) -> Result<Range<u64>, KafkaError> {
    let ask = || client.fetch_watermarks(name, number(partition), ANSWER);
    let end = Instant::now() + ANSWER;
    let mut answer = ask();
    let mut tries = 0;
    while let Err(error) = &answer {
        let is_of =
            |codes: &[RDKafkaErrorCode]| error.rdkafka_error_code().is_some_and(|code| codes.contains(&code));
        if !(is_of(&UNKNOWN) && tries < TRIES || is_of(&MOVED) && Instant::now() < end) {
            break;
        }
        tries += 1;
        client.fetch_metadata(Some(name), ANSWER)?;
        std::thread::sleep(PAUSE);
        answer = ask();
    }
    let (low, high) = answer?;
    Ok(offset(low)..offset(high))
}

pub(crate) fn number(partition: u32) -> i32 {
    i32::try_from(partition).expect("a partition that exists has a number of 31 bits")
}

fn offset(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
    use rdkafka::bindings::rd_kafka_resp_err_t as Code;
    use rdkafka::client::DefaultClientContext;
    use rdkafka::mocking::MockCluster;
    use rdkafka::types::RDKafkaApiKey;

    use super::super::topics::wait;
    use super::*;
    use crate::LogId;

    /// A broker that has just begun may say that there is no such partition. What it says later counts.
    #[test]
    fn partition_that_was_not_there_is_found_as_soon_as_it_is() {
        let brokers = std::env::var("TIDEMILL_TEST_KAFKA").expect("TIDEMILL_TEST_KAFKA names a broker");
        let config = KafkaConfig::new(brokers);
        let admin: AdminClient<DefaultClientContext> = config.admin().create().unwrap();
        let connection = Connection::open(&config).unwrap();
        let name = format!("test-{}", LogId::random());
        let topic = NewTopic::new(&name, 1, TopicReplication::Fixed(1));
        wait(admin.create_topics([&topic], &AdminOptions::new())).unwrap();
        assert_eq!(watermarks(connection.asker(), &name, 0).unwrap(), 0..0);
        watermarks(connection.asker(), &name, 1).unwrap_err();
        wait(admin.create_partitions([&NewPartitions::new(&name, 2)], &AdminOptions::new())).unwrap();
        // The broker tells its own metadata a moment later.
        let since = Instant::now();
        while let Err(error) = watermarks(connection.asker(), &name, 1) {
            assert!(since.elapsed() < ANSWER, "{error:?}");
            std::thread::yield_now();
        }
        wait(admin.delete_topics(&[&name], &AdminOptions::new())).unwrap();
    }

    /// A broker with much else to do takes a while to say who leads a partition that was just made.
    #[test]
    fn leader_that_is_not_told_yet_is_waited_for() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("made", 1, 1).unwrap();
        let connection = Connection::open(&KafkaConfig::new(cluster.bootstrap_servers())).unwrap();
        let later = [Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; 20];
        cluster.request_errors(RDKafkaApiKey::ListOffsets, &later);
        assert_eq!(watermarks(connection.asker(), "made", 0).unwrap(), 0..0);
    }
}
