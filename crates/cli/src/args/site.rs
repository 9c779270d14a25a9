//! `tidemill worker …`, `group …`, `freeze …`, `key …`, `level …`, `events …`, `dead-letters …` and `partition set-time`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use tidemill_client::Begin;
use tidemill_model::{Permission, Timestamp};

/// What to do with workers.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List workers
    Ls,
    /// Show one worker
    Show {
        /// Its id
        worker: String,
    },
    /// Take no new work on a host, until it is resumed; what runs goes on
    Drain {
        /// The id of a worker there, or the host's name
        worker: String,
        /// Why, for the record; at most 500 characters
        #[arg(long)]
        reason: Option<String>,
        /// Of this group, where the host works for several
        #[arg(long)]
        group: Option<String>,
    },
    /// Take work again
    Resume {
        /// The id of a worker there, or the host's name
        worker: String,
        /// Of this group, where the host works for several
        #[arg(long)]
        group: Option<String>,
    },
    /// List drained hosts, and how many attempts still run there
    Drained,
    /// Say that nothing of a lost worker runs any more; what it held ends, and may be tried again
    ///
    /// For a worker whose silence proves nothing: its group holds (`on_silence: hold`), or the log was restored. Its
    /// processes have to be gone for sure: its host is off, or somebody looked.
    Vouch {
        /// Its id
        worker: String,
        /// How you know, for the record
        #[arg(long)]
        reason: String,
    },
    /// End an attempt of a lost life of the log that runs on a worker
    ///
    /// `worker show` lists them. Nothing of its job and logical time starts before it has ended.
    EndStray {
        /// The worker's id
        worker: String,
        /// The attempt, by its TOKEN
        #[arg(long)]
        attempt: i64,
        /// Why, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
}

/// What to do with worker groups.
#[derive(Debug, Clone, Subcommand)]
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
#[derive(Debug, Clone, Subcommand)]
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
        latest: Option<Timestamp>,
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

/// What a key can be given beside its role.
fn permissions() -> PossibleValuesParser {
    let granted = Permission::ALL.into_iter().filter(|of| of.can_be_granted());
    PossibleValuesParser::new(granted.map(|of| of.as_str()))
}

/// What to do with application keys.
#[derive(Debug, Clone, Subcommand)]
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
        /// What it may beside what its role gives (repeatable) [default: nothing]
        #[arg(long, value_parser = permissions(), value_name = "PERMISSION")]
        may: Vec<String>,
        /// Let it belong to this department, and reach the jobs of that alone
        #[arg(long, value_name = "DEPARTMENT")]
        department: Option<String>,
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

/// What to do with the level of what is written to the log.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LevelCommand {
    /// Show the level that stands, whether it is held, and which processes read how much
    Show,
    /// Keep the level as it is, so that the version before can be gone back to
    Hold {
        /// Why, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// Let the level be raised as soon as every process reads the next one
    Release {
        /// Why, for the record
        #[arg(long, default_value = "")]
        reason: String,
    },
}

/// What to do with the public feed.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EventsCommand {
    /// Write events as they come
    Tail(EventsArgs),
}

/// Reads where to begin in the feed.
fn begin(text: &str) -> Result<Begin, String> {
    match text {
        "start" => Ok(Begin::Start),
        "end" => Ok(Begin::End),
        time => time.parse().map(Begin::Time).map_err(|_| {
            "must be start, end or a time as RFC 3339 has it: 2026-01-01T00:00:00+01:00".to_owned()
        }),
    }
}

/// Which events to write.
#[derive(Debug, Clone, Args)]
pub(crate) struct EventsArgs {
    /// Where to begin: start (the first event on record), end (the next one), or a time, RFC 3339: each partition then
    /// begins with its first event of that time or later
    #[arg(long, value_name = "PLACE", default_value = "end", value_parser = begin, conflicts_with = "cursor")]
    pub(crate) from: Begin,
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

/// What was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LetterKind {
    /// Commands that could not be decoded or decided
    Command,
    /// Timers on which the rules failed
    Timer,
}

/// What to do with dead letters: commands that were set aside, and timers that were suspended. An ID is one that `ls`
/// shows, as 0:17:0.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// List dead letters, in the order of the journal
    Ls {
        /// Only these
        #[arg(long, value_enum)]
        kind: Option<LetterKind>,
        /// Closed ones, too: commands that were sent again, and timers that run again
        #[arg(long)]
        all: bool,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "200", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show one, with the command as it was sent
    Show {
        /// Its id
        id: String,
    },
    /// Send the command again as a new one; of a job whose timer was suspended: switch it off and on
    ///
    /// Refused where the log does not keep the command any more, where it still cannot be read, and for timers that no
    /// command lets go on.
    Redrive {
        /// Its id
        id: String,
    },
}

/// What a server can do with a partition.
#[derive(Debug, Clone, Subcommand)]
pub enum PartitionCommand {
    /// Set the clock of a partition that ran ahead while its owner's clock was wrong
    SetTime {
        /// Its number, as `status` shows it
        #[arg(long, value_name = "N")]
        partition: u32,
        /// The time to go on with, RFC 3339
        #[arg(long, value_name = "TIME")]
        at: Timestamp,
    },
}
