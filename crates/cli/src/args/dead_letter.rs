//! `tidemill dead-letters …`.

use clap::{Subcommand, ValueEnum};

/// What was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LetterKind {
    /// Commands that could not be decoded or decided
    Command,
    /// Timers on which the rules failed
    Timer,
}

/// What to do with dead letters: commands that were set aside, and timers that were suspended. An ID is one that `ls`
/// shows, as 0:17:0.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// List dead letters, in the order of the journal
    Ls {
        /// Only these
        #[arg(long, value_enum)]
        kind: Option<LetterKind>,
        /// Closed ones, too: commands that were sent again, and timers that run again
        #[arg(long)]
        all: bool,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "200", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show one, with the command as it was sent
    Show {
        /// Its id
        id: String,
    },
    /// Send the command again as a new one; of a job whose timer was suspended: switch it off and on
    ///
    /// Refused where the log does not keep the command any more, where it still cannot be read, and for timers that no
    /// command lets go on.
    Redrive {
        /// Its id
        id: String,
    },
}
