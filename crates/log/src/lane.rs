//! One partition as far as it is in this process's memory: all of it, a ring of the newest, or a tail that
//! spares readers the way to the disk.
//!
//! ```text
//!   on disk or gone          in memory
//!  ──────────────────┬──────────────────────┐
//!  low               first            next
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::signal::{Heard, Signal, deadline, lock};
use crate::{Error, Payload, Reader, Record, Topic, Waker};

/// How much of a partition stays in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
}

impl Keep {
    pub(crate) const ALL: Self = Self { records: usize::MAX, bytes: usize::MAX };
}

struct Recent {
    next: u64,
    bytes: usize,
    records: VecDeque<Record>,
    readers: Vec<Weak<Signal>>,
    failed: Option<String>,
}

impl Recent {
    fn first(&self) -> u64 {
        self.records.front().map_or(self.next, |record| record.offset)
    }
}

/// Where the lane of a partition stands, among those of all topics that have `count` each.
pub(crate) fn lane_index(topic: Topic, partition: u32, count: u32) -> Result<usize, Error> {
    topic.check_partition(partition, count)?;
    let wide = |number: u32| usize::try_from(number).expect("a partition number fits a usize");
    Ok(topic.index() * wide(count) + wide(partition))
}

/// The places of all lanes, in their order.
pub(crate) fn places(count: u32) -> impl Iterator<Item = (Topic, u32)> {
    Topic::ALL.into_iter().flat_map(move |topic| (0..count).map(move |partition| (topic, partition)))
}

pub(crate) struct Lane {
    pub(crate) topic: Topic,
    pub(crate) partition: u32,
    keep: Keep,
    recent: Mutex<Recent>,
}

/// What the memory has at an offset.
pub(crate) enum Found {
    Records(Vec<Record>),
    /// Not in memory any more; memory begins at this offset.
    Older(u64),
    AtEnd,
}

impl Lane {
    /// A lane whose next record gets the offset `next`.
    pub(crate) fn new(topic: Topic, partition: u32, keep: Keep, next: u64) -> Arc<Self> {
        let recent = Recent { next, bytes: 0, records: VecDeque::new(), readers: Vec::new(), failed: None };
        Arc::new(Self { topic, partition, keep, recent: Mutex::new(recent) })
    }

    /// First offset in memory, and the one that comes next.
    pub(crate) fn range(&self) -> Result<std::ops::Range<u64>, Error> {
        let recent = lock(&self.recent);
        healthy(&recent)?;
        Ok(recent.first()..recent.next)
    }

    /// Makes a record visible at the next offset, which it returns.
    pub(crate) fn push(&self, timestamp_ms: i64, key: Vec<u8>, value: Payload) -> u64 {
        self.push_all(timestamp_ms, [(key, value)])
    }

    /// Makes records visible together, at the next offsets, of which it returns the first.
    pub(crate) fn push_all(
        &self,
        timestamp_ms: i64,
        records: impl IntoIterator<Item = (Vec<u8>, Payload)>,
    ) -> u64 {
        let mut recent = lock(&self.recent);
        let first = recent.next;
        for (key, value) in records {
            let offset = recent.next;
            self.store(&mut recent, Record { offset, timestamp_ms, key, value });
        }
        tell(&mut recent);
        first
    }

    /// Makes records visible; they carry the offsets that come next.
    pub(crate) fn extend(&self, records: impl Iterator<Item = Record>) {
        let mut recent = lock(&self.recent);
        for record in records {
            assert_eq!(record.offset, recent.next, "offsets are dense");
            self.store(&mut recent, record);
        }
        tell(&mut recent);
    }

    fn store(&self, recent: &mut Recent, record: Record) {
        recent.next += 1;
        recent.bytes += size(&record);
        recent.records.push_back(record);
        while recent.records.len() > self.keep.records || recent.bytes > self.keep.bytes {
            let Some(oldest) = recent.records.pop_front() else { break };
            recent.bytes -= size(&oldest);
        }
    }

    /// The offset that comes next, whether or not the log has failed.
    pub(crate) fn next(&self) -> u64 {
        lock(&self.recent).next
    }

    pub(crate) fn find(&self, from: u64, max_records: usize) -> Result<Found, Error> {
        let recent = lock(&self.recent);
        healthy(&recent)?;
        if from >= recent.next {
            return Ok(Found::AtEnd);
        }
        let Some(skip) = from.checked_sub(recent.first()) else {
            return Ok(Found::Older(recent.first()));
        };
        let skip = usize::try_from(skip).expect("it is less than the number of records in memory");
        Ok(Found::Records(recent.records.iter().skip(skip).take(max_records).cloned().collect()))
    }

    /// Lets go of what is before this offset, but never of the last record.
    pub(crate) fn forget(&self, below: u64) {
        let mut recent = lock(&self.recent);
        while recent.records.len() > 1 && recent.first() < below {
            let Some(oldest) = recent.records.pop_front() else { break };
            recent.bytes -= size(&oldest);
        }
    }

    pub(crate) fn subscribe(&self, signal: &Arc<Signal>) {
        lock(&self.recent).readers.push(Arc::downgrade(signal));
    }

    /// From now on every call fails, and whoever waits hears of it.
    pub(crate) fn fail(&self, reason: &str) {
        let mut recent = lock(&self.recent);
        recent.failed.get_or_insert_with(|| reason.to_owned());
        tell(&mut recent);
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(lock(&self.recent).bytes).unwrap_or(u64::MAX)
    }

    pub(crate) fn out_of_range(&self, wanted: u64, range: std::ops::Range<u64>) -> Error {
        let (topic, partition) = (self.topic, self.partition);
        Error::OffsetOutOfRange { topic, partition, wanted, low: range.start, high: range.end }
    }
}

fn healthy(recent: &Recent) -> Result<(), Error> {
    recent.failed.as_ref().map_or(Ok(()), |reason| Err(Error::Poisoned { reason: reason.clone() }))
}

fn tell(recent: &mut Recent) {
    recent.readers.retain(|reader| reader.upgrade().inspect(|signal| signal.news()).is_some());
}

fn size(record: &Record) -> usize {
    record.key.len() + record.value.unpacked_bytes()
}

/// Where records come from that are not in memory any more.
pub(crate) trait Older: Send {
    /// At least one record from `from` on, below `end`.
    fn read(&mut self, lane: &Lane, from: u64, end: u64, max_records: usize) -> Result<Vec<Record>, Error>;
}

/// Older records are gone.
pub(crate) struct Gone;

impl Older for Gone {
    fn read(&mut self, lane: &Lane, from: u64, _: u64, _: usize) -> Result<Vec<Record>, Error> {
        Err(lane.out_of_range(from, lane.range()?))
    }
}

pub(crate) struct LaneReader<O> {
    lane: Arc<Lane>,
    next: u64,
    signal: Arc<Signal>,
    older: O,
}

impl<O: Older> LaneReader<O> {
    pub(crate) fn new(lane: &Arc<Lane>, next: u64, older: O) -> Self {
        let signal = Arc::new(Signal::default());
        lane.subscribe(&signal);
        Self { lane: Arc::clone(lane), next, signal, older }
    }

    fn read(&mut self, max_records: usize) -> Result<Vec<Record>, Error> {
        match self.lane.find(self.next, max_records)? {
            Found::Records(records) => Ok(records),
            Found::Older(end) => self.older.read(&self.lane, self.next, end, max_records),
            Found::AtEnd => Ok(Vec::new()),
        }
    }
}

impl<O: Older> Reader for LaneReader<O> {
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        let end = deadline(timeout);
        loop {
            let records = self.read(max_records.max(1))?;
            if let Some(last) = records.last() {
                self.next = last.offset + 1;
                return Ok(records);
            }
            if self.signal.wait(end) != Heard::News {
                return Ok(Vec::new());
            }
        }
    }

    fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.signal))
    }
}
