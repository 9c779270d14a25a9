//! The topics: made with the settings that the protocol needs, and checked for them.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::config::{KafkaConfig, MAX_MESSAGE_BYTES};
use super::connection::{ANSWER, Connection, number};
use super::context::Plain;
use crate::{Error, Topic};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Commands are kept at least this long.
const COMMANDS_MS: i64 = 14 * DAY_MS;

/// A setting of a topic: what it is made with, and what is good enough.
struct Rule {
    setting: &'static str,
    made: String,
    wanted: Wanted,
}

enum Wanted {
    Exactly,
    AtLeast(i64),
    /// -1 is without end.
    AtLeastOrForEver(i64),
    /// The site may have it otherwise.
    Anything,
}

impl Rule {
    fn exactly(setting: &'static str, value: &str) -> Self {
        Self { setting, made: value.to_owned(), wanted: Wanted::Exactly }
    }

    fn holds(&self, found: &str) -> bool {
        let number = found.parse::<i64>();
        match self.wanted {
            Wanted::Exactly => found == self.made,
            Wanted::AtLeast(least) => number.is_ok_and(|number| number >= least),
            Wanted::AtLeastOrForEver(least) => number.is_ok_and(|number| number == -1 || number >= least),
            Wanted::Anything => true,
        }
    }

    fn wanted(&self) -> String {
        match self.wanted {
            Wanted::Exactly | Wanted::Anything => self.made.clone(),
            Wanted::AtLeast(least) => format!("at least {least}"),
            Wanted::AtLeastOrForEver(least) => format!("-1 or at least {least}"),
        }
    }
}

fn rules(topic: Topic, single_broker: bool) -> Vec<Rule> {
    let size = MAX_MESSAGE_BYTES.cast_signed();
    let replicas = if single_broker { 1 } else { 2 };
    let mut rules = vec![
        Rule::exactly("unclean.leader.election.enable", "false"),
        Rule { setting: "max.message.bytes", made: size.to_string(), wanted: Wanted::AtLeast(size) },
        Rule {
            setting: "min.insync.replicas",
            made: replicas.to_string(),
            wanted: Wanted::AtLeast(replicas),
        },
    ];
    let kept =
        |days: i64, wanted| Rule { setting: "retention.ms", made: (days * DAY_MS).to_string(), wanted };
    match topic {
        Topic::Commands => {
            rules.push(Rule::exactly("cleanup.policy", "delete"));
            rules.push(kept(14, Wanted::AtLeastOrForEver(COMMANDS_MS)));
        }
        Topic::Journal => {
            rules.push(Rule::exactly("cleanup.policy", "delete"));
            rules.push(Rule::exactly("retention.ms", "-1"));
            rules.push(Rule::exactly("retention.bytes", "-1"));
        }
        Topic::Work => rules.push(kept(7, Wanted::Anything)),
        Topic::Replies => rules.push(kept(1, Wanted::Anything)),
        Topic::Events | Topic::DeadLetters => {}
    }
    if topic != Topic::Events {
        rules.push(Rule::exactly("message.timestamp.type", "LogAppendTime"));
    }
    rules
}

pub(crate) fn create(config: &KafkaConfig) -> Result<Vec<String>, Error> {
    let connection = Connection::open(config)?;
    // The first to be asked, for it says why brokers do not answer.
    connection.describe(&config.topic_name(Topic::Commands))?;
    let admin = admin(config)?;
    let names = Topic::ALL.map(|topic| (config.topic_name(topic), rules(topic, config.single_broker)));
    let topics: Vec<NewTopic<'_>> =
        names.iter().map(|(name, rules)| new_topic(config, name, rules)).collect();
    let options = AdminOptions::new().request_timeout(Some(ANSWER)).operation_timeout(Some(ANSWER));
    let results = wait(admin.create_topics(&topics, &options))
        .map_err(|error| Error::open("make the topics", error))?;
    let mut made = Vec::new();
    for result in results {
        match result {
            Ok(name) => made.push(name),
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, code)) => {
                return Err(Error::open(format!("make the topic {name}"), KafkaError::AdminOp(code)));
            }
        }
    }
    await_leaders(&connection)?;
    Ok(made)
}

fn new_topic<'a>(config: &KafkaConfig, name: &'a str, rules: &'a [Rule]) -> NewTopic<'a> {
    let replication = TopicReplication::Fixed(if config.single_broker { 1 } else { 3 });
    let topic = NewTopic::new(name, number(config.partitions), replication);
    rules.iter().fold(topic, |topic, rule| topic.set(rule.setting, &rule.made))
}

pub(crate) fn admin(config: &KafkaConfig) -> Result<AdminClient<Plain>, Error> {
    config
        .admin()
        .create_with_context(Plain::new(config))
        .map_err(|error| Error::open("make a Kafka client", error))
}

/// A topic just made takes a moment until the brokers agree on who leads its partitions.
fn await_leaders(connection: &Connection) -> Result<(), Error> {
    let end = Instant::now() + ANSWER;
    for topic in Topic::ALL {
        loop {
            match described(connection, topic) {
                Ok(partitions) if partitions.iter().all(|partition| partition.led) => break,
                Err(error) if Instant::now() >= end => return Err(error),
                Ok(_) if Instant::now() >= end => {
                    return Err(Error::open(
                        format!("use the topic {}", connection.config.topic_name(topic)),
                        "some of its partitions have no leader",
                    ));
                }
                // Waits for what the brokers have to say, for a moment.
                Ok(_) | Err(_) => drop(connection.asker().poll(std::time::Duration::from_millis(20))),
            }
        }
    }
    Ok(())
}

struct Partition {
    replicas: usize,
    led: bool,
}

fn described(connection: &Connection, topic: Topic) -> Result<Vec<Partition>, Error> {
    let name = connection.config.topic_name(topic);
    let metadata = connection.describe(&name)?;
    let found = metadata.topics().iter().find(|found| found.name() == name && found.error().is_none());
    let partitions = found.map(rdkafka::metadata::MetadataTopic::partitions).unwrap_or_default();
    if partitions.is_empty() {
        return Err(Error::NoSuchTopic { topic: name });
    }
    let partition = |partition: &rdkafka::metadata::MetadataPartition| Partition {
        replicas: partition.replicas().len(),
        led: partition.leader() >= 0,
    };
    Ok(partitions.iter().map(partition).collect())
}

/// Gives the number of partitions by topic.
pub(crate) fn check(connection: &Connection) -> Result<[u32; Topic::ALL.len()], Error> {
    let config = &connection.config;
    let mut counts = [0; Topic::ALL.len()];
    for topic in Topic::ALL {
        let partitions = described(connection, topic)?;
        let found = u32::try_from(partitions.len()).expect("partitions are numbered in 31 bits");
        if matches!(topic, Topic::Commands | Topic::Journal) && found != config.partitions {
            return Err(Error::PartitionCount { topic, found, wanted: config.partitions });
        }
        counts[topic.index()] = found;
        let replicas = partitions.iter().map(|partition| partition.replicas).min().unwrap_or_default();
        if !config.single_broker && replicas < 3 {
            return Err(Error::TopicSetting {
                topic: config.topic_name(topic),
                setting: "replication factor",
                found: replicas.to_string(),
                wanted:
                    "at least 3 (or set single_broker = true, and accept that a broken disk loses records)"
                        .to_owned(),
            });
        }
    }
    check_settings(config)?;
    Ok(counts)
}

fn check_settings(config: &KafkaConfig) -> Result<(), Error> {
    let names = Topic::ALL.map(|topic| config.topic_name(topic));
    let asked: Vec<ResourceSpecifier<'_>> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    let options = AdminOptions::new().request_timeout(Some(ANSWER));
    let failed = |error| Error::open("ask for the settings of the topics", error);
    let found = wait(admin(config)?.describe_configs(&asked, &options)).map_err(failed)?;
    // Answers come in the order of the questions.
    for ((topic, name), found) in Topic::ALL.into_iter().zip(names).zip(found) {
        let found = found.map_err(|code| failed(KafkaError::AdminOp(code)))?;
        for rule in rules(topic, config.single_broker) {
            let value = value(&found, rule.setting);
            if !rule.holds(&value) {
                let (setting, wanted) = (rule.setting, rule.wanted());
                return Err(Error::TopicSetting { topic: name, setting, found: value, wanted });
            }
        }
    }
    Ok(())
}

fn value(found: &ConfigResource, setting: &str) -> String {
    let entry = found.entries.iter().find(|entry| entry.name == setting);
    entry.and_then(|entry| entry.value.clone()).unwrap_or_else(|| "not set".to_owned())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
