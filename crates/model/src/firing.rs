//! How a job's schedule is followed: what happens when batches would overlap, between which instants it counts,
//! how late a fire may be, and which days of a calendar it keeps to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::vocabulary;

use crate::{CalendarName, MissedRuns, Timestamp};

/// What happens to a fire while an earlier scheduled batch of the job is unfinished.
#[vocabulary(Copy, Eq, Default)]
pub enum Overlap {
    /// It makes its batch, which waits while the job's maximum is reached.
    #[default]
    Queue,
    /// It makes no batch, on record.
    Skip,
    /// It makes its batch, which runs beside the earlier ones; the job's maximum must be above 1.
    Allow,
    /// The earlier ones are ended first, on record; the job's maximum must be 1.
    CancelOld,
}

/// The days of a calendar that a job keeps to.
#[vocabulary(Copy, Eq, Default)]
pub enum CalendarDays {
    /// Its working days.
    #[default]
    WorkingDays,
    /// Its other days.
    Holidays,
}

/// Where a fire goes whose day is not among them.
#[vocabulary(Copy, Eq, Default)]
pub enum Shift {
    /// Nowhere: it makes no batch.
    #[default]
    None,
    /// To the next such day within 31 days, at the same local time.
    Next,
    /// To the last such day within 31 days before, at the same local time.
    Previous,
}

/// Which days a job runs on. Its logical times stay those of its schedule; a shift moves only when it is due.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct CalendarUse {
    /// The calendar.
    pub name: CalendarName,
    /// Its working days (default), or the others.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub on: CalendarDays,
    /// What becomes of a fire on another day; default none: it is skipped, on record.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub shift: Shift,
}

/// What leaves logical times of a schedule out.
#[vocabulary(Eq, Default)]
pub struct Firing {
    /// BYD-1: nothing is due before this.
    pub valid_from: Option<Timestamp>,
    /// BYD-1: nothing is due at this or after it.
    pub valid_until: Option<Timestamp>,
    /// BYD-2: the days it keeps to.
    pub calendar: Option<CalendarUse>,
}

/// Missed runs, as written: `all`, or with how late a fire may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MissedRunsInput {
    /// The policy alone.
    Policy(MissedRuns),
    /// With a bound.
    Bounded(BoundedMissedRuns),
}

/// A policy for missed runs with a bound.
#[vocabulary(Copy, Eq)]
#[serde(deny_unknown_fields)]
pub struct BoundedMissedRuns {
    /// What happens to base times that passed while nothing could generate.
    #[serde(default)]
    pub policy: MissedRuns,
    /// A fire that is later than this, seconds, is skipped, on record.
    #[schemars(range(min = 1, max = crate::bounds::LATENESS_S))]
    pub max_lateness_s: Option<u32>,
}

impl Default for MissedRunsInput {
    fn default() -> Self {
        Self::Policy(MissedRuns::default())
    }
}

impl MissedRunsInput {
    /// The policy.
    pub fn policy(self) -> MissedRuns {
        match self {
            Self::Policy(policy) | Self::Bounded(BoundedMissedRuns { policy, .. }) => policy,
        }
    }

    /// How late a fire may be, seconds.
    pub fn max_lateness_s(self) -> Option<u32> {
        match self {
            Self::Policy(_) => None,
            Self::Bounded(BoundedMissedRuns { max_lateness_s, .. }) => max_lateness_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missed_runs_are_written_short_or_with_a_bound() {
        let read = |value| serde_json::from_value::<MissedRunsInput>(value).unwrap();
        assert_eq!(read(json!("latest")), MissedRunsInput::Policy(MissedRuns::Latest));
        let bounded = read(json!({"policy": "latest", "max_lateness_s": 60}));
        let latest = BoundedMissedRuns { policy: MissedRuns::Latest, max_lateness_s: Some(60) };
        assert_eq!(bounded, MissedRunsInput::Bounded(latest));
        assert_eq!(serde_json::to_value(MissedRunsInput::default()).unwrap(), json!("all"));
        assert!(serde_json::from_value::<MissedRunsInput>(json!({"policy": "all", "max": 1})).is_err());
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        assert_eq!(serde_json::to_value(Firing::default()).unwrap(), json!({}));
        let name = CalendarName::try_from("cn").unwrap();
        let used = CalendarUse { name, on: CalendarDays::default(), shift: Shift::default() };
        assert_eq!(serde_json::to_value(&used).unwrap(), json!({"name": "cn"}));
        assert_eq!(serde_json::from_value::<CalendarUse>(json!({"name": "cn"})).unwrap(), used);
    }
}
