//! The public feed and commands as they were sent, straight from the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_journal as journal;
use tidemill_journal::{CloudEvent, FeedCursor};
use tidemill_log::{From, Log, Payload, Readers as _, SharedJournals, Topic};
use tidemill_model::ShardId;
use tidemill_store::Tables;

use crate::ports::{Feed, FeedError, FeedEvent, FeedFrom, FeedReader, SentCommands};

/// Until a record that the log keeps has to be there.
const POLL: Duration = Duration::from_secs(5);

/// The public feed, straight from the journal. Its end is where the tables in use are. Streams share what they read of it.
pub struct JournalFeed {
    log: SharedJournals,
    tables: Arc<dyn Tables>,
}

impl JournalFeed {
    /// The feed of this log, whose facts these tables show.
    pub fn new(log: Arc<dyn Log>, tables: Arc<dyn Tables>) -> Self {
        Self { log: SharedJournals::new(log), tables }
    }

    fn end(&self) -> Result<FeedCursor, tidemill_store::Error> {
        let Some(generation) = self.tables.active()? else { return Ok(FeedCursor::start(self.log.log_id())) };
        let positions = self.tables.positions(generation.number)?;
        let records = positions.into_iter().map(|(partition, position)| (partition, position.offset));
        Ok(FeedCursor::after(self.log.log_id(), records))
    }
}

impl Feed for JournalFeed {
    fn open(&self, key: &Arc<str>, from: FeedFrom) -> Result<Box<dyn FeedReader>, FeedError> {
        let given = match &from {
            FeedFrom::Cursor(cursor) => Some(cursor.chars().take(200).collect::<String>()),
            FeedFrom::Start | FeedFrom::End | FeedFrom::Time(_) => None,
        };
        let failed = |error: journal::Error| match (&error, given) {
            (journal::Error::BadCursor { .. } | journal::Error::PositionMismatch { .. }, Some(cursor)) => {
                FeedError::BadCursor { cursor }
            }
            _ => FeedError::Read(Box::new(error)),
        };
        let cursor = match from {
            FeedFrom::Start => Ok(FeedCursor::start(self.log.log_id())),
            FeedFrom::End => Ok(self.end().map_err(|error| FeedError::Read(Box::new(error)))?),
            FeedFrom::Time(since) => Ok(FeedCursor::since(self.log.log_id(), since)),
            FeedFrom::Cursor(text) => FeedCursor::parse(&text),
        };
        match cursor.and_then(|cursor| journal::FeedReader::new(&self.log.of(key), cursor)) {
            Ok(reader) => Ok(Box::new(Reader(reader))),
            Err(error) => Err(failed(error)),
        }
    }
}

struct Reader(journal::FeedReader);

impl FeedReader for Reader {
    fn poll(&mut self, max: usize, timeout: Duration) -> Result<Vec<FeedEvent>, FeedError> {
        let deadline = Instant::now() + timeout;
        let mut events = Vec::new();
        while events.len() < max {
            // Only the first one is waited for.
            let wait = if events.is_empty() {
                deadline.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            match self.0.next(wait).map_err(|error| FeedError::Read(Box::new(error)))? {
                Some((cursor, event)) => events.push(feed_event(&cursor, event)),
                None => break,
            }
        }
        Ok(events)
    }

    fn is_skipping(&self) -> bool {
        self.0.is_skipping()
    }
}

fn feed_event(cursor: &FeedCursor, event: CloudEvent) -> FeedEvent {
    FeedEvent {
        cursor: cursor.to_string(),
        shard: ShardId(event.key.parse().expect("the key of an event is the number of its shard")),
        event_type: event.kind.to_owned(),
        subject: event.subject,
        json: String::from_utf8(event.json).expect("JSON is text"),
    }
}

/// The commands of this log.
pub struct LogCommands {
    log: Arc<dyn Log>,
}

impl LogCommands {
    /// Of this log.
    pub fn new(log: Arc<dyn Log>) -> Self {
        Self { log }
    }
}

impl SentCommands for LogCommands {
    fn command(&self, partition: u32, offset: u64) -> Result<Option<Payload>, tidemill_log::Error> {
        if !self.log.range(Topic::Commands, partition)?.contains(&offset) {
            return Ok(None);
        }
        let mut reader = self.log.reader(Topic::Commands, partition, From::Offset(offset))?;
        let found = reader.poll(1, POLL)?.into_iter().next();
        Ok(found.filter(|record| record.offset == offset).map(|record| record.value))
    }
}
