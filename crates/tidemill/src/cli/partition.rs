//! `tidemill partition …`.

use clap::{Args, Subcommand};

/// What to do with a partition.
#[derive(Debug, Subcommand)]
pub(crate) enum PartitionCommand {
    #[command(flatten)]
    OfServer(tidemill_cli::PartitionCommand),
    /// Let a partition go on whose commands were lost, recreated or restored; on record
    ///
    /// Reads and writes the log itself; on the embedded log nothing else may have the data directory. Commands
    /// that are in the topic and were not decided are given up too: whoever sent them has to send them again.
    AcceptLoss(AcceptLossArgs),
}

/// What is accepted, by whom and why.
#[derive(Debug, Args)]
pub(crate) struct AcceptLossArgs {
    /// Its number, as `status` shows it
    #[arg(long, value_name = "N")]
    pub(crate) partition: u32,
    /// Why, for the record; at most 1000 characters
    #[arg(long, value_name = "TEXT", value_parser = said)]
    pub(crate) reason: String,
    /// Who says so, for the record; at most 1000 characters
    #[arg(long, value_name = "NAME", env = "USER", value_parser = said)]
    pub(crate) by: String,
}

/// Reads what somebody says.
pub(super) fn said(text: &str) -> Result<String, String> {
    let length = text.trim().chars().count();
    let fits = (1..=1000).contains(&length);
    fits.then(|| text.trim().to_owned()).ok_or_else(|| "must be 1 to 1000 characters".to_owned())
}
