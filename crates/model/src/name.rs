//! Names that people choose: validated once, here.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {value:?} must be 1 to {max} characters: letters, digits, and . _ - after the first")]
pub struct NameError {
    kind: &'static str,
    value: String,
    max: usize,
}

fn check(kind: &'static str, value: &str, max: usize) -> Result<(), NameError> {
    let bad = || NameError { kind, value: value.chars().take(80).collect(), max };
    let mut chars = value.chars();
    let first = chars.next().ok_or_else(bad)?;
    let fits = value.chars().count() <= max
        && first.is_alphanumeric()
        && chars.all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if fits { Ok(()) } else { Err(bad()) }
}

/// What is checked once, as a text, and written as one: from a `String`, and into one by the method that gives its text.
macro_rules! from_and_into_string {
    ($name:ident, $error:ty, $text:ident) => {
        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                Self::try_from(text.as_str())
            }
        }

        impl From<$name> for String {
            fn from(of: $name) -> String {
                of.$text().into()
            }
        }
    };
}
pub(crate) use from_and_into_string;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $kind:literal, $max:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String", extend("minLength" = 1, "maxLength" = $max, "pattern" = crate::bounds::NAME_PATTERN))]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NameError;
            fn try_from(value: &str) -> Result<Self, NameError> {
                check($kind, value, $max)?;
                Ok(Self(value.into()))
            }
        }

        from_and_into_string!($name, NameError, as_str);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

names! {
    /// A job's name, unique in its group unless the job was submitted by the call that names it by id.
    JobName, "job name", 200;
    /// The name of a worker group.
    GroupName, "group name", 64;
    /// The name of a calendar.
    CalendarName, "calendar name", 64;
    /// The name of a pool.
    PoolName, "pool name", 64;
    /// A job type: `shell`, `python`, `noop`, `anchor`, or one that a worker's configuration adds.
    JobType, "job type", 32;
    /// The name of a template for the parameters of pull tasks.
    TemplateName, "template name", 64;
    /// What a worker is called by beside its id, so that jobs can ask for it.
    WorkerLabel, "worker label", 64;
    /// An account of a worker's host.
    Account, "account", 32;
}

impl JobType {
    /// The types that every worker knows how to run, where its host has their programs, and `anchor`.
    pub const BUILT_IN: &[&str] =
        &["anchor", "datahub", "hive", "java", "mapreduce", "noop", "python", "shell", "spark"];

    /// Completed by the engine itself, without a worker.
    pub fn is_anchor(&self) -> bool {
        self.as_str() == "anchor"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_what_would_confuse_a_path_or_a_url() {
        for bad in ["", " a", "a/b", "a b", "-a", ".a", &"x".repeat(65)] {
            assert!(GroupName::try_from(bad).is_err(), "{bad:?}");
        }
        for good in ["demo", "a.b_c-d", "报表", "7"] {
            assert!(GroupName::try_from(good).is_ok(), "{good:?}");
        }
    }
}
