//! Carrying out effects: appends to the work, replies, commands and dead-letters topics, and replies by line. All of them can be
//! said again, so a failed one is only noted; the owner then repeats what is outstanding. One that no log takes, for it
//! is too large, would be repeated for ever: it is set aside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use tidemill_engine::Effect;
use tidemill_log::{AppendError, From, Log, MAX_RECORD_BYTES, NewRecord, Producer, Topic};
use tidemill_model::{Actor, Command, CommandRecord, Json as _, ShardId, seal_parts, text_or_hex};

use crate::lines::Lines;

/// What stands on the dead-letters topic.
#[derive(Debug, Serialize)]
struct DeadLetter<'a> {
    topic: &'a str,
    partition: u32,
    /// Of the record; absent: it was never in the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    reason: &'a str,
    /// The raw record, as text where it is text, else in hexadecimal; of one that was never in the topic its beginning.
    record: String,
}

/// So much of a record that was never in its topic is kept, bytes.
const EXCERPT_BYTES: usize = 16 * 1024;

pub(crate) struct Effects {
    log: Arc<dyn Log>,
    lines: Lines,
    producer: Arc<dyn Producer>,
    partition: u32,
    lost: Arc<AtomicBool>,
    /// What goes together.
    waiting: Vec<NewRecord>,
}

impl Effects {
    pub(crate) fn new(log: Arc<dyn Log>, lines: Lines, partition: u32) -> Result<Self, tidemill_log::Error> {
        let producer = log.producer()?;
        let lost = Arc::new(AtomicBool::new(false));
        Ok(Self { log, lines, producer, partition, lost, waiting: Vec::new() })
    }

    /// Whether some effect may not have reached the log. If so, a new producer takes over: the old one may
    /// never recover.
    pub(crate) fn begin_again_if_lost(&mut self) -> bool {
        if !self.lost.load(Ordering::Acquire) {
            return false;
        }
        match self.log.producer() {
            Ok(producer) => {
                // What the old one still tells goes to the old flag.
                self.lost = Arc::new(AtomicBool::new(false));
                self.producer = producer;
            }
            Err(error) => {
                tracing::warn!(partition = self.partition, %error, "effects keep a producer that failed");
                self.lost.store(false, Ordering::Release);
            }
        }
        true
    }

    /// Goes to the log with the next [`send_off`](Self::send_off), a reply to a caller with a line at once.
    pub(crate) fn act(&mut self, effect: &Effect) {
        match effect {
            Effect::Reply { to, reply } if self.lines.tell(to, reply) => {}
            Effect::Reply { to, reply } => {
                let partition = self.keyed(Topic::Replies, to.as_str());
                self.append(Topic::Replies, partition, to.as_str(), reply.to_json());
            }
            Effect::Work { worker, message } => {
                let partition = self.keyed(Topic::Work, worker.as_str());
                self.append(Topic::Work, partition, worker.as_str(), message.to_json());
            }
            Effect::Send { shard, command } => self.send(*shard, command),
            Effect::Underivable { of, reason } => self.underivable(of, reason),
            Effect::DeadLetter { offset, reason } => self.dead_letter(*offset, reason),
        }
    }

    /// Appends what has come together.
    pub(crate) fn send_off(&mut self) {
        if !self.waiting.is_empty() {
            self.producer.append_all(std::mem::take(&mut self.waiting));
        }
    }

    fn send(&mut self, shard: ShardId, command: &Command) {
        let record = CommandRecord {
            shard,
            request: None,
            reply_to: None,
            actor: Actor { app: "owner".into(), user: None },
            command: command.clone(),
        };
        let partition = shard.partition(self.log.partitions(Topic::Commands));
        self.append(Topic::Commands, partition, &shard.to_string(), record.to_json());
    }

    fn dead_letter(&mut self, offset: u64, reason: &str) {
        let read = self
            .log
            .reader(Topic::Commands, self.partition, From::Offset(offset))
            .and_then(|mut reader| reader.poll(1, Duration::from_secs(5)));
        let raw = read.ok().and_then(|records| records.into_iter().next()).map(|record| record.value);
        let raw = raw.unwrap_or_else(|| Vec::new().into());
        // A seal is no part of the text.
        let record = text_or_hex(seal_parts(&raw).0);
        tracing::warn!(partition = self.partition, offset, reason, "a command was set aside on dead-letters");
        let (topic, offset) = (Topic::Commands.name(), Some(offset));
        self.append_letter(&DeadLetter { topic, partition: self.partition, offset, reason, record });
    }

    /// Rule 12: there is no record of it, only what it would have followed from.
    fn underivable(&mut self, of: &str, reason: &str) {
        tracing::error!(
            partition = self.partition,
            of,
            "a message to a worker could not be derived, and was set aside on dead-letters: {reason}"
        );
        let (topic, record) = (Topic::Work.name(), of.to_owned());
        self.append_letter(&DeadLetter { topic, partition: self.partition, offset: None, reason, record });
    }

    fn append_letter(&mut self, letter: &DeadLetter<'_>) {
        let partition = self.partition % self.log.partitions(Topic::DeadLetters);
        let letter = serde_json::to_string(letter).expect("a letter is plain data with string keys");
        self.append(Topic::DeadLetters, partition, &self.partition.to_string(), letter);
    }

    fn keyed(&self, topic: Topic, key: &str) -> u32 {
        tidemill_log::partition_of_key(key, self.log.partitions(topic))
    }

    fn append(&mut self, topic: Topic, partition: u32, key: &str, json: String) {
        let value = json.into_bytes();
        if key.len() + value.len() > MAX_RECORD_BYTES {
            return self.set_aside(topic, partition, &value);
        }
        let lost = Arc::clone(&self.lost);
        let done = Box::new(move |result: Result<u64, _>| match result {
            Ok(_) => {}
            // To say it again would not make it smaller.
            Err(AppendError::TooLarge) => {
                tracing::error!(%topic, partition, "a record was too large for the log's broker and is given up; raise its bound to {MAX_RECORD_BYTES} bytes");
            }
            Err(_) => lost.store(true, Ordering::Release),
        });
        let (key, value) = (key.as_bytes().to_vec(), value.into());
        self.waiting.push(NewRecord { topic, partition, key, value, acted_on: false, done });
    }

    fn set_aside(&mut self, topic: Topic, partition: u32, value: &[u8]) {
        let bytes = value.len();
        let reason = format!("the record takes {bytes} bytes, and the log takes {MAX_RECORD_BYTES}");
        tracing::error!(%topic, partition, bytes, "a record was set aside on dead-letters: {reason}");
        let record = String::from_utf8_lossy(&value[..bytes.min(EXCERPT_BYTES)]).into_owned();
        let topic = topic.name();
        self.append_letter(&DeadLetter { topic, partition, offset: None, reason: &reason, record });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_log::{MemoryLog, Readers as _};
    use tidemill_model::{InstanceId, Outcome, Rejection, Reply, RequestId};

    fn reply(reason: String) -> Effect {
        let outcome = Outcome::Refused(Rejection::DeadLettered { reason });
        let reply = Reply { request: RequestId::new("r"), outcome, partition: 0, offset: 1 };
        Effect::Reply { to: InstanceId::new("i"), reply }
    }

    fn records(log: &MemoryLog, topic: Topic) -> Vec<serde_json::Value> {
        let of_partition = |partition: u32| {
            let mut reader = log.reader(topic, partition, From::Start).unwrap();
            reader.poll(10, Duration::ZERO).unwrap()
        };
        let records = (0..log.partitions(topic)).flat_map(of_partition);
        records.map(|record| serde_json::from_slice(&record.value).unwrap()).collect()
    }

    /// Rule 12: what cannot be derived is told to people, and what else there is to say goes on.
    #[test]
    fn what_cannot_be_derived_is_a_dead_letter() {
        let log = MemoryLog::new(1);
        let mut effects = Effects::new(Arc::new(log.clone()), Lines::default(), 0).unwrap();
        effects.act(&Effect::Underivable {
            of: "start_granted of batch/1".to_owned(),
            reason: "planted".to_owned(),
        });
        effects.act(&reply("short".to_owned()));
        effects.send_off();
        effects.producer.flush(Duration::from_secs(30)).unwrap();
        assert_eq!(records(&log, Topic::Replies).len(), 1);
        let letter = serde_json::json!({
            "topic": "work", "partition": 0, "reason": "planted", "record": "start_granted of batch/1",
        });
        assert_eq!(records(&log, Topic::DeadLetters), [letter]);
    }

    /// EVT-9: what no log takes is said once more to nobody: it is set aside, and what else there is to say goes on.
    #[test]
    fn record_that_is_too_large_is_set_aside_and_not_repeated() {
        let log = MemoryLog::new(1);
        let mut effects = Effects::new(Arc::new(log.clone()), Lines::default(), 0).unwrap();
        effects.act(&reply("x".repeat(MAX_RECORD_BYTES)));
        effects.act(&reply("short".to_owned()));
        effects.send_off();
        effects.producer.flush(Duration::from_secs(30)).unwrap();
        assert!(!effects.begin_again_if_lost());
        assert_eq!(records(&log, Topic::Replies).len(), 1);
        let letters = records(&log, Topic::DeadLetters);
        let [letter] = &letters[..] else { panic!("{letters:?}") };
        assert_eq!(
            (&letter["topic"], &letter["partition"], letter.get("offset")),
            (&"replies".into(), &0.into(), None)
        );
        assert_eq!(letter["record"].as_str().unwrap().len(), EXCERPT_BYTES);
    }
}
