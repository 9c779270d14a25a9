//! Hints for those who pull tasks.

mod conformance;
#[cfg(all(feature = "redis", feature = "tls"))]
mod encrypted;
mod memory;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod server;
