//! The feed straight from the journal, for streams that people and programs can resume.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidemill_log::{LogId, Readers, Topic};
use tidemill_model::Timestamp;

use crate::journal::{check_life, end_of_life};
use crate::{CloudEvent, Error, Journal, Start, cloud_events};

/// How long one partition is waited for while others may have news.
const SLICE: Duration = Duration::from_millis(20);
const MAX_RECORDS: usize = 64;
/// How often this many records are read of each partition without an event to give, once the time is over.
const ROUNDS: u32 = 16;

/// A place in the feed, in all partitions. Opaque text to clients; good for the log that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedCursor {
    log_id: String,
    /// Per partition: the record, and how many of its events were given.
    places: BTreeMap<u32, (u64, u32)>,
    /// What is earlier is left out in partitions without a place; milliseconds since 1970.
    since: Option<i64>,
}

/// As JSON: without a time, as it was before there were times.
type Plain = (String, BTreeMap<u32, (u64, u32)>);
type Timed = (String, BTreeMap<u32, (u64, u32)>, i64);

impl FeedCursor {
    /// Before everything.
    #[must_use]
    pub fn start(log_id: &LogId) -> Self {
        Self { log_id: log_id.to_string(), places: BTreeMap::new(), since: None }
    }

    /// In every partition before its first event of this time or later, whatever the times of those after it. Times
    /// are those of the events: their owner's clock at the decision.
    #[must_use]
    pub fn since(log_id: &LogId, since: Timestamp) -> Self {
        Self { since: Some(since.as_millisecond()), ..Self::start(log_id) }
    }

    /// After these records, which have to be ones that count: those of the tables' positions, for instance.
    /// Partitions that are not named begin at their beginning.
    #[must_use]
    pub fn after(log_id: &LogId, records: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let places = records.into_iter().map(|(partition, offset)| (partition, (offset, u32::MAX)));
        Self { log_id: log_id.to_string(), places: places.collect(), since: None }
    }

    /// Reads what [`fmt::Display`] wrote.
    ///
    /// # Errors
    /// [`Error::BadCursor`] where the text is anything else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |reason: &str| Error::BadCursor {
            cursor: text.chars().take(200).collect(),
            reason: reason.to_owned(),
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad("it is not base64"))?;
        if let Ok((log_id, places, since)) = serde_json::from_slice::<Timed>(&bytes) {
            return Ok(Self { log_id, places, since: Some(since) });
        }
        let plain = serde_json::from_slice::<Plain>(&bytes);
        let (log_id, places) = plain.map_err(|_| bad("it cannot be read"))?;
        Ok(Self { log_id, places, since: None })
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = match self.since {
            None => serde_json::to_vec(&(&self.log_id, &self.places)),
            Some(since) => serde_json::to_vec(&(&self.log_id, &self.places, since)),
        };
        let json = json.expect("texts and numbers are JSON");
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

struct Lane {
    partition: u32,
    journal: Journal,
    /// Events up to here were given before.
    given: Option<(u64, u32)>,
    /// What is earlier is left out until the first that is not.
    since: Option<i64>,
    /// The last record that was read and that counts.
    read: Option<u64>,
    ready: VecDeque<CloudEvent>,
}

/// Follows all partitions: in each the events come in their order and without a gap; between partitions
/// there is no order.
pub struct FeedReader {
    lanes: Vec<Lane>,
    cursor: FeedCursor,
    turn: usize,
    /// The last look found records, and none of their events is given: internal ones, or from before the time to begin
    /// with.
    is_skipping: bool,
}

impl FeedReader {
    /// Begins after a place.
    ///
    /// # Errors
    /// [`Error::BadCursor`] where the cursor is of another log; [`Error::PositionMismatch`] where the journal
    /// does not have its records; the log.
    pub fn new(log: &dyn Readers, cursor: FeedCursor) -> Result<Self, Error> {
        let log_id = log.log_id();
        let foreign = || {
            let reason = format!("it is of log {}, this is log {log_id}", cursor.log_id);
            Error::BadCursor { cursor: cursor.to_string(), reason }
        };
        let of = LogId::try_from(cursor.log_id.clone()).map_err(|_| foreign())?;
        if of != *log_id && end_of_life(log, 0, &of).is_none() {
            return Err(foreign());
        }
        for (partition, (offset, _)) in &cursor.places {
            check_life(log, (*partition, *offset), &of, "the cursor")?;
        }
        let mut cursor = cursor;
        cursor.log_id = log_id.to_string();
        let lane = |partition| {
            let given = cursor.places.get(&partition).copied();
            let start = given.map_or(Start::Beginning, |(offset, _)| Start::At(offset));
            let journal = Journal::open(log, partition, "the cursor", start)?;
            let since = cursor.since.filter(|_| given.is_none());
            Ok(Lane { partition, journal, given, since, read: None, ready: VecDeque::new() })
        };
        let lanes = (0..log.partitions(Topic::Journal)).map(lane).collect::<Result<_, Error>>()?;
        Ok(Self { lanes, cursor, turn: 0, is_skipping: false })
    }

    /// The place after the last event given, and after the internal events behind it that were read.
    #[must_use]
    pub fn cursor(&self) -> &FeedCursor {
        &self.cursor
    }

    /// Whether the last look ended on the way through events that are not given, with more to read behind them. Not
    /// where all was read.
    #[must_use]
    pub fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    /// The next event, and the place after it; `None` where there is none within `timeout`.
    ///
    /// # Errors
    /// [`Error::Body`] where the journal holds what this version does not understand; the log.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<(FeedCursor, CloudEvent)>, Error> {
        let deadline = Instant::now() + timeout;
        let mut rounds = 0;
        loop {
            if let Some(event) = self.take() {
                self.is_skipping = false;
                return Ok(Some((self.cursor.clone(), event)));
            }
            let mut news = false;
            for lane in &mut self.lanes {
                news |= lane.poll(Duration::ZERO)?;
                lane.pass(&mut self.cursor);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            rounds += 1;
            // A long way to the next event must not keep whoever reads from seeing that it is to stop.
            let is_ready = self.lanes.iter().any(|lane| !lane.ready.is_empty());
            if is_ready || news && (rounds < ROUNDS || !left.is_zero()) {
                continue;
            }
            if left.is_zero() {
                self.is_skipping = news;
                return Ok(None);
            }
            let wait = if self.lanes.len() > 1 { left.min(SLICE) } else { left };
            self.turn = (self.turn + 1) % self.lanes.len();
            self.lanes[self.turn].poll(wait)?;
        }
    }

    fn take(&mut self) -> Option<CloudEvent> {
        let lane = self.lanes.iter_mut().find(|lane| !lane.ready.is_empty())?;
        let event = lane.ready.pop_front()?;
        self.cursor.places.insert(lane.partition, (event.offset, event.index + 1));
        Some(event)
    }
}

impl Lane {
    /// Moves the cursor behind internal events, so that who goes on there does not read them again. A place ends the wait
    /// for a time, so there is none before it has come.
    fn pass(&self, cursor: &mut FeedCursor) {
        if let Some(read) = self.read.filter(|_| self.ready.is_empty() && self.since.is_none()) {
            cursor.places.insert(self.partition, (read, u32::MAX));
        }
    }

    fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let read = self.journal.poll(MAX_RECORDS, timeout)?;
        for entry in &read.entries {
            if self.since.is_some_and(|since| entry.envelope.now.as_millisecond() < since) {
                continue;
            }
            let first = match self.given {
                Some((offset, given)) if offset == entry.offset => given,
                _ => 0,
            };
            let first = usize::try_from(first).expect("32 bits fit");
            for event in cloud_events(&entry.log_id, self.partition, entry.offset, first, &entry.envelope) {
                self.since = None;
                self.ready.push_back(event);
            }
            self.read = Some(entry.offset);
        }
        Ok(read.last.is_some())
    }
}
