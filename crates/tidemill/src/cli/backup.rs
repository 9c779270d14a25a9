//! `tidemill backup` and `tidemill restore`.

use std::path::PathBuf;

use clap::Args;

/// What is backed up, and where to.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// A directory that is not there yet, or empty
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// A data directory [default: that of --data]
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
}

/// What is restored. Where to is said by `--data`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A directory of `backup`, or a file of `journal export`
    #[arg(long, value_name = "PATH")]
    pub(crate) from: PathBuf,
    /// Who restores, for the record; at most 1000 characters
    #[arg(long, value_name = "NAME", env = "USER", value_parser = super::partition::said)]
    pub(crate) by: String,
}
