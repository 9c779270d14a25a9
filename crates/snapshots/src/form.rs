//! The bytes of a snapshot.
//!
//! ```text
//!  tidemill-snapshot 1
//!  {"form":…,"head":{…},"latest_ms":…,"digest":…,"bytes":…}
//!  blocks: length (4 bytes, the lowest first), then up to 1 MiB of the state, compressed with Snappy
//! ```
//! The digest is that of form, position, latest time and state. It is of what is meant, not of these bytes, so that all who
//! have the same state at the same record say the same.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidemill_engine::Partition;
use tidemill_log::{Chain, Hash, Head, LogId};
use tidemill_model::Timestamp;

use crate::{Fold, Refusal, SnapshotName};

const MAGIC: &[u8] = b"tidemill-snapshot 1\n";
const BLOCK: usize = 1 << 20;
/// A line longer than this is none.
const MAX_HEADER: usize = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    form: String,
    head: Head,
    latest_ms: i64,
    digest: Hash,
    bytes: u64,
}

/// The state after a record, and which record that is.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The chain after that record.
    pub head: Head,
    /// The latest time of any envelope up to it.
    pub latest: Timestamp,
    /// The state.
    pub state: Partition,
    /// What the record that names it says.
    pub digest: Hash,
    /// How long the state is.
    pub bytes: u64,
}

/// A snapshot as it is written.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// What it is called in a store.
    pub name: SnapshotName,
    /// What the record that names it says.
    pub digest: Hash,
    /// How long the state is.
    pub bytes: u64,
    /// Its bytes.
    pub file: Vec<u8>,
}

fn named(head: &Head, latest: Timestamp) -> SnapshotName {
    SnapshotName {
        log_id: head.log_id.clone(),
        partition: head.partition,
        offset: head.offset,
        latest_ms: u64::try_from(latest.as_millisecond()).unwrap_or(0),
        form: tidemill_engine::form().to_owned(),
    }
}

fn digest(form: &str, head: &Head, latest_ms: i64, state: &[u8]) -> Hash {
    let head = serde_json::to_vec(head).expect("a head is plain data");
    let mut digest = Sha256::new();
    digest.update(form.as_bytes());
    digest.update(&head);
    digest.update(latest_ms.to_le_bytes());
    digest.update(state);
    Hash::from_bytes(digest.finalize().into())
}

impl Snapshot {
    /// The snapshot of a fold; `None` before the first record that counts.
    #[must_use]
    pub fn of(fold: &Fold) -> Option<Encoded> {
        let head = fold.chain.head()?.clone();
        let state = fold.state.to_bytes();
        let (form, latest_ms) = (tidemill_engine::form().to_owned(), fold.latest.as_millisecond());
        let digest = digest(&form, &head, latest_ms, &state);
        let bytes = state.len() as u64;
        let name = named(&head, fold.latest);
        let header = Header { form, head, latest_ms, digest, bytes };
        let mut file = MAGIC.to_vec();
        serde_json::to_writer(&mut file, &header).expect("a header is plain data");
        file.push(b'\n');
        for block in state.chunks(BLOCK) {
            let block = snap::raw::Encoder::new().compress_vec(block).expect("a block is far below 4 GiB");
            let length = u32::try_from(block.len()).expect("a block is far below 4 GiB");
            file.extend(length.to_le_bytes());
            file.extend(block);
        }
        Some(Encoded { name, digest, bytes, file })
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is not what was written, or of another form.
    pub fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let damaged = |reason: &str| Refusal::Damaged(reason.to_owned());
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it does not begin as a snapshot"))?;
        let line = rest.iter().take(MAX_HEADER).position(|byte| *byte == b'\n');
        let (line, blocks) = rest.split_at(line.ok_or_else(|| damaged("its header has no end"))?);
        let header: Header =
            serde_json::from_slice(line).map_err(|error| Refusal::Damaged(error.to_string()))?;
        if header.form != tidemill_engine::form() {
            return Err(Refusal::OtherForm(header.form));
        }
        let state = inflated(&blocks[1..], header.bytes)?;
        let Header { form, head, latest_ms, digest: said, bytes } = header;
        if digest(&form, &head, latest_ms, &state) != said {
            return Err(damaged("its digest is another one"));
        }
        let latest = Timestamp::from_millisecond(latest_ms).map_err(|_| damaged("its time is none"))?;
        let state = Partition::from_bytes(&state).map_err(|error| Refusal::Damaged(error.to_string()))?;
        Ok(Self { head, latest, state, digest: said, bytes })
    }

    /// Refuses one of another log or partition.
    ///
    /// # Errors
    /// [`Refusal::Foreign`]
    pub fn check_home(&self, log_id: &LogId, partition: u32) -> Result<(), Refusal> {
        let Head { log_id: own, partition: of, .. } = &self.head;
        if own == log_id && *of == partition && self.state.number() == partition {
            return Ok(());
        }
        Err(Refusal::Foreign { log_id: own.to_string(), partition: *of })
    }

    /// The fold as it was after its record.
    #[must_use]
    pub fn into_fold(self) -> Fold {
        let next = self.head.offset + 1;
        let Self { head, latest, state, .. } = self;
        Fold { chain: Chain::resume(head), state, next, latest, events: 0 }
    }
}

fn inflated(mut blocks: &[u8], length: u64) -> Result<Vec<u8>, Refusal> {
    let damaged = |reason: &str| Refusal::Damaged(reason.to_owned());
    let length = usize::try_from(length).map_err(|_| damaged("its length"))?;
    // What is said to be there takes no room before it is.
    let mut state = Vec::with_capacity(length.min(blocks.len().saturating_mul(32)));
    while !blocks.is_empty() {
        let (head, rest) = blocks.split_at_checked(4).ok_or_else(|| damaged("it ends within a block"))?;
        let bytes = u32::from_le_bytes(head.try_into().expect("four bytes"));
        let bytes = usize::try_from(bytes).map_err(|_| damaged("a block's length"))?;
        let (block, rest) = rest.split_at_checked(bytes).ok_or_else(|| damaged("it ends within a block"))?;
        let inflated = snap::raw::decompress_len(block).map_err(|error| damaged(&error.to_string()))?;
        if inflated > BLOCK || state.len() + inflated > length {
            return Err(damaged("a block is longer than it may be"));
        }
        let inflated = snap::raw::Decoder::new().decompress_vec(block);
        state.extend(inflated.map_err(|error| damaged(&error.to_string()))?);
        blocks = rest;
    }
    if state.len() == length { Ok(state) } else { Err(damaged("it ends early")) }
}
