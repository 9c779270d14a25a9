//! What the producers hand to the writer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::trim::Trim;
use super::{Shared, is_durable};
use crate::in_flight::{InFlight, Pending};
use crate::port::Done;
use crate::signal::lock;
use crate::{AppendError, Error, Producer, Topic, clock};

/// The most that one transaction takes.
const GROUP_RECORDS: usize = 16_384;
const GROUP_BYTES: usize = 16 << 20;

/// Something for the writer.
pub(crate) enum Item {
    /// To be stored.
    Append { lane: usize, key: Vec<u8>, value: Vec<u8>, pending: Pending },
    /// Visible already (a volatile topic); only its outcome is to be told.
    Notice { offset: u64, pending: Pending },
    /// Old records to be forgotten.
    Trim(Trim),
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Append { key, value, .. } => key.len() + value.len(),
            Self::Notice { .. } | Self::Trim(_) => 0,
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

    /// Queues what `make` gives; it is called in the order of the queue.
    fn push(&self, pending: Pending, make: impl FnOnce(Pending) -> Item) {
        let mut waiting = lock(&self.waiting);
        if let Some(reason) = waiting.ended.clone() {
            drop(waiting);
            return pending.finish(Err(AppendError::Refused(reason)));
        }
        waiting.items.push_back(make(pending));
        if std::mem::take(&mut waiting.writer_idle) {
            drop(waiting);
            self.filled.notify_one();
        }
    }

    /// Queues a trim. Where the log has ended nothing is forgotten.
    pub(crate) fn push_trim(&self, trim: Trim) {
        let mut waiting = lock(&self.waiting);
        if waiting.ended.is_none() {
            waiting.items.push_back(Item::Trim(trim));
            if std::mem::take(&mut waiting.writer_idle) {
                drop(waiting);
                self.filled.notify_one();
            }
        }
    }

    /// The next group; waits for one. `None` when the log has ended and nothing is left.
    pub(crate) fn take(&self) -> Option<Vec<Item>> {
        let mut waiting = lock(&self.waiting);
        while waiting.items.is_empty() {
            if waiting.ended.is_some() {
                return None;
            }
            waiting.writer_idle = true;
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
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

pub(crate) struct SqliteProducer {
    shared: Arc<Shared>,
    in_flight: Arc<InFlight>,
}

impl SqliteProducer {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), in_flight: InFlight::new(shared.bound) }
    }
}

impl Producer for SqliteProducer {
    fn append(&self, topic: Topic, partition: u32, key: &[u8], value: Vec<u8>, done: Done) {
        if topic.is_too_large(key, &value) {
            return done(Err(AppendError::TooLarge));
        }
        let lane = match self.shared.lane_index(topic, partition) {
            Ok(lane) => lane,
            Err(error) => return done(Err(AppendError::Refused(error.to_string()))),
        };
        let Some(pending) = self.in_flight.enter(key.len() + value.len(), done) else { return };
        let key = key.to_vec();
        if is_durable(topic) {
            self.shared.queue.push(pending, |pending| Item::Append { lane, key, value, pending });
        } else {
            // Visible at once, under the queue's lock, so that the order is that of the queue.
            let lane = &self.shared.lanes[lane];
            self.shared.queue.push(pending, |pending| {
                let offset = lane.push(clock::now_ms(), key, value.into());
                Item::Notice { offset, pending }
            });
        }
    }

    fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.in_flight.flush(timeout)
    }
}
