//! `tidemill calendar …` and `tidemill pool …`.

use std::path::PathBuf;

use clap::Subcommand;

/// What to do with calendars: which days are working days, for jobs that keep to them.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum CalendarCommand {
    /// Add and change the calendars of a YAML file
    Apply {
        /// File with a list `calendars`
        #[arg(short, long, value_name = "PATH")]
        file: PathBuf,
    },
    /// Write one calendar as YAML that `apply` takes back unchanged
    Show {
        /// Its name
        name: String,
        /// As it was in this version [default: the newest]
        #[arg(long, value_name = "N")]
        at_version: Option<u32>,
    },
    /// List the versions of a calendar, the newest first; those of a removed one, too
    Versions {
        /// Its name
        name: String,
    },
    /// Write all calendars as YAML that `apply` takes back unchanged
    Export,
    /// List calendars
    Ls,
    /// Delete a calendar that no job uses
    Delete {
        /// Its name
        name: String,
    },
}

/// What to do with pools: slots and rates that batches of several jobs share.
#[derive(Debug, Clone, Subcommand)]
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
