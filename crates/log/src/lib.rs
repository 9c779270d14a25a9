//! The log port of Tidemill and its back ends.
//!
//! Everything that Tidemill knows stands in a log: requests in `commands`, facts in `journal`. This crate moves
//! *bytes and frames*; it knows nothing of jobs and depends on no other crate of the project. It is
//! synchronous: threads and completions, no runtime.
//!
//! Where to start reading:
//! - [`Log`], [`Readers`], [`Producer`], [`Reader`], [`Membership`]: the port.
//! - [`Frame`]: the frozen header of a journal record. [`Chain`]: which records of a journal count.
//! - [`MemoryLog`] for tests and the simulator, with faults; [`SqliteLog`], the embedded log;
//!   `KafkaLog` behind the feature `kafka`. One conformance suite in `tests/` runs on all three.
//!
//! What every back end promises:
//! - Offsets grow; a reader sees records in their order. A producer's appends to one partition keep their order.
//! - An acknowledged record is there to be read, and below the high watermark that is asked for afterwards.
//! - A completion is called exactly once. [`AppendError::Unknown`] is the only outcome that leaves open
//!   whether the record is in the log; nothing here ever retries such a record.
//! - Every journal of an open log begins with a [`Genesis`]: the back end writes it when it makes the journal.
//!
//! What is deliberately absent: transactions, fencing by the broker, headers, compaction. The chain is the
//! fence. The embedded log refuses what the chain would void; the others store it, and readers void it.

#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod archived;
mod chain;
mod clock;
mod error;
mod frame;
mod hash;
mod head;
mod in_flight;
#[cfg(feature = "kafka")]
pub mod kafka;
mod lane;
mod log_id;
pub mod memory;
mod payload;
mod port;
mod relay;
mod shared;
mod signal;
pub mod sqlite;

pub use archived::ArchivedPart;
pub use chain::{Chain, Verdict, VoidReason};
pub use error::{AppendError, Error, Source};
pub use frame::{Codec, Frame, FrameError, HEADER_BYTES, Header, Kind, MAX_FRAME_BYTES};
pub use hash::{Hash, partition_of_key};
pub use head::{Claim, Genesis, Head, Tip};
pub use in_flight::QueueBound;
#[cfg(feature = "kafka")]
pub use kafka::{
    KafkaCertificate, KafkaConfig, KafkaLog, KafkaLogin, KafkaMechanism, KafkaSecurity, KafkaTls,
};
pub use log_id::{InvalidLogId, LogId};
pub use memory::MemoryLog;
pub use payload::Payload;
pub use port::{
    Done, From, Intake, Log, MAX_RECORD_BYTES, Membership, NewRecord, Producer, Reader, Readers, Record,
    Restore, Taken, Topic, TopicUsage, Usage, append_wait,
};
pub use relay::Relay;
pub use shared::SharedJournals;
pub use signal::Waker;
pub use sqlite::{SqliteConfig, SqliteImport, SqliteLog, SqliteView};
