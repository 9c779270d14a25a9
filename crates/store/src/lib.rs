//! The read tables of Tidemill: what people and the API query.
//!
//! They are a *cache* of the journal, filled by the projector alone: every row is the fold of facts, so all
//! tables may be dropped and come back equal. This crate knows tables, rows and SQL; it knows nothing of
//! events and depends on no other crate of the project. It is synchronous.
//!
//! Where to start reading:
//! - [`rows`]: what is in which table. One definition serves both dialects, the typed reads and the manual.
//! - [`Tables`]: the port. [`ReadTables`]: typed reads with paging, on top of it.
//! - [`SqliteTables`]; `MysqlTables` behind the feature `mysql`. One conformance suite in `tests/`.
//! - [`hints`]: what spares empty answers to those who pull, in memory or in Redis. No table, and no truth.
//!
//! ```text
//!  tidemill_forms: (form, 2)          ◄── the switch, one of each form of tables that programs have
//!  tidemill_positions: (1, p) (2, p)      how far each generation has folded partition p
//!  tidemill_rebuilds: (form, number)      who rebuilds the tables of a form, one at a time
//!  tidemill_sinks: (sink, p)              how far each sink has passed partition p on, as it says itself
//!  g1_jobs g1_batches …                   a generation: one full set of tables
//!  g2_jobs g2_batches …                   another, built beside the first
//!  views jobs, batches, … ─► g2_…         for people; they follow the switch
//! ```
//!
//! What is deliberately absent: wall time and insert order in any column; foreign keys (the partitions are
//! folded apart, so a row may be there before the one it refers to); migrations (another form of the tables
//! is another generation, which the projector of the new version builds beside that of the old one).

#[macro_use]
#[path = "../../planted/src/hook.rs"]
mod planted;

mod copies;
mod cursor;
mod error;
mod forms;
mod generations;
pub mod hints;
mod in_use;
mod leftovers;
mod link;
#[cfg(feature = "mysql")]
mod mysql;
mod port;
mod read;
mod rebuilding;
mod reference;
pub mod rows;
mod select;
mod sql;
mod sqlite;
mod table;
mod value;
mod views;

pub use cursor::{Cursor, Page, PageRequest};
pub use error::{Error, Source};
pub use forms::FormInUse;
pub use in_use::wait_in_tables;
#[cfg(feature = "mysql")]
pub use mysql::{MysqlConnection, MysqlError, MysqlServer, MysqlTables};
pub use port::{
    Aged, FORMAT, Generation, Position, RowBatch, SinkNote, Snapshot, TableChanges, Tables, Written,
};
pub use read::{
    AttemptFilter, AuditFilter, BatchFilter, DeadLetterFilter, JobFilter, PullGrantFilter, PullTaskFilter,
    Reach, ReadAudit, ReadPullTables, ReadTables, RerunFilter, Within, WorkerFilter,
};
pub use rebuilding::{RebuildInProgress, RebuildRight};
pub use reference::reference;
pub use select::{Filter, Select};
pub use sqlite::SqliteTables;
pub use table::{Column, Kind, Row, Shown, Table};
pub use value::{Field, Value};
