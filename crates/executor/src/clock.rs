//! The clock that leases count on: it goes on while the machine sleeps.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_BOOTTIME, in milliseconds.
pub(crate) fn boottime_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1000 + nanos.unwrap_or(0) / 1_000_000
}
