//! A store as it runs: it asks workers over HTTP, keeps what they have in a directory, a bucket or HDFS, and answers readers.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod divided;
mod kit;
mod places;
mod readers;
mod worker;
