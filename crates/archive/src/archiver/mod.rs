//! Copies what is new in journals into segments, and releases what is old.
//!
//! ```text
//!  copy      read from the log ─► build ─► write to the store ─► read back, compare with the log
//!  release   segment is old, or too much lies behind it ─► read back again, compare with the log ─► log removes
//! ```
//! What was done is in the store and in the log, and nowhere else: killed at any point, the next cycle finds the segments
//! that are whole and goes on from there. A segment that a killed process left half written has no name yet.

mod copy;
mod release;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidemill_log::{From, Head, Log, Reader, Record, Topic};

use crate::segment::{Build, Segment};
use crate::{Archive, Error};

/// Records taken from the log at once.
const RECORDS: usize = 256;
/// The log has records below its end, and gives them within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a journal is begun anew within one cycle, for another process has released some of it meanwhile.
const MOST_TRIES: u32 = 5;

/// What is copied, and what leaves the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// A segment is closed once its records have so many bytes,
    pub segment_bytes: u64,
    /// or once its first record is so old, milliseconds.
    pub segment_age_ms: u64,
    /// A segment leaves the log once its last record is so old, milliseconds,
    pub keep_ms: u64,
    /// or once the records after it have so many bytes.
    pub keep_bytes: u64,
    /// Whether anything leaves the log.
    pub releases: bool,
}

/// Which segments are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Those that are full or old.
    Due,
    /// Those that are begun, too.
    Now,
}

/// What one cycle did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cycle {
    /// Segments written, read back and compared.
    pub segments: u64,
    /// Their bytes in the store.
    pub bytes: u64,
    /// Where journals begin in the log now, of those that released something.
    pub released: BTreeMap<u32, u64>,
}

/// What is done for one journal. Only what saves reading it again is kept between cycles.
#[derive(Default)]
struct Lane {
    begun: Option<Begun>,
    known: BTreeMap<u64, Known>,
}

/// A segment that is not full yet, and where its next records come from.
struct Begun {
    build: Build,
    own: Own,
}

/// What a footer says that the bounds ask for.
#[derive(Clone)]
struct Known {
    next: u64,
    last_at_ms: i64,
    record_bytes: u64,
    after: Option<Head>,
}

/// Archives the journals of a log. One process does it at a time for a journal.
pub struct Archiver {
    log: Arc<dyn Log>,
    archive: Arc<Archive>,
    bounds: Bounds,
    lanes: BTreeMap<u32, Lane>,
}

impl Archiver {
    /// `log` is the log itself, not one that is read through the archive.
    #[must_use]
    pub fn new(log: Arc<dyn Log>, archive: Arc<Archive>, bounds: Bounds) -> Self {
        Self { log, archive, bounds, lanes: BTreeMap::new() }
    }

    /// One cycle over these journals; `is_stopped` is asked every few records.
    ///
    /// # Errors
    /// The first failure; what was done before it stays done.
    pub fn cycle(
        &mut self,
        partitions: &[u32],
        when: When,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Cycle, Error> {
        let mut cycle = Cycle::default();
        self.lanes.retain(|partition, _| partitions.contains(partition));
        for partition in partitions {
            let mut lane = self.lanes.remove(partition).unwrap_or_default();
            let mut tries = MOST_TRIES;
            loop {
                let begins = self.begins(*partition)?;
                let copied = self.copy(*partition, &mut lane, when, is_stopped, &mut cycle);
                let done = copied.and_then(|()| self.release(*partition, &mut lane, is_stopped, &mut cycle));
                tries -= 1;
                match done {
                    // Somebody else has compared and released what was read here: it goes on from what is there now.
                    Err(Error::Log { .. }) if tries > 0 && self.begins(*partition)? > begins => {
                        lane = Lane::default();
                    }
                    done => break done?,
                }
            }
            self.lanes.insert(*partition, lane);
        }
        Ok(cycle)
    }

    /// The first record of a journal that the log has.
    fn begins(&self, partition: u32) -> Result<u64, Error> {
        Ok(self.log.range(Topic::Journal, partition).map_err(Error::log(partition))?.start)
    }

    /// A segment is read back from the store, whole, and is what the log has.
    fn compare(&self, segment: &Segment, is_stopped: &dyn Fn() -> bool) -> Result<(), Error> {
        let (partition, first) = (segment.footer().partition, segment.footer().first);
        let mut own = Own::open(&*self.log, partition, first)?;
        segment.verify(|record| {
            if is_stopped() {
                return Err(Error::Interrupted);
            }
            let differs = |reason: &str| {
                let (object, offset) = (segment.object(), record.offset);
                Error::Differs { object, offset, reason: reason.to_owned() }
            };
            match own.next()? {
                None => Err(differs("the log does not have it")),
                Some(own) if own.offset != record.offset => Err(differs("the log has another offset next")),
                Some(own) if own != *record => Err(differs("its bytes, key or time")),
                Some(_) => Ok(()),
            }
        })
    }
}

/// The records that the log has, one by one.
struct Own {
    partition: u32,
    reader: Box<dyn Reader>,
    ahead: VecDeque<Record>,
}

impl Own {
    fn open(log: &dyn Log, partition: u32, first: u64) -> Result<Self, Error> {
        let reader = log.reader(Topic::Journal, partition, From::Offset(first));
        Ok(Self { partition, reader: reader.map_err(Error::log(partition))?, ahead: VecDeque::new() })
    }

    fn next(&mut self) -> Result<Option<Record>, Error> {
        if self.ahead.is_empty() {
            self.ahead = self.reader.poll(RECORDS, PATIENCE).map_err(Error::log(self.partition))?.into();
        }
        Ok(self.ahead.pop_front())
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
