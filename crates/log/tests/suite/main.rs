//! The tests of every log: in memory, SQLite, Kafka.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

#[macro_use]
mod conformance;
mod corpus;
#[cfg(feature = "kafka")]
mod kafka;
mod memory;
mod released;
mod sqlite;
