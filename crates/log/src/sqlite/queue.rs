//! What the producers hand to the writer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::archived::Release;
use super::durability::is_synced;
use super::trim::Trim;
use super::{Shared, is_durable};
use crate::in_flight::{InFlight, Pending};
use crate::port::Done;
use crate::signal::lock;
use crate::{AppendError, Error, NewRecord, Payload, Producer, Topic, clock};

/// The most that one transaction takes.
const GROUP_RECORDS: usize = 16_384;
const GROUP_BYTES: usize = 16 << 20;

pub(crate) enum Item {
    /// To be stored.
    Append { lane: usize, key: Vec<u8>, value: Payload, synced: bool, pending: Pending },
    /// Old records to be forgotten.
    Trim(Trim),
    /// Archived records to be removed, in a transaction of its own.
    Release(Release),
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Append { key, value, .. } => key.len() + value.len(),
            Self::Trim(_) | Self::Release(_) => 0,
        }
    }
}

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    writer_idle: bool,
    ended: Option<String>,
}

/// All producers' appends, in one order.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

impl Queue {
    /// Takes nothing more; the writer stores what is there, then ends.
    pub(crate) fn end(&self, reason: &str) {
        lock(&self.waiting).ended.get_or_insert_with(|| reason.to_owned());
        self.filled.notify_all();
    }

    /// Queues all of them, so that the writer finds them together. Gives them back, with the reason, if the log has
    /// ended.
    pub(crate) fn push(&self, items: Vec<Item>) -> Result<(), (String, Vec<Item>)> {
        let mut waiting = lock(&self.waiting);
        if let Some(reason) = waiting.ended.clone() {
            return Err((reason, items));
        }
        waiting.items.extend(items);
        if !waiting.items.is_empty() && std::mem::take(&mut waiting.writer_idle) {
            drop(waiting);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Why nothing is taken any more.
    fn ended(&self) -> Option<String> {
        lock(&self.waiting).ended.clone()
    }

    /// The next group; waits for one until `until`, then gives an empty one. `None` when the log has ended and nothing is
    /// left.
    pub(crate) fn take(&self, until: Option<Instant>) -> Option<Vec<Item>> {
        let mut waiting = lock(&self.waiting);
        while waiting.items.is_empty() {
            if waiting.ended.is_some() {
                return None;
            }
            waiting.writer_idle = true;
            waiting = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => {
                    waiting.writer_idle = false;
                    return Some(Vec::new());
                }
                Some(left) => {
                    self.filled.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let mut bytes = 0;
        let mut group = Vec::with_capacity(waiting.items.len().min(GROUP_RECORDS));
        while group.len() < GROUP_RECORDS && bytes < GROUP_BYTES {
            let Some(item) = waiting.items.pop_front() else { break };
            bytes += item.bytes();
            group.push(item);
        }
        Some(group)
    }

    /// Everything that is left, without waiting.
    pub(crate) fn take_rest(&self) -> VecDeque<Item> {
        std::mem::take(&mut lock(&self.waiting).items)
    }
}

/// Records that are only in memory, by lane.
type Volatile = BTreeMap<usize, Vec<(Vec<u8>, Payload, Done)>>;

pub(crate) struct SqliteProducer {
    shared: Arc<Shared>,
    in_flight: Arc<InFlight>,
}

impl SqliteProducer {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), in_flight: InFlight::new(shared.bound) }
    }

    /// What is left for the writer to do; nothing, where the outcome is told already, or the record is only for the memory.
    fn prepare(&self, record: NewRecord, volatile: &mut Volatile) -> Option<Item> {
        let NewRecord { topic, partition, key, value, acted_on, done } = record;
        if topic.is_too_large(&key, &value) {
            done(Err(AppendError::TooLarge));
            return None;
        }
        let lane = match self.shared.lane_index(topic, partition) {
            Ok(lane) => lane,
            Err(error) => {
                done(Err(AppendError::Refused(error.to_string())));
                return None;
            }
        };
        if is_durable(topic) {
            let pending = self.in_flight.enter(key.len() + value.len(), done)?;
            let synced = is_synced(topic) || acted_on && !planted!(QuestionNotSynced);
            return Some(Item::Append { lane, key, value, synced, pending });
        }
        volatile.entry(lane).or_default().push((key, value, done));
        None
    }

    /// Visible at once: there is nothing to wait for. The readers of a lane are told once.
    fn push(&self, volatile: Volatile) {
        for (lane, records) in volatile {
            let (records, outcomes): (Vec<_>, Vec<_>) =
                records.into_iter().map(|(key, value, done)| ((key, value), done)).unzip();
            let first = match self.shared.queue.ended() {
                Some(reason) => Err(AppendError::Refused(reason)),
                None => Ok(self.shared.lanes[lane].push_all(clock::now_ms(), records)),
            };
            for (done, number) in outcomes.into_iter().zip(0..) {
                done(first.clone().map(|first| first + number));
            }
        }
    }
}

impl Producer for SqliteProducer {
    fn append(&self, topic: Topic, partition: u32, key: &[u8], value: Vec<u8>, done: Done) {
        let (key, value) = (key.to_vec(), value.into());
        self.append_all(vec![NewRecord { topic, partition, key, value, acted_on: false, done }]);
    }

    fn append_all(&self, records: Vec<NewRecord>) {
        let mut volatile = Volatile::new();
        let items = records.into_iter().filter_map(|record| self.prepare(record, &mut volatile)).collect();
        self.push(volatile);
        let Err((reason, items)) = self.shared.queue.push(items) else { return };
        for item in items {
            if let Item::Append { pending, .. } = item {
                pending.finish(Err(AppendError::Refused(reason.clone())));
            }
        }
    }

    fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.in_flight.flush(timeout)
    }
}
