//! The embedded log: one SQLite file in a data directory of this process alone.
//!
//! ```text
//!  producers ──► queue ──► writer thread ──► one transaction per group ──► tail in memory ──► readers
//!                          (chain: void is refused)                        older: read connection ──┘
//! ```
//! - `commands`, `journal`, `events` and `dead-letters` are durable: one write-ahead log, all that is queued in one commit,
//!   which is synced before anybody sees it if it is acted on alone (`durability.rs`).
//! - `work` and `replies` are **volatile**: bounded rings in memory. They are derived from accepted state and
//!   sent again after a restart. A reader that lags behind the ring gets [`Error::OffsetOutOfRange`].
//! - An append to a journal is a compare-and-set: what the chain would void is
//!   [`Refused`](crate::AppendError::Refused) and never stored. So a stored void record means damage.
//! - Any other error of the writer makes the outcome of all that is queued unknown, and the log ends: every
//!   later call fails, and `on_fatal` lets the process end too. Opening again tells what is there.
//!   A full disk is told apart where the transaction was certainly rolled back.

mod archived;
mod directory;
mod durability;
mod file;
mod group;
mod older;
mod queue;
mod restored;
mod trim;
mod usage;
mod verify;
mod view;
mod writer;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use restored::SqliteImport;
pub use verify::Verified;
pub use view::SqliteView;

use crate::lane::{Gone, Keep, Lane, LaneReader, lane_index, places};
use crate::signal::lock;
use crate::{
    Error, From, Head, Log, LogId, Membership, Producer, QueueBound, Reader, Readers, Restore, Topic, Usage,
};
use directory::Directory;
use durability::Durability;
use file::File;
use older::OnDisk;
use queue::{Queue, SqliteProducer};
use trim::Kept;
use writer::Writer;

/// How the embedded log is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqliteConfig {
    /// The data directory; it is made where it does not exist. On a local disk.
    pub directory: PathBuf,
    /// How many partitions the log is made with; never changed later. Default 1.
    #[serde(default = "one")]
    pub partitions: u32,
    /// What one producer may have under way.
    #[serde(default)]
    pub queue: QueueBound,
    /// How many records of `work` and `replies` are kept, per partition. Default 65,536.
    #[serde(default = "ring_records")]
    pub ring_records: usize,
    /// The most that the file may take; appends are then answered [`Full`](crate::AppendError::Full).
    /// Default: no bound.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// How long commands are kept, milliseconds, once they are said to be done with. Default 14 days.
    #[serde(default = "keep_commands")]
    pub keep_commands_ms: u64,
    /// Pages of the write-ahead log after which it is written back and begun anew; fewer for tests alone.
    #[doc(hidden)]
    #[serde(skip, default = "checkpoint_pages")]
    pub checkpoint_pages: usize,
}

const fn checkpoint_pages() -> usize {
    4_000
}

const fn keep_commands() -> u64 {
    14 * 24 * 60 * 60 * 1_000
}

const fn one() -> u32 {
    1
}

const fn ring_records() -> usize {
    65_536
}

impl SqliteConfig {
    /// A log in this directory, with all else as by default.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            partitions: one(),
            queue: QueueBound::default(),
            ring_records: ring_records(),
            max_bytes: None,
            keep_commands_ms: keep_commands(),
            checkpoint_pages: checkpoint_pages(),
        }
    }

    const fn keep(&self, topic: Topic) -> Keep {
        if is_durable(topic) {
            Keep { records: 16_384, bytes: 16 << 20 }
        } else {
            Keep { records: self.ring_records, bytes: 16 << 20 }
        }
    }
}

/// Told once, on the writer's thread, why the log has ended. The process should end too.
pub type OnFatal = Box<dyn FnOnce(&str) + Send>;

const fn is_durable(topic: Topic) -> bool {
    match topic {
        Topic::Commands | Topic::Journal | Topic::Events | Topic::DeadLetters => true,
        Topic::Work | Topic::Replies => false,
    }
}

/// The embedded log. Dropped, it writes what is queued, and lets go of the directory.
pub struct SqliteLog {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    directory: Directory,
}

/// What producers and readers share with the writer.
struct Shared {
    id: LogId,
    partitions: u32,
    lanes: Vec<Arc<Lane>>,
    /// Where restores stand in the journals, by partition.
    restores: Vec<Vec<Restore>>,
    queue: Queue,
    bound: QueueBound,
    /// From where on each lane is kept on disk.
    kept: Vec<Mutex<Kept>>,
    keep_commands_ms: u64,
}

impl Shared {
    fn lane_index(&self, topic: Topic, partition: u32) -> Result<usize, Error> {
        lane_index(topic, partition, self.partitions)
    }

    fn lane(&self, topic: Topic, partition: u32) -> Result<&Arc<Lane>, Error> {
        Ok(&self.lanes[self.lane_index(topic, partition)?])
    }

    fn fail(&self, reason: &str) {
        self.queue.end(reason);
        self.lanes.iter().for_each(|lane| lane.fail(reason));
    }
}

impl SqliteLog {
    /// Opens the log, or makes it; verifies the chain of every journal from the last verified head on.
    ///
    /// # Errors
    /// The directory is in use, on a network file system or not writable; the file is of another version, was
    /// made with another number of partitions, or is damaged.
    pub fn open(config: &SqliteConfig, on_fatal: OnFatal) -> Result<Self, Error> {
        let directory = Directory::take(&config.directory)?;
        let file = File::open(&directory, config)?;
        let lane = |(topic, partition)| {
            let next = file.next_offset(topic, partition)?;
            Ok(Lane::new(topic, partition, config.keep(topic), next))
        };
        let lanes = places(config.partitions).map(lane).collect::<Result<Vec<_>, Error>>()?;
        let kept = lanes.iter().map(|lane| file.kept(lane.topic, lane.partition).map(Mutex::new));
        let kept = kept.collect::<Result<Vec<_>, Error>>()?;
        let chains = (0..config.partitions).map(|partition| verify::resume(&file, partition));
        let chains = chains.collect::<Result<Vec<_>, Error>>()?;
        let shared = Arc::new(Shared {
            id: file.log_id.clone(),
            partitions: config.partitions,
            lanes,
            restores: file.restores(config.partitions)?,
            queue: Queue::default(),
            bound: config.queue,
            kept,
            keep_commands_ms: config.keep_commands_ms,
        });
        let durability = Durability::new(file.write_ahead_log, config.checkpoint_pages);
        let writer = Writer::new(Arc::clone(&shared), file.connection, durability, chains, on_fatal);
        let thread = thread::Builder::new()
            .name("sqlite-log".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| Error::open("start the log's writer thread", error))?;
        Ok(Self { shared, writer: Mutex::new(Some(thread)), directory })
    }

    /// Reads everything from the first record on: offsets are dense and every journal is one unbroken chain.
    ///
    /// # Errors
    /// The first damage found.
    pub fn verify_all(&self) -> Result<Verified, Error> {
        verify::verify_all(&self.directory, &self.shared)
    }
}

impl Drop for SqliteLog {
    fn drop(&mut self) {
        self.shared.queue.end("the log was closed");
        let thread = lock(&self.writer).take();
        // The last owner may be a completion, which runs on the writer's thread: it cannot wait for itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // The thread catches panics itself, and has reported them.
            let _ = thread.join();
        }
    }
}

impl Readers for SqliteLog {
    fn log_id(&self) -> &LogId {
        &self.shared.id
    }

    fn restores(&self, partition: u32) -> &[Restore] {
        self.shared.restores.get(partition as usize).map_or(&[], Vec::as_slice)
    }

    fn partitions(&self, _: Topic) -> u32 {
        self.shared.partitions
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let lane = self.shared.lane(topic, partition)?;
        let next = from.within(topic, partition, self.range(topic, partition)?)?;
        if is_durable(topic) {
            Ok(Box::new(LaneReader::new(lane, next, OnDisk::new(&self.directory))))
        } else {
            Ok(Box::new(LaneReader::new(lane, next, Gone)))
        }
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        let lane = self.shared.lane_index(topic, partition)?;
        let range = self.shared.lanes[lane].range()?;
        Ok(if is_durable(topic) { lock(&self.shared.kept[lane]).from..range.end } else { range })
    }
}

impl Log for SqliteLog {
    fn keeps_acknowledged(&self) -> bool {
        true
    }

    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        Ok(Arc::new(SqliteProducer::new(&self.shared)))
    }

    fn trim(&self, topic: Topic, partition: u32, below: u64) -> Result<(), Error> {
        self.shared.trim(topic, partition, below)
    }

    fn release_archived(&self, below: u64, head: &Head) -> Result<(), Error> {
        self.shared.release_archived(below, head)
    }

    fn membership(&self, _: &str) -> Result<Box<dyn Membership>, Error> {
        Ok(Box::new(OnlyProcess { partitions: self.shared.partitions }))
    }

    fn usage(&self) -> Result<Usage, Error> {
        let bytes = self.directory.bytes()?;
        usage::of(&self.directory.file(), self.shared.partitions, bytes)
    }
}

/// The lock on the directory makes this the only process: everything is suggested to it.
struct OnlyProcess {
    partitions: u32,
}

impl Membership for OnlyProcess {
    fn suggested(&mut self, _: Duration) -> Result<Vec<u32>, Error> {
        Ok((0..self.partitions).collect())
    }
}
