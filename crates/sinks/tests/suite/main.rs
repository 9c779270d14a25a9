//! The sinks' tests, with real services.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod elasticsearch;
mod kit;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "parquet")]
mod parquet;
mod source;
#[cfg(feature = "tls")]
mod tls;
