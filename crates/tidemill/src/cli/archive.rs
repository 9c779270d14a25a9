//! `tidemill archive …`.

use clap::Subcommand;

/// What to do with the archive.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Archive all that there is now, full segments or not, and release what is old
    ///
    /// On the embedded log nothing else may have the data directory: a process that serves it archives by itself.
    Run,
    /// List the segments
    Ls {
        /// Of this journal alone
        #[arg(long, value_name = "N")]
        partition: Option<u32>,
    },
    /// Show what a segment says of itself
    Show {
        /// As `ls` shows it
        #[arg(value_name = "SEGMENT")]
        segment: String,
    },
    /// Read every segment back, and follow the chain from the genesis to where the log begins
    ///
    /// Exit code 12 where a segment is missing, damaged or another log's. Nothing has to be stopped.
    Verify,
}
