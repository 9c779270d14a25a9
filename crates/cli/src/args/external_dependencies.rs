//! `tidemill third-party …` and `tidemill probe run`.

use clap::Subcommand;
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

/// What to do with probes of paths.
#[derive(Debug, Subcommand)]
pub(crate) enum ProbeCommand {
    /// Probe the paths that batches wait for at once
    Run {
        /// Only what this batch waits for [default: everything, with an administrator's key]
        #[arg(long)]
        batch: Option<i64>,
    },
    /// List the authorities whose probes fail or are late
    Late,
}
