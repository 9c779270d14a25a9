//! A fold under way: how far the journal is read, which records counted, and what they add up to.

use std::sync::Arc;

use tidemill_engine::Partition;
use tidemill_log::{Chain, Kind, Record, Verdict};
use tidemill_model::{Envelope, Level, ReadError, Timestamp};

/// A state and where it stands.
#[derive(Debug, Clone)]
pub struct Fold {
    /// Which records count.
    pub chain: Chain,
    /// What they add up to.
    pub state: Partition,
    /// The offset that is read next.
    pub next: u64,
    /// The latest time of any envelope that counted: a set clock may go back.
    pub latest: Timestamp,
    /// How many events were folded, in this fold.
    pub events: u64,
}

impl Fold {
    /// Before the first record.
    #[must_use]
    pub fn beginning(partition: u32, count: u32) -> Self {
        Self {
            chain: Chain::new(),
            state: Partition::new(partition, count),
            next: 0,
            latest: Timestamp::MIN,
            events: 0,
        }
    }

    /// The next record's envelope, if it counts and is one. The state does not have it yet.
    ///
    /// # Errors
    /// It counts and means nothing to who reads up to this level.
    pub fn judge(&mut self, record: &Record, reads: Level) -> Result<Option<Arc<Envelope>>, ReadError> {
        self.next = record.offset + 1;
        let Verdict::Accepted(header) = self.chain.accept(record.offset, &record.value) else {
            return Ok(None);
        };
        if header.kind != Kind::Envelope {
            return Ok(None);
        }
        let envelope = record.value.decoded(|body| Envelope::read(body, reads))?;
        // Somebody in this process may have read it who reads more.
        envelope.check_level(reads)?;
        Ok(Some(envelope))
    }

    /// Takes the envelope into the state.
    pub fn apply(&mut self, envelope: &Envelope) {
        self.state.apply(envelope);
        self.latest = self.latest.max(envelope.now);
        self.events += envelope.events.len() as u64;
    }

    /// Takes the next record in.
    ///
    /// # Errors
    /// It counts and means nothing to who reads up to this level.
    pub fn take(&mut self, record: &Record, reads: Level) -> Result<(), ReadError> {
        if let Some(envelope) = self.judge(record, reads)? {
            self.apply(&envelope);
        }
        Ok(())
    }
}
