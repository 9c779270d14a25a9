//! OPS-5: the records of a backup or an export become a log that goes on, as another life of the one that they are of.
//!
//! ```text
//! journal p   genesis … the last record │ claim, new log id   restored: generation, ids above; workers lost   resigned
//! commands p  kept ones                 │ those that were not decided are decided by the next owner
//! ```
//! Every journal gets these records before anybody can own it. From there on tokens and other ids, ids of events, positions
//! and archived segments are those of the new life, so that nothing that the lost life gave to the world is given again.

use std::path::Path;

use tidemill_engine::{HeldByWorker, LiveWorker, Partition, check_one_moment};
use tidemill_log::{FrameError, Head, InvalidLogId, Kind, LogId, Record, SqliteImport, Tip, Topic, Verdict};
use tidemill_model::{
    Cause, Envelope, Event, Json as _, Level, Outcome, PartitionEvent, Recorded, ShardId, Source, Timestamp,
    WorkerEvent,
};

use crate::{Clock, Error};

/// So many ids a second, on average since the log was made, are more than one shard ever mints: a restored log mints above
/// this multiple of its age in seconds and [`MARGIN_S`]. So whatever a lost life minted after the state that is restored lies
/// below, also if the same state is restored twice; and for seventeen years ids stay below 2^53.
const IDS_A_SECOND: u64 = 1 << 12;

/// For what a log minted all at once, above all a young one.
const MARGIN_S: u64 = 86_400;

/// Of one envelope.
const EVENTS: usize = 400;

/// Who restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoring {
    /// As they name themselves.
    pub by: String,
    /// This life of this process, for its claims.
    pub incarnation: String,
}

/// A log that was restored.
#[derive(Debug, Clone, PartialEq)]
pub struct Restored {
    /// Its id before.
    pub before: LogId,
    /// Its id now.
    pub log_id: LogId,
    /// Which restore of it this was: when, in milliseconds since 1970.
    pub generation: u64,
    /// Counters of ids go on above this.
    pub ids_above: u64,
    /// The time of the newest record that was restored.
    pub state_at: Timestamp,
    /// Where each journal stands, by partition.
    pub heads: Vec<Head>,
    /// What is held until its end is witnessed or a person vouches for its worker.
    pub held: Vec<HeldByWorker>,
}

/// Why a log was not restored. What was written of it is no log.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A record cannot be read, or the partition cannot be owned with it.
    #[error(transparent)]
    Owner(Box<Error>),
    /// The new log cannot be written, or the records are not those of a log.
    #[error("the records of partition {partition} cannot be restored")]
    Log {
        /// Which partition.
        partition: u32,
        /// Why not.
        source: tidemill_log::Error,
    },
    /// There is nothing of a journal, or it is of another log than the others.
    #[error(
        "the journal of partition {partition} is not there, or not one of the same log as that of partition 0"
    )]
    Foreign {
        /// Which partition.
        partition: u32,
    },
    /// The journals were not copied at one moment.
    #[error("the journals were not copied at one moment: {0}")]
    SeveralMoments(String),
    /// The clock stands before what was recorded.
    #[error("this machine's clock says {now}, and the log has records of {newest}")]
    ClockBehind {
        /// The clock.
        now: Timestamp,
        /// The newest record.
        newest: Timestamp,
    },
    /// The log was restored so often, or its id is so long, that it gets no other.
    #[error("the log can have no other id after {0}")]
    NoId(LogId, #[source] InvalidLogId),
    /// The names do not fit into a record.
    #[error("who restores, or this process, has too long a name")]
    TooLong(#[source] FrameError),
}

impl std::convert::From<Error> for RestoreError {
    fn from(error: Error) -> Self {
        Self::Owner(Box::new(error))
    }
}

/// A log that is being restored. Dropped before [`Restore::finish`], it is no log.
pub struct Restore {
    import: SqliteImport,
    states: Vec<Partition>,
    /// When the first record of the log was taken.
    begun_ms: Option<i64>,
}

impl Restore {
    /// Into a directory without a log; a log with this many partitions.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn into(directory: &Path, partitions: u32) -> Result<Self, RestoreError> {
        let import = SqliteImport::create(directory, partitions);
        let import = import.map_err(|source| RestoreError::Log { partition: 0, source })?;
        let states = (0..partitions).map(|number| Partition::new(number, partitions)).collect();
        Ok(Self { import, states, begun_ms: None })
    }

    /// The next record of a journal or of commands.
    ///
    /// # Errors
    /// It is not the next one, or cannot be read by this version; the disk.
    pub fn push(&mut self, topic: Topic, partition: u32, record: &Record) -> Result<(), RestoreError> {
        let pushed = self.import.push(topic, partition, record);
        let verdict = pushed.map_err(|source| RestoreError::Log { partition, source })?;
        let Some(Verdict::Accepted(header)) = verdict else { return Ok(()) };
        if partition == 0 {
            self.begun_ms.get_or_insert(record.timestamp_ms);
        }
        if header.kind == Kind::Envelope {
            let offset = record.offset;
            let envelope = record.value.decoded(|body| Envelope::read(body, Level::READS));
            let envelope = envelope.map_err(|error| Error::envelope(partition, offset, error))?;
            self.states[partition as usize].apply(&envelope);
        }
        Ok(())
    }

    /// Records in every journal that it was restored, and makes it a log.
    ///
    /// # Errors
    /// The journals are not those of one log at one moment; the clock is wrong; the disk.
    pub fn finish(mut self, restoring: &Restoring) -> Result<Restored, RestoreError> {
        let before = self.one_log()?;
        check_one_moment(&self.states).map_err(RestoreError::SeveralMoments)?;
        // Not the latest time that was ever recorded: a clock that was ahead may have been set back (rule 10).
        let newest = self.states.iter().map(Partition::now).max().unwrap_or(Timestamp::UNIX_EPOCH);
        let now = Clock.now().wall;
        if now < newest {
            return Err(RestoreError::ClockBehind { now, newest });
        }
        let generation = u64::try_from(now.as_millisecond()).unwrap_or(0).max(before.generation() + 1);
        let ids_above = self.ids_above(now);
        let no_id = |error| RestoreError::NoId(before.clone(), error);
        let log_id = before.restored(generation).map_err(no_id)?;
        for partition in 0..self.count() {
            self.restored(partition, (&log_id, generation, ids_above), restoring, now)?;
        }
        let heads = (0..self.count()).filter_map(|partition| self.import.head(partition).cloned()).collect();
        let held = self.states.iter().flat_map(Partition::held).collect();
        let restored = Restored { before, log_id, generation, ids_above, state_at: newest, heads, held };
        self.import.finish().map_err(|source| RestoreError::Log { partition: 0, source })?;
        Ok(restored)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.states.len()).expect("it was made from such a number")
    }

    /// Every journal is there, and of the log of the first one.
    fn one_log(&self) -> Result<LogId, RestoreError> {
        let first = self.import.head(0).ok_or(RestoreError::Foreign { partition: 0 })?;
        for partition in 0..self.count() {
            let head = self.import.head(partition).ok_or(RestoreError::Foreign { partition })?;
            let told = (&head.log_id, head.count, head.partition);
            if told != (&first.log_id, self.count(), partition) {
                return Err(RestoreError::Foreign { partition });
            }
        }
        Ok(first.log_id.clone())
    }

    /// More than any life of the log has minted.
    fn ids_above(&self, now: Timestamp) -> u64 {
        let begun_ms = self.begun_ms.unwrap_or_default();
        let age_s = u64::try_from(now.as_millisecond().saturating_sub(begun_ms) / 1_000).unwrap_or(0);
        let minted = self.states.iter().map(Partition::minted).max().unwrap_or(0);
        (age_s.max(minted / IDS_A_SECOND + 1) + MARGIN_S) * IDS_A_SECOND
    }

    fn restored(
        &mut self,
        partition: u32,
        (log_id, generation, ids_above): (&LogId, u64, u64),
        restoring: &Restoring,
        now: Timestamp,
    ) -> Result<(), RestoreError> {
        let head = self.import.head(partition).ok_or(RestoreError::Foreign { partition })?.clone();
        let state = &self.states[partition as usize];
        let upto = self.import.next(partition).saturating_sub(1);
        let life = Life { log_id, generation, ids_above, upto, now };
        for value in records(state, &head, restoring, &life).map_err(RestoreError::TooLong)? {
            let offset = self.import.next(partition);
            let timestamp_ms = now.as_millisecond();
            let record = Record { offset, timestamp_ms, key: Vec::new(), value: value.into() };
            self.push(Topic::Journal, partition, &record)?;
        }
        Ok(())
    }
}

/// The life of a log that begins with a restore.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Life<'a> {
    pub log_id: &'a LogId,
    pub generation: u64,
    pub ids_above: u64,
    /// The last offset of the journal before it.
    pub upto: u64,
    pub now: Timestamp,
}

/// Claim, envelopes and farewell, each linked to the one before: what a journal with this state and head goes on with.
#[doc(hidden)]
pub fn records(
    state: &Partition,
    head: &Head,
    restoring: &Restoring,
    life: &Life<'_>,
) -> Result<Vec<Vec<u8>>, FrameError> {
    let claim = head.claim_restored(&restoring.incarnation, life.log_id)?;
    let mut tip = Tip {
        epoch: head.epoch.saturating_add(1),
        seq: head.seq.saturating_add(1),
        hash: tidemill_log::Hash::of(&claim),
    };
    let mut records = vec![claim];
    for envelope in envelopes(state, restoring, life) {
        let (record, next) = tip.next(Kind::Envelope, envelope.to_json().into_bytes())?;
        records.push(record);
        tip = next;
    }
    records.push(tip.next(Kind::Resigned, Vec::new())?.0);
    Ok(records)
}

/// That it was restored, and that no worker has been heard of in this life: who is there says so with its next heartbeat.
fn envelopes(state: &Partition, restoring: &Restoring, life: &Life<'_>) -> Vec<Envelope> {
    let event = Event::Partition(PartitionEvent::Restored {
        generation: life.generation,
        ids_above: life.ids_above,
        by: restoring.by.clone(),
        upto: life.upto,
    });
    let shard = ShardId(u16::try_from(state.number()).unwrap_or(ShardId::MAX.0));
    let lost = state.groups().flat_map(|group| {
        let heard_of = group.live_workers().filter(|worker| !worker.lost);
        heard_of.map(|LiveWorker { worker, incarnation, .. }| Recorded {
            shard: group.id(),
            event: Event::Worker(WorkerEvent::Lost { worker, incarnation }),
        })
    });
    let events: Vec<Recorded> = std::iter::once(Recorded { shard, event }).chain(lost).collect();
    let envelope = |events: &[Recorded]| Envelope {
        now: state.now().max(life.now),
        level: state.level(),
        resume: state.resume().cloned(),
        causes: vec![Cause {
            source: Source::Observed,
            outcome: Outcome::Done,
            events: u32::try_from(events.len()).unwrap_or(u32::MAX),
        }],
        events: events.to_vec(),
    };
    events.chunks(EVENTS).map(envelope).collect()
}
