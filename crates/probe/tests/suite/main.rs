//! The tests of checks of paths, with real stores.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

#[cfg(feature = "hdfs")]
mod hdfs;
mod kit;
mod prober;
#[cfg(feature = "s3")]
mod s3;
mod schedule;
