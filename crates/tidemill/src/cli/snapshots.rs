//! `tidemill snapshots …`.

use clap::Subcommand;

/// What to look at.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotsCommand {
    /// List the snapshots
    Ls {
        /// Of this partition alone
        #[arg(long, value_name = "N")]
        partition: Option<u32>,
    },
    /// Say with which snapshot each partition would begin, and why others are not used
    ///
    /// Nothing has to be stopped, and nothing is changed.
    Check,
}
