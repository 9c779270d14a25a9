//! A rule in a zone: when batches are due.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tidemill_model::{Fire, Period, ScheduleRule, ScheduleSpec, Timestamp};

use crate::days::date_away;
use crate::period::Begins;
use crate::{Cron, Error, Zone};

/// What repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A period of the local calendar, due at its base time.
    Period(Period),
    /// A Quartz cron expression, due at each fire time.
    Cron(Cron),
}

/// When a job's batches are due: a rule, read on the clock of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// What repeats.
    pub rule: Rule,
    /// Whose clock it is read on.
    pub zone: Zone,
}

impl TryFrom<&ScheduleSpec> for Schedule {
    type Error = Error;

    fn try_from(spec: &ScheduleSpec) -> Result<Schedule, Error> {
        let zone = Zone::try_from(spec.zone.as_str())?;
        let rule = match &spec.rule {
            ScheduleRule::Period(period) => Rule::Period(*period),
            ScheduleRule::Cron(text) => Rule::Cron(Cron::try_from(text.as_str())?),
        };
        Ok(Schedule { rule, zone })
    }
}

impl Schedule {
    /// The first fire due after `after`. Over successive calls both of its times strictly increase.
    ///
    /// `None` when the rule has no more: a cron whose years are over, or the end of 2199.
    pub fn next_after(&self, after: Timestamp) -> Option<Fire> {
        match &self.rule {
            Rule::Period(period) => {
                let delay = period.base_delay();
                self.fire_for(period.start_after(&self.zone, after.checked_sub(delay).ok()?)?)
            }
            Rule::Cron(cron) => self.fire_for(cron.at_or_after(&self.zone, after.next())?),
        }
    }

    /// The fire for one of its logical times.
    pub(crate) fn fire_for(&self, logical_time: Timestamp) -> Option<Fire> {
        let at = match &self.rule {
            Rule::Period(period) => logical_time.checked_add(period.base_delay()).ok()?,
            Rule::Cron(_) => logical_time,
        };
        Some(Fire { at, logical_time })
    }

    /// The same local time so many days later, or earlier; in a gap what comes right after it, in an overlap the
    /// first of the two.
    pub(crate) fn days_away(&self, logical_time: Timestamp, days: i64) -> Option<Timestamp> {
        let local = self.zone.local(logical_time);
        let time = match &self.rule {
            Rule::Period(Period::Hour) => local.time(),
            Rule::Period(Period::Day | Period::Week | Period::Month) => jiff::civil::Time::midnight(),
            Rule::Cron(cron) => cron.time_of_day().unwrap_or(local.time()),
        };
        self.zone.first_instant_of(date_away(local.date(), days)?.to_datetime(time))
    }

    /// All fires due in (`after_exclusive`, `until_inclusive`], oldest first.
    pub fn fires_between(
        &self,
        after_exclusive: Timestamp,
        until_inclusive: Timestamp,
    ) -> impl Iterator<Item = Fire> + '_ {
        self.fires_after(after_exclusive).take_while(move |fire| fire.at <= until_inclusive)
    }

    /// The next `n` fires after `after`, identical to what fires (BYD-1).
    pub fn preview(&self, after: Timestamp, n: usize) -> Vec<Fire> {
        self.fires_after(after).take(n).collect()
    }

    /// The logical time of the period that contains `at`, for a manual run (GEN-9): a period's first instant, a
    /// cron's newest fire time. The same instant as [`Schedule::logical_at_or_before`].
    pub fn period_start(&self, at: Timestamp) -> Option<Timestamp> {
        self.logical_at_or_before(at)
    }

    /// The newest logical time that is not after `at`. A cron has none before 1970.
    pub fn logical_at_or_before(&self, at: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            Rule::Period(period) => period.start_at_or_before(&self.zone, at),
            Rule::Cron(cron) => cron.at_or_before(&self.zone, at),
        }
    }

    /// The newest logical time before `at`.
    pub fn logical_before(&self, at: Timestamp) -> Option<Timestamp> {
        self.logical_at_or_before(at.previous())
    }

    /// The oldest logical time after `at`.
    pub fn logical_after(&self, at: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            Rule::Period(period) => period.start_after(&self.zone, at),
            Rule::Cron(cron) => cron.at_or_after(&self.zone, at.next()),
        }
    }

    /// Whether one local day can hold more than one logical time.
    pub fn is_sub_daily(&self) -> bool {
        match &self.rule {
            Rule::Period(Period::Hour) => true,
            Rule::Period(Period::Day | Period::Week | Period::Month) => false,
            Rule::Cron(cron) => cron.is_sub_daily(),
        }
    }

    fn fires_after(&self, after: Timestamp) -> impl Iterator<Item = Fire> + '_ {
        std::iter::successors(self.next_after(after), |fire| self.next_after(fire.at))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Period(period) => write!(f, "every {period} in {}", self.zone),
            Rule::Cron(cron) => write!(f, "cron '{cron}' in {}", self.zone),
        }
    }
}
