//! Why a command did not do what it was asked to: for people on stderr, for programs as JSON.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use crate::exit::Exit;

/// A command's failure: what failed, the details line by line, and what to do about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The code with which the program ends.
    pub exit: Exit,
    /// What failed, in one sentence.
    pub message: String,
    /// More of it, line by line.
    pub details: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What every command returns.
pub type Done<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure without details.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), details: Vec::new(), hint: None }
    }

    /// Something outside failed: `what` was being done, `source` says how it went wrong.
    pub fn caused(what: impl fmt::Display, source: &dyn std::error::Error) -> Self {
        Self::new(Exit::Failure, with_causes(format!("{what}: {source}"), source))
    }

    /// Something failed that says itself what was being done.
    pub fn unexpected(error: &dyn std::error::Error) -> Self {
        Self::new(Exit::Failure, with_causes(error.to_string(), error))
    }

    /// A file that the command line names cannot be read, whatever the reason.
    pub fn unreadable(path: &Path, source: &std::io::Error) -> Self {
        Self::caused(format!("cannot read {}", path.display()), source).with_exit(Exit::BadInput)
    }

    /// The command line, a file or a field cannot be accepted.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, message)
    }

    /// With another exit code.
    #[must_use]
    pub fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// With one more line of details.
    #[must_use]
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "error": self.message,
            "details": self.details,
            "hint": self.hint,
            "exit_code": self.exit.code(),
        })
    }
}

/// The causes of an error behind what was said of it; each once.
fn with_causes(mut message: String, error: &dyn std::error::Error) -> String {
    let mut inner = error.source();
    while let Some(cause) = inner {
        let text = cause.to_string();
        if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        inner = cause.source();
    }
    message
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        for line in &self.details {
            write!(f, "\n  {line}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_is_message_then_details_then_hint() {
        let failure = Failure::bad_input("jobs.yaml: 1 field cannot be accepted")
            .detail("nightly.priority: \"12\": must be 0 to 9")
            .hint("correct the file and apply it again");
        expect_test::expect![[r#"
            error: jobs.yaml: 1 field cannot be accepted
              nightly.priority: "12": must be 0 to 9
            hint: correct the file and apply it again"#]]
        .assert_eq(&failure.to_string());
    }

    #[test]
    fn sources_are_told_once() {
        let inner = std::io::Error::other("disk on fire");
        let failure = Failure::caused("cannot read a.yaml", &inner);
        assert_eq!(failure.message, "cannot read a.yaml: disk on fire");
    }
}
