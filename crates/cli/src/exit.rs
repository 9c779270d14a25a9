//! What the exit code of a command says.

/// An exit code. Scripts may rely on the numbers; they never change meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It is done.
    Success,
    /// It failed for a reason that has no code of its own.
    Failure,
    /// The command line, a file or a field cannot be accepted.
    BadInput,
    /// A rule refuses it.
    Refused,
    /// What was named is not there.
    NotFound,
    /// The server cannot be reached; nothing was done.
    Unreachable,
    /// No answer came: it may or may not have been done.
    OutcomeUnknown,
    /// It is on record, and not yet in effect in every group.
    NotInForce,
    /// A batch that was waited for failed.
    BatchFailed,
    /// A batch that was waited for was killed.
    BatchKilled,
    /// The journal breaks a rule.
    RuleBroken,
}

impl Exit {
    /// Every code, in order of its number.
    pub const ALL: [Exit; 11] = [
        Exit::Success,
        Exit::Failure,
        Exit::BadInput,
        Exit::Refused,
        Exit::NotFound,
        Exit::Unreachable,
        Exit::OutcomeUnknown,
        Exit::NotInForce,
        Exit::BatchFailed,
        Exit::BatchKilled,
        Exit::RuleBroken,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::BadInput => 2,
            Exit::Refused => 3,
            Exit::NotFound => 4,
            Exit::Unreachable => 5,
            Exit::OutcomeUnknown => 6,
            Exit::NotInForce => 7,
            Exit::BatchFailed => 10,
            Exit::BatchKilled => 11,
            Exit::RuleBroken => 12,
        }
    }

    /// What it means, for `--help` and the reference.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Success => "done; with --wait: the batch succeeded",
            Exit::Failure => "it failed for another reason than those below",
            Exit::BadInput => "the command line, a file or a field cannot be accepted",
            Exit::Refused => "a rule refuses it: state, rights, or a limit",
            Exit::NotFound => "there is no such job, batch, worker, group or key",
            Exit::Unreachable => "the server cannot be reached; nothing was done",
            Exit::OutcomeUnknown => "no answer came, so it may or may not have been done",
            Exit::NotInForce => "it is done and recorded, and not yet in effect in every group",
            Exit::BatchFailed => "with --wait: the batch, or one of a rerun, failed",
            Exit::BatchKilled => "with --wait: the batch was killed, or the rerun cancelled",
            Exit::RuleBroken => "verify --journal: the journal breaks a rule",
        }
    }

    /// All codes with what they mean, for `--help`.
    pub fn help() -> String {
        let mut text = String::from("Exit codes:\n");
        for exit in Exit::ALL {
            text.push_str(&format!("  {:>2}  {}\n", exit.code(), exit.meaning()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of the reference, as Markdown.
    fn reference() -> String {
        let mut text = String::from(
            "# Exit codes\n\nGenerated from the program; a test compares. Scripts may rely on the numbers.\n\n\
             | code | meaning |\n|---|---|\n",
        );
        for exit in Exit::ALL {
            text.push_str(&format!("| {} | {} |\n", exit.code(), exit.meaning()));
        }
        text
    }

    #[test]
    fn reference_lists_every_exit_code() {
        expect_test::expect_file!["../../../docs/reference/exit-codes.md"].assert_eq(&reference());
    }

    #[test]
    fn exit_codes_are_distinct() {
        let mut codes = Exit::ALL.map(Exit::code).to_vec();
        codes.dedup();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12]);
    }
}
