//! A pull task as written.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tidemill_derive::vocabulary;

use crate::{FieldError, GroupName, HourMinute, TemplateName, Timestamp, UserName, bounds};

/// The parameters of a task: a JSON object.
#[vocabulary(Eq, Default)]
#[serde(transparent)]
#[schemars(with = "std::collections::BTreeMap<String, Value>")]
pub struct Parameters(pub Arc<Map<String, Value>>);

impl Parameters {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that they take as JSON.
    pub fn bytes(&self) -> usize {
        serde_json::to_string(&*self.0).map_or(usize::MAX, |text| text.len())
    }

    /// Arrays and objects in one another, the parameters themselves not counted.
    pub fn levels(&self) -> usize {
        self.0.values().map(levels).max().unwrap_or(0)
    }
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Who is to do it.
#[vocabulary(Eq, PartialOrd, Ord)]
pub enum Executor {
    /// Whoever of the group asks first.
    Group(GroupName),
    /// This user.
    User(UserName),
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Executor::Group(group) => write!(f, "group {group}"),
            Executor::User(user) => write!(f, "user {user}"),
        }
    }
}

/// When a task is to be done.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub enum When {
    /// PUL-2: one occurrence.
    Once {
        /// Its start.
        start: Timestamp,
    },
    /// PUL-3: an occurrence every `n` minutes.
    EveryMinutes {
        /// 1 to 527,040, a year.
        #[schemars(range(min = 1, max = bounds::ROTATION_MINUTES))]
        n: u32,
        /// The first one's start.
        start: Timestamp,
    },
    /// PUL-3: an occurrence on every `n`-th day.
    EveryDays {
        /// 1 to 366.
        #[schemars(range(min = 1, max = bounds::ROTATION_DAYS))]
        n: u32,
        /// At this time of day.
        at: HourMinute,
        /// IANA zone in which days and times are read.
        zone: String,
        /// Days count from the zone's day of this instant; the first occurrence is not before it.
        start: Timestamp,
    },
}

impl When {
    /// Whether it has more than one occurrence.
    pub fn is_rotating(&self) -> bool {
        match self {
            When::Once { .. } => false,
            When::EveryMinutes { .. } | When::EveryDays { .. } => true,
        }
    }

    /// From when on.
    pub fn start(&self) -> Timestamp {
        match self {
            When::Once { start } | When::EveryMinutes { start, .. } | When::EveryDays { start, .. } => *start,
        }
    }
}

/// A pull task as written.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// Who is to do it.
    pub executor: Executor,
    /// For people, at most 128 characters.
    #[schemars(length(min = 1, max = bounds::TASK_NAME_CHARS))]
    pub name: Option<String>,
    /// PUL-1: what its parameters are checked against; absent: they are free.
    pub template: Option<TemplateName>,
    /// What the client gets, a JSON object of at most 16 KiB.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// When.
    pub when: When,
    /// PUL-4: how often each occurrence may be given out, 1 to 1,000,000.
    #[serde(default = "crate::one", deserialize_with = "times")]
    #[schemars(range(min = 1, max = bounds::DISPATCH_TIMES))]
    pub dispatch_times: u32,
    /// PUL-4: a user goes on getting the occurrence until it is used up; else each user gets it once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
    /// PUL-13: a grant that is not completed after so many seconds, 5 to 604,800, goes back to stock; absent: never.
    #[schemars(range(min = bounds::LEASE_LEAST_S, max = bounds::LEASE_MOST_S))]
    pub lease_s: Option<u32>,
}

fn times<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let given = Value::deserialize(deserializer)?;
    let times = given.as_u64().and_then(|times| u32::try_from(times).ok());
    times.ok_or_else(|| D::Error::custom("must be a whole number from 1 to 1,000,000"))
}

impl TaskSpec {
    /// Reads a task from its JSON or YAML value.
    ///
    /// # Errors
    /// The first field that is unknown, missing or of the wrong form.
    pub fn from_value(value: Value) -> Result<Self, FieldError> {
        crate::unreadable::read(value, "task")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unreadable::fault;
    use serde_json::json;

    fn task() -> Value {
        json!({
            "executor": {"group": "demo"}, "when": {"every_minutes": {"n": 5, "start": "2026-03-01T10:00:00.000Z"}},
            "parameters": {"path": "/a", "share": 0.1}, "dispatch_times": 6,
        })
    }

    #[test]
    fn a_task_is_written_as_it_was_read() {
        let read = TaskSpec::from_value(task()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), task());
        let given =
            json!({"executor": {"user": "a@b.c"}, "when": {"once": {"start": "2026-03-01T10:00:00.000Z"}}});
        assert_eq!(TaskSpec::from_value(given).unwrap().dispatch_times, 1);
    }

    /// PUL-2, PUL-3, PUL-4: an error names the field by its path, with what was given there.
    #[test]
    fn errors_name_field_and_value() {
        let table = [
            (json!({"dispatch_times": -1}), "dispatch_times", "-1"),
            (json!({"executor": {"user": "a b"}}), "executor.user", "a b"),
            (json!({"lease": 5}), "lease", "5"),
            (json!({"parameters": [1]}), "parameters", "[1]"),
        ];
        for (fields, field, given) in table {
            let error = fault(task(), &fields, TaskSpec::from_value);
            assert_eq!((error.field.as_str(), error.value.as_str()), (field, given), "{error}");
        }
        let days = json!({"n": 1, "at": "25:00", "zone": "UTC", "start": "2026-03-01T10:00:00.000Z"});
        let error = fault(task(), &json!({"when": {"every_days": days}}), TaskSpec::from_value);
        assert!(error.to_string().contains("00:00 to 23:59"), "{error}");
    }

    /// PUL-4: whatever is no number of times is told the rule.
    #[test]
    fn dispatch_times_are_told_their_rule() {
        for bad in [json!(-1), json!(1.5), json!("six"), json!(5_000_000_000_u64), json!(null)] {
            let error = fault(task(), &json!({"dispatch_times": bad}), TaskSpec::from_value);
            assert_eq!(
                (error.field.as_str(), error.rule.as_str()),
                ("dispatch_times", "must be a whole number from 1 to 1,000,000"),
                "{bad}"
            );
        }
    }

    #[test]
    fn time_of_day_is_hours_and_minutes() {
        for bad in ["7:30", "07:30:00", "24:00", "07:60", "", "0730"] {
            assert!(HourMinute::try_from(bad).is_err(), "{bad:?}");
        }
        assert_eq!(HourMinute::try_from("07:30").unwrap().to_string(), "07:30");
    }
}
