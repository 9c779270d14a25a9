//! What is asked, and what comes back.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tidemill_model::FieldError;

use crate::{Authority, Path};

/// Does this path exist, with its mark where one is asked for?
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Question {
    /// The path. In S3 it exists as an object, or as a directory, which is there as long as anything is in it.
    pub path: Path,
    /// A file that has to be in the directory `path`; its existence is the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
}

impl Question {
    /// Whom to ask.
    #[must_use]
    pub fn authority(&self) -> Authority {
        self.path.authority()
    }

    /// Which of `parts` probers asks this, from 0: the same for all paths of one directory, so that one listing
    /// can still answer many; the same in every process and version.
    ///
    /// # Panics
    /// If `parts` is 0.
    #[must_use]
    pub fn share(&self, parts: u32) -> u32 {
        assert!(parts > 0, "there is a prober");
        let hash = Sha256::digest(self.path.directory().as_bytes());
        u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]) % parts
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mark {
            Some(mark) => write!(f, "{}/{mark}", self.path.as_str().trim_end_matches('/')),
            None => write!(f, "{}", self.path),
        }
    }
}

/// The name of the file that says a directory is complete.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mark(Arc<str>);

impl Mark {
    /// What Hadoop's jobs leave behind: `_SUCCESS`.
    #[must_use]
    pub fn success() -> Self {
        Self("_SUCCESS".into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Mark {
    type Error = FieldError;

    fn try_from(name: String) -> Result<Self, FieldError> {
        let bad = name.is_empty()
            || name.len() > 255
            || matches!(name.as_str(), "." | "..")
            || name.contains(['/', '*', '?', '[', ']', '{', '}'])
            || name.chars().any(char::is_control);
        if bad {
            let rule =
                "has to be the name of one file: 1 to 255 bytes without / * ? [ ] { } and control characters";
            return Err(FieldError::new("mark", name, rule));
        }
        Ok(Self(name.into()))
    }
}

impl From<Mark> for String {
    fn from(mark: Mark) -> String {
        mark.0.to_string()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What one question came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// What was asked.
    pub question: Question,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exists, with its mark where one was asked for; true at some moment since it was asked.
    Present,
    /// It does not; true at some moment since it was asked.
    Absent,
    /// Nobody knows.
    Failed(Failure),
    /// Nobody knows: no try was answered in its time. The calls were abandoned and counted.
    Hung {
        /// How often it was tried, 0 where an earlier call to the same path still hangs.
        tries: u32,
    },
}

/// Why nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// For people, one line.
    pub reason: String,
    /// How often it was tried.
    pub tries: u32,
}

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The back end answered that it will not tell, or cannot be asked: permission, configuration. Asking again
    /// at once does not help.
    Refused,
    /// The back end did not answer, or with an error that may pass.
    Unavailable,
    /// Not asked: the authority has failed so often that it is left alone for a while.
    Paused {
        /// For how long from now on, milliseconds.
        for_ms: u64,
    },
}

impl Outcome {
    /// Whether the authority answered, whatever it said.
    #[must_use]
    pub fn is_conclusive(&self) -> bool {
        match self {
            Outcome::Present | Outcome::Absent => true,
            Outcome::Failed(failure) => failure.kind == FailureKind::Refused,
            Outcome::Hung { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_directory_are_shared_alike_and_directories_evenly() {
        let question =
            |path: String| Question { path: Path::parse("path", &path, None).unwrap(), mark: None };
        let mut shares = [0_u32; 4];
        for directory in 0..1_000 {
            let share = question(format!("/d{directory}/a")).share(4);
            assert_eq!(share, question(format!("/d{directory}/b")).share(4));
            shares[share as usize] += 1;
        }
        assert!(shares.iter().all(|share| (200..300).contains(share)), "{shares:?}");
    }

    #[test]
    fn mark_is_the_name_of_one_file() {
        for bad in ["", ".", "..", "a/b", "a*", "a\n", &"x".repeat(256)] {
            assert_eq!(Mark::try_from(bad.to_owned()).unwrap_err().field, "mark");
        }
        assert_eq!(Mark::try_from("_SUCCESS".to_owned()).unwrap(), Mark::success());
    }
}
