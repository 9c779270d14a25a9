//! The grid of a rotating task: every so many minutes, or at a time of day on every so many days (PUL-3).
//!
//! ```text
//! minutes  start ──space── 1 ──space── 2 …      elapsed time, whatever the clocks do
//! days     start's local day, and each n-th after it, at HH:MM on the zone's clock
//! ```
//!
//! A time of day that a gap leaves out is the instant right after the gap, in an overlap it is the first of the two:
//! as a cron with a fixed time of day. A date that a zone leaves out altogether counts as a day, and its
//! occurrence comes right after it.

use std::fmt;

use jiff::civil::{Date, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::Timestamp;

use crate::days::date_away;
use crate::{Error, Zone};

const MINUTE_MS: i64 = 60_000;

/// The most minutes from one occurrence to the next: 366 days.
pub const ROTATION_MINUTES_MAX: u32 = tidemill_model::bounds::ROTATION_MINUTES;
/// The most days from one occurrence to the next.
pub const ROTATION_DAYS_MAX: u32 = tidemill_model::bounds::ROTATION_DAYS;

/// When a rotating task occurs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rotation {
    /// At its start, and every so many minutes of elapsed time after it.
    EveryMinutes {
        /// From one occurrence to the next.
        minutes: RotationMinutes,
        /// The first occurrence.
        start: Timestamp,
    },
    /// On the local day of its start and each n-th day after that, at a time of day; never before its start.
    EveryDays {
        /// From one occurrence to the next.
        days: RotationDays,
        /// The time of day, `HH:MM`.
        at: RotationTime,
        /// Whose clock that is.
        zone: Zone,
        /// From when on, and the day from which days are counted.
        start: Timestamp,
    },
}

macro_rules! space {
    ($(#[doc = $doc:literal])+ $space:ident, $field:literal, $max:ident) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "u32", into = "u32")]
        #[schemars(with = "u32")]
        pub struct $space(u32);

        impl $space {
            /// As a number.
            pub fn get(self) -> u32 {
                self.0
            }
        }

        impl TryFrom<u32> for $space {
            type Error = Error;

            fn try_from(value: u32) -> Result<Self, Error> {
                let fault = || Error::RotationSpace { field: $field.to_owned(), value, max: $max };
                (1..=$max).contains(&value).then_some(Self(value)).ok_or_else(fault)
            }
        }

        impl From<$space> for u32 {
            fn from(space: $space) -> u32 {
                space.0
            }
        }
    };
}

space! {
    /// A number of minutes, 1 to [`ROTATION_MINUTES_MAX`].
    RotationMinutes, "minutes", ROTATION_MINUTES_MAX
}

space! {
    /// A number of days, 1 to [`ROTATION_DAYS_MAX`].
    RotationDays, "days", ROTATION_DAYS_MAX
}

/// A time of day to the minute, `00:00` to `23:59`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct RotationTime(Time);

impl Rotation {
    /// Every so many minutes from `start`.
    ///
    /// # Errors
    /// A number of minutes out of range.
    pub fn every_minutes(minutes: u32, start: Timestamp) -> Result<Rotation, Error> {
        Ok(Rotation::EveryMinutes { minutes: RotationMinutes::try_from(minutes)?, start })
    }

    /// At a time of day, `HH:MM`, on every so many days from `start`'s on.
    ///
    /// # Errors
    /// A number of days out of range, or what is not such a time.
    pub fn every_days(days: u32, at: &str, zone: Zone, start: Timestamp) -> Result<Rotation, Error> {
        let (days, at) = (RotationDays::try_from(days)?, RotationTime::try_from(at)?);
        Ok(Rotation::EveryDays { days, at, zone, start })
    }

    /// The first occurrence that is not before `time`.
    ///
    /// `None` when there is none that can be written as an instant.
    pub fn next_at_or_after(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Rotation::EveryMinutes { minutes, start } => minute_at_or_after(*minutes, *start, time),
            Rotation::EveryDays { days, at, zone, start } => {
                day_at_or_after(*days, *at, zone, zone.local(*start).date(), time.max(*start))
            }
        }
    }

    /// The first occurrence after `time`: over successive calls they strictly increase.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.next_at_or_after(time.next()).filter(|next| *next > time)
    }

    /// Whether the task occurs at `time`.
    pub fn is_on_grid(&self, time: Timestamp) -> bool {
        self.next_at_or_after(time) == Some(time)
    }
}

/// `start + ceil((time − start) / space) · space`, and `start` for all that is before it.
fn minute_at_or_after(minutes: RotationMinutes, start: Timestamp, time: Timestamp) -> Option<Timestamp> {
    let space = i64::from(minutes.0) * MINUTE_MS;
    let elapsed = (time.as_millisecond() - start.as_millisecond()).max(0);
    let turns = (elapsed + space - 1) / space;
    Timestamp::from_millisecond(start.as_millisecond() + turns * space).ok()
}

/// The first of the days from `first` on, at that time on the zone's clock, that is not before `time`.
fn day_at_or_after(
    days: RotationDays,
    at: RotationTime,
    zone: &Zone,
    first: Date,
    time: Timestamp,
) -> Option<Timestamp> {
    let space = i64::from(days.0);
    let away = zone.local(time).date().duration_since(first).as_hours() / 24;
    // The local clock may have been set back by up to a day: one turn before the one that looks right.
    let mut turn = (away.div_euclid(space) - 1).max(0);
    loop {
        let found = zone.first_instant_of(date_away(first, turn * space)?.to_datetime(at.0))?;
        if found >= time {
            return Some(found);
        }
        turn += 1;
    }
}

impl fmt::Display for RotationTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())
    }
}

impl TryFrom<&str> for RotationTime {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        let part = |part: &str| {
            let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<i8>().ok().filter(|_| digits)
        };
        let time = text.split_once(':').and_then(|(hour, minute)| {
            let (hour, minute) = (part(hour)?, part(minute)?);
            Time::new(hour, minute, 0, 0).ok()
        });
        time.map(Self).ok_or_else(|| Error::RotationTime { value: text.to_owned() })
    }
}

as_text!(RotationTime);

impl fmt::Display for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rotation::EveryMinutes { minutes, start } => write!(f, "every {} min from {start}", minutes.0),
            Rotation::EveryDays { days, at, zone, start } => {
                write!(f, "every {} d at {at} in {zone} from {start}", days.0)
            }
        }
    }
}
