//! The name of one log, made when the log is made.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// Between the first id of a log and the generation that a restore began.
const RESTORED: &str = "-r";

/// Milliseconds of five hundred years.
const MAX_GENERATION: u64 = 1 << 44;

/// Names one log for ever: two logs never share it, and a log that is rebuilt or restored has another.
///
/// One to 64 characters out of `a-z`, `0-9` and `-`. That of a restored log is the id that its journals began with, `-r` and the
/// generation: `4f2c…-r86400`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogId(Arc<str>);

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
        Self(Uuid::new_v4().simple().to_string().into())
    }

    /// The id that the journals of this log began with, and the generation: 0 before the log was restored for the first time.
    fn parts(&self) -> (&str, u64) {
        let generation = |text: &str| {
            text.parse().ok().filter(|number| (1..=MAX_GENERATION).contains(number) && !text.starts_with('0'))
        };
        let parts = self.0.rsplit_once(RESTORED);
        parts.and_then(|(base, text)| Some((base, generation(text)?))).unwrap_or((&self.0, 0))
    }

    /// Which restore of the log this is the id after: 0 before the first, and more after each.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.parts().1
    }

    /// The id of this log after a restore.
    ///
    /// # Errors
    /// The id would be too long, or the generation too large for ids to be minted in it.
    pub fn restored(&self, generation: u64) -> Result<Self, InvalidLogId> {
        if !(1..=MAX_GENERATION).contains(&generation) {
            return Err(InvalidLogId(format!("{}{RESTORED}{generation}", self.parts().0)));
        }
        Self::try_from(format!("{}{RESTORED}{generation}", self.parts().0))
    }

    /// Whether this is the id of the same log, now or before it was restored.
    #[must_use]
    pub fn is_or_becomes(&self, later: &Self) -> bool {
        self.0 == later.0 || self.parts().0 == later.parts().0 && self.generation() < later.generation()
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
        if valid && (1..=64).contains(&text.len()) { Ok(Self(text.into())) } else { Err(InvalidLogId(text)) }
    }
}

impl std::convert::From<LogId> for String {
    fn from(id: LogId) -> Self {
        id.0.to_string()
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

    /// OPS-5.
    #[test]
    fn restored_log_has_another_id_of_the_same_line() {
        let first = LogId::try_from("ab-r7x".to_owned()).unwrap();
        let second = first.restored(9).unwrap();
        let third = second.restored(12).unwrap();
        assert_eq!((first.generation(), second.generation(), third.generation()), (0, 9, 12));
        assert_eq!((second.as_str(), third.as_str()), ("ab-r7x-r9", "ab-r7x-r12"));
        assert!(first.is_or_becomes(&first) && first.is_or_becomes(&third) && second.is_or_becomes(&third));
        assert!(!third.is_or_becomes(&second) && !second.is_or_becomes(&first));
        assert!(!LogId::random().is_or_becomes(&third));
        assert!(LogId::try_from("a".repeat(64)).unwrap().restored(1).is_err());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "A", "a b", &"a".repeat(65)] {
            assert_eq!(LogId::try_from(text.to_owned()), Err(InvalidLogId(text.to_owned())));
        }
    }
}
