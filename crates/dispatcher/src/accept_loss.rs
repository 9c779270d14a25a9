//! Rule 5: a partition whose commands were lost goes on, once a person says so, and on record.
//!
//! ```text
//! commands   [ gone | 0 1 2 ]  3             3 is the harmless record; 0 to 2 are given up
//!                              ▲
//! journal    … claim  loss accepted, resume point 3  resigned
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_engine::Partition;
use tidemill_log::{Chain, From, Hash, Head, Kind, Log, Producer, Reader, Topic, Verdict, append_wait};
use tidemill_model::{
    Actor, Cause, Command, CommandRecord, Envelope, Event, Json as _, Level, Outcome, PartitionEvent,
    Recorded, Resume, ShardCommand, ShardId, Source,
};

use crate::{Clock, Error};

/// What the person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Which partition goes on.
    pub partition: u32,
    /// Who says so.
    pub by: String,
    /// Why.
    pub reason: String,
    /// This life of this process, for its claim.
    pub incarnation: String,
}

/// What is on record then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The last command that was done with, in the topic as it was.
    pub done: u64,
    /// The first command that the topic still had, or would have had next.
    pub kept_from: u64,
    /// The record to go on after.
    pub resumed_at: u64,
    /// Offset of the journal record that says so.
    pub offset: u64,
}

/// Why a loss is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptLossError {
    /// The journal is not there, or cannot be read, or cannot be written.
    #[error(transparent)]
    Owner(Box<Error>),
    /// The command that the journal names is where it says.
    #[error("partition {partition}: nothing was lost: command {offset} is the one that was done last")]
    NothingLost {
        /// Which partition.
        partition: u32,
        /// The resume point.
        offset: u64,
    },
    /// No command was ever done with.
    #[error("partition {partition}: nothing was lost: no command was ever done with")]
    NothingDone {
        /// Which partition.
        partition: u32,
    },
    /// Somebody owns the partition.
    #[error("partition {partition}: it has an owner that answers at {address}")]
    OwnerLives {
        /// Which partition.
        partition: u32,
        /// As its claim says.
        address: String,
    },
    /// Somebody wrote to the journal meanwhile.
    #[error("partition {partition}: another owner wrote to its journal meanwhile; the loss is not accepted")]
    Outrun {
        /// Which partition.
        partition: u32,
    },
    /// It does not fit into a record.
    #[error("partition {partition}: the reason is too long for a record")]
    TooLong {
        /// Which partition.
        partition: u32,
    },
    /// An append failed, or nobody knows what became of it.
    #[error("partition {partition}: cannot append to {topic}; the command can be given again")]
    Append {
        /// Which partition.
        partition: u32,
        /// To what.
        topic: Topic,
        /// Why not.
        source: tidemill_log::AppendError,
    },
}

impl std::convert::From<Error> for AcceptLossError {
    fn from(error: Error) -> Self {
        Self::Owner(Box::new(error))
    }
}

/// Until an append, or a record that has to be there, is given up.
const PATIENCE: Duration = Duration::from_secs(15);
/// Records taken at once.
const RECORDS: usize = 512;

/// Lets the partition go on after a new record of its commands. `is_alive` tells whether an owner answers at
/// the address that its claim names; one that has handed over, or stopped, is not asked for.
///
/// # Errors
/// Nothing was lost, the partition has an owner, or the log does not do what it should. Nothing was changed
/// then, but for a command that does nothing.
pub fn accept_loss(
    log: &Arc<dyn Log>,
    loss: &Loss,
    is_alive: &dyn Fn(&str) -> bool,
) -> Result<AcceptedLoss, AcceptLossError> {
    let partition = loss.partition;
    let mut journal = Journal::open(log, partition)?;
    journal.fold_to_end(log)?;
    let head = journal.head()?.clone();
    let silent = head.resigned || head.stopped;
    if let Some(claim) = head.owner.as_ref().filter(|claim| !silent && is_alive(&claim.address)) {
        return Err(AcceptLossError::OwnerLives { partition, address: claim.address.clone() });
    }
    let done = journal.state.resume().cloned().ok_or(AcceptLossError::NothingDone { partition })?;
    let kept =
        log.range(Topic::Commands, partition).map_err(Error::log(partition, "asking for the commands"))?;
    if kept.contains(&done.offset) && is_there(log, partition, &done)? {
        return Err(AcceptLossError::NothingLost { partition, offset: done.offset });
    }
    let producer = log.producer().map_err(Error::log(partition, "opening a producer"))?;
    let resume = append_marker(&*producer, loss)?;
    let accepted =
        AcceptedLoss { done: done.offset, kept_from: kept.start, resumed_at: resume.offset, offset: 0 };
    let records = journal.records(&head, loss, accepted, resume)?;
    let mut last = 0;
    for record in &records {
        let appended = append_wait(&*producer, Topic::Journal, partition, b"", record.clone(), PATIENCE);
        last = appended.map_err(|source| match source {
            // The embedded log does not take what would be void.
            tidemill_log::AppendError::Refused(_) => AcceptLossError::Outrun { partition },
            source => AcceptLossError::Append { partition, topic: Topic::Journal, source },
        })?;
    }
    // Whatever stands between them makes them void.
    let offset = journal.offset_of(&records[1], last)?.ok_or(AcceptLossError::Outrun { partition })?;
    Ok(AcceptedLoss { offset, ..accepted })
}

/// Whether the topic still has the command that was done last.
fn is_there(log: &Arc<dyn Log>, partition: u32, done: &Resume) -> Result<bool, Error> {
    let reader = log.reader(Topic::Commands, partition, From::Offset(done.offset));
    let mut reader = reader.map_err(Error::log(partition, "opening a reader"))?;
    let records = reader.poll(1, PATIENCE).map_err(Error::log(partition, "reading"))?;
    let Some(found) = records.first() else {
        // A log that gives nothing has not shown that anything is lost.
        let reason = format!("the log has command {}, and does not give it", done.offset);
        return Err(Error::stopped(partition, reason));
    };
    Ok(found.offset == done.offset && Hash::of(&found.value).to_string() == done.hash)
}

/// A shard that is in the partition: every partition has one of its own number.
fn shard(partition: u32) -> ShardId {
    ShardId(u16::try_from(partition).unwrap_or(ShardId::MAX.0))
}

fn actor(loss: &Loss) -> Actor {
    // With the incarnation its bytes are like those of no other record.
    Actor { app: loss.incarnation.as_str().into(), user: Some(loss.by.as_str().into()) }
}

/// Appends a command that does nothing, should it ever be decided.
fn append_marker(producer: &dyn Producer, loss: &Loss) -> Result<Resume, AcceptLossError> {
    let (partition, shard) = (loss.partition, shard(loss.partition));
    let command = Command::Shard(ShardCommand::Acknowledge { from: shard, upto: 0 });
    let record = CommandRecord { shard, request: None, reply_to: None, actor: actor(loss), command };
    let value = record.encoded(Level::FIRST);
    let hash = Hash::of(&value).to_string();
    let key = shard.to_string();
    let appended = append_wait(producer, Topic::Commands, partition, key.as_bytes(), value, PATIENCE);
    let offset =
        appended.map_err(|source| AcceptLossError::Append { partition, topic: Topic::Commands, source })?;
    Ok(Resume { offset, hash })
}

/// The journal, folded as far as it is read.
struct Journal {
    partition: u32,
    chain: Chain,
    state: Partition,
    reader: Box<dyn Reader>,
    next: u64,
}

impl Journal {
    fn open(log: &Arc<dyn Log>, partition: u32) -> Result<Self, Error> {
        let count = log.partitions(Topic::Journal);
        let reader = log.reader(Topic::Journal, partition, From::Start);
        let reader = reader.map_err(Error::log(partition, "opening a reader"))?;
        Ok(Self { partition, chain: Chain::new(), state: Partition::new(partition, count), reader, next: 0 })
    }

    fn head(&self) -> Result<&Head, Error> {
        self.chain.head().ok_or_else(|| Error::stopped(self.partition, "the journal has no genesis"))
    }

    fn fold_to_end(&mut self, log: &Arc<dyn Log>) -> Result<(), Error> {
        let end = log.range(Topic::Journal, self.partition);
        let end = end.map_err(Error::log(self.partition, "asking for the journal's end"))?.end;
        while self.next < end {
            self.read(|_, _| ())?;
        }
        let head = self.head()?;
        let (partition, journal, log) = (self.partition, head.count, log.partitions(Topic::Journal));
        if journal == log { Ok(()) } else { Err(Error::PartitionCount { partition, journal, log }) }
    }

    /// Folds some records; `each` sees those that are accepted.
    fn read(&mut self, mut each: impl FnMut(u64, &[u8])) -> Result<(), Error> {
        let partition = self.partition;
        let records = self.reader.poll(RECORDS, PATIENCE).map_err(Error::log(partition, "reading"))?;
        if records.is_empty() {
            let reason = format!("the journal cannot be read on from offset {}", self.next);
            return Err(Error::stopped(partition, reason));
        }
        for record in records {
            let offset = record.offset;
            self.next = offset + 1;
            let Verdict::Accepted(header) = self.chain.accept(offset, &record.value) else { continue };
            if header.kind == Kind::Envelope {
                let envelope = record.value.decoded(|body| Envelope::read(body, Level::READS));
                let envelope = envelope.map_err(|error| Error::envelope(partition, offset, error))?;
                self.state.apply(&envelope);
            }
            each(offset, &record.value);
        }
        Ok(())
    }

    /// Claim, envelope and farewell, each linked to the one before.
    fn records(
        &self,
        head: &Head,
        loss: &Loss,
        accepted: AcceptedLoss,
        resume: Resume,
    ) -> Result<[Vec<u8>; 3], AcceptLossError> {
        let partition = self.partition;
        let too_long = |_| AcceptLossError::TooLong { partition };
        let claim = head.claim(&loss.incarnation, "").map_err(too_long)?;
        let body = self.envelope(loss, accepted, resume).to_json().into_bytes();
        let claimed = tidemill_log::Tip {
            epoch: head.epoch.saturating_add(1),
            seq: head.seq.saturating_add(1),
            hash: Hash::of(&claim),
        };
        let (envelope, tip) = claimed.next(Kind::Envelope, body).map_err(too_long)?;
        let (resigned, _) = tip.next(Kind::Resigned, Vec::new()).map_err(too_long)?;
        Ok([claim, envelope, resigned])
    }

    fn envelope(&self, loss: &Loss, accepted: AcceptedLoss, resume: Resume) -> Envelope {
        let AcceptedLoss { done, kept_from, resumed_at, .. } = accepted;
        let event = Event::Partition(PartitionEvent::CommandLossAccepted {
            by: loss.by.clone(),
            reason: loss.reason.clone(),
            done,
            kept_from,
            resumed_at,
        });
        let source =
            Source::Command { offset: resumed_at, request: None, reply_to: None, actor: actor(loss) };
        Envelope {
            now: self.state.now().max(Clock.now().wall),
            level: self.state.level(),
            resume: Some(resume),
            causes: vec![Cause { source, outcome: Outcome::Done, events: 1 }],
            events: vec![Recorded { shard: shard(self.partition), event }],
        }
    }

    /// Where this record stands and counts, at the latest at `last`.
    fn offset_of(&mut self, record: &[u8], last: u64) -> Result<Option<u64>, Error> {
        let mut found = None;
        let since = Instant::now();
        while found.is_none() && self.next <= last && since.elapsed() < PATIENCE {
            self.read(|offset, accepted| {
                if accepted == record {
                    found = Some(offset);
                }
            })?;
        }
        Ok(found)
    }
}
