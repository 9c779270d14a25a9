//! `tidemill pull …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tidemill_model::Timestamp;

/// What to do with tasks that clients pull.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PullCommand {
    /// Define and look at templates for the parameters of tasks
    #[command(subcommand, visible_alias = "templates")]
    Template(PullTemplateCommand),
    /// Give users their home group, look at them and move them
    #[command(subcommand, visible_alias = "users")]
    User(PullUserCommand),
    /// Add, change, delete and look at tasks
    #[command(subcommand, visible_alias = "tasks")]
    Task(PullTaskCommand),
    /// List grants, the newest of each group first
    Grants(PullGrantsArgs),
    /// As a client: get the user's next task, or the one that it has
    Next {
        /// Who
        user: String,
        /// Wait so many seconds for one, at most 30
        #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=30))]
        wait: u32,
    },
    /// As a client: say that the user has done what it got
    Complete {
        /// Who
        user: String,
        /// The grant that `next` showed
        grant: i64,
        /// What came of it, 1 to 4,096 bytes
        #[arg(long)]
        result: String,
    },
    /// Give back what a user got and does not do
    Return {
        /// Who
        user: String,
        /// The grant that `next` showed
        grant: i64,
        /// Why, for the record
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// What to do with templates.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PullTemplateCommand {
    /// Add and change the templates of a YAML file; tasks that are there stay
    Apply {
        /// File with a list `templates`
        #[arg(short, long, value_name = "PATH")]
        file: PathBuf,
    },
    /// List templates
    Ls,
    /// Show a template and its fields
    Show {
        /// Its name
        name: String,
    },
    /// Delete a template; tasks that were checked against it stay
    Delete {
        /// Its name
        name: String,
    },
}

/// What to do with users.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PullUserCommand {
    /// Give users their home group; those who have it already stay as they are
    Assign {
        /// The group
        group: String,
        /// Their names
        #[arg(required_unless_present = "file")]
        users: Vec<String>,
        /// File with a list `users`, in addition
        #[arg(short, long, value_name = "PATH")]
        file: Option<PathBuf>,
    },
    /// List users
    Ls {
        /// Only of this group
        #[arg(long)]
        group: Option<String>,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "50", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show a user, what it has now, and what it gets next
    Show {
        /// Who
        user: String,
    },
    /// Move a user with its history and its own tasks to another group; not while it has a live grant
    Move {
        /// Who
        user: String,
        /// The group that is to be its home
        to: String,
    },
    /// Take a user and its own tasks out of its group; not while it has a live grant
    Delete {
        /// Who
        user: String,
    },
}

/// Which kind of task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskKind {
    /// With one occurrence
    Once,
    /// With one every so many minutes or days
    Rotating,
}

/// Which tasks to list.
#[derive(Debug, Clone, Args)]
pub(crate) struct PullTaskLsArgs {
    /// Only of this kind [default: rotating ones, then once tasks]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<TaskKind>,
    /// Only for this executor: group:NAME or user:NAME
    #[arg(long)]
    pub(crate) executor: Option<String>,
    /// Only what this group gives out: its own, and those of its users
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only in this state: valid, deleted or released [default: valid and deleted]
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Start at or after, RFC 3339 [default: 7 days ago, of rotating tasks any]
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Timestamp>,
    /// Start before, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Timestamp>,
    /// At most so many of each kind; all pages are fetched until then
    #[arg(long, default_value = "50", value_parser = super::at_least_one)]
    pub(crate) limit: usize,
}

/// What to do with tasks.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum PullTaskCommand {
    /// Create the tasks of a YAML file
    Create {
        /// File with a list `tasks`
        #[arg(short, long, value_name = "PATH")]
        file: PathBuf,
    },
    /// List tasks, those with the latest start first
    Ls(PullTaskLsArgs),
    /// Show a task
    Show {
        /// Its id
        task: i64,
    },
    /// Change a task to the only one of a YAML file; its executor stays, and so does what somebody has of it
    Change {
        /// Its id
        task: i64,
        /// File with a list `tasks` of one
        #[arg(short, long, value_name = "PATH")]
        file: PathBuf,
    },
    /// Delete a task; what somebody has of it can still be completed
    Delete {
        /// Its id
        task: i64,
    },
    /// Show how often a task was given out, and what became of that
    Ledger {
        /// Its id
        task: i64,
        /// As its owner knows it now; what is purged is not in it
        #[arg(long)]
        live: bool,
        /// At most so many occurrences; all pages are fetched until then
        #[arg(long, default_value = "50", value_parser = super::at_least_one)]
        limit: usize,
    },
}

/// Which grants to list.
#[derive(Debug, Clone, Args)]
pub(crate) struct PullGrantsArgs {
    /// Only to this user
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Only of this task
    #[arg(long)]
    pub(crate) task: Option<i64>,
    /// Only in this state: live, completed, returned or expired
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Only given by this group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// At most so many; all pages are fetched until then
    #[arg(long, default_value = "50", value_parser = super::at_least_one)]
    pub(crate) limit: usize,
}
