//! The role that publishes the feed: every public fact of the journal to the topic `events`, same partition.
//!
//! It stores no position of its own: the topic is the position. Records are appended in windows, each waited
//! for, so what is missing after a crash lies within the last two windows. At start these are read back; what
//! the journal has and they lack is appended. So nothing is lost; a record may be there twice when its outcome
//! was unknown, and then has the same id. An event may then also stand after one that follows it: the id,
//! `offset-index`, tells the true order.
//!
//! Internal events are read and left out. Neither end of the comparison has them, so they are never missing; a start
//! reads those behind the last published event once more.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidemill_journal::event::source_of;
use tidemill_journal::{CloudEvent, Journal, Keepers, Progress, Session, Shutdown, Start, cloud_events};
use tidemill_log::{AppendError, From, Log, Producer, Topic};

use crate::Error;

/// How the feed is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PublishConfig {
    /// Events appended before any outcome is waited for. Default 500; range 1 to 10,000. After a crash up to
    /// twice as many are read back. It must not shrink between two runs.
    pub window: usize,
}

impl Default for PublishConfig {
    fn default() -> Self {
        Self { window: 500 }
    }
}

const LOOK_AROUND: Duration = Duration::from_millis(500);
const READ_BACK: Duration = Duration::from_secs(30);
const OUTCOME: Duration = Duration::from_secs(60);
const HOLDER: &str = "the feed's records";

/// Publishes every partition until shutdown. A broker that is away is waited for.
///
/// # Errors
/// The first partition's error that no waiting fixes; the other partitions go on until shutdown.
pub fn publish(
    config: &PublishConfig,
    log: &Arc<dyn Log>,
    progress: &Progress,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    let mut keepers = Keepers::new(shutdown);
    for partition in 0..log.partitions(Topic::Journal) {
        let publisher = Publisher {
            window: config.window.max(1),
            partition,
            log: Arc::clone(log),
            progress: progress.clone(),
            shutdown: shutdown.clone(),
        };
        keepers
            .start(format!("publisher-{partition}"), publisher)
            .map_err(|source| Error::Thread { partition, source })?;
    }
    keepers.join()
}

/// Identity of an event within a partition.
type Id = (u64, u32);

struct Publisher {
    window: usize,
    partition: u32,
    log: Arc<dyn Log>,
    progress: Progress,
    shutdown: Shutdown,
}

impl Session for Publisher {
    type Error = Error;

    /// Publishes until shutdown (`Ok`) or an error; after that, what the topic lacks is found out again.
    fn run(&mut self, worked: &mut bool) -> Result<(), Error> {
        let (mut known, is_whole) = self.read_back()?;
        // Before the first of them nothing is missing; but where they are all, the very first may be.
        let first = known.first_key_value().map(|(id, _)| *id).filter(|_| !is_whole);
        let start = first.map_or(Start::Beginning, |(offset, _)| Start::At(offset));
        let mut journal = Journal::open(&*self.log, self.partition, HOLDER, start)?;
        self.shutdown.wakes(journal.waker());
        let producer = self.log.producer().map_err(Error::journal(self.partition))?;
        // What an earlier session failed to append comes first and alone, so that it never falls behind by more
        // than what is read back.
        let mut alone = 1;
        while !self.shutdown.is_requested() {
            let read = journal.poll(64, LOOK_AROUND)?;
            let mut due = Vec::new();
            for entry in &read.entries {
                for event in cloud_events(&entry.log_id, self.partition, entry.offset, 0, &entry.envelope) {
                    let id = (event.offset, event.index);
                    if first.is_some_and(|first| id < first) {
                        continue;
                    }
                    match known.remove(&id) {
                        Some(published) => self.compare(&event, &published)?,
                        None => due.push(event),
                    }
                }
            }
            let (first_due, rest) = due.split_at(alone.min(due.len()));
            alone -= first_due.len();
            self.append(&*producer, first_due)?;
            for window in rest.chunks(self.window) {
                self.append(&*producer, window)?;
            }
            *worked = true;
            if let Some(last) = read.last {
                self.progress.change(self.partition, |it| {
                    it.projected = Some(last);
                    it.void_records += read.voids;
                    it.error = None;
                });
            }
        }
        Ok(())
    }

    fn failed(&mut self, error: &Error, reason: &str) -> bool {
        self.progress.change(self.partition, |it| it.error = Some(reason.to_owned()));
        error.is_outage()
    }

    fn tell_held_up(&self, reason: &str) {
        let partition = self.partition;
        tracing::warn!(partition, reason, "publishing partition {partition} is held up: {reason}");
    }

    fn tell_stopped(&self, reason: &str) {
        let partition = self.partition;
        tracing::error!(partition, reason, "partition {partition} is not published any more: {reason}");
    }
}

impl Publisher {
    /// Appends and waits for every outcome. The first failure ends the session: the records after it may be
    /// there or not, and the next session looks.
    fn append(&self, producer: &dyn Producer, window: &[CloudEvent]) -> Result<(), Error> {
        let (outcomes, told) = mpsc::sync_channel(window.len().max(1));
        for event in window {
            let outcomes = outcomes.clone();
            let done = move |outcome: Result<u64, AppendError>| {
                // Nobody listens any more where an earlier record of the window failed.
                let _ = outcomes.send(outcome.err());
            };
            let (key, json) = (event.key.as_bytes(), event.json.clone());
            producer.append(Topic::Events, self.partition, key, json, Box::new(done));
        }
        drop(outcomes);
        let deadline = Instant::now() + OUTCOME;
        for _ in window {
            let left = deadline.saturating_duration_since(Instant::now());
            let outcome = told.recv_timeout(left);
            let outcome =
                outcome.unwrap_or_else(|_| Some(AppendError::Unknown("no outcome in time".to_owned())));
            if let Some(source) = outcome {
                return Err(Error::Publish { partition: self.partition, source });
            }
        }
        Ok(())
    }

    /// The last two windows of the topic, by id, and whether they are all that was ever published.
    fn read_back(&self) -> Result<(BTreeMap<Id, Value>, bool), Error> {
        let partition = self.partition;
        let range = self.log.range(Topic::Events, partition).map_err(Error::journal(partition))?;
        let back = u64::try_from(self.window * 2).unwrap_or(u64::MAX);
        let first = range.end.saturating_sub(back).max(range.start);
        let mut known = BTreeMap::new();
        if first == range.end {
            return Ok((known, first == 0));
        }
        let reader = self.log.reader(Topic::Events, partition, From::Offset(first));
        let mut reader = reader.map_err(Error::journal(partition))?;
        let (mut next, deadline) = (first, Instant::now() + READ_BACK);
        while next < range.end {
            let left = deadline.saturating_duration_since(Instant::now());
            let records = reader.poll(self.window, left).map_err(Error::journal(partition))?;
            if records.is_empty() && (left.is_zero() || self.shutdown.is_requested()) {
                let source = AppendError::Unknown("the end of the feed could not be read in time".to_owned());
                return Err(Error::Publish { partition, source });
            }
            for record in records {
                next = record.offset + 1;
                let (id, event) = self.parse(record.offset, &record.value)?;
                known.insert(id, event);
            }
        }
        Ok((known, first == 0))
    }

    fn parse(&self, offset: u64, record: &[u8]) -> Result<(Id, Value), Error> {
        let foreign = |reason: &str| Error::ForeignFeed {
            partition: self.partition,
            offset,
            reason: reason.to_owned(),
        };
        let event: Value = serde_json::from_slice(record).map_err(|_| foreign("it is not JSON"))?;
        let id = event["id"].as_str().and_then(|id| id.split_once('-'));
        let id = id.and_then(|(offset, index)| Some((offset.parse().ok()?, index.parse().ok()?)));
        let id: Id = id.ok_or_else(|| foreign("its id is not offset-index"))?;
        if event["source"] != *source_of(self.log.log_id_at(self.partition, id.0), self.partition) {
            return Err(foreign("its source is another log or partition"));
        }
        Ok((id, event))
    }

    /// What stands in the topic has to be what the journal says (rule 11).
    fn compare(&self, event: &CloudEvent, published: &Value) -> Result<(), Error> {
        let mine: Value = serde_json::from_slice(&event.json).expect("it was made from JSON just now");
        let same = ["type", "subject", "time", "data"].iter().all(|name| mine[name] == published[name]);
        if same {
            return Ok(());
        }
        Err(Error::Journal(tidemill_journal::Error::PositionMismatch {
            holder: HOLDER,
            partition: self.partition,
            offset: event.offset,
            found: format!("the journal has another event {} there", event.index),
        }))
    }
}
