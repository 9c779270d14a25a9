//! What can fail, one variant per operation.

use std::path::PathBuf;

use thiserror::Error;

use crate::{FrameError, Topic, VoidReason};

/// The source of an error, whatever back end it comes from.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// An operation on the log that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A client, connection or thread could not be made.
    #[error("cannot {what}")]
    Open {
        /// What was to be made.
        what: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// Records could not be read.
    #[error("cannot read {topic}, partition {partition}")]
    Read {
        /// From where.
        topic: Topic,
        /// From where.
        partition: u32,
        /// Why not.
        #[source]
        source: Source,
    },
    /// The offsets of a partition could not be asked for.
    #[error("cannot ask for the offsets of {topic}, partition {partition}")]
    Range {
        /// Of what.
        topic: Topic,
        /// Of what.
        partition: u32,
        /// Why not.
        #[source]
        source: Source,
    },
    /// The offset is not there: it was never written, or is no longer kept, or the topic was rebuilt.
    #[error("{topic}, partition {partition} has offsets {low} to {high}; {wanted} is not among them")]
    OffsetOutOfRange {
        /// Of what.
        topic: Topic,
        /// Of what.
        partition: u32,
        /// What was asked for.
        wanted: u64,
        /// The first that is kept.
        low: u64,
        /// The one that will be written next.
        high: u64,
    },
    /// There is no such partition.
    #[error("{topic} has {count} partitions, numbered from 0: there is no partition {partition}")]
    NoSuchPartition {
        /// Of what.
        topic: Topic,
        /// What was asked for.
        partition: u32,
        /// How many there are.
        count: u32,
    },
    /// Not everything was appended in time.
    #[error("appends were still under way after {waited_ms} ms")]
    FlushTimeout {
        /// How long was waited.
        waited_ms: u128,
    },
    /// An earlier input or output error; the process has to end, and open the log again.
    #[error("the log failed and takes nothing more: {reason}")]
    Poisoned {
        /// The error it failed with.
        reason: String,
    },
    /// The suggestion of partitions could not be had.
    #[error("cannot learn which partitions are suggested to this process")]
    Membership {
        /// Why not.
        #[source]
        source: Source,
    },
    /// A topic that others write could not be read, or how far it was read not be noted.
    #[error("cannot read {topic}")]
    Intake {
        /// Its name.
        topic: String,
        /// Why not.
        #[source]
        source: Source,
    },
    /// The size of the log could not be found out.
    #[error("cannot find out how much space the log takes")]
    Usage {
        /// Why not.
        #[source]
        source: Source,
    },
    /// Another process has the data directory.
    #[error("{} is in use by process {holder}; stop it, or give this one another directory", directory.display())]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// Process id as its lock file has it.
        holder: String,
    },
    /// The data directory is on a file system whose locks and syncs cannot be relied upon.
    #[error("{} is on a network file system ({kind}); the embedded log needs a local disk", directory.display())]
    NetworkFileSystem {
        /// The data directory.
        directory: PathBuf,
        /// Which one.
        kind: &'static str,
    },
    /// The file was written by another version.
    #[error(
        "{} has format {found}, and this program reads format {wanted}; nothing was changed: use the program that wrote it, \
         or another data directory",
        file.display()
    )]
    FormatVersion {
        /// The file.
        file: PathBuf,
        /// In the file.
        found: i64,
        /// Of this program.
        wanted: i64,
    },
    /// The log was made with another number of partitions; that number never changes.
    #[error("{topic} has {found} partitions, the configuration says {wanted}; set it to {found}")]
    PartitionCount {
        /// Of what.
        topic: Topic,
        /// In the log.
        found: u32,
        /// In the configuration.
        wanted: u32,
    },
    /// A record is not what was written.
    #[error("record {offset} of the journal of partition {partition} in {} is damaged: {reason}", file.display())]
    Damaged {
        /// Which journal.
        partition: u32,
        /// Where.
        offset: u64,
        /// What stores it.
        file: PathBuf,
        /// What is wrong.
        reason: FrameError,
    },
    /// The first records of a journal are not in the log any more.
    #[error(
        "the journal of partition {partition} begins with record {first} in the log; those before it were archived: set \
         archive.place to where they are"
    )]
    JournalBeginsLater {
        /// Which journal.
        partition: u32,
        /// The first record that the log has.
        first: u64,
    },
    /// Records of a journal were not removed.
    #[error("archived records of the journal of partition {partition} cannot be removed from the log")]
    NotReleased {
        /// Which journal.
        partition: u32,
        /// Why not.
        #[source]
        source: Source,
    },
    /// The archive cannot give a record.
    #[error("cannot read the archive of the journal of partition {partition}")]
    Archive {
        /// Which journal.
        partition: u32,
        /// Why not.
        #[source]
        source: Source,
    },
    /// A journal has a record that does not belong into its chain.
    #[error("the journal of partition {partition} is damaged at offset {offset}: {reason}")]
    ChainBroken {
        /// Which journal.
        partition: u32,
        /// Where.
        offset: u64,
        /// Which rule is broken.
        reason: VoidReason,
    },
    /// A stored position does not fit the journal.
    #[error(
        "the journal of partition {partition} has at offset {offset} not the record it had when the position was stored"
    )]
    HeadMismatch {
        /// Which journal.
        partition: u32,
        /// The offset of the position.
        offset: u64,
    },
    /// Offsets are missing.
    #[error("{topic}, partition {partition} lacks offset {offset}")]
    Gap {
        /// Of what.
        topic: Topic,
        /// Of what.
        partition: u32,
        /// The first that is missing.
        offset: u64,
    },
    /// A topic does not have the settings without which records could be lost.
    #[error("topic {topic}: {setting} is {found}, but has to be {wanted}")]
    TopicSetting {
        /// Its name at the broker.
        topic: String,
        /// Which setting.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        wanted: String,
    },
    /// A topic does not exist.
    #[error("topic {topic} does not exist; make it, or let the program make it")]
    NoSuchTopic {
        /// Its name at the broker.
        topic: String,
    },
    /// A journal does not begin with a genesis of this log.
    #[error("the journal of partition {partition} does not begin with the genesis of this log: {reason}")]
    ForeignJournal {
        /// Which journal.
        partition: u32,
        /// What it begins with.
        reason: String,
    },
}

impl Error {
    pub(crate) fn open(what: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::Open { what: what.into(), source: source.into() }
    }

    pub(crate) fn read<E: Into<Source>>(topic: Topic, partition: u32) -> impl Fn(E) -> Self {
        move |source| Self::Read { topic, partition, source: source.into() }
    }

    pub(crate) fn range<E: Into<Source>>(topic: Topic, partition: u32) -> impl Fn(E) -> Self {
        move |source| Self::Range { topic, partition, source: source.into() }
    }
}

/// Why a record was not, or may not have been, appended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// It is certainly not in the log.
    #[error("refused: {0}")]
    Refused(String),
    /// It may or may not be in the log. An owner drops its producer, claims again and re-reads.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
    /// It is larger than the log takes; certainly not in the log. A bug of the writer.
    #[error("the record is too large")]
    TooLarge,
    /// The queue's bound is reached, or the disk is full; certainly not in the log. Try later.
    #[error("the log has no room at the moment: its disk, or its queue, is full")]
    Full,
}
