//! Times of day, those by which a batch should have got somewhere, and what is said once they have passed.

use std::fmt;

use jiff::civil::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::vocabulary;

use crate::bounds;
use crate::name::from_and_into_string;

macro_rules! times_of_day {
    ($($(#[$doc:meta])* $name:ident, $form:literal, $pattern:path, [$($part:ident),+];)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String", extend("pattern" = $pattern))]
        pub struct $name(Time);

        impl $name {
            /// As a calendar takes it.
            pub fn civil(self) -> Time {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&[$(self.0.$part()),+].map(|part| format!("{part:02}")).join(":"))
            }
        }

        impl TryFrom<&str> for $name {
            type Error = String;
            fn try_from(text: &str) -> Result<Self, String> {
                let fault = || format!(concat!("time of day {:?} must be ", $form), text);
                let [$($part),+] = two_digits(text).ok_or_else(fault)?;
                Time::midnight().with()$(.$part($part))+.build().map(Self).map_err(|_| fault())
            }
        }

        from_and_into_string!($name, String, to_string);
    )+};
}

times_of_day! {
    /// A time of day, to the second, as `HH:MM:SS`.
    TimeOfDay, "HH:MM:SS, 00:00:00 to 23:59:59", bounds::TIME_OF_DAY_PATTERN, [hour, minute, second];
    /// A time of day, to the minute, as `HH:MM`.
    HourMinute, "HH:MM, 00:00 to 23:59", bounds::HOUR_MINUTE_PATTERN, [hour, minute];
}

/// The numbers of a time of day: two digits each, with colons between them.
fn two_digits<const N: usize>(text: &str) -> Option<[i8; N]> {
    let number = |part: &str| {
        let fits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|_| fits)
    };
    text.split(':').map(number).collect::<Option<Vec<i8>>>()?.try_into().ok()
}

/// Which of its times a batch has passed.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash)]
pub enum TimeoutKind {
    /// It still waited.
    Dependency,
    /// It was not successful after so long.
    Output,
    /// It was not successful at a time of day.
    ByTime,
}

/// What people are told about (ALM-5).
#[vocabulary(Copy, Eq, PartialOrd, Ord)]
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
    /// A worker is silent for half of its lease: what it runs will be ended.
    LeaseHalfOver,
    /// EXE-10: a worker runs attempts of a lost life of the log. Since level 3.
    StraysFound,
    /// EXE-7: an attempt wants more memory, processes or output than there is for it. Since level 3.
    OverLimit,
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
#[vocabulary(Copy, Eq, PartialOrd, Ord)]
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
