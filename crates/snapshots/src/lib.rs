//! Snapshots: copies of a partition's state, from which whoever needs it reads on instead of folding the whole journal.
//!
//! ```text
//!  journal   0 ┄┄┄┄┄┄┄┄ m ──── n ─────────────────────────► end
//!                       │      └ snapshot.taken { offset m, hash, digest }, accepted
//!                       └ the state after record m, in a directory or a bucket
//! ```
//! A snapshot counts only if a record that is reached by reading on from it names its offset, its hash and its digest.
//! That record is the owner's word: it names only what it has read back itself. A snapshot's own hash says nothing, for a
//! void record has one, too. Where none counts, the fold begins at record 0; so all of them may be deleted at any time.
//!
//! Where to start reading:
//! - [`Restoring`]: what makes a snapshot count; pure.
//! - [`restore`]: the newest one that counts, else the beginning.
//! - [`take`]: a new one, made from the last one by reading on; the owner has nothing to do with it but to name the record.
//! - [`Snapshot`]: its bytes. [`Ladder`]: which ones are kept.
//!
//! What it must never do: use what no accepted record names; hold up an owner; be needed.

#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod config;
mod error;
mod fold;
mod form;
mod kept;
mod ladder;
mod name;
mod restore;
mod restoring;
mod take;

pub use config::Config;
pub use error::{Error, Refusal};
pub use fold::Fold;
pub use form::{Encoded, Snapshot};
pub use kept::Snapshots;
pub use ladder::Ladder;
pub use name::SnapshotName;
pub use restore::{Begun, Restored, Until, restore};
pub use restoring::Restoring;
pub use take::{Mark, Sight, Taken, take, verify};
