//! Is this history one that Tidemill may have? The answer comes from the journals alone (and, where they are
//! given, from commands, replies and work messages), by a small model of transitions, limits and fires that
//! is written a second time here.
//!
//! It must never import `tidemill-engine` or its calendar: what both got wrong in one place, no one would see.
//!
//! Where to start reading:
//! - [`Invariant`]: every rule that is checked, with its name and its sentence.
//! - [`Checker`]: fed record by record, in any order of partitions.
//! - [`check_log`], [`check_file`], [`export_journal`]: whole histories.
//! - [`reference()`]: the rules as a page.
//!
//! ```text
//!  bytes ─► link (does it count?) ─► envelope (time, commands, requests) ─► shard (jobs, batches, workers)
//!                 │                          │                                      │
//!                 └──────────────────────────┴──────────── Findings ◄───────────────┘
//! ```
//! Memory: an ended batch leaves. What stays is 40 bytes for each logical time of a job, the definitions, what was
//! given of pull tasks until it is purged, and the requests of the last 24 hours of work.

mod answers;
mod calendar;
mod checker;
mod commands;
mod depth;
mod effects;
mod error;
mod export;
mod findings;
mod foreign;
mod invariant;
mod link;
mod messages;
mod moves;
mod parents;
mod partition;
mod places;
mod reference;
mod requests;
mod shard;
mod snapshots;
mod source;
mod user_groups;

pub use checker::{Checker, Options};
use findings::At;

pub use error::Error;
pub use export::{each_exported, export_journal, export_journal_upto, export_records, exported_journals};
pub use findings::{PartitionSummary, Report, Violation, VoidRecord};
pub use invariant::Invariant;
pub use link::Void;
pub use reference::reference;
pub use source::{Ends, check_file, check_log};
