//! `tidemill worker | group | key | events | config …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// What to do with workers.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List workers
    Ls,
    /// Show one worker
    Show {
        /// Its id
        worker: String,
    },
    /// Take no new work; what runs goes on
    Drain {
        /// Its id
        worker: String,
    },
    /// Take work again
    Resume {
        /// Its id
        worker: String,
    },
}

/// What to do with worker groups.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List groups
    Ls,
    /// Create a group, or change its key and settings
    Apply {
        /// Its name
        name: String,
        /// Ed25519 public key of its workers, 64 hexadecimal digits
        /// [default: that of <data>/group-NAME.key, drawn where there is none]
        #[arg(long, value_name = "HEX")]
        worker_key: Option<String>,
        /// Its settings, as `{"lease_ms": 60000, "accounts": {"*": ["etl"]}}`; those that are absent get their
        /// defaults [default: as they are]
        #[arg(long, value_name = "JSON")]
        settings: Option<String>,
    },
}

/// What to do with freezes.
#[derive(Debug, Subcommand)]
pub(crate) enum FreezeCommand {
    /// List what is frozen
    Ls,
    /// Let no batch beyond a logical time be assigned; batches are generated all the same
    Set {
        /// Of this group [default: every group]
        #[arg(long)]
        group: Option<String>,
        /// The latest logical time that may be assigned, RFC 3339 [default: now]
        #[arg(long, value_name = "TIME")]
        latest: Option<tidemill_model::Timestamp>,
        /// Why, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// End a freeze: what waited for it may be assigned
    Lift {
        /// Of this group [default: that of every group]
        #[arg(long)]
        group: Option<String>,
        /// Why, for the record
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// What an application key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum KeyRole {
    /// Reads
    Viewer,
    /// Reads, submits and acts on the groups it is bound to
    User,
    /// Everything but keys and groups
    Administrator,
    /// Everything
    SuperAdministrator,
}

/// What to do with application keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create or replace a key; its secret is shown once
    Apply {
        /// Name of the application
        app: String,
        /// What it allows
        #[arg(long, value_enum, default_value = "user")]
        role: KeyRole,
        /// Bind it to this group (repeatable) [default: all groups]
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
        /// Jobs that it applies may run as this account of their worker's host (repeatable) [default: none]
        #[arg(long, value_name = "ACCOUNT")]
        run_as: Vec<String>,
        /// With the operator's secret (operator.key, or the setting operator_key) in place of a key: where every
        /// super-administrator's key is lost
        #[arg(long)]
        operator: bool,
    },
    /// Delete a key; from then on it opens nothing
    Delete {
        /// Name of the application
        app: String,
    },
    /// List keys, without their secrets
    Ls,
}

/// What to do with the public feed.
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Write events as they come
    Tail(EventsArgs),
}

/// Where to begin in the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedFrom {
    /// With the first event on record.
    Start,
    /// With the next one.
    End,
    /// With the first event of this time or later, in each partition.
    Time(tidemill_model::Timestamp),
}

impl std::str::FromStr for FeedFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "start" => Ok(Self::Start),
            "end" => Ok(Self::End),
            time => time.parse().map(Self::Time).map_err(|_| {
                "must be start, end or a time as RFC 3339 has it: 2026-01-01T00:00:00+01:00".to_owned()
            }),
        }
    }
}

/// Which events to write.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Where to begin: start (the first event on record), end (the next one), or a time, RFC 3339: each partition then
    /// begins with its first event of that time or later
    #[arg(long, value_name = "PLACE", default_value = "end", conflicts_with = "cursor")]
    pub(crate) from: FeedFrom,
    /// After the event with this cursor
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// Only types that begin so, as in batch or batch.finished (docs/reference/events.md has all)
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// Only subjects that begin so, as in batch/4097
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// End after so many
    #[arg(long)]
    pub(crate) limit: Option<u64>,
}

/// How to run the demo.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// End when the seven batches have ended; the exit code says how
    #[arg(long)]
    pub(crate) once: bool,
    /// Make this job fail
    #[arg(long = "break", value_name = "JOB", value_enum)]
    pub(crate) breaks: Option<Breakable>,
    /// Fix the job that was made to fail, and run its failed batch again
    #[arg(long, conflicts_with = "breaks")]
    pub(crate) fix: bool,
    /// Where to listen, ip:port [default: 127.0.0.1:8780, or a free port where that is taken]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
}

/// A job of the demo that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Breakable {
    MessageWords,
}

/// What to do with a partition.
#[derive(Debug, Subcommand)]
pub(crate) enum PartitionCommand {
    /// Set the clock of a partition that ran ahead while its owner's clock was wrong
    SetTime {
        /// Its number, as `status` shows it
        #[arg(long, value_name = "N")]
        partition: u32,
        /// The time to go on with, RFC 3339
        #[arg(long, value_name = "TIME")]
        at: tidemill_model::Timestamp,
    },
    /// Let a partition go on whose commands were lost, recreated or restored; on record
    ///
    /// Reads and writes the log itself; on the embedded log nothing else may have the data directory. Commands
    /// that are in the topic and were not decided are given up too: whoever sent them has to send them again.
    AcceptLoss(AcceptLossArgs),
}

/// What is accepted, by whom and why.
#[derive(Debug, Args)]
pub(crate) struct AcceptLossArgs {
    /// Its number, as `status` shows it
    #[arg(long, value_name = "N")]
    pub(crate) partition: u32,
    /// Why, for the record; at most 1000 characters
    #[arg(long, value_name = "TEXT", value_parser = said)]
    pub(crate) reason: String,
    /// Who says so, for the record; at most 1000 characters
    #[arg(long, value_name = "NAME", env = "USER", value_parser = said)]
    pub(crate) by: String,
}

/// Reads what somebody says.
fn said(text: &str) -> Result<String, String> {
    let length = text.trim().chars().count();
    let fits = (1..=1000).contains(&length);
    fits.then(|| text.trim().to_owned()).ok_or_else(|| "must be 1 to 1000 characters".to_owned())
}

/// What to do with the generated files.
#[derive(Debug, Subcommand)]
pub(crate) enum SchemasCommand {
    /// Write them
    Write {
        /// Where
        #[arg(long, default_value = "schemas")]
        dir: PathBuf,
    },
    /// Fail where one is not what the code says
    Check {
        /// Where
        #[arg(long, default_value = "schemas")]
        dir: PathBuf,
    },
}

/// What to do with a cluster's topics.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicsCommand {
    /// Make those that are missing, with the settings that the log needs
    Create,
}

/// What to show of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every setting with its effective value and where it came from
    Show,
    /// The JSON Schema of the configuration file
    Schema,
    /// Every environment variable, as Markdown
    Environment,
}
