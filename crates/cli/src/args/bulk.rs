//! `tidemill bulk …`.

use clap::{Args, Subcommand};
use tidemill_model::Timestamp;

use super::batch::{Marked, RESULTS, STATES};

/// What to do with all batches or jobs that fit a filter.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BulkCommand {
    /// End all unfinished batches that fit
    Kill(BatchesArgs),
    /// Override the result of all batches that fit
    Mark {
        /// The result that they get
        #[arg(value_enum)]
        marked: Marked,
        #[command(flatten)]
        batches: BatchesArgs,
    },
    /// Run all finished batches that fit, and what comes after them, again
    ///
    /// Each becomes a rerun of its own, as with `batch clear`, and is approved; at most 50. A batch that comes after
    /// another one that fits is run by both reruns: let only the first of them fit.
    Clear(BatchesArgs),
    /// Switch on all jobs that fit
    Enable(JobsArgs),
    /// Switch off all jobs that fit
    Disable(JobsArgs),
    /// List operations, newest first
    Ls {
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "50", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show how far an operation is
    Show {
        /// Its id
        bulk: i64,
    },
    /// Show what came of each batch or job of an operation
    Items {
        /// Its id
        bulk: i64,
        /// Only with this outcome: left, done or refused
        #[arg(long)]
        outcome: Option<String>,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "200", value_parser = super::at_least_one)]
        limit: usize,
    },
}

/// Which batches.
#[derive(Debug, Clone, Args)]
pub(crate) struct BatchesArgs {
    #[command(flatten)]
    pub(crate) jobs: JobsArgs,
    /// Only in this state
    #[arg(long, value_parser = STATES)]
    pub(crate) state: Option<String>,
    /// Only with this result
    #[arg(long, value_parser = RESULTS)]
    pub(crate) result: Option<String>,
    /// Only for logical times from this one on, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Timestamp>,
    /// Only for logical times before this one, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Timestamp>,
}

/// Of which jobs.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobsArgs {
    /// Only of this group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only of jobs whose name fits; * stands for any letters, ? for one
    #[arg(long, value_name = "PATTERN")]
    pub(crate) job: Option<String>,
    /// Only of jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Only of jobs of this owner
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// Why, for the record; 1 to 500 bytes
    #[arg(long, required_unless_present = "dry_run")]
    pub(crate) reason: Option<String>,
    /// Only list what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Refused where more fit; at most 5,000
    #[arg(long, default_value_t = 5_000)]
    pub(crate) limit: usize,
    /// Name this request, so that repeating it does it once
    #[arg(long, value_name = "ID")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait for the end
    #[arg(long)]
    pub(crate) wait: bool,
}
