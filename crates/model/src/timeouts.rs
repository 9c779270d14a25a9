//! Times by which a batch should have got somewhere, and what is said once they have passed.

use std::fmt;

use jiff::civil::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::from_and_into_string;

/// A time of day, to the second, as `HH:MM:SS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = crate::bounds::TIME_OF_DAY_PATTERN))]
pub struct TimeOfDay(Time);

impl TimeOfDay {
    /// As a calendar takes it.
    pub fn civil(self) -> Time {
        self.0
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}:{:02}", self.0.hour(), self.0.minute(), self.0.second())
    }
}

impl TryFrom<&str> for TimeOfDay {
    type Error = String;
    fn try_from(text: &str) -> Result<Self, String> {
        let fault = || format!("time of day {text:?} must be HH:MM:SS, 00:00:00 to 23:59:59");
        let [hour, minute, second] = two_digits(text).ok_or_else(fault)?;
        Time::new(hour, minute, second, 0).map(Self).map_err(|_| fault())
    }
}

from_and_into_string!(TimeOfDay, String, to_string);

/// The numbers of a time of day: two digits each, with colons between them.
pub(crate) fn two_digits<const N: usize>(text: &str) -> Option<[i8; N]> {
    let number = |part: &str| {
        let fits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|_| fits)
    };
    text.split(':').map(number).collect::<Option<Vec<i8>>>()?.try_into().ok()
}

/// Which of its times a batch has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutKind {
    /// It still waited.
    Dependency,
    /// It was not successful after so long.
    Output,
    /// It was not successful at a time of day.
    ByTime,
}

/// What people are told about (ALM-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// A batch still waits, though its dependency timeout has passed.
    DependencyTimeout,
    /// A batch is not successful, though its output timeout has passed.
    OutputTimeout,
    /// A batch is not successful at the time of day by which it should be.
    NotSuccessfulBy,
    /// Checks of paths fail, or are late.
    ProbesLate,
    /// The quality service refused a batch.
    QualityRefused,
    /// The quality service was asked about a batch again and again, and did not answer.
    QualityUnanswered,
    /// GEN-4: a job's fire could not be decided, though it was tried three times more.
    GenerationFailed,
    /// GEN-4: fires of more than ten jobs could not be decided within one minute.
    GenerationsFailing,
    /// A cold start leaves jobs out, for something of them is unfinished.
    ColdStartSkipped,
    /// A batch has ended, and its final command did not succeed.
    FinalCommandFailed,
    /// An attempt runs far longer than its job's attempts usually do.
    BigTask,
    /// A worker says that it can take no work.
    WorkerUnready,
}

impl From<TimeoutKind> for AlarmKind {
    fn from(kind: TimeoutKind) -> Self {
        match kind {
            TimeoutKind::Dependency => AlarmKind::DependencyTimeout,
            TimeoutKind::Output => AlarmKind::OutputTimeout,
            TimeoutKind::ByTime => AlarmKind::NotSuccessfulBy,
        }
    }
}

/// How urgent an alarm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Somebody must act at once.
    Critical,
    /// Somebody must act.
    Important,
    /// Somebody should know.
    Notice,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_day_is_written_in_one_way_only() {
        for text in ["00:00:00", "07:30:05", "23:59:59"] {
            assert_eq!(TimeOfDay::try_from(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "7:30:00",
            "07:30",
            "24:00:00",
            "07:60:00",
            "07:00:60",
            "+7:00:00",
            "07:30:00:00",
            "۰۷:۰۰:۰۰",
        ] {
            assert!(TimeOfDay::try_from(text).unwrap_err().contains("must be HH:MM:SS"), "{text}");
        }
    }
}
