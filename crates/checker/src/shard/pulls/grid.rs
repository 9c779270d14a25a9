//! When a task occurs, computed a second time: minutes by arithmetic, days one by one on the zone's clock.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use tidemill_model::{Timestamp, When};

#[derive(Debug)]
pub(super) enum Grid {
    Once(Timestamp),
    Minutes {
        start: Timestamp,
        space_ms: i64,
    },
    Days {
        start: Timestamp,
        first: Date,
        space: i64,
        at: Time,
        zone: TimeZone,
    },
    /// In a zone that is not known here.
    Unknown,
}

impl Grid {
    pub(super) fn of(when: &When) -> Self {
        match when {
            When::Once { start } => Grid::Once(*start),
            When::EveryMinutes { n, start } => {
                Grid::Minutes { start: *start, space_ms: i64::from((*n).max(1)) * 60_000 }
            }
            When::EveryDays { n, at, zone, start } => {
                TimeZone::get(zone).map_or(Grid::Unknown, |zone| Grid::Days {
                    start: *start,
                    first: zone.to_datetime(start.jiff()).date(),
                    space: i64::from((*n).max(1)),
                    at: at.civil(),
                    zone,
                })
            }
        }
    }

    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Grid::Unknown)
    }

    /// The first occurrence that is not before `time`.
    pub(super) fn at_or_after(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Grid::Once(start) => Some(*start).filter(|start| *start >= time),
            Grid::Minutes { start, space_ms } => {
                let passed = time.as_millisecond() - start.as_millisecond();
                let turns = if passed <= 0 { 0 } else { (passed - 1) / space_ms + 1 };
                Timestamp::from_millisecond(start.as_millisecond() + turns * space_ms).ok()
            }
            Grid::Days { start, first, space, at, zone } => {
                let time = time.max(*start);
                let passed = first.until(zone.to_datetime(time.jiff()).date()).ok()?.get_days();
                // Two turns earlier than it looks, whatever the clocks did.
                let mut date =
                    first.checked_add(((i64::from(passed) / space - 2).max(0) * space).days()).ok()?;
                loop {
                    let found = first_shown(zone, date.to_datetime(*at))?;
                    if found >= time {
                        return Some(found);
                    }
                    date = date.checked_add(space.days()).ok()?;
                }
            }
            Grid::Unknown => None,
        }
    }

    pub(super) fn after(&self, time: Timestamp) -> Option<Timestamp> {
        self.at_or_after(time.next())
    }
}

/// The first instant at which the zone's clock shows this or something later.
fn first_shown(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok().map(Timestamp::from),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok().map(Timestamp::from),
        AmbiguousOffset::Gap { before, after } => {
            let (mut early, mut late) =
                (after.to_timestamp(local).ok()?.as_second(), before.to_timestamp(local).ok()?.as_second());
            while late - early > 1 {
                let middle = early + (late - early) / 2;
                let shown = zone.to_datetime(jiff::Timestamp::from_second(middle).ok()?);
                if shown >= local { late = middle } else { early = middle }
            }
            Timestamp::from_second(late).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_model::HourMinute;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// PUL-3: over gaps, overlaps and a date left out.
    #[test]
    fn days_come_as_the_clock_shows_them() {
        let cases = [
            ("Europe/Berlin", "02:30", "2025-03-29T12:00:00Z", "2025-03-30T01:00:00Z"),
            ("Europe/Berlin", "02:30", "2025-10-25T12:00:00Z", "2025-10-26T00:30:00Z"),
            ("Europe/Berlin", "02:30", "2025-10-26T00:30:01Z", "2025-10-27T01:30:00Z"),
            ("Pacific/Apia", "09:00", "2011-12-29T19:00:01Z", "2011-12-30T10:00:00Z"),
            ("Australia/Lord_Howe", "02:15", "2025-10-04T00:00:00Z", "2025-10-04T15:30:00Z"),
        ];
        for (zone, time, from, expected) in cases {
            let (n, start) = (1, at("2011-12-01T00:00:00Z"));
            let when =
                When::EveryDays { n, at: HourMinute::try_from(time).unwrap(), zone: zone.to_owned(), start };
            assert_eq!(Grid::of(&when).at_or_after(at(from)), Some(at(expected)), "{zone} {time}");
        }
    }

    #[test]
    fn minutes_count_from_the_start() {
        let grid = Grid::of(&When::EveryMinutes { n: 45, start: at("2025-06-01T10:20:00Z") });
        let first = |text: &str| grid.at_or_after(at(text));
        assert_eq!(first("2025-01-01T00:00:00Z"), Some(at("2025-06-01T10:20:00Z")));
        assert_eq!(first("2025-06-01T11:05:00Z"), Some(at("2025-06-01T11:05:00Z")));
        assert_eq!(first("2025-06-01T11:05:01Z"), Some(at("2025-06-01T11:50:00Z")));
        assert_eq!(grid.after(at("2025-06-01T11:05:00Z")), Some(at("2025-06-01T11:50:00Z")));
    }
}
