//! `tidemill pool …`.

use std::path::PathBuf;

use clap::Subcommand;

/// What to do with pools: slots and rates that batches of several jobs share.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Add and change the pools of a YAML file; what runs goes on
    Apply {
        /// File with a list `pools`
        #[arg(short, long, value_name = "PATH")]
        file: PathBuf,
    },
    /// List pools
    Ls,
    /// Show a pool and who has slots of it now
    Show {
        /// Its name
        name: String,
    },
    /// Write all pools as YAML that `apply` takes back unchanged
    Export,
    /// Delete a pool that no job uses
    Delete {
        /// Its name
        name: String,
    },
}
