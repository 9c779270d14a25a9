//! `tidemill batch …`, and what batches wait for outside: `tidemill third-party …` and `tidemill probe …`.

use clap::{Args, Subcommand, ValueEnum};
use tidemill_model::Timestamp;

/// What to do with batches.
#[derive(Debug, Subcommand)]
pub(crate) enum BatchCommand {
    /// List batches, newest first
    Ls {
        /// Only of this job: id, or group/name
        #[arg(long)]
        job: Option<String>,
        /// Only of this group
        #[arg(long)]
        group: Option<String>,
        /// Only in this state
        #[arg(long, value_parser = STATES)]
        state: Option<String>,
        /// Only with this result
        #[arg(long, value_parser = RESULTS)]
        result: Option<String>,
        /// Only those that a failed parent blocks: what they wait for comes only if somebody acts
        #[arg(long)]
        blocked: bool,
        /// Only for logical times from this one on, RFC 3339
        #[arg(long, value_name = "TIME")]
        from: Option<Timestamp>,
        /// Only for logical times before this one, RFC 3339
        #[arg(long, value_name = "TIME")]
        to: Option<Timestamp>,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "50", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show one batch with its dependencies and attempts
    Show {
        /// Its id
        batch: i64,
    },
    /// Say what keeps a batch from running
    Why {
        /// Its id
        batch: i64,
        /// What kept it then: RFC 3339, or a position, PARTITION:OFFSET
        #[arg(long, value_name = "MOMENT")]
        as_of: Option<String>,
    },
    /// Show what a running batch uses now: memory, processor, processes, disk
    Usage {
        /// Its id
        batch: i64,
    },
    /// List the assignments of a batch that ended without an attempt, and why
    Returns {
        /// Its id
        batch: i64,
    },
    /// End a batch with its whole process tree
    Kill {
        /// Its id
        batch: i64,
        /// Why, for the record
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Say how a batch ended; what runs of it is ended first
    ///
    /// Its children go on from what is said here: after success and skipped they may run.
    Mark {
        /// Its id
        batch: i64,
        /// How it ended
        #[arg(value_enum)]
        result: Marked,
        /// Why, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// Say that nothing of an attempt runs any more; it ends as lost, and the batch may be tried again
    ///
    /// For an attempt that nobody can be asked about: its worker is lost, as in a group with `on_silence: hold`, or was asked to
    /// end it with `batch kill` and cannot. Its processes have to be gone for sure: its host is off, or somebody looked.
    Vouch {
        /// Its id
        batch: i64,
        /// The attempt, by the TOKEN that `batch show` has
        #[arg(long)]
        attempt: i64,
        /// How you know, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// Let an attempt of a lost life of the log be that of a batch
    ///
    /// After a restore a worker may run what the log no longer knows of: `batch why` and `worker show` name it. The batch, which no
    /// worker has, is of the same job and logical time; the attempt's end counts for it from now on.
    Adopt {
        /// Its id
        batch: i64,
        /// The attempt, by its TOKEN
        #[arg(long)]
        attempt: i64,
        /// Why its end is to count, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// Let a batch run without some of its unmet conditions
    ///
    /// `tidemill batch why` lists them. What is named here is not waited for any more; the rest is.
    Override(OverrideArgs),
    /// Say in place of the quality service whether a batch may run
    Quality {
        /// Its id
        batch: i64,
        /// What to say
        #[arg(value_enum)]
        word: QualityWord,
        /// Why, for the record
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Plan to run a batch's logical time, and all that comes after it, once more
    Clear {
        /// Its id
        batch: i64,
        #[command(flatten)]
        how: super::HowArgs,
    },
    /// Run the same logical time once more
    Rerun {
        /// Its id
        batch: i64,
        /// Wait for the end; the exit code says how it ended
        #[arg(long)]
        wait: bool,
        /// Name this request, so that repeating it does it once
        #[arg(long, value_name = "ID")]
        idempotency_key: Option<String>,
    },
    /// Write what a batch printed
    Logs(LogsArgs),
}

/// What a batch is to run without.
#[derive(Debug, Args)]
pub(crate) struct OverrideArgs {
    /// Its id
    pub(crate) batch: i64,
    #[command(flatten)]
    pub(crate) what: Condition,
    /// Only for this logical time of the parent, RFC 3339
    #[arg(long, value_name = "TIME", requires = "parent")]
    pub(crate) logical_time: Option<Timestamp>,
    /// Why, for the record; 1 to 500 characters
    #[arg(long)]
    pub(crate) reason: String,
}

/// What to write of a log.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Its id
    pub(crate) batch: i64,
    /// Go on until it ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Its standard error instead of its standard output
    #[arg(long)]
    pub(crate) stderr: bool,
    /// Of this attempt [default: the newest]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,
}

/// One condition, or all of them.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Condition {
    /// Without any of them
    #[arg(long)]
    pub(crate) all: bool,
    /// Without this path, as `batch show` has it
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Without a third party's report of this code
    #[arg(long, value_name = "CODE")]
    pub(crate) third_party: Option<String>,
    /// Without this parent: id, or group/name
    #[arg(long, value_name = "JOB")]
    pub(crate) parent: Option<String>,
    /// Without the quality service's word
    #[arg(long)]
    pub(crate) quality: bool,
}

/// The quality service's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QualityWord {
    /// It may run
    Allow,
    /// It may not
    Refuse,
}

pub(super) const STATES: [&str; 4] = ["waiting", "assigned", "running", "finished"];
pub(super) const RESULTS: [&str; 4] = ["success", "failed", "killed", "skipped"];

/// What a person says of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Marked {
    /// What it was to do is done
    Success,
    /// It is not
    Failed,
    /// It need not be
    Skipped,
}

/// The word of a choice, as the server knows it.
pub(crate) fn word(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

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
