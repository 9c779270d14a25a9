//! Task logs: what became of every task that a client pulled, passed on to where people look for it (PUL-12).
//!
//! ```text
//!  journal p ─► chain ─► Source ─► changes of task logs ─► MySQL          rows + position, one transaction
//!                           ▲                          ├─► Elasticsearch  documents, then position
//!            read tables ───┘                          └─► Parquet        files that carry their position
//! ```
//! A *task log* is a grant with its end. A sink keeps one per grant, or one row per change; which, and where its
//! position is, is its own affair. What all have in common:
//!
//! - The journal says what happened and in which order, the position which part of it the data hold. Nothing is lost
//!   or doubled whenever a sink dies, because the position is never ahead of the data, and because what is done again
//!   gives the same data.
//! - What a grant was given (user, parameters, times) never changes; it is looked up in the read tables, which hold
//!   every grant and every version of a task. A sink waits until they show what it has read. So it needs no state of
//!   its own, and begins where its position says, however long the journal is.
//! - Each sink has a thread for each partition, which reads on only when it has written. None waits for another.
//!
//! Where to start reading: [`Source`], the trait [`Sink`], [`run_with`].

mod config;
mod elasticsearch;
mod error;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "parquet")]
mod parquet;
mod run;
mod sink;
mod source;
mod status;
mod task_log;

pub use config::{Config, ElasticsearchConfig, MysqlConfig, ParquetConfig, S3Config};
pub use elasticsearch::ElasticsearchSink;
pub use error::{Cause, Error};
#[cfg(feature = "mysql")]
pub use mysql::MysqlSink;
#[cfg(all(feature = "parquet", feature = "s3"))]
pub use parquet::S3Files;
#[cfg(feature = "parquet")]
pub use parquet::{Files, LocalFiles, ParquetSink};
pub use run::{Opener, openers, run_with};
pub use sink::{Sink, Stored};
pub use source::{Batch, Source};
pub use status::{Progress, keep_noting, noted};
pub use task_log::{Change, Given, State};
