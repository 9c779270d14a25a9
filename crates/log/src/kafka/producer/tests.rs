//! What a real broker does too seldom: against librdkafka's own mock of one.

use std::sync::mpsc::{self, Receiver};

use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaApiKey;

use super::*;
use crate::append_wait;

const PATIENCE: Duration = Duration::from_secs(30);

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster() -> (Cluster, KafkaProducer) {
    let cluster = MockCluster::new(1).unwrap();
    let config = KafkaConfig::new(cluster.bootstrap_servers());
    cluster.create_topic(&config.topic_name(Topic::Journal), 1, 1).unwrap();
    (cluster, KafkaProducer::start(&config, [1; Topic::ALL.len()]).unwrap())
}

fn append(producer: &KafkaProducer) -> Result<u64, AppendError> {
    append_wait(producer, Topic::Journal, 0, b"", b"x".to_vec(), PATIENCE)
}

fn start(producer: &KafkaProducer) -> Receiver<Result<u64, AppendError>> {
    let (told, outcome) = mpsc::channel();
    let done = Box::new(move |result| told.send(result).unwrap());
    producer.append(Topic::Journal, 0, b"", b"x".to_vec(), done);
    outcome
}

fn unknown(outcome: &Result<u64, AppendError>) -> bool {
    matches!(outcome, Err(AppendError::Unknown(_)))
}

/// A repeat that the broker recognises is a success, but nobody knows at which offset.
#[test]
fn success_without_an_offset_is_unknown() {
    let (cluster, producer) = cluster();
    assert_eq!(append(&producer), Ok(0));
    cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER]);
    let outcome = append(&producer);
    assert!(unknown(&outcome), "{outcome:?}");
}

/// An earlier attempt of the same record may have landed.
#[test]
fn error_of_the_broker_is_unknown() {
    let (cluster, producer) = cluster();
    assert_eq!(append(&producer), Ok(0));
    cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    let outcome = append(&producer);
    assert!(unknown(&outcome), "{outcome:?}");
}

#[test]
fn record_over_the_brokers_bound_is_too_large() {
    let (cluster, producer) = cluster();
    assert_eq!(append(&producer), Ok(0));
    cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    assert_eq!(append(&producer), Err(AppendError::TooLarge));
}

#[test]
fn broker_that_is_away_for_longer_than_the_bound_leaves_the_outcome_unknown() {
    let (cluster, producer) = cluster();
    assert_eq!(append(&producer), Ok(0));
    cluster.broker_down(1).unwrap();
    let outcome = append(&producer);
    assert!(unknown(&outcome), "{outcome:?}");
}

/// Not after ten seconds: the owner goes on to claim again.
#[test]
fn dropped_producer_leaves_the_outcome_unknown_at_once() {
    let (cluster, producer) = cluster();
    assert_eq!(append(&producer), Ok(0));
    cluster.broker_down(1).unwrap();
    let outcome = start(&producer);
    assert!(matches!(producer.flush(Duration::ZERO), Err(Error::FlushTimeout { .. })));
    drop(producer);
    let outcome = outcome.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(unknown(&outcome), "{outcome:?}");
}

/// The owner may let go of its producer where it hears that the outcome is unknown.
#[test]
fn completion_may_drop_its_producer() {
    let (cluster, producer) = cluster();
    let producer = Arc::new(producer);
    assert_eq!(append(&producer), Ok(0));
    cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    let (told, outcome) = mpsc::channel();
    let last = Arc::clone(&producer);
    let (go, may_go) = mpsc::channel::<()>();
    let done = Box::new(move |result| {
        may_go.recv().unwrap();
        drop(last);
        told.send(result).unwrap();
    });
    producer.append(Topic::Journal, 0, b"", b"x".to_vec(), done);
    drop(producer);
    go.send(()).unwrap();
    assert!(unknown(&outcome.recv_timeout(PATIENCE).unwrap()));
}
