//! The log on Kafka does what every log does, against the broker that `TIDEMILL_TEST_KAFKA` names.

#[cfg(feature = "kafka-tls")]
mod encrypted;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::conformance::fixture::{Fixture, PARTITIONS, PATIENCE, append};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use tidemill_log::{Error, KafkaConfig, KafkaLog, Log, LogId, QueueBound, Readers, Topic};

/// Topics of one test; they go when this is dropped.
struct Topics(KafkaConfig);

impl Topics {
    fn make() -> Self {
        let brokers = std::env::var("TIDEMILL_TEST_KAFKA").expect(
            "TIDEMILL_TEST_KAFKA names no broker (host:port): start one with `deploy/dev/services start kafka`",
        );
        let config = KafkaConfig {
            prefix: format!("test-{}", LogId::random()),
            partitions: PARTITIONS,
            single_broker: true,
            ..KafkaConfig::new(brokers)
        };
        assert_eq!(KafkaLog::create_topics(&config).unwrap().len(), Topic::ALL.len());
        Self(config)
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", &self.0.brokers).create().unwrap()
    }

    /// Changes one setting. The broker takes only the whole set, so the others are asked for first.
    fn set(&self, topic: Topic, setting: &str, value: &str) {
        let name = self.0.topic_name(topic);
        let (resource, options) = (ResourceSpecifier::Topic(&name), AdminOptions::new());
        let found = wait(self.admin().describe_configs([&resource], &options)).unwrap();
        let found = found.into_iter().next().unwrap().unwrap();
        let mut change = AlterConfig::new(resource);
        for entry in found.entries.iter().filter(|entry| !entry.is_default && entry.name != setting) {
            change = change.set(&entry.name, entry.value.as_deref().unwrap());
        }
        let results = wait(self.admin().alter_configs([&change.set(setting, value)], &options)).unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

impl Drop for Topics {
    fn drop(&mut self) {
        let names = Topic::ALL.map(|topic| self.0.topic_name(topic));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // What is left behind harms no other test.
        let _ = wait(self.admin().delete_topics(&names, &AdminOptions::new()));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn kafka(queue: QueueBound) -> Fixture {
    let topics = Topics::make();
    let config = KafkaConfig { queue, ..topics.0.clone() };
    Fixture { log: Arc::new(KafkaLog::open(&config).unwrap()), _ground: Box::new(topics) }
}

suite!(kafka);

#[test]
fn log_opened_again_is_the_same_log() {
    let topics = Topics::make();
    let first = KafkaLog::open(&topics.0).unwrap();
    append(first.producer().unwrap().as_ref(), Topic::Commands, 0, "x").unwrap();
    let again = KafkaLog::open(&topics.0).unwrap();
    assert_eq!(again.log_id(), first.log_id());
    assert_eq!(again.range(Topic::Commands, 0).unwrap(), 0..1);
    assert_eq!(again.range(Topic::Journal, 2).unwrap(), 0..1, "one genesis");
}

#[test]
fn log_opened_by_several_at_once_has_one_id() {
    let topics = Topics::make();
    let ids: Vec<LogId> = thread::scope(|scope| {
        let open = || KafkaLog::open(&topics.0).unwrap().log_id().clone();
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    for partition in 0..PARTITIONS {
        let log = Arc::new(KafkaLog::open(&topics.0).unwrap());
        let fixture = Fixture { log, _ground: Box::new(()) };
        assert_eq!(fixture.head(partition).log_id, ids[0]);
    }
}

/// Whoever opens a log whose journal was deleted must not begin a new one: all commands would be decided again.
#[test]
fn lost_journal_is_not_begun_anew() {
    let topics = Topics::make();
    let log = KafkaLog::open(&topics.0).unwrap();
    append(log.producer().unwrap().as_ref(), Topic::Commands, 1, "x").unwrap();
    drop(log);
    let journal = topics.0.topic_name(Topic::Journal);
    let deleted = wait(topics.admin().delete_topics(&[&journal], &AdminOptions::new())).unwrap();
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    // The broker deletes it in its own time, and until then takes none of its name.
    let since = Instant::now();
    while KafkaLog::create_topics(&topics.0).map_or(true, |made| made.is_empty()) {
        assert!(since.elapsed() < PATIENCE, "the topic cannot be made again");
        thread::yield_now();
    }
    let refused = KafkaLog::open(&topics.0).err().expect("a lost journal is told");
    assert!(matches!(refused, Error::ForeignJournal { partition: 1, .. }), "{refused:?}");
    let again = KafkaLog::open(&topics.0).err().expect("nothing was written");
    assert!(matches!(again, Error::ForeignJournal { partition: 1, .. }), "{again:?}");
}

#[test]
fn topics_are_made_once() {
    let topics = Topics::make();
    assert_eq!(KafkaLog::create_topics(&topics.0).unwrap(), Vec::<String>::new());
}

#[test]
fn missing_topic_is_named() {
    let topics = Topics::make();
    let config = KafkaConfig { prefix: "test-nothing".to_owned(), ..topics.0.clone() };
    let error = KafkaLog::open(&config).err();
    assert!(
        matches!(&error, Some(Error::NoSuchTopic { topic }) if topic == "test-nothing.commands"),
        "{error:?}"
    );
}

#[test]
fn other_partition_count_is_refused() {
    let topics = Topics::make();
    let config = KafkaConfig { partitions: PARTITIONS + 1, ..topics.0.clone() };
    let error = KafkaLog::open(&config).err();
    assert!(matches!(error, Some(Error::PartitionCount { found: PARTITIONS, .. })), "{error:?}");
}

#[test]
fn single_replica_needs_a_word() {
    let topics = Topics::make();
    let config = KafkaConfig { single_broker: false, ..topics.0.clone() };
    let text = KafkaLog::open(&config).err().unwrap().to_string();
    assert!(text.contains("replication factor is 1, but has to be at least 3"), "{text}");
}

#[test]
fn setting_that_loses_records_is_refused() {
    let bad = [
        (Topic::Journal, "retention.ms", "3600000", "has to be -1"),
        (Topic::Journal, "cleanup.policy", "compact", "has to be delete"),
        (Topic::Commands, "retention.ms", "3600000", "has to be -1 or at least 1209600000"),
        (Topic::Work, "message.timestamp.type", "CreateTime", "has to be LogAppendTime"),
        (Topic::Journal, "unclean.leader.election.enable", "true", "has to be false"),
        (Topic::Journal, "max.message.bytes", "1000", "has to be at least 4194304"),
    ];
    for (topic, setting, value, wanted) in bad {
        let topics = Topics::make();
        KafkaLog::check_topics(&topics.0).unwrap();
        topics.set(topic, setting, value);
        let end = Instant::now() + PATIENCE;
        // A busy broker takes its time to show what it has been told.
        let refused = loop {
            match KafkaLog::check_topics(&topics.0) {
                Err(refused) => break refused,
                Ok(()) => assert!(Instant::now() < end, "{setting} is not shown as {value}"),
            }
        };
        let text = refused.to_string();
        assert!(text.contains(&format!("{setting} is {value}")) && text.contains(wanted), "{text}");
    }
}

/// A producer's number that is not asked for comes after half a second or a whole one.
#[test]
fn first_append_does_not_wait_for_the_half_second_of_the_client() {
    let topics = Topics::make();
    let log = KafkaLog::open(&topics.0).unwrap();
    let took = [(); 4].map(|()| {
        let begun = Instant::now();
        append(log.producer().unwrap().as_ref(), Topic::Commands, 0, "x").unwrap();
        begun.elapsed()
    });
    assert!(took.iter().any(|took| *took < Duration::from_millis(450)), "{took:?}");
}

#[test]
fn broker_that_does_not_answer_is_named() {
    let config = KafkaConfig::new("127.0.0.1:9");
    let text = KafkaLog::open(&config).err().unwrap().to_string();
    assert!(text.contains("127.0.0.1:9"), "{text}");
}

/// Both have to be asked all the time: that is what keeps them in the group.
#[test]
fn members_share_the_partitions_and_who_is_left_gets_all() {
    let topics = Topics::make();
    let log = KafkaLog::open(&topics.0).unwrap();
    let [mut one, mut other] = ["one", "other"].map(|member| log.membership(member).unwrap());
    let all: Vec<u32> = (0..PARTITIONS).collect();
    let end = Instant::now() + PATIENCE;
    let step = Duration::from_millis(50);
    loop {
        let [ones, others] = [one.suggested(step).unwrap(), other.suggested(step).unwrap()];
        let mut both = [ones.clone(), others.clone()].concat();
        both.sort_unstable();
        if both == all && !ones.is_empty() && !others.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "{ones:?} and {others:?}");
    }
    drop(other);
    while one.suggested(step).unwrap() != all {
        assert!(Instant::now() < end, "who is left did not get all");
    }
}

/// A role that divides its work does so beside the owners, and takes no partition from them.
#[test]
fn peers_of_a_role_share_the_partitions_beside_the_owners() {
    let topics = Topics::make();
    let log = KafkaLog::open(&topics.0).unwrap();
    let mut owner = log.membership("owner").unwrap();
    let mut peers = ["one", "other"].map(|member| log.peers("test", member).unwrap());
    let all: Vec<u32> = (0..PARTITIONS).collect();
    let end = Instant::now() + PATIENCE;
    let step = Duration::from_millis(50);
    loop {
        let owned = owner.suggested(step).unwrap();
        let shares = peers.each_mut().map(|peer| peer.suggested(step).unwrap());
        let mut both = shares.concat();
        both.sort_unstable();
        if owned == all && both == all && shares.iter().all(|share| !share.is_empty()) {
            break;
        }
        assert!(Instant::now() < end, "the owner has {owned:?}, the peers {shares:?}");
    }
}

/// A topic that others write is read from its first record; what is not done comes again, what is done does not.
#[test]
fn what_others_write_is_read_until_it_is_done() {
    let topics = Topics::make();
    let log = KafkaLog::open(&topics.0).unwrap();
    let topic = topics.0.topic_name(Topic::Events);
    let producer = log.producer().unwrap();
    for value in ["one", "two", "three"] {
        append(&*producer, Topic::Events, 0, value).unwrap();
    }
    let take = |member: &str| {
        let mut intake = log.intake(&topic, member).unwrap();
        let mut taken = Vec::new();
        let end = Instant::now() + PATIENCE;
        while taken.is_empty() {
            assert!(Instant::now() < end, "{member} gets nothing");
            taken = intake.poll(10, Duration::from_millis(100)).unwrap();
        }
        (intake, taken)
    };
    let (mut first, taken) = take("first");
    assert_eq!((taken[0].partition, taken[0].offset, &*taken[0].value), (0, 0, &b"one"[..]));
    first.done(0, 1).unwrap();
    drop(first);
    let (_, taken) = take("second");
    assert_eq!((taken[0].offset, &*taken[0].value), (1, &b"two"[..]));
}
