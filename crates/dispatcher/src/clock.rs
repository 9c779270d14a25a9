//! The one place of the dispatcher where time is read.

use rustix::time::{ClockId, clock_gettime};
use tidemill_model::Timestamp;

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// What people call the time; may step.
    pub wall: Timestamp,
    /// Milliseconds since boot, suspended time included; never steps.
    pub boot_ms: u64,
}

impl Moment {
    /// By how much the wall clock is ahead of the monotonic one; moves only when the wall clock steps.
    pub(crate) fn off_boot_ms(self) -> i64 {
        self.wall.as_millisecond() - self.boot_ms as i64
    }
}

/// Where moments come from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// Now.
    pub fn now(self) -> Moment {
        let boot = clock_gettime(ClockId::Boottime);
        let boot_ms = (boot.tv_sec as u64) * 1_000 + (boot.tv_nsec as u64) / 1_000_000;
        Moment { wall: jiff::Timestamp::now().into(), boot_ms }
    }
}
