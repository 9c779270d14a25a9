//! Names that people choose: validated once, here.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {value:?} must be 1 to {max} characters: {rule}")]
pub struct NameError {
    kind: &'static str,
    value: String,
    max: usize,
    rule: &'static str,
}

const LETTERS: &str = "letters, digits, and . _ - after the first";

fn is_letters(text: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.starts_with(char::is_alphanumeric) && text.chars().all(fits)
}

const PLAIN_SIGNS: &str = "A to Z, a to z, 0 to 9, and . _ @ -";

fn is_plain_signs(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-'))
}

const WORK_ID_SIGNS: &str = "A to Z, a to z, 0 to 9, and . _ : / @ - after the first";

fn is_work_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '/' | '@' | '-');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(fits)
}

/// Shows a value as what it wraps.
macro_rules! shown_as_wrapped {
    ($name:ident) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
pub(crate) use shown_as_wrapped;

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
    ($fits:ident, $rule:ident, $pattern:path: $($(#[$doc:meta])* $name:ident, $kind:literal, $max:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String", extend("minLength" = 1, "maxLength" = $max, "pattern" = $pattern))]
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
                if (1..=$max).contains(&value.chars().count()) && $fits(value) {
                    return Ok(Self(value.into()));
                }
                let value = value.chars().take(80).collect();
                Err(NameError { kind: $kind, value, max: $max, rule: $rule })
            }
        }

        from_and_into_string!($name, NameError, as_str);

        shown_as_wrapped!($name);
    )+};
}

names! {
    is_letters, LETTERS, bounds::NAME_PATTERN:
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
    /// The name of a department.
    DepartmentName, "department name", 64;
}

names! {
    is_plain_signs, PLAIN_SIGNS, bounds::USER_PATTERN:
    /// Who pulls tasks.
    UserName, "user name", bounds::USER_CHARS;
    /// What a person signs in as.
    PersonName, "name of a person", bounds::USER_CHARS;
}

names! {
    is_work_id, WORK_ID_SIGNS, bounds::EXTERNAL_WORK_ID_PATTERN:
    /// The id of work that an attempt started elsewhere, as the system that runs it writes it: an application of YARN, a
    /// container, a pod. No option of a command can be one.
    ExternalWorkId, "id of external work", bounds::EXTERNAL_WORK_ID_CHARS;
}

const CREDENTIAL_SIGNS: &str = "16 letters and digits, a to z and 0 to 9";

fn is_credential_id(text: &str) -> bool {
    text.len() == bounds::CREDENTIAL_ID_CHARS
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

names! {
    is_credential_id, CREDENTIAL_SIGNS, bounds::CREDENTIAL_ID_PATTERN:
    /// The id of what a person signs in with.
    CredentialId, "id of a credential", bounds::CREDENTIAL_ID_CHARS;
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

    /// EXE-13: what a command of a host takes for an option, or a shell for more than a word, is no id.
    #[test]
    fn ids_of_external_work_are_words_and_no_options() {
        for bad in ["", "-all", "a b", "a;b", "$(x)", "a'", "ä", "a\n", &"x".repeat(201)] {
            assert!(ExternalWorkId::try_from(bad).is_err(), "{bad:?}");
        }
        for good in ["application_1700000000000_0001", "3f2a91c0de", "prod/etl-pod-7", "a"] {
            assert!(ExternalWorkId::try_from(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn user_names_are_plain_signs() {
        for bad in ["", "a b", "a/b", "ü", &"x".repeat(129)] {
            assert!(UserName::try_from(bad).is_err(), "{bad:?}");
        }
        for good in ["7", "uid_10023", "-", "ann.o@example.org", &"x".repeat(128)] {
            assert!(UserName::try_from(good).is_ok(), "{good:?}");
        }
    }
}
