//! The time-of-day half of an expression.

use jiff::civil::Time;

use super::field::{first, last, next, previous};

/// The matching seconds, minutes and hours, one bit each. None of the three is empty.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
}

impl Clock {
    pub(super) fn times_per_day(&self) -> u32 {
        self.seconds.count_ones() * self.minutes.count_ones() * self.hours.count_ones()
    }

    /// The first matching time of a day.
    pub(super) fn first(&self) -> Time {
        time(first(self.hours), first(self.minutes), first(self.seconds))
    }

    /// The last matching time of a day.
    pub(super) fn last(&self) -> Time {
        time(last(self.hours), last(self.minutes), last(self.seconds))
    }

    /// The first matching time that is not before `from`, which has whole seconds.
    pub(super) fn at_or_after(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour() as u32, from.minute() as u32, from.second() as u32);
        if next(self.hours, hour) == Some(hour) {
            if next(self.minutes, minute) == Some(minute)
                && let Some(second) = next(self.seconds, second)
            {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = next(self.minutes, minute + 1) {
                return Some(time(hour, minute, first(self.seconds)));
            }
        }
        next(self.hours, hour + 1).map(|hour| time(hour, first(self.minutes), first(self.seconds)))
    }

    /// The last matching time that is not after `from`.
    pub(super) fn at_or_before(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour() as u32, from.minute() as u32, from.second() as u32);
        if next(self.hours, hour) == Some(hour) {
            if next(self.minutes, minute) == Some(minute)
                && let Some(second) = previous(self.seconds, second)
            {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = minute.checked_sub(1).and_then(|below| previous(self.minutes, below)) {
                return Some(time(hour, minute, last(self.seconds)));
            }
        }
        let hour = hour.checked_sub(1).and_then(|below| previous(self.hours, below))?;
        Some(time(hour, last(self.minutes), last(self.seconds)))
    }
}

fn time(hour: u32, minute: u32, second: u32) -> Time {
    Time::new(hour as i8, minute as i8, second as i8, 0).expect("set bits are within the field's range")
}
