//! A log that is watched while it is read: a bar moves, and a signal ends it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use indicatif::ProgressBar;
use tidemill_cli::{Done, Failure};
use tidemill_log::{
    Error, From, Log, LogId, Membership, Producer, Reader, Readers, Record, Restore, Topic, Usage, Waker,
};

use super::super::{replay, stop};

/// What is read of a log to check or copy it.
const READ: [Topic; 2] = [Topic::Journal, Topic::Commands];

/// The log, and what was read of it.
pub(crate) struct Watched<'a> {
    log: &'a dyn Log,
    seen: Arc<Seen>,
}

struct Seen {
    bar: ProgressBar,
    stop: Receiver<()>,
    /// The offset after the last one read; what is read again counts once.
    next: Mutex<BTreeMap<(Topic, u32), u64>>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(log: &'a Arc<dyn Log>, what: &'static str) -> Done<Self> {
        let mut total = 0;
        for topic in READ {
            for partition in 0..log.partitions(topic) {
                let range = log.range(topic, partition);
                let range =
                    range.map_err(|error| Failure::caused("the log does not tell its size", &error))?;
                total += range.end.saturating_sub(range.start);
            }
        }
        let bar = replay::bar(what);
        bar.set_length(total);
        let seen = Seen { bar, stop: stop::on_signal()?, next: Mutex::default() };
        Ok(Self { log: &**log, seen: Arc::new(seen) })
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.seen.bar.finish_and_clear();
    }
}

impl Seen {
    fn read(&self, place: (Topic, u32), begun_at: u64, records: &[Record]) {
        let Some(last) = records.last() else { return };
        // A thread that panicked left at most a bar that stands still.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next.entry(place).or_insert(begun_at);
        let after = last.offset.saturating_add(1);
        self.bar.inc(after.saturating_sub(*next));
        *next = after.max(*next);
    }
}

impl Readers for Watched<'_> {
    fn log_id(&self) -> &LogId {
        self.log.log_id()
    }

    fn restores(&self, partition: u32) -> &[Restore] {
        self.log.restores(partition)
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.log.partitions(topic)
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let inner = self.log.reader(topic, partition, from)?;
        let begun_at = self.log.range(topic, partition)?.start;
        let seen = Arc::clone(&self.seen);
        Ok(Box::new(WatchedReader { inner, place: (topic, partition), begun_at, seen }))
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.log.range(topic, partition)
    }
}

impl Log for Watched<'_> {
    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        self.log.producer()
    }

    fn membership(&self, member: &str) -> Result<Box<dyn Membership>, Error> {
        self.log.membership(member)
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.log.usage()
    }
}

struct WatchedReader {
    inner: Box<dyn Reader>,
    place: (Topic, u32),
    begun_at: u64,
    seen: Arc<Seen>,
}

impl Reader for WatchedReader {
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        if !matches!(self.seen.stop.try_recv(), Err(TryRecvError::Empty)) {
            let (topic, partition) = self.place;
            return Err(Error::Read { topic, partition, source: "interrupted".into() });
        }
        let records = self.inner.poll(max_records, timeout)?;
        self.seen.read(self.place, self.begun_at, &records);
        Ok(records)
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }
}
