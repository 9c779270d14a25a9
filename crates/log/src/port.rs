//! The port: what a log is to the rest of Tidemill.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AppendError, ArchivedPart, Error, Head, LogId, MAX_FRAME_BYTES, Payload, Waker};

/// The most that key and value of one record may take together, outside the journal.
pub const MAX_RECORD_BYTES: usize = 4_000_000;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// Requests, from anyone with the right.
    Commands,
    /// Facts, from the owner of the partition.
    Journal,
    /// The public feed.
    Events,
    /// What owners tell workers. Volatile on the embedded log.
    Work,
    /// Outcomes of commands, for those who wait. Volatile on the embedded log.
    Replies,
    /// What could not be read or decided, with the reason.
    DeadLetters,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Commands, Self::Journal, Self::Events, Self::Work, Self::Replies, Self::DeadLetters];

    /// Its name after the prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Journal => "journal",
            Self::Events => "events",
            Self::Work => "work",
            Self::Replies => "replies",
            Self::DeadLetters => "dead-letters",
        }
    }

    /// Its place in [`Topic::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Whether the topic, which has `count` partitions, has this one.
    pub(crate) fn check_partition(self, partition: u32, count: u32) -> Result<(), Error> {
        if partition < count { Ok(()) } else { Err(Error::NoSuchPartition { topic: self, partition, count }) }
    }

    /// Whether this record is over what the topic takes, on every back end alike.
    pub(crate) const fn is_too_large(self, key: &[u8], value: &[u8]) -> bool {
        match self {
            Self::Journal => value.len() > MAX_FRAME_BYTES || key.len() > MAX_FRAME_BYTES,
            _ => key.len().saturating_add(value.len()) > MAX_RECORD_BYTES,
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One record, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the partition.
    pub offset: u64,
    /// When the log took it, in milliseconds since 1970 (on `events` at a broker: when it was made).
    pub timestamp_ms: i64,
    /// May be empty.
    pub key: Vec<u8>,
    /// The bytes given.
    pub value: Payload,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the first record that is kept.
    Start,
    /// After the last record that is there when the reader is made.
    End,
    /// At this offset; it has to be one that is kept, or the next one.
    Offset(u64),
}

impl From {
    /// The offset that this is in a partition that keeps these.
    pub(crate) fn within(self, topic: Topic, partition: u32, kept: Range<u64>) -> Result<u64, Error> {
        // Read from there it would look like a journal without a genesis, of which nothing counts.
        if topic == Topic::Journal
            && kept.start > 0
            && !matches!(self, Self::End)
            && !matches!(self, Self::Offset(wanted) if wanted >= kept.start)
        {
            return Err(Error::JournalBeginsLater { partition, first: kept.start });
        }
        match self {
            Self::Start => Ok(kept.start),
            Self::End => Ok(kept.end),
            Self::Offset(wanted) if (kept.start..=kept.end).contains(&wanted) => Ok(wanted),
            Self::Offset(wanted) => {
                Err(Error::OffsetOutOfRange { topic, partition, wanted, low: kept.start, high: kept.end })
            }
        }
    }
}

/// Space that the log takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes on this machine's disk (in memory for the memory log); `None` where a broker has them.
    pub bytes: Option<u64>,
    /// Those of them that new records take before the log grows; `None` where it is not known.
    pub free_bytes: Option<u64>,
    /// What each topic takes of them, where it is known.
    pub topics: BTreeMap<Topic, TopicUsage>,
}

/// Space that a topic takes, by samples of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicUsage {
    /// How many records the log has; exact.
    pub records: u64,
    /// About what they take.
    pub bytes: u64,
    /// About by how much it grows in a day: as in the last 24 hours, or as since its first record, where that is younger;
    /// a topic that is younger than an hour counts as of one hour.
    pub bytes_per_day: u64,
}

/// Told once what became of an append. It runs on a thread of the back end that has more to do: it must be
/// short, and must neither block nor panic. Where an append fails before it is queued
/// ([`AppendError::Full`], [`AppendError::TooLarge`], [`AppendError::Refused`] by a log that has ended), or needs no
/// queue, it runs inside [`Producer::append`]: so hold no lock across `append` that the completion takes.
pub type Done = Box<dyn FnOnce(Result<u64, AppendError>) + Send>;

/// A restore, in a journal: records from one offset on have another log id than those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// Offset of the claim that says so.
    pub from: u64,
    /// The id before.
    pub before: LogId,
    /// The id from there on.
    pub log_id: LogId,
}

/// What a log is to those who only read it.
pub trait Readers: Send + Sync {
    /// Which log this is. It stands in the genesis of every journal, or in the claim of the last restore.
    fn log_id(&self) -> &LogId;

    /// Where restores stand in a journal, the first one first. A log that was never restored has none.
    fn restores(&self, partition: u32) -> &[Restore] {
        let _ = partition;
        &[]
    }

    /// The id that the log had when it took this record of a journal.
    fn log_id_at(&self, partition: u32, offset: u64) -> &LogId {
        let restores = self.restores(partition);
        match restores.partition_point(|restore| restore.from <= offset).checked_sub(1) {
            Some(at) => &restores[at].log_id,
            None => restores.first().map_or(self.log_id(), |first| &first.before),
        }
    }

    /// How many partitions the topic has. Commands and journal have the same number.
    fn partitions(&self, topic: Topic) -> u32;

    /// A new reader of one partition.
    ///
    /// # Errors
    /// There is no such partition or offset, the client cannot be made, or the log has failed.
    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error>;

    /// Which segments of the archive a reader of this journal needs from an offset on; none without an archive, or where the
    /// log itself still has all of it.
    ///
    /// # Errors
    /// There is no such partition, the archive cannot be read, or the log has failed.
    fn archived(&self, partition: u32, from: u64) -> Result<Vec<ArchivedPart>, Error> {
        let _ = (partition, from);
        Ok(Vec::new())
    }

    /// First offset that is kept, and the offset that comes next: as the log itself has it *now*, never from
    /// a cache. Everything acknowledged before the call is below the end.
    ///
    /// # Errors
    /// There is no such partition, the broker does not answer, or the log has failed.
    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error>;
}

/// A log: topics of partitions of records.
pub trait Log: Readers {
    /// A new producer, with a queue of its own. An owner has one per owned partition, and one for effects.
    ///
    /// # Errors
    /// The client or thread cannot be made, or the log has failed.
    fn producer(&self) -> Result<Arc<dyn Producer>, Error>;

    /// Says that everything below this offset is done with. A log that keeps its records itself may then forget
    /// those of them that are older than it declares, a few at a time; a broker goes by the settings of its
    /// topics, so this does nothing there. A journal is never forgotten so.
    ///
    /// # Errors
    /// There is no such partition, or the log has failed.
    fn trim(&self, topic: Topic, partition: u32, below: u64) -> Result<(), Error> {
        let _ = (topic, partition, below);
        Ok(())
    }

    /// Removes the records of a journal below this offset, which are kept elsewhere: their copy was synced, read back and
    /// compared with them. `head` is where the chain stands after them; the log keeps it, and what it has begins with
    /// `below` from then on. Returns once their room is free. The last record of a journal stays.
    ///
    /// # Errors
    /// This log does not have the record of `head`, cannot remove records, or has failed.
    fn release_archived(&self, below: u64, head: &Head) -> Result<(), Error> {
        let _ = below;
        Err(Error::NotReleased { partition: head.partition, source: "this log removes no records".into() })
    }

    /// Takes part, as `member`, in the suggestion of owners.
    ///
    /// # Errors
    /// The client cannot be made.
    fn membership(&self, member: &str) -> Result<Box<dyn Membership>, Error>;

    /// Takes part, as `member`, in the division of a role's work between the processes that do it. What the
    /// partitions suggested to one of them mean is up to the role: each is suggested to one process at most,
    /// and to one as long as there is one. Owners are not among them.
    ///
    /// # Errors
    /// The client cannot be made.
    fn peers(&self, role: &str, member: &str) -> Result<Box<dyn Membership>, Error> {
        let _ = role;
        self.membership(member)
    }

    /// Reads a topic beside the log's own, which others write; `topic` is its whole name. Its partitions are
    /// divided between all processes that read it.
    ///
    /// # Errors
    /// The client cannot be made; or this log has no topics that others could write.
    fn intake(&self, topic: &str, member: &str) -> Result<Box<dyn Intake>, Error> {
        let _ = member;
        Err(Error::open(format!("read the topic {topic}"), "this log has no topics that others write"))
    }

    /// Whether what it acknowledged is there whatever it lives with: a process may start on the acknowledgement of its
    /// question. Not so where one broken disk loses records.
    fn keeps_acknowledged(&self) -> bool {
        false
    }

    /// How much space the log takes.
    ///
    /// # Errors
    /// The space cannot be found out.
    fn usage(&self) -> Result<Usage, Error>;

    /// How many readers of this log were found to get nothing though there was more, and began anew, since it was opened, by
    /// topic; topics without any are left out. A log that this process keeps has none.
    fn stalled_readers(&self) -> BTreeMap<Topic, u64> {
        BTreeMap::new()
    }
}

/// A record that is to be appended.
pub struct NewRecord {
    /// Where to.
    pub topic: Topic,
    /// Of the topic.
    pub partition: u32,
    /// May be empty.
    pub key: Vec<u8>,
    /// Its bytes.
    pub value: Payload,
    /// Whether its sender acts on the acknowledgement alone. A log that syncs only what somebody acts on syncs this, too.
    pub acted_on: bool,
    /// Told what became of it.
    pub done: Done,
}

impl fmt::Debug for NewRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partition, key: _, value, acted_on: _, done: _ } = self;
        write!(f, "{} bytes for {topic} {partition}", value.len())
    }
}

/// Appends records. Order is kept per producer and partition.
pub trait Producer: Send + Sync {
    /// Queues a record; `done` is called exactly once with its offset, or with why there is none.
    fn append(&self, topic: Topic, partition: u32, key: &[u8], value: Vec<u8>, done: Done);

    /// Queues records in this order, each with an outcome of its own. Where nothing else is queued, a back end that
    /// commits does so once for all of them, and its readers find them together; they are no transaction.
    fn append_all(&self, records: Vec<NewRecord>) {
        for NewRecord { topic, partition, key, value, acted_on: _, done } in records {
            self.append(topic, partition, &key, value.into(), done);
        }
    }

    /// Waits until everything appended so far has its outcome.
    ///
    /// # Errors
    /// [`Error::FlushTimeout`] where that takes longer than `timeout`.
    fn flush(&self, timeout: Duration) -> Result<(), Error>;
}

/// Reads one partition in order.
pub trait Reader: Send {
    /// Blocks until there is at least one record, the timeout is over, or the waker is used; gives at most
    /// `max_records`, none in the latter cases.
    ///
    /// # Errors
    /// The records cannot be read, the offset is no longer kept, or the log has failed.
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, Error>;

    /// Ends a [`Reader::poll`] that waits, from any thread.
    fn waker(&self) -> Waker;
}

/// One process's part in the *suggestion* of owners. What counts is the journal.
pub trait Membership: Send {
    /// The partitions suggested to this process at the moment, in ascending order. Has to be called at least
    /// once a second; waits up to `timeout` for news.
    ///
    /// # Errors
    /// The suggestion cannot be had.
    fn suggested(&mut self, timeout: Duration) -> Result<Vec<u32>, Error>;
}

/// A record of a topic that others write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Of the topic.
    pub partition: u32,
    /// In the partition.
    pub offset: u64,
    /// The bytes given.
    pub value: Vec<u8>,
}

/// Reads a topic that others write. What was not said to be done comes again, perhaps in another process.
pub trait Intake: Send {
    /// Waits for records, at most `timeout`; gives at most `max_records`. Has to be called at least once in five
    /// minutes.
    ///
    /// # Errors
    /// The topic cannot be read any more.
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Taken>, Error>;

    /// Says that everything of the partition below this offset is dealt with, and waits until that is noted.
    ///
    /// # Errors
    /// It cannot be noted.
    fn done(&mut self, partition: u32, below: u64) -> Result<(), Error>;
}

/// Appends and waits for the outcome.
///
/// # Errors
/// As [`Producer::append`] tells; [`AppendError::Unknown`] where there is no outcome within `timeout`.
pub fn append_wait(
    producer: &dyn Producer,
    topic: Topic,
    partition: u32,
    key: &[u8],
    value: Vec<u8>,
    timeout: Duration,
) -> Result<u64, AppendError> {
    let (outcome, told) = mpsc::sync_channel(1);
    let done = move |result| {
        // The receiver is gone where the wait below timed out: then nobody wants to know.
        let _ = outcome.send(result);
    };
    producer.append(topic, partition, key, value, Box::new(done));
    told.recv_timeout(timeout).unwrap_or_else(|_| {
        Err(AppendError::Unknown(format!("no outcome within {} ms", timeout.as_millis())))
    })
}
