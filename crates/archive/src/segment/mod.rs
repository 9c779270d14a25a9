//! One segment: consecutive records of one journal in one object, written once and never changed.
//!
//! ```text
//!  tidemill-segment 1⏎ │ block │ block │ … │ footer, JSON │ SHA-256 of the footer │ its length │ TMSEGEND⏎
//! ```
//! The footer has the SHA-256 of every block, so the last bytes stand for all of them.

mod block;
mod build;
mod name;
mod open;

use serde::{Deserialize, Serialize};
use tidemill_log::{Hash, Head, LogId};

pub(crate) use build::Build;
pub use name::SegmentName;
pub(crate) use open::Segment;

/// The first bytes, with the version of the form.
pub(crate) const MAGIC: &[u8] = b"tidemill-segment 1\n";
/// The last bytes.
pub(crate) const END: &[u8] = b"TMSEGEND\n";
/// SHA-256, length and last bytes after the footer.
pub(crate) const TRAILER_BYTES: usize = 32 + 4 + END.len();
/// No footer is longer.
pub(crate) const MAX_FOOTER_BYTES: usize = 16 << 20;
/// Records are gathered into a block up to this; one record is a block, however large.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// No block is larger than that and the largest record.
pub(crate) const MAX_BLOCK_BYTES: usize = 16 << 20;

/// What a segment says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footer {
    /// Of which log.
    pub log_id: LogId,
    /// Of which journal.
    pub partition: u32,
    /// Its first offset.
    pub first: u64,
    /// The offset after its last record.
    pub next: u64,
    /// How many records.
    pub records: u64,
    /// How many of them do not count.
    pub voids: u64,
    /// When the log took the first of them, milliseconds since 1970.
    pub first_at_ms: i64,
    /// When it took the last.
    pub last_at_ms: i64,
    /// Bytes of keys and values.
    pub record_bytes: u64,
    /// Where the chain stands before the first record; absent: before the genesis.
    pub before: Option<Head>,
    /// Where it stands after the last.
    pub after: Option<Head>,
    /// The blocks, in their order.
    pub blocks: Vec<Block>,
}

/// A block of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Its first offset.
    pub first: u64,
    /// How many records.
    pub records: u64,
    /// Where it begins in the object.
    pub at: u64,
    /// How long it is there.
    pub bytes: u64,
    /// SHA-256 of these bytes.
    pub sha256: Hash,
}

impl Footer {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> SegmentName {
        let Self { log_id, partition, first, next, .. } = self;
        SegmentName { log_id: log_id.clone(), partition: *partition, first: *first, next: *next }
    }
}
