//! The next and the previous local time that an expression names, without any zone.

use jiff::civil::{Date, DateTime};

use super::Fields;
use super::days::MonthShape;
use super::field::{YEAR_FIRST, YEAR_LAST, next, previous};

impl Fields {
    /// The first matching local time that is not before `from`, which has whole seconds.
    pub(super) fn local_at_or_after(&self, from: DateTime) -> Option<DateTime> {
        let date = from.date();
        if self.matches(date)
            && let Some(time) = self.clock.at_or_after(from.time())
        {
            return Some(date.to_datetime(time));
        }
        let date = self.date_at_or_after(date.tomorrow().ok()?)?;
        Some(date.to_datetime(self.clock.first()))
    }

    /// The last matching local time that is not after `from`.
    pub(super) fn local_at_or_before(&self, from: DateTime) -> Option<DateTime> {
        let date = from.date();
        if self.matches(date)
            && let Some(time) = self.clock.at_or_before(from.time())
        {
            return Some(date.to_datetime(time));
        }
        let date = self.date_at_or_before(date.yesterday().ok()?)?;
        Some(date.to_datetime(self.clock.last()))
    }

    fn matches(&self, date: Date) -> bool {
        self.years.contains(date.year()) && self.days_in(date.year(), date.month()) >> date.day() & 1 == 1
    }

    fn date_at_or_after(&self, from: Date) -> Option<Date> {
        for year in from.year().max(YEAR_FIRST)..=YEAR_LAST {
            if !self.years.contains(year) {
                continue;
            }
            let same_year = year == from.year();
            for month in if same_year { from.month() } else { 1 }..=12 {
                let same_month = same_year && month == from.month();
                let earliest = if same_month { from.day() as u32 } else { 1 };
                if let Some(day) = next(self.days_in(year, month), earliest) {
                    return Date::new(year, month, day as i8).ok();
                }
            }
        }
        None
    }

    fn date_at_or_before(&self, from: Date) -> Option<Date> {
        for year in (YEAR_FIRST..=from.year().min(YEAR_LAST)).rev() {
            if !self.years.contains(year) {
                continue;
            }
            let same_year = year == from.year();
            for month in (1..=if same_year { from.month() } else { 12 }).rev() {
                let same_month = same_year && month == from.month();
                let latest = if same_month { from.day() as u32 } else { 31 };
                if let Some(day) = previous(self.days_in(year, month), latest) {
                    return Date::new(year, month, day as i8).ok();
                }
            }
        }
        None
    }

    /// The matching days of a month, bit n for day n.
    fn days_in(&self, year: i16, month: i8) -> u64 {
        if self.months >> month & 1 == 0 {
            return 0;
        }
        let first = Date::new(year, month, 1).expect("a date's own year and month are valid");
        let shape = MonthShape::of(first);
        self.days_of_month.in_month(&shape) & self.days_of_week.in_month(&shape)
    }
}
