//! The store of logs of attempts: fetches them from workers while they are written, keeps them in files or objects, and gives them
//! to readers.
//!
//! ```text
//!  worker's spool ◄── fetch ── Store ── flush ──► segments in a directory, a bucket or HDFS
//!                                │                        │
//!                      memory, bounded ──► Reader ◄───────┘
//!                                            ▲
//!                       interface, by ticket ┘ server
//! ```
//! Several stores share attempts by the partitions of their shards, as the log suggests; a worker has one shard, and so one store.
//! A worker keeps what it has until a store says that all of it is durable, so a store has nothing that must survive it.
//!
//! What it must never do: give a byte that the worker did not have there, tell a worker that something is done which is in no
//! durable segment, give anything without a ticket, or hold a job up.
//!
//! Start reading at [`Running`], then `store`, `log` and `flush`; `segment` says what is written, `reading` what is read.

mod config;
mod cover;
mod durable;
mod error;
mod fetch;
mod finding;
mod flush;
mod log;
mod place;
mod places;
mod range;
mod reading;
mod recent;
mod run;
mod segment;
mod server;
mod store;
mod sweep;
#[cfg(test)]
mod tests;
mod waiting;
mod worker;

pub use config::{Config, GroupConfig, HdfsConfig, S3Config};
pub use error::Error;
pub use fetch::Workers;
pub use run::{Outside, Running};
pub use worker::{WorkerPlace, WorkerState};
