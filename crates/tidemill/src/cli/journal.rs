//! `tidemill verify --journal` and `tidemill journal …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to verify.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Check the journal itself against every rule of docs/reference/checker.md, not the tables
    ///
    /// SOURCE is a data directory, or a file of `journal export`; without it, the log that the settings name.
    /// The log is read where it is and nothing is written: nothing has to be stopped.
    #[arg(long, value_name = "SOURCE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the form in which clap tells the option from its value")]
    pub(crate) journal: Option<Option<PathBuf>>,
    /// With --journal: nothing is on its way any more, so every assignment, due time and message has to have
    /// arrived
    #[arg(long, requires = "journal")]
    pub(crate) at_rest: bool,
}

/// What to do with the journal.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Copy the journal, and the commands it decides, into one file
    ///
    /// `verify --journal FILE` checks it anywhere. What stands in commands and events is in it: job definitions,
    /// parameters, hashes of keys.
    Export {
        /// The file; what is there is replaced once the new one is whole
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// A data directory [default: the log that the settings name]
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
    },
}
