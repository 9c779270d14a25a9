//! `tidemill attempt …`.

use clap::{Args, Subcommand};

/// What to do with attempts.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AttemptCommand {
    /// List attempts, newest first
    Ls(AttemptLsArgs),
    /// Say from within a job whether it has succeeded, where its `success_check` is `user_code`
    ///
    /// A running attempt has all that is needed in its environment.
    Report(ReportArgs),
}

/// Which attempts to list.
#[derive(Debug, Clone, Args)]
pub(crate) struct AttemptLsArgs {
    /// Only of this batch
    #[arg(long, value_name = "ID")]
    pub(crate) batch: Option<i64>,
    /// Only of this job: id, or group/name
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// Only on this worker
    #[arg(long, value_name = "ID")]
    pub(crate) worker: Option<String>,
    /// At most so many; all pages are fetched until then
    #[arg(long, default_value = "50", value_parser = super::at_least_one)]
    pub(crate) limit: usize,
}

/// What a program says of itself.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// 0: it has succeeded; anything else: it has not
    #[arg(allow_negative_numbers = true)]
    pub(crate) code: i32,
    /// The attempt, by its TOKEN
    #[arg(long, env = "TIDEMILL_TOKEN", value_name = "TOKEN")]
    pub(crate) attempt: i64,
    /// Its key
    #[arg(long, env = "TIDEMILL_ATTEMPT_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) attempt_key: String,
    /// The address of the interface
    #[arg(long, env = "TIDEMILL_API", value_name = "URL")]
    pub(crate) api: String,
}
