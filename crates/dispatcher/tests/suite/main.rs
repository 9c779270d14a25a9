//! The dispatcher's tests.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod accept_loss;
#[cfg(feature = "kafka")]
mod kafka;
mod kit;
mod memory;
mod owner;
mod seals;
mod sqlite;
