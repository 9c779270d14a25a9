//! The four fixed periods and where they begin. A period's logical time is its first instant (JOB-3).
//!
//! A day, week or month begins when the local clock first reaches its midnight, or right after the gap that
//! leaves that midnight out; a day that a zone leaves out altogether begins nothing. An hour begins where the
//! clock shows xx:00, so both hours of an overlap begin, and right after a gap that lands inside an hour.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{SignedDuration, ToSpan};
use tidemill_model::{Period, Timestamp};

use crate::zone::{Begin, Zone};

/// Where the periods of the local calendar begin, and when their batches are due.
pub(crate) trait Begins: Sized {
    /// How long after the period's first instant its base time is: 1, 1, 2 and 5 minutes of elapsed time.
    fn base_delay(self) -> SignedDuration;
    /// The first period start after `after`.
    fn start_after(self, zone: &Zone, after: Timestamp) -> Option<Timestamp>;
    /// The newest period start that is not after `at`.
    fn start_at_or_before(self, zone: &Zone, at: Timestamp) -> Option<Timestamp>;
}

impl Begins for Period {
    fn base_delay(self) -> SignedDuration {
        match self {
            Period::Hour | Period::Day => SignedDuration::from_mins(1),
            Period::Week => SignedDuration::from_mins(2),
            Period::Month => SignedDuration::from_mins(5),
        }
    }

    fn start_after(self, zone: &Zone, after: Timestamp) -> Option<Timestamp> {
        if self == Period::Hour {
            return hour_start_after(zone, after);
        }
        let mut date = first_date(self, zone.local(after).date())?;
        loop {
            date = next_date(self, date)?;
            let start = zone.first_instant_of(date.to_datetime(Time::midnight()))?;
            if start > after {
                return Some(start);
            }
        }
    }

    fn start_at_or_before(self, zone: &Zone, at: Timestamp) -> Option<Timestamp> {
        if self == Period::Hour {
            return hour_start_at_or_before(zone, at);
        }
        let mut date = first_date(self, zone.local(at).date())?;
        let mut start = zone.first_instant_of(date.to_datetime(Time::midnight()))?;
        // The local clock may have been set back across midnight: then a later date has already begun.
        loop {
            date = next_date(self, date)?;
            match zone.first_instant_of(date.to_datetime(Time::midnight())) {
                Some(next) if next <= at => start = next,
                Some(_) | None => return Some(start),
            }
        }
    }
}

fn first_date(period: Period, date: Date) -> Option<Date> {
    match period {
        Period::Hour | Period::Day => Some(date),
        Period::Week if date.weekday() == Weekday::Monday => Some(date),
        Period::Week => date.nth_weekday(-1, Weekday::Monday).ok(),
        Period::Month => Some(date.first_of_month()),
    }
}

fn next_date(period: Period, date: Date) -> Option<Date> {
    let step = match period {
        Period::Hour | Period::Day => 1.day(),
        Period::Week => 1.week(),
        Period::Month => 1.month(),
    };
    date.checked_add(step).ok()
}

fn hour_start_after(zone: &Zone, after: Timestamp) -> Option<Timestamp> {
    let mut cursor = after;
    loop {
        let segment = zone.segment(cursor);
        let next = hour_of(zone.local(cursor)).checked_add(1.hour()).ok()?;
        if let Some(at) = segment.instant_of(next) {
            return Some(at);
        }
        cursor = segment.end?;
        if begins_hour(zone, cursor) {
            return Some(cursor);
        }
    }
}

fn hour_start_at_or_before(zone: &Zone, at: Timestamp) -> Option<Timestamp> {
    let mut cursor = at;
    loop {
        let segment = zone.segment(cursor);
        if let Some(start) = segment.instant_of(hour_of(zone.local(cursor))) {
            return Some(start);
        }
        let begin = segment.begin?;
        if begins_hour(zone, begin.at) {
            return Some(begin.at);
        }
        cursor = begin.at.previous();
    }
}

/// Whether the instant at which a segment begins also begins a local hour.
fn begins_hour(zone: &Zone, at: Timestamp) -> bool {
    let local = zone.local(at);
    let before = Begin { at, offset_before: zone.offset_at(at.previous()) }.local_before();
    let last_hour = before.checked_sub(1.nanosecond()).map(hour_of);
    hour_of(local) == local || last_hour.is_ok_and(|hour| hour != hour_of(local))
}

fn hour_of(local: DateTime) -> DateTime {
    local.date().at(local.hour(), 0, 0, 0)
}
