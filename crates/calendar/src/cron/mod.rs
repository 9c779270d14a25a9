//! Quartz cron expressions.
//!
//! They are read and searched here rather than by the croner crate, which is the oracle of the property tests
//! beside the cron crate: croner lets empty list items through, lacks `L-n`, and gives up on gaps longer than
//! two hours, such as Samoa's skipped day.

mod clock;
mod days;
mod field;
mod fire;
mod parse;
mod search;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use clock::Clock;
use days::{DaysOfMonth, DaysOfWeek};
use field::Years;

/// A Quartz cron expression of six or seven fields, parsed once. As text it is the expression.
///
/// ```text
/// 0   0   23   *   *   ?   [2026]
/// │   │   │    │   │   │    └ year 1970–2199
/// │   │   │    │   │   └ day of week 1–7 from Sunday, SUN–SAT; L, nL, n#k
/// │   │   │    │   └ month 1–12, JAN–DEC
/// │   │   │    └ day of month 1–31; L, L-n, LW, nW
/// │   │   └ hour 0–23
/// │   └ minute 0–59
/// └ second 0–59
/// ```
///
/// Every field takes `*`, lists, ranges (`22-2` wraps around, except years) and steps (`*/5`, `3/5`, `3-30/5`);
/// one of the day fields may be `?`. A date must satisfy both day fields.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Cron {
    text: String,
    fields: Fields,
}

/// What the expression says, as bit sets.
#[derive(Clone, PartialEq, Eq)]
struct Fields {
    clock: Clock,
    days_of_month: DaysOfMonth,
    /// Bits 1 to 12.
    months: u64,
    days_of_week: DaysOfWeek,
    years: Years,
    pace: Pace,
}

/// How an expression reads a clock that is set forward or back (the rules of Vixie cron).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Hour and minute are fixed: each local time fires once.
    WallClock,
    /// Hour or minute is `*` or has a step: fires whenever the clock shows a matching time.
    Elapsed,
}

impl Cron {
    /// The expression, with its fields separated by one space each.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether one day can hold more than one fire time.
    pub(crate) fn is_sub_daily(&self) -> bool {
        self.fields.clock.times_per_day() > 1
    }

    /// The time of day at which it fires, where that is one only.
    pub(crate) fn time_of_day(&self) -> Option<jiff::civil::Time> {
        (!self.is_sub_daily()).then(|| self.fields.clock.first())
    }

    /// Whether both fire at the same local times, however they are written.
    pub(crate) fn fires_like(&self, other: &Cron) -> bool {
        self.fields == other.fields
    }
}

impl TryFrom<&str> for Cron {
    type Error = Error;

    fn try_from(expression: &str) -> Result<Cron, Error> {
        parse::parse(expression)
    }
}

as_text!(Cron);

impl PartialEq for Cron {
    fn eq(&self, other: &Cron) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({})", self.text)
    }
}
