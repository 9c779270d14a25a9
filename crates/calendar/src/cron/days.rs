//! The two day fields: which days of one month match.

use jiff::civil::{Date, Weekday};

/// The day-of-month field. Bit n of each set stands for the number n.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct DaysOfMonth {
    /// `n`: these days.
    pub(super) days: u64,
    /// `L` (bit 0) and `L-n`: counted back from the last day.
    pub(super) from_last: u64,
    /// `nW`: the weekday (Monday to Friday) nearest to day n, inside the month.
    pub(super) nearest: u64,
    /// `LW` (bit 0) and `L-nW`: the weekday nearest to that day.
    pub(super) nearest_from_last: u64,
}

/// The day-of-week field. Bit 0 is Sunday.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct DaysOfWeek {
    /// `n`: every such day.
    pub(super) days: u8,
    /// `nL`: the last such day of the month.
    pub(super) last: u8,
    /// `n#k`: the k-th such day of the month, at index k - 1.
    pub(super) nth: [u8; 5],
}

/// A month of a year, reduced to what the day rules need.
pub(super) struct MonthShape {
    length: u32,
    /// The weekday of the 1st, Sunday = 0.
    first_weekday: u32,
}

impl MonthShape {
    /// The shape of the month that begins at `first`.
    pub(super) fn of(first: Date) -> MonthShape {
        MonthShape {
            length: first.days_in_month() as u32,
            first_weekday: first.weekday().to_sunday_zero_offset() as u32,
        }
    }

    fn days(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.length
    }

    fn weekday(&self, day: u32) -> u32 {
        (self.first_weekday + day - 1) % 7
    }

    /// The day from Monday to Friday that is nearest to `day` without leaving the month.
    fn nearest_weekday(&self, day: u32) -> u32 {
        let saturday = Weekday::Saturday.to_sunday_zero_offset() as u32;
        match self.weekday(day) {
            0 if day == self.length => day - 2,
            0 => day + 1,
            weekday if weekday == saturday && day == 1 => day + 2,
            weekday if weekday == saturday => day - 1,
            _ => day,
        }
    }
}

impl DaysOfMonth {
    /// The matching days of a month, bit n for day n.
    pub(super) fn in_month(&self, month: &MonthShape) -> u64 {
        let mut matching = 0;
        for day in month.days() {
            let from_last = month.length - day;
            if self.days >> day & 1 == 1 || self.from_last >> from_last & 1 == 1 {
                matching |= 1 << day;
            }
            if self.nearest >> day & 1 == 1 || self.nearest_from_last >> from_last & 1 == 1 {
                matching |= 1 << month.nearest_weekday(day);
            }
        }
        matching
    }
}

impl DaysOfWeek {
    /// The matching days of a month, bit n for day n.
    pub(super) fn in_month(&self, month: &MonthShape) -> u64 {
        let mut matching = 0;
        for day in month.days() {
            let is_last = day + 7 > month.length;
            let nth = self.nth[(day as usize - 1) / 7];
            let weekdays = self.days | nth | if is_last { self.last } else { 0 };
            if weekdays >> month.weekday(day) & 1 == 1 {
                matching |= 1 << day;
            }
        }
        matching
    }
}
