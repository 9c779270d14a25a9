//! What a job's schedule comes to: its fires, less what its validity and its calendar leave out, with what its
//! calendar moves.
//!
//! *Invariant:* whoever previews and whoever fires asks the same [`Timetable`], so that they cannot differ (BYD-1).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use tidemill_model::{
    CalendarName, CalendarUse, Fire, Firing, JobDefinition, ScheduleSpec, Shift, Timestamp,
};

use crate::days::{DayRule, Days, SHIFT_DAYS_MAX};
use crate::{Error, Schedule, Zone};

/// Longer than any period's base time is after its start.
const LONGEST_DELAY: SignedDuration = SignedDuration::from_mins(10);
/// Longer than any shift.
const LONGEST_SHIFT: SignedDuration = SignedDuration::from_hours((SHIFT_DAYS_MAX + 2) * 24);

/// A schedule with its bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timetable {
    schedule: Schedule,
    bounds: Option<Box<Bounds>>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Bounds {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    days: Option<DayRule>,
}

impl From<Schedule> for Timetable {
    fn from(schedule: Schedule) -> Timetable {
        Timetable { schedule, bounds: None }
    }
}

impl Timetable {
    /// When the batches of a job are due; `None`: it has no schedule. `days` gives those of a calendar.
    ///
    /// # Errors
    /// A schedule that cannot be read, or a calendar that is not known.
    pub fn of(
        definition: &JobDefinition,
        days: impl FnOnce(&CalendarName) -> Option<Arc<Days>>,
    ) -> Result<Option<Timetable>, Error> {
        let Some(spec) = definition.spec.schedule_spec() else { return Ok(None) };
        Timetable::from_spec(&spec, definition.spec.firing().as_ref(), days).map(Some)
    }

    /// The same of a schedule and how it is followed.
    ///
    /// # Errors
    /// A schedule that cannot be read, or a calendar that is not known.
    pub fn from_spec(
        spec: &ScheduleSpec,
        firing: Option<&Firing>,
        days: impl FnOnce(&CalendarName) -> Option<Arc<Days>>,
    ) -> Result<Timetable, Error> {
        let schedule = Schedule::try_from(spec)?;
        let Some(firing) = firing else { return Ok(schedule.into()) };
        let unknown = |used: &CalendarUse| Error::UnknownCalendar { name: used.name.to_string() };
        let used = firing.calendar.as_ref();
        let rule = match used {
            Some(used) => Some(DayRule::new(days(&used.name).ok_or_else(|| unknown(used))?, used)),
            None => None,
        };
        Ok(Timetable::new(schedule, firing, rule))
    }

    /// A schedule as `firing` says it is followed, on these days.
    pub fn new(schedule: Schedule, firing: &Firing, days: Option<DayRule>) -> Timetable {
        let bounds = Bounds { from: firing.valid_from, until: firing.valid_until, days };
        let bounds = (bounds != Bounds::default()).then(|| Box::new(bounds));
        Timetable { schedule, bounds }
    }

    /// The same on these days, if it keeps to that calendar.
    pub fn renewed(&self, days: &Arc<Days>) -> Option<Timetable> {
        let rule = self.rule().filter(|rule| rule.days().name() == days.name())?;
        let mut renewed = self.clone();
        if let Some(bounds) = &mut renewed.bounds {
            bounds.days = Some(rule.renewed(Arc::clone(days)));
        }
        Some(renewed)
    }

    /// The schedule without its bounds.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The zone in which the schedule is read.
    pub fn zone(&self) -> &Zone {
        &self.schedule.zone
    }

    /// The version of the calendar that it keeps to.
    pub fn calendar_version(&self) -> Option<u32> {
        Some(self.rule()?.days().version())
    }

    /// The first fire due after `after`.
    pub fn first_after(&self, after: Timestamp) -> Option<Fire> {
        let Some(bounds) = &self.bounds else { return self.schedule.next_after(after) };
        let after = bounds.from.map_or(after, |from| after.max(from.previous()));
        let first = match bounds.shift() {
            Shift::None => self.schedule.next_after(after)?.logical_time,
            Shift::Next => self.schedule.logical_after(earlier(after, LONGEST_SHIFT))?,
            Shift::Previous => self.schedule.logical_after(earlier(after, LONGEST_DELAY))?,
        };
        let mut fire = self.first_at(first);
        while let Some(early) = fire.filter(|fire| fire.at <= after) {
            fire = self.next(early);
        }
        fire
    }

    /// The fire that follows `fire`: the next one by its logical time, due no earlier.
    pub fn next(&self, fire: Fire) -> Option<Fire> {
        self.first_at(self.schedule.logical_after(fire.logical_time)?)
    }

    /// Those that follow `fire`, and are due until `until`.
    pub fn following(&self, fire: Fire, until: Timestamp) -> impl Iterator<Item = Fire> + '_ {
        std::iter::successors(self.next(fire), |fire| self.next(*fire))
            .take_while(move |fire| fire.at <= until)
    }

    /// The next `n` fires after `after`, identical to what fires (BYD-1).
    pub fn preview(&self, after: Timestamp, n: usize) -> Vec<Fire> {
        std::iter::successors(self.first_after(after), |fire| self.next(*fire)).take(n).collect()
    }

    /// The fire for the first logical time that is not before this one, whenever it is due.
    pub fn at_or_after_logical(&self, time: Timestamp) -> Option<Fire> {
        self.first_at(self.schedule.logical_after(time.previous())?)
    }

    /// Whether a fire on another day goes elsewhere, rather than nowhere.
    pub fn shifts(&self) -> bool {
        self.rule().is_some_and(|rule| rule.shifts() != Shift::None)
    }

    /// The schedule's logical times between two that a calendar left out, or an earlier version of it: all of them,
    /// as far as they are valid.
    pub fn left_out(&self, after: Timestamp, before: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        let bounds = self.bounds.as_deref().filter(|bounds| bounds.days.is_some());
        let first = bounds.and_then(|_| self.schedule.logical_after(after));
        let times = std::iter::successors(first, |time| self.schedule.logical_after(*time));
        let valid = move |fire: Fire| {
            bounds.is_some_and(|bounds| {
                bounds.from.is_none_or(|from| fire.at >= from)
                    && bounds.until.is_none_or(|until| fire.at < until)
            })
        };
        let times = times.take_while(move |time| *time < before);
        times.filter(move |time| self.schedule.fire_for(*time).is_some_and(valid))
    }

    /// The newest logical time that is not after `at`.
    pub fn logical_at_or_before(&self, at: Timestamp) -> Option<Timestamp> {
        let Some(bounds) = &self.bounds else { return self.schedule.logical_at_or_before(at) };
        let at = bounds.until.map_or(at, |until| at.min(later(until, bounds.reach())));
        let mut time = self.schedule.logical_at_or_before(at)?;
        loop {
            match self.placed(time) {
                Some(fire) if bounds.from.is_some_and(|from| fire.at < from) => return None,
                Some(fire) if bounds.until.is_none_or(|until| fire.at < until) => return Some(time),
                Some(_) => time = self.schedule.logical_before(time)?,
                None if bounds.from.is_some_and(|from| later(time, bounds.reach()) < from) => return None,
                None => {
                    let end = self.rule()?.previous_end(&self.schedule, time)?;
                    let end = match bounds.shift() {
                        Shift::None | Shift::Next => end,
                        Shift::Previous => later(end, LONGEST_SHIFT),
                    };
                    time = self.schedule.logical_before(end.min(time))?;
                }
            }
        }
    }

    /// The newest logical time before `at`.
    pub fn logical_before(&self, at: Timestamp) -> Option<Timestamp> {
        self.logical_at_or_before(at.previous())
    }

    /// The oldest logical time after `at`.
    pub fn logical_after(&self, at: Timestamp) -> Option<Timestamp> {
        Some(self.first_at(self.schedule.logical_after(at)?)?.logical_time)
    }

    /// Whether it has every logical time of its schedule.
    pub(crate) fn is_whole(&self) -> bool {
        self.bounds.as_ref().is_none_or(|bounds| {
            bounds.from.is_none() && bounds.until.is_none() && bounds.shift() != Shift::None
        })
    }

    /// Whether both leave out the same of one schedule.
    pub(crate) fn bounds_like(&self, other: &Timetable) -> bool {
        (self.is_whole() && other.is_whole()) || self.bounds == other.bounds
    }

    fn rule(&self) -> Option<&DayRule> {
        self.bounds.as_ref()?.days.as_ref()
    }

    /// The fire for a logical time of the schedule, as the days have it.
    fn placed(&self, logical_time: Timestamp) -> Option<Fire> {
        let fire = self.schedule.fire_for(logical_time)?;
        match self.rule() {
            Some(rule) => rule.placed(&self.schedule, fire),
            None => Some(fire),
        }
    }

    /// The first fire at or after a logical time of the schedule.
    fn first_at(&self, first: Timestamp) -> Option<Fire> {
        let Some(bounds) = &self.bounds else { return self.schedule.fire_for(first) };
        let mut time = first;
        loop {
            match self.placed(time) {
                Some(fire) if bounds.until.is_some_and(|until| fire.at >= until) => return None,
                Some(fire) if bounds.from.is_none_or(|from| fire.at >= from) => return Some(fire),
                Some(_) => {
                    let near = bounds.from.map_or(time, |from| earlier(from, bounds.reach()));
                    time = self.schedule.logical_after(time.max(near))?;
                }
                None if bounds.until.is_some_and(|until| earlier(time, bounds.reach()) >= until) => {
                    return None;
                }
                None => {
                    let begin = self.rule()?.next_begin(&self.schedule, time)?;
                    let begin = match bounds.shift() {
                        Shift::None => begin,
                        Shift::Next | Shift::Previous => earlier(begin, LONGEST_SHIFT),
                    };
                    time = self.schedule.logical_after(begin.previous().max(time))?;
                }
            }
        }
    }
}

impl Bounds {
    fn shift(&self) -> Shift {
        self.days.as_ref().map_or(Shift::None, DayRule::shifts)
    }

    /// How far a logical time and the time at which its batch is due can be apart.
    fn reach(&self) -> SignedDuration {
        match self.shift() {
            Shift::None => LONGEST_DELAY,
            Shift::Next | Shift::Previous => LONGEST_SHIFT,
        }
    }
}

fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// What gives logical times.
pub trait Grid {
    /// As a timetable.
    fn timetable(&self) -> Cow<'_, Timetable>;
}

impl Grid for Timetable {
    fn timetable(&self) -> Cow<'_, Timetable> {
        Cow::Borrowed(self)
    }
}

impl Grid for Schedule {
    fn timetable(&self) -> Cow<'_, Timetable> {
        Cow::Owned(self.clone().into())
    }
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schedule.fmt(f)?;
        let Some(bounds) = &self.bounds else { return Ok(()) };
        if let Some(days) = &bounds.days {
            write!(f, ", {days}")?;
        }
        if let Some(from) = bounds.from {
            write!(f, ", from {from}")?;
        }
        if let Some(until) = bounds.until {
            write!(f, ", until {until}")?;
        }
        Ok(())
    }
}
