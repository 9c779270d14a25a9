//! Which days count: a weekly pattern with the dates that depart from it, and what becomes of a fire on another
//! day (BYD-2).
//!
//! ```text
//!            Fri  Sat  Sun  Mon          holidays: Sat, Sun
//!  fires      x    x    x    x
//!  none       x              x           Sat and Sun are left out
//!  next       x             xxx          three due on Monday, for Sat, Sun and Mon
//!  previous  xxx             x           three due on Friday, for Fri, Sat and Sun
//! ```
//!
//! A shift moves only when a batch is due: its logical time, and so its identity and what waits for it, stays.

use std::sync::Arc;

use jiff::Span;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use tidemill_model::{Calendar, CalendarDays, CalendarUse, Fire, Shift, Timestamp};

use crate::zone::Zone;
use crate::{Error, Schedule};

/// How far a shift looks for a fitting day.
pub const SHIFT_DAYS_MAX: i64 = 31;
/// How far is looked for the next day that counts, before it is said that there is none.
const SEARCH_DAYS: usize = 12 * 366;

/// A calendar's days, ready for questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Days {
    name: String,
    version: u32,
    zone: Option<Zone>,
    /// Monday first.
    week: [bool; 7],
    holidays: Box<[Date]>,
    working_days: Box<[Date]>,
}

/// The days of one use of a calendar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DayRule {
    days: Arc<Days>,
    on: CalendarDays,
    shift: Shift,
}

impl Days {
    /// Whether the date is a working day.
    pub fn is_working(&self, date: Date) -> bool {
        if self.working_days.binary_search(&date).is_ok() {
            return true;
        }
        let in_week = self.week[date.weekday().to_monday_zero_offset() as usize];
        in_week && self.holidays.binary_search(&date).is_err()
    }

    /// The calendar's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The calendar's version.
    pub fn version(&self) -> u32 {
        self.version
    }
}

impl TryFrom<&Calendar> for Days {
    type Error = Error;

    fn try_from(calendar: &Calendar) -> Result<Days, Error> {
        let spec = &calendar.spec;
        let mut week = [false; 7];
        for day in &spec.week {
            week[*day as usize] = true;
        }
        let sorted = |dates: &[Date]| {
            let mut dates = dates.to_vec();
            dates.sort_unstable();
            dates.into_boxed_slice()
        };
        Ok(Days {
            name: spec.name.to_string(),
            version: calendar.version,
            zone: spec.zone.as_deref().map(Zone::try_from).transpose()?,
            week,
            holidays: sorted(&spec.holidays),
            working_days: sorted(&spec.working_days),
        })
    }
}

impl DayRule {
    /// The days that `used` names.
    pub fn new(days: Arc<Days>, used: &CalendarUse) -> DayRule {
        DayRule { days, on: used.on, shift: used.shift }
    }

    /// The same on these days.
    pub(crate) fn renewed(&self, days: Arc<Days>) -> DayRule {
        DayRule { days, ..self.clone() }
    }

    /// The calendar's days.
    pub fn days(&self) -> &Days {
        &self.days
    }

    /// Whether a fire on another day goes elsewhere, rather than nowhere.
    pub(crate) fn shifts(&self) -> Shift {
        self.shift
    }

    /// Whether the date is one of the days.
    pub fn fits(&self, date: Date) -> bool {
        self.days.is_working(date) == (self.on == CalendarDays::WorkingDays)
    }

    /// On which date, in the calendar's zone or else the schedule's, an instant is.
    fn date_of(&self, schedule: &Schedule, at: Timestamp) -> Date {
        self.days.zone.as_ref().unwrap_or(&schedule.zone).local(at).date()
    }

    /// When the batch of this fire is due; `None`: it is left out.
    pub(crate) fn placed(&self, schedule: &Schedule, fire: Fire) -> Option<Fire> {
        if self.fits(self.date_of(schedule, fire.logical_time)) {
            return Some(fire);
        }
        let step = match self.shift {
            Shift::None => return None,
            Shift::Next => 1,
            Shift::Previous => -1,
        };
        (1..=SHIFT_DAYS_MAX).find_map(|distance| {
            let moved = schedule.days_away(fire.logical_time, step * distance)?;
            let delay = fire.at.duration_since(fire.logical_time);
            let at = moved.checked_add(delay).ok()?;
            self.fits(self.date_of(schedule, moved)).then_some(Fire { at, ..fire })
        })
    }

    /// The first instant of the next date after that of `at` that is one of the days.
    pub(crate) fn next_begin(&self, schedule: &Schedule, at: Timestamp) -> Option<Timestamp> {
        let mut date = self.date_of(schedule, at);
        for _ in 0..SEARCH_DAYS {
            date = date.tomorrow().ok()?;
            if self.fits(date) {
                return self.begin_of(schedule, date);
            }
        }
        None
    }

    /// The first instant after the last date before that of `at` that is one of the days.
    pub(crate) fn previous_end(&self, schedule: &Schedule, at: Timestamp) -> Option<Timestamp> {
        let mut date = self.date_of(schedule, at);
        for _ in 0..SEARCH_DAYS {
            let end = date;
            date = date.yesterday().ok()?;
            if self.fits(date) {
                return self.begin_of(schedule, end);
            }
        }
        None
    }

    fn begin_of(&self, schedule: &Schedule, date: Date) -> Option<Timestamp> {
        let zone = self.days.zone.as_ref().unwrap_or(&schedule.zone);
        zone.first_instant_of(date.to_datetime(jiff::civil::Time::midnight()))
    }
}

impl std::fmt::Display for DayRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on = match self.on {
            CalendarDays::WorkingDays => "working days",
            CalendarDays::Holidays => "holidays",
        };
        write!(f, "on {on} of {}", self.days.name)
    }
}

/// The date `days` away.
pub(crate) fn date_away(date: Date, days: i64) -> Option<Date> {
    date.checked_add(Span::new().try_days(days).ok()?).ok()
}
