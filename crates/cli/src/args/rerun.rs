//! `tidemill rerun …` and `tidemill cold-start`.

use clap::{Args, Subcommand, ValueEnum};
use tidemill_model::Timestamp;

/// What to do with reruns and cold starts.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum RerunCommand {
    /// Plan to run a span of logical times again
    ///
    /// Nothing runs before it is approved: look at the plan with `tidemill rerun batches`.
    Plan(PlanArgs),
    /// Let a planned one run
    Approve {
        /// Its id
        rerun: i64,
        /// Show its progress to the end; the exit code says how it ended
        #[arg(long)]
        wait: bool,
    },
    /// List reruns and cold starts, newest first
    Ls {
        /// Only in this state
        #[arg(long)]
        state: Option<String>,
        /// At most so many
        #[arg(long, default_value = "50", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show one with its jobs and counters
    Show {
        /// Its id
        rerun: i64,
    },
    /// Show the batches of its plan, in their order
    Batches {
        /// Its id
        rerun: i64,
        /// Only in this state: planned, started, success, failed, killed, skipped or blocked
        #[arg(long)]
        state: Option<String>,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "200", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show its progress to the end; the exit code says how it ended
    Watch {
        /// Its id
        rerun: i64,
    },
    /// Start no more of it for now
    Pause {
        /// Its id
        rerun: i64,
    },
    /// Go on with it
    Resume {
        /// Its id
        rerun: i64,
    },
    /// Start no more of it
    Cancel {
        /// Its id
        rerun: i64,
        /// Also end what runs of it
        #[arg(long)]
        kill: bool,
    },
}

/// What to run again.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlanArgs {
    /// Where it begins: ids, or group/name
    #[arg(required = true)]
    pub(crate) jobs: Vec<String>,
    /// How far it reaches
    #[arg(long, value_enum, default_value = "job", conflicts_with = "subset")]
    pub(crate) cascade: Cascade,
    /// Also this job, and no others that come after; may be given again
    #[arg(long, value_name = "JOB")]
    pub(crate) subset: Vec<String>,
    /// Which definition the batches get
    #[arg(long, value_enum, default_value = "today")]
    pub(crate) definition: Definition,
    /// The last logical time of what comes after the jobs, RFC 3339 [default: now with --cascade, else --to]
    #[arg(long, value_name = "TIME")]
    pub(crate) reach: Option<Timestamp>,
    #[command(flatten)]
    pub(crate) span: SpanArgs,
}

/// Which logical times, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpanArgs {
    /// The first logical time, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Timestamp,
    /// The last logical time, RFC 3339; not after now
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Timestamp,
    /// Which of the batches in it
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) only: Only,
    /// Which logical times go first
    #[arg(long, value_parser = ["oldest", "newest"], default_value = "oldest")]
    pub(crate) order: String,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// How it runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct HowArgs {
    /// Batches that are started and have not ended, over all groups
    #[arg(long, default_value = "10")]
    pub(crate) concurrency: u32,
    /// Why, for the record
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
    /// Approve it as soon as it is planned
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show its progress to the end; the exit code says how it ended
    #[arg(long, requires = "yes")]
    pub(crate) wait: bool,
    /// Name this request, so that repeating it does it once
    #[arg(long, value_name = "ID")]
    pub(crate) idempotency_key: Option<String>,
}

/// Which jobs to run for the first time.
#[derive(Debug, Clone, Args)]
pub(crate) struct ColdStartArgs {
    /// The period of the jobs
    #[arg(long, value_parser = ["hour", "day", "week", "month"])]
    pub(crate) period: String,
    /// Only the jobs of this group
    #[arg(long, conflicts_with = "jobs")]
    pub(crate) group: Option<String>,
    /// Only these jobs: ids, or group/name [default: all enabled jobs of the period]
    pub(crate) jobs: Vec<String>,
    #[command(flatten)]
    pub(crate) span: SpanArgs,
}

/// How far a rerun reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cascade {
    /// The named jobs and no others
    Job,
    /// Also all jobs that come after them by their parents, in every group
    Logic,
    /// Also all batches that read a path that theirs write, and so on, in every group
    Data,
}

/// Which of the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// Every one
    All,
    /// Those that never had a batch
    Missing,
    /// Those whose newest run has ended without success
    Failed,
}

/// Which definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Definition {
    /// As it is when the batch is started
    Today,
    /// That of the logical time's newest run
    Recorded,
}
