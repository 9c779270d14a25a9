//! The owner of partitions: folds their journals, claims them, decides their commands and timers, and acts
//! on what it reads back.
//!
//! ```text
//!  journal ──reader──┐                         ┌── append ──► journal
//!  commands ─reader──┼─► Input ─► Owner::step ─┤
//!  clock, suggestion ┘          (no I/O)       └── effects ─► work, replies, commands, dead letters
//! ```
//!
//! *Invariant:* nothing leaves this crate that does not follow from a journal record that was read back.
//!
//! *Invariant:* at most one append is under way per partition. While it is, commands gather; the next
//! envelope takes all of them.
//!
//! Start reading at [`Owner`], which is pure, then `owning`, the thread around it.

mod accept_loss;
#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod clock;
mod config;
mod effects;
mod error;
mod lines;
mod live;
mod owner;
mod owning;
mod restore;
mod run;
mod silence;
mod snapshotter;

pub use accept_loss::{AcceptLossError, AcceptedLoss, Loss, accept_loss};
pub use clock::{Clock, Moment};
pub use config::Config;
pub use error::Error;
pub use lines::{OpenLine, TakeReply};
pub use live::{LiveError, LiveHandle, PartitionStatus};
pub use owner::{Input, NamedSnapshot, Output, Owner, Role, Start};
#[doc(hidden)]
pub use restore::{Life, records as restored_records};
pub use restore::{Restore, RestoreError, Restored, Restoring};
pub use run::{Dispatcher, run, run_with_snapshots};
pub use snapshotter::Snapshotting;
