//! The memory log: for tests and the simulator, with faults.
//!
//! It stores what it is given, as a broker does: what the chain does not accept is for readers to void.

mod producer;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use producer::MemoryProducer;

use crate::lane::{Found, Gone, Keep, Lane, LaneReader, lane_index, places};
use crate::signal::lock;
use crate::{
    Error, From, Genesis, Hash, Head, Log, LogId, Membership, Producer, QueueBound, Reader, Readers, Topic,
    Usage, clock,
};

/// A log in this process's memory. A clone is the same log.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    id: LogId,
    partitions: u32,
    queue: QueueBound,
    lanes: Vec<Arc<Lane>>,
    hook: Mutex<Option<FaultHook>>,
    late: Mutex<Vec<Late>>,
    producers: Mutex<u64>,
    clock: Mutex<Clock>,
    suggestions: Mutex<BTreeMap<String, Vec<u32>>>,
}

type Clock = Box<dyn FnMut() -> i64 + Send>;

/// A record that its producer thinks lost.
pub(crate) struct Late {
    lane: Arc<Lane>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl MemoryLog {
    /// A new log; every topic has this many partitions.
    ///
    /// # Panics
    /// When `partitions` is 0.
    #[must_use]
    pub fn new(partitions: u32) -> Self {
        Self::with_queue(partitions, QueueBound::default())
    }

    /// A new log whose producers have this bound.
    ///
    /// # Panics
    /// When `partitions` is 0.
    #[must_use]
    pub fn with_queue(partitions: u32, queue: QueueBound) -> Self {
        assert!(partitions > 0, "a log has at least one partition");
        let id = LogId::random();
        let lane = |(topic, partition)| Lane::new(topic, partition, Keep::ALL, 0);
        let lanes: Vec<_> = places(partitions).map(lane).collect();
        for lane in lanes.iter().filter(|lane| lane.topic == Topic::Journal) {
            let genesis = Genesis { log_id: id.clone(), partition: lane.partition, count: partitions };
            lane.push(clock::now_ms(), Vec::new(), genesis.record().into());
        }
        let shared = Shared {
            id,
            partitions,
            queue,
            lanes,
            hook: Mutex::default(),
            late: Mutex::default(),
            producers: Mutex::default(),
            clock: Mutex::new(Box::new(clock::now_ms)),
            suggestions: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// From now on the hook decides what befalls an append.
    pub fn set_faults(&self, hook: impl FnMut(&Append<'_>) -> Fault + Send + 'static) {
        *lock(&self.shared.hook) = Some(Box::new(hook));
    }

    /// From now on records carry this time, in milliseconds since 1970, instead of the wall clock's.
    pub fn set_clock(&self, clock: impl FnMut() -> i64 + Send + 'static) {
        *lock(&self.shared.clock) = Box::new(clock);
    }

    /// Lands the records of [`Fault::LandLate`], in their order; gives how many there were.
    pub fn land_late(&self) -> usize {
        let late = std::mem::take(&mut *lock(&self.shared.late));
        let count = late.len();
        for Late { lane, key, value } in late {
            lane.push(self.shared.now_ms(), key, value.into());
        }
        count
    }

    /// What is suggested to a member from now on. Nobody asked: all partitions, to every member.
    pub fn suggest(&self, member: &str, partitions: Vec<u32>) {
        lock(&self.shared.suggestions).insert(member.to_owned(), partitions);
    }
}

impl Shared {
    fn lane(&self, topic: Topic, partition: u32) -> Result<&Arc<Lane>, Error> {
        Ok(&self.lanes[lane_index(topic, partition, self.partitions)?])
    }

    fn now_ms(&self) -> i64 {
        lock(&self.clock)()
    }

    fn fault(&self, append: &Append<'_>) -> Fault {
        lock(&self.hook).as_mut().map_or(Fault::None, |hook| hook(append))
    }
}

impl Readers for MemoryLog {
    fn log_id(&self) -> &LogId {
        &self.shared.id
    }

    fn partitions(&self, _: Topic) -> u32 {
        self.shared.partitions
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let lane = self.shared.lane(topic, partition)?;
        let next = from.within(topic, partition, lane.range()?)?;
        Ok(Box::new(LaneReader::new(lane, next, Gone)))
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.shared.lane(topic, partition)?.range()
    }
}

impl Log for MemoryLog {
    fn keeps_acknowledged(&self) -> bool {
        true
    }

    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        let number = {
            let mut producers = lock(&self.shared.producers);
            *producers += 1;
            *producers
        };
        Ok(Arc::new(MemoryProducer::start(&self.shared, number)?))
    }

    fn membership(&self, member: &str) -> Result<Box<dyn Membership>, Error> {
        Ok(Box::new(Suggested { shared: Arc::clone(&self.shared), member: member.to_owned() }))
    }

    fn release_archived(&self, below: u64, head: &Head) -> Result<(), Error> {
        let lane = self.shared.lane(Topic::Journal, head.partition)?;
        let found = match lane.find(head.offset, 1)? {
            Found::Records(records) => records.first().map(|record| Hash::of(&record.value)),
            // Void records alone came after it.
            Found::Older(_) => Some(head.hash),
            Found::AtEnd => None,
        };
        if found != Some(head.hash) {
            return Err(Error::HeadMismatch { partition: head.partition, offset: head.offset });
        }
        lane.forget(below);
        Ok(())
    }

    fn usage(&self) -> Result<Usage, Error> {
        let bytes = self.shared.lanes.iter().map(|lane| lane.bytes()).sum();
        Ok(Usage { bytes: Some(bytes), ..Usage::default() })
    }
}

struct Suggested {
    shared: Arc<Shared>,
    member: String,
}

impl Membership for Suggested {
    fn suggested(&mut self, _: Duration) -> Result<Vec<u32>, Error> {
        let suggestions = lock(&self.shared.suggestions);
        let all = || (0..self.shared.partitions).collect();
        Ok(suggestions.get(&self.member).cloned().unwrap_or_else(all))
    }
}

/// An append as the fault hook sees it, just before it lands.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// Which producer: 1 is the first that the log made.
    pub producer: u64,
    /// Where to.
    pub topic: Topic,
    /// Where to.
    pub partition: u32,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// What befalls an append.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing: it lands and is acknowledged.
    None,
    /// It, and all that its producer appends after it, waits until the gate is open, then lands.
    Delay(Gate),
    /// It does not land, and the outcome is told to be unknown.
    DropUnknown,
    /// It lands, and the outcome is told to be unknown.
    LandUnknown,
    /// The outcome is told to be unknown; it lands when [`land_late`](MemoryLog::land_late) is called.
    LandLate,
}

/// Decides what befalls each append; called on the producers' threads.
pub type FaultHook = Box<dyn FnMut(&Append<'_>) -> Fault + Send>;

/// Shut at first; once open it stays open. A clone is the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets all through.
    pub fn open(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open.
    pub fn pass(&self) {
        let mut open = lock(&self.0.0);
        while !*open {
            open = self.0.1.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
