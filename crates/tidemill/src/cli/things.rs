//! `tidemill third-party …` and `tidemill check`.

use clap::{Args, Subcommand};
use tidemill_model::Timestamp;

/// What to do with third parties' reports.
#[derive(Debug, Subcommand)]
pub(crate) enum ThirdPartyCommand {
    /// Say that something is ready for a logical time; kept for batches to come
    Report {
        /// Its code, as jobs name it in third_party
        code: String,
        /// For which logical time, RFC 3339
        #[arg(long, value_name = "TIME")]
        logical_time: Timestamp,
        /// It is not ready, or not any more
        #[arg(long)]
        not_ready: bool,
    },
    /// List what was reported last, by code and logical time
    Ls {
        /// Only of this code
        #[arg(long)]
        code: Option<String>,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "50", value_parser = super::at_least_one)]
        limit: usize,
    },
}

/// What is to be probed.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Only what this batch waits for [default: everything, with an administrator's key]
    #[arg(long, conflicts_with = "late")]
    pub(crate) batch: Option<i64>,
    /// Probe nothing; list the checks that fail or are late
    #[arg(long)]
    pub(crate) late: bool,
}
