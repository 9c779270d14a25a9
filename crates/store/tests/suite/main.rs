//! The tests of every kind of tables: SQLite, MariaDB; and of hints: in memory, Redis.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod conformance;
mod hints;
#[cfg(feature = "mysql")]
mod mysql;
mod sqlite;
