//! The one place where this crate reads the wall clock: the append time of the logs that have no broker.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, as a broker would stamp a record.
pub(crate) fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
