//! Readers of journals that many share: what many streams cost a log is bounded by its partitions, not by the streams.
//!
//! Each partition has one reader at its end, whose newest records are kept for all who follow it, and a few further back,
//! which those who have yet to catch up use in turn: users first, then the readers of each. Whoever polls reads on for all;
//! there is no thread.

mod line;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use self::line::Line;
use crate::signal::{Signal, lock};
use crate::{ArchivedPart, Error, From, LogId, Reader, Readers, Record, Restore, Topic, Waker};

/// So much of the end of a journal is kept, bytes. One record is, however large.
const KEPT_BYTES: usize = 4 << 20;
/// So many readers further back has a partition.
const MOST_BACK: usize = 2;
/// One of them is left to whoever uses it for at least this long, so that each gets somewhere.
const TURN: Duration = if cfg!(test) { Duration::from_millis(5) } else { Duration::from_secs(1) };
/// A reader further back has something to give; a broker has so long for it.
const PATIENCE: Duration = Duration::from_millis(100);
/// Records that are read at once for all.
const RECORDS: usize = 1_000;

/// Readers of a log, of which those of its journals share what they read. Those of other topics are the log's own.
pub struct SharedJournals {
    log: Arc<dyn Readers>,
    journals: Vec<Arc<Journal>>,
    user: Arc<str>,
}

impl SharedJournals {
    /// Of this log.
    pub fn new(log: Arc<dyn Readers>) -> Self {
        let journals = (0..log.partitions(Topic::Journal)).map(|_| Arc::default()).collect();
        Self { log, journals, user: Arc::from("") }
    }

    /// The same, for what this user reads of it: where readers take turns, each user gets as much as any other, however
    /// many readers he has.
    #[must_use]
    pub fn of(&self, user: &Arc<str>) -> Self {
        Self { log: Arc::clone(&self.log), journals: self.journals.clone(), user: Arc::clone(user) }
    }
}

#[derive(Default)]
struct Journal {
    /// How many share it; without any there is nothing to keep.
    used_by: Mutex<usize>,
    /// How many there were.
    readers: AtomicU64,
    /// Reads at the end; whoever finds it locked comes again, for a broker may keep it waiting.
    end: Mutex<Option<Box<dyn Reader>>>,
    newest: Mutex<Newest>,
    back: Mutex<Back>,
}

/// The last records that were read at the end.
#[derive(Default)]
struct Newest {
    records: VecDeque<Record>,
    bytes: usize,
    /// The offset after them; absent: the end is not read yet.
    next: Option<u64>,
}

#[derive(Default)]
struct Back {
    idle: Vec<Placed>,
    /// For whom they are being used at this moment.
    busy: Vec<Arc<str>>,
    line: Line,
}

/// A reader further back.
struct Placed {
    reader: Box<dyn Reader>,
    next: u64,
    since: Instant,
    used_at: Instant,
    /// Who uses it.
    user: Arc<str>,
    by: u64,
}

/// Where records from an offset on are to be had.
enum Found {
    Here(Vec<Record>),
    FurtherBack,
    /// They may be read at the end.
    AtEnd,
}

impl Newest {
    fn find(&self, from: u64, max: usize) -> Found {
        let Some(next) = self.next else { return Found::AtEnd };
        if from >= next {
            return Found::AtEnd;
        }
        if self.records.front().is_none_or(|first| from < first.offset) {
            return Found::FurtherBack;
        }
        let first = self.records.partition_point(|record| record.offset < from);
        Found::Here(self.records.range(first..).take(max).cloned().collect())
    }

    fn add(&mut self, records: Vec<Record>) {
        for record in records {
            self.next = Some(record.offset + 1);
            self.bytes += size(&record);
            self.records.push_back(record);
        }
        while self.bytes > KEPT_BYTES && self.records.len() > 1 {
            self.bytes -= self.records.pop_front().as_ref().map_or(0, size);
        }
    }
}

impl Back {
    /// The user's reader of this place; else one that may be put there, where there is one to be had and it is this one's turn.
    fn take(&mut self, who: &Who, next: u64) -> Option<Option<Placed>> {
        // One of another user would be moved away from whoever uses it.
        let is_own = |placed: &Placed| placed.next == next && placed.user == who.user;
        if let Some(at) = self.idle.iter().position(is_own) {
            self.busy.push(Arc::clone(&who.user));
            self.line.leave(who.reader);
            return Some(Some(self.idle.swap_remove(at)));
        }
        let now = Instant::now();
        let is_next = self.line.ask(&who.user, who.reader, now);
        if self.idle.len() + self.busy.len() >= MOST_BACK {
            let own = self.held(&who.user);
            // Nobody gives one away to a user who has as many.
            let may = |placed: &Placed| {
                now.saturating_duration_since(placed.since) >= TURN
                    && (placed.user == who.user
                        || self.held(&placed.user) > own
                        || now.saturating_duration_since(placed.used_at) >= line::WAITS)
            };
            let free = (0..self.idle.len()).filter(|at| is_next && may(&self.idle[*at]));
            let oldest = free.min_by_key(|at| self.idle[*at].since)?;
            self.idle.swap_remove(oldest);
        }
        self.line.serve(&who.user, who.reader);
        self.busy.push(Arc::clone(&who.user));
        Some(None)
    }

    fn held(&self, user: &Arc<str>) -> usize {
        let idle = self.idle.iter().map(|placed| &placed.user);
        idle.chain(&self.busy).filter(|holder| *holder == user).count()
    }

    /// Who used one is no more.
    fn gone(&mut self, reader: u64) {
        self.line.gone(reader);
        self.idle.retain(|placed| placed.by != reader);
    }

    /// It is not used at this moment any more.
    fn end_use(&mut self, who: &Who) {
        if let Some(at) = self.busy.iter().position(|user| *user == who.user) {
            self.busy.swap_remove(at);
        }
    }
}

struct Who {
    user: Arc<str>,
    /// Numbers the readers of a journal.
    reader: u64,
}

fn size(record: &Record) -> usize {
    size_of::<Record>() + record.key.len() + record.value.len()
}

struct SharedReader {
    log: Arc<dyn Readers>,
    journal: Arc<Journal>,
    partition: u32,
    who: Who,
    next: u64,
    signal: Arc<Signal>,
}

impl SharedReader {
    fn read(&self, max: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        let find = || lock(&self.journal.newest).find(self.next, max);
        let mut found = find();
        if matches!(found, Found::AtEnd) {
            self.read_end()?;
            found = find();
        }
        match found {
            Found::Here(records) => Ok(records),
            Found::FurtherBack => self.read_back(max, timeout),
            Found::AtEnd => Ok(Vec::new()),
        }
    }

    fn read_end(&self) -> Result<(), Error> {
        let mut end = match self.journal.end.try_lock() {
            Ok(end) => end,
            Err(TryLockError::Poisoned(end)) => end.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let read = match &mut *end {
            Some(reader) => reader.poll(RECORDS, Duration::ZERO),
            None => {
                let next = self.log.range(Topic::Journal, self.partition)?.end;
                *end = Some(self.log.reader(Topic::Journal, self.partition, From::Offset(next))?);
                *lock(&self.journal.newest) = Newest { next: Some(next), ..Newest::default() };
                return Ok(());
            }
        };
        // A reader that has failed is rebuilt.
        let records = read.inspect_err(|_| *end = None)?;
        lock(&self.journal.newest).add(records);
        Ok(())
    }

    fn read_back(&self, max: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        let (who, next) = (&self.who, self.next);
        let Some(placed) = lock(&self.journal.back).take(who, next) else { return Ok(Vec::new()) };
        let read = || {
            let mut placed = match placed {
                Some(placed) => placed,
                None => {
                    let reader = self.log.reader(Topic::Journal, self.partition, From::Offset(next))?;
                    let (now, user) = (Instant::now(), Arc::clone(&who.user));
                    Placed { reader, next, since: now, used_at: now, user, by: who.reader }
                }
            };
            let records = placed.reader.poll(max, timeout.max(PATIENCE))?;
            placed.next = records.last().map_or(next, |last| last.offset + 1);
            (placed.used_at, placed.user, placed.by) = (Instant::now(), Arc::clone(&who.user), who.reader);
            Ok((placed, records))
        };
        let read = read();
        let mut back = lock(&self.journal.back);
        back.end_use(who);
        let (placed, records) = read?;
        back.idle.push(placed);
        Ok(records)
    }
}

impl Reader for SharedReader {
    /// Does not wait at the journal's end.
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        let records = self.read(max_records, timeout)?;
        if let Some(last) = records.last() {
            self.next = last.offset + 1;
        }
        Ok(records)
    }

    fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.signal))
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        lock(&self.journal.back).gone(self.who.reader);
        let mut used_by = lock(&self.journal.used_by);
        *used_by -= 1;
        if *used_by == 0 {
            *lock(&self.journal.end) = None;
            *lock(&self.journal.newest) = Newest::default();
            *lock(&self.journal.back) = Back::default();
        }
    }
}

impl Readers for SharedJournals {
    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let journal = self.journals.get(partition as usize).filter(|_| topic == Topic::Journal);
        let Some(journal) = journal else { return self.log.reader(topic, partition, from) };
        let next = from.within(topic, partition, self.log.range(topic, partition)?)?;
        *lock(&journal.used_by) += 1;
        let who =
            Who { user: Arc::clone(&self.user), reader: journal.readers.fetch_add(1, Ordering::Relaxed) };
        let (log, journal) = (Arc::clone(&self.log), Arc::clone(journal));
        Ok(Box::new(SharedReader { log, journal, partition, who, next, signal: Arc::default() }))
    }

    fn log_id(&self) -> &LogId {
        self.log.log_id()
    }

    fn restores(&self, partition: u32) -> &[Restore] {
        self.log.restores(partition)
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.log.partitions(topic)
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.log.range(topic, partition)
    }

    fn archived(&self, partition: u32, from: u64) -> Result<Vec<ArchivedPart>, Error> {
        self.log.archived(partition, from)
    }
}

#[cfg(test)]
mod tests;
