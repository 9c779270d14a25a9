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

/// With one record in it.
fn begun() -> (Cluster, KafkaProducer) {
    let (cluster, producer) = cluster();
    assert_eq!(append(&producer), Ok(0));
    (cluster, producer)
}

fn start(producer: &KafkaProducer) -> Receiver<Result<u64, AppendError>> {
    let (told, outcome) = mpsc::channel();
    let done = Box::new(move |result| told.send(result).unwrap());
    producer.append(Topic::Journal, 0, b"", b"x".to_vec(), done);
    outcome
}

#[track_caller]
fn assert_unknown(outcome: &Result<u64, AppendError>) {
    assert!(matches!(outcome, Err(AppendError::Unknown(_))), "{outcome:?}");
}

/// A repeat that the broker recognises is a success, but nobody knows at which offset.
#[test]
fn success_without_an_offset_is_unknown() {
    let (cluster, producer) = begun();
    cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER]);
    assert_unknown(&append(&producer));
}

/// An earlier attempt of the same record may have landed.
#[test]
fn error_of_the_broker_is_unknown() {
    let (cluster, producer) = begun();
    cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    assert_unknown(&append(&producer));
}

#[test]
fn record_over_the_brokers_bound_is_too_large() {
    let (cluster, producer) = begun();
    cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    assert_eq!(append(&producer), Err(AppendError::TooLarge));
}

#[test]
fn broker_that_is_away_for_longer_than_the_bound_leaves_the_outcome_unknown() {
    let (cluster, producer) = begun();
    cluster.broker_down(1).unwrap();
    assert_unknown(&append(&producer));
}

/// Not after ten seconds: the owner goes on to claim again.
#[test]
fn dropped_producer_leaves_the_outcome_unknown_at_once() {
    let (cluster, producer) = begun();
    cluster.broker_down(1).unwrap();
    let outcome = start(&producer);
    assert!(matches!(producer.flush(Duration::ZERO), Err(Error::FlushTimeout { .. })));
    drop(producer);
    assert_unknown(&outcome.recv_timeout(Duration::from_secs(5)).unwrap());
}

/// The owner may let go of its producer where it hears that the outcome is unknown.
#[test]
fn completion_may_drop_its_producer() {
    let (cluster, producer) = begun();
    let producer = Arc::new(producer);
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
    assert_unknown(&outcome.recv_timeout(PATIENCE).unwrap());
}

/// Order and offsets are those of the appends, however many come at once.
#[test]
fn order_is_kept_however_many_come_at_once() {
    let (cluster, producer) = cluster();
    cluster.broker_round_trip_time(1, Duration::from_millis(10)).unwrap();
    let (told, outcomes) = mpsc::channel();
    for number in 0..3_000_u64 {
        let told = told.clone();
        let done = Box::new(move |result| told.send((number, result)).unwrap());
        producer.append(Topic::Journal, 0, b"", vec![b'x'; 300], done);
        // One at a time, then many, then one at a time again.
        if number % 1_000 < 10 {
            producer.flush(PATIENCE).unwrap();
        }
    }
    producer.flush(PATIENCE).unwrap();
    drop(told);
    let outcomes: Vec<_> = outcomes.iter().collect();
    let expected: Vec<_> = (0..3_000).map(|number| (number, Ok(number))).collect();
    assert_eq!(outcomes, expected);
}

/// Each lane is the place that it was made of.
#[test]
fn partition_of_each_topic_has_a_lane_of_its_own() {
    let config = KafkaConfig::new("127.0.0.1:1");
    let mut counts = [0; Topic::ALL.len()];
    (counts[Topic::Commands.index()], counts[Topic::Work.index()]) = (2, 3);
    let feed = Feed::make(&config, counts).unwrap();
    let places =
        [(Topic::Commands, 0), (Topic::Commands, 1), (Topic::Work, 0), (Topic::Work, 1), (Topic::Work, 2)];
    let mut lanes = Vec::new();
    for (topic, partition) in places {
        let lane = feed.lane(topic, partition);
        assert_eq!(feed.place(lane), (config.topic_name(topic).as_str(), number(partition)));
        lanes.push(lane);
    }
    lanes.sort_unstable();
    assert_eq!(lanes, [0, 1, 2, 3, 4]);
}

/// What waits for the broker behind others has the same outcome as they.
#[test]
fn dropped_producer_tells_those_who_wait_behind_others() {
    let (cluster, producer) = begun();
    cluster.broker_down(1).unwrap();
    let outcomes: Vec<_> = (0..100).map(|_| start(&producer)).collect();
    drop(producer);
    for outcome in outcomes {
        assert_unknown(&outcome.recv_timeout(PATIENCE).unwrap());
    }
}

/// Those of the same request have no offset either. Those that wait are not sent: not ten seconds for the first, and
/// ten more for them.
#[test]
fn what_follows_an_unknown_outcome_is_told_with_it() {
    let (cluster, producer) = begun();
    cluster.broker_round_trip_time(1, Duration::from_millis(100)).unwrap();
    cluster.request_errors(RDKafkaApiKey::Produce, &[Code::RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER]);
    let outcomes: Vec<_> = (0..10).map(|_| start(&producer)).collect();
    for outcome in outcomes {
        assert_unknown(&outcome.recv_timeout(PATIENCE).unwrap());
    }
    let next = append(&producer).unwrap();
    assert!((1..=4).contains(&next), "those that waited were not sent: {next}");
}
