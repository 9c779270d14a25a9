//! `tidemill partition set-time`.

use clap::Subcommand;
use tidemill_model::Timestamp;

/// What a server can do with a partition.
#[derive(Debug, Subcommand)]
pub enum PartitionCommand {
    /// Set the clock of a partition that ran ahead while its owner's clock was wrong
    SetTime {
        /// Its number, as `status` shows it
        #[arg(long, value_name = "N")]
        partition: u32,
        /// The time to go on with, RFC 3339
        #[arg(long, value_name = "TIME")]
        at: Timestamp,
    },
}
