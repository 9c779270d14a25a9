//! The worker's ends of the log: commands out, work in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crossbeam_channel::Sender;
use tidemill_log::{From, Log, NewRecord, Producer, Reader, Topic, Waker, partition_of_key};
use tidemill_model::{Actor, Command, CommandRecord, Json as _, Level, ShardId, WorkMessage, WorkerId};
use tidemill_seal::SealKey;

use crate::Error;
use crate::thread::Thread;
use crate::worker::{Input, Tag};

const READ_MAX: usize = 2_048;
/// How long one read waits; it can be woken.
const READ_WAIT: Duration = Duration::from_secs(10);
/// Before a reader that failed is rebuilt.
const READ_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct CommandLink {
    producer: Arc<dyn Producer>,
    shard: ShardId,
    partition: u32,
    key: Vec<u8>,
    outcomes: Sender<Input>,
    /// With what is sealed, once an owner has said its key.
    seal: Option<SealKey>,
    /// What goes together.
    waiting: Vec<NewRecord>,
}

impl CommandLink {
    /// What has to be known of the outcomes goes to `outcomes`, which has no bound of its own: there are never
    /// more than the producer has under way.
    pub(crate) fn new(log: &dyn Log, shard: ShardId, outcomes: Sender<Input>) -> Result<Self, Error> {
        let partition = shard.partition(log.partitions(Topic::Commands));
        let key = shard.to_string().into_bytes();
        let (seal, waiting) = (None, Vec::new());
        Ok(Self { producer: log.producer()?, shard, partition, key, outcomes, seal, waiting })
    }

    /// What is appended from here on is sealed with this key.
    pub(crate) fn seal_with(&mut self, key: SealKey) {
        self.seal = Some(key);
    }

    /// Goes to the log with the next [`send_off`](Self::send_off).
    pub(crate) fn append(&mut self, tag: Tag, command: Command) {
        let actor = Actor { app: "worker".into(), user: None };
        let record = CommandRecord { shard: self.shard, request: None, reply_to: None, actor, command };
        let value = record.encoded(Level::FIRST);
        let value = match &self.seal {
            Some(key) => key.seal(value),
            None => value,
        };
        let outcomes = self.outcomes.clone();
        // A process starts on the acknowledgement alone; a lease that a heartbeat lengthened lasts no longer than the log's
        // owner counts it, who begins anew after a power cut.
        let acted_on = matches!(tag, Tag::Asked { .. });
        let done: tidemill_log::Done = match tag {
            // It is said again until it is answered, so its outcome says nothing new.
            Tag::Repeated => Box::new(|_| ()),
            Tag::Alive { .. } | Tag::Asked { .. } => Box::new(move |outcome| {
                if outcome.is_ok() {
                    let _ = outcomes.send(Input::Acknowledged(tag));
                }
            }),
            Tag::Started(_) => Box::new(move |outcome| {
                if outcome.is_err() {
                    let _ = outcomes.send(Input::Failed(tag));
                }
            }),
        };
        let (topic, partition, key) = (Topic::Commands, self.partition, self.key.clone());
        self.waiting.push(NewRecord { topic, partition, key, value: value.into(), acted_on, done });
    }

    /// Appends what has come together, so that the owner finds a start and an end of one turn together.
    pub(crate) fn send_off(&mut self) {
        if !self.waiting.is_empty() {
            self.producer.append_all(std::mem::take(&mut self.waiting));
        }
    }

    /// Waits until the log has all that was appended.
    pub(crate) fn flush(&self) {
        if let Err(error) = self.producer.flush(Duration::from_secs(10)) {
            tracing::warn!(%error, "the last reports may not have reached the log");
        }
    }
}

/// What the thread that reads has to tell.
pub(crate) enum FromWork {
    Messages(Vec<Input>),
    /// The log has failed for good, or says what this version does not know.
    Failed(Error),
}

pub(crate) struct WorkLink {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Thread,
}

impl WorkLink {
    /// Reads from the end on: it has to be made before the worker registers, so that it hears the answer.
    pub(crate) fn start(
        log: Arc<dyn Log>,
        worker: WorkerId,
        inputs: Sender<FromWork>,
    ) -> Result<Self, Error> {
        let partition = partition_of_key(worker.as_str(), log.partitions(Topic::Work));
        let reader = log.reader(Topic::Work, partition, From::End)?;
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), reader.waker());
        let mut reading = Reading { log, partition, worker, inputs, stop: Arc::clone(&stop) };
        let thread = Thread::start("work", "the thread that reads work", move || reading.run(reader))?;
        Ok(Self { stop, waker, thread })
    }

    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.join();
    }
}

struct Reading {
    log: Arc<dyn Log>,
    partition: u32,
    worker: WorkerId,
    inputs: Sender<FromWork>,
    stop: Arc<AtomicBool>,
}

impl Reading {
    fn run(&mut self, mut reader: Box<dyn Reader>) {
        while !self.stop.load(Ordering::Relaxed) {
            let told = match reader.poll(READ_MAX, READ_WAIT) {
                Ok(records) => match self.decode(records) {
                    Ok(messages) => messages,
                    Err(error) => return self.fail(error),
                },
                Err(error @ tidemill_log::Error::Poisoned { .. }) => return self.fail(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "cannot read work; reading anew from the end");
                    match self.begin_again() {
                        Some(new) => reader = new,
                        None => continue,
                    }
                    vec![Input::Missed]
                }
            };
            if !told.is_empty() && self.inputs.send(FromWork::Messages(told)).is_err() {
                return;
            }
        }
    }

    fn begin_again(&self) -> Option<Box<dyn Reader>> {
        sleep(READ_AGAIN);
        let reader = self.log.reader(Topic::Work, self.partition, From::End);
        reader.inspect_err(|error| tracing::warn!(%error, "cannot read work")).ok()
    }

    fn fail(&self, error: Error) {
        let _ = self.inputs.send(FromWork::Failed(error));
    }

    fn decode(&self, records: Vec<tidemill_log::Record>) -> Result<Vec<Input>, Error> {
        let own = records.iter().filter(|record| record.key == self.worker.as_str().as_bytes());
        own.map(|record| {
            let message = WorkMessage::from_json(&record.value);
            message.map(Input::Work).map_err(|source| Error::Message { offset: record.offset, source })
        })
        .collect()
    }
}
