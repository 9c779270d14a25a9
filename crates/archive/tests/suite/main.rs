//! The tests of the archive: segments, stores, reading through it, and an archiver that is killed anywhere.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod damage;
#[cfg(feature = "kafka")]
mod kafka;
mod killed;
mod kit;
mod reading;
mod sqlite;
mod stores;
