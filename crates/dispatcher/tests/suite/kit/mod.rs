//! What the dispatcher's tests share: places to put a log, hands to use it, and eyes to read it back.

#![allow(dead_code, unreachable_pub, reason = "the takeover uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod client;
pub mod cluster;
pub mod journal;
pub mod requester;
pub mod suite;
pub mod trick;
pub mod worker;

use std::time::Duration;

/// No test waits longer for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);
