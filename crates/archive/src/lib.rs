//! The archive: old records of journals, in files of a directory or objects of a bucket, read as if they were still in
//! the log.
//!
//! ```text
//!   segments in the archive                        the log
//!  ┌──────────┬──────────┬──────────┐
//!  │ 0..4096  │ ..9000   │ ..20480  │┄┄┄┄┄┄┄┄┄┄┄┄┄┄┐
//!  └──────────┴──────────┴──────────┴──────────────┴─────────►
//!                         └ copied, and still in the log: released once it is old, or too much
//! ```
//! Where to start reading:
//! - [`ArchivedLog`]: a log whose journals are read through the archive, by the same calls.
//! - [`Archiver`]: copies, reads back, and only then releases.
//! - [`SegmentName`] and [`Footer`]: what a segment says of itself; `docs/archive.md` has its form.
//! - [`Store`]: where segments are; a directory, or a bucket behind the feature `s3`.
//!
//! What it must never do: release a record whose copy it has not read back and compared with the log's own; skip a record
//! that it cannot read; know what stands in an envelope.

mod archive;
mod archived_log;
mod archiver;
mod config;
mod error;
mod origin;
mod reader;
mod segment;
mod store;

pub use archive::{Archive, Catalog, Found};
pub use archived_log::ArchivedLog;
pub use archiver::{Archiver, Bounds, Cycle, When};
pub use config::{Config, S3Config};
pub use error::Error;
pub use origin::origin;
pub use segment::{Footer, SegmentName};
#[cfg(feature = "s3")]
pub use store::S3Store;
pub use store::{DirectoryStore, Listing, Object, Store, open_store};
