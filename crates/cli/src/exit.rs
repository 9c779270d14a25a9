//! What the exit code of a command says.

/// An exit code. Scripts may rely on the numbers; they never change meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It is done.
    Success = 0,
    /// It failed for a reason that has no code of its own.
    Failure = 1,
    /// The command line, a file or a field cannot be accepted.
    BadInput = 2,
    /// A rule refuses it.
    Refused = 3,
    /// What was named is not there.
    NotFound = 4,
    /// The server cannot be reached; nothing was done.
    Unreachable = 5,
    /// No answer came: it may or may not have been done.
    OutcomeUnknown = 6,
    /// It is on record, and not yet in effect in every group.
    NotInForce = 7,
    /// This version does not read the level that stands.
    TooOld = 8,
    /// A batch that was waited for failed.
    BatchFailed = 10,
    /// A batch that was waited for was killed.
    BatchKilled = 11,
    /// The journal breaks a rule.
    RuleBroken = 12,
}

impl Exit {
    /// Every code, in order of its number, with what it means for `--help` and the reference.
    pub const ALL: [(Exit, &str); 12] = [
        (Exit::Success, "done; with --wait or --watch: the batch succeeded"),
        (Exit::Failure, "it failed for another reason than those below"),
        (Exit::BadInput, "the command line, a file or a field cannot be accepted"),
        (Exit::Refused, "a rule refuses it: state, rights, or a limit"),
        (Exit::NotFound, "there is no such job, batch, worker, group or key"),
        (Exit::Unreachable, "the server cannot be reached; nothing was done"),
        (Exit::OutcomeUnknown, "no answer came, so it may or may not have been done"),
        (Exit::NotInForce, "it is done and recorded, and not yet in effect in every group"),
        (Exit::TooOld, "the log goes on with a level that this version does not read; nothing was changed"),
        (Exit::BatchFailed, "with --wait or --watch: the batch, or one of a rerun, failed"),
        (Exit::BatchKilled, "with --wait or --watch: the batch was killed, or the rerun cancelled"),
        (Exit::RuleBroken, "verify --journal: the journal breaks a rule"),
    ];

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// All codes with what they mean, for `--help`.
    pub fn help() -> String {
        let mut text = String::from("Exit codes:\n");
        for (exit, meaning) in Exit::ALL {
            text.push_str(&format!("  {:>2}  {meaning}\n", exit.code()));
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
        for (exit, meaning) in Exit::ALL {
            text.push_str(&format!("| {} | {meaning} |\n", exit.code()));
        }
        text
    }

    #[test]
    fn reference_lists_every_exit_code() {
        expect_test::expect_file!["../../../docs/reference/exit-codes.md"].assert_eq(&reference());
    }

    #[test]
    fn exit_codes_are_distinct() {
        let mut codes = Exit::ALL.map(|(exit, _)| exit.code()).to_vec();
        codes.dedup();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]);
    }
}
