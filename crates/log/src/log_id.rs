//! The name of one log, made when the log is made.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// Names one log for ever: two logs never share it, and a log that is rebuilt has another.
///
/// One to 64 characters out of `a-z`, `0-9` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogId(String);

/// The text is no log id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a log id has 1 to 64 characters out of a-z, 0-9 and -; this is not one: {0:?}")]
pub struct InvalidLogId(pub String);

impl LogId {
    /// A new one: a random UUID.
    ///
    /// # Panics
    /// When the operating system has no random numbers.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for LogId {
    type Error = InvalidLogId;

    fn try_from(text: String) -> Result<Self, InvalidLogId> {
        let valid = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if valid && (1..=64).contains(&text.len()) { Ok(Self(text)) } else { Err(InvalidLogId(text)) }
    }
}

impl std::convert::From<LogId> for String {
    fn from(id: LogId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_are_valid_and_differ() {
        let (one, other) = (LogId::random(), LogId::random());
        assert_ne!(one, other);
        assert_eq!(LogId::try_from(one.to_string()), Ok(one));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "A", "a b", &"a".repeat(65)] {
            assert_eq!(LogId::try_from(text.to_owned()), Err(InvalidLogId(text.to_owned())));
        }
    }
}
