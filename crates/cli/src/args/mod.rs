//! The command line of the commands that speak to a server: names, arguments and help. No behaviour; that is in
//! [`crate::commands`].

mod attempt;
mod audit;
mod batch;
mod bulk;
mod context;
mod directory;
mod job;
mod named;
mod pull;
mod rerun;
mod sign_in;
mod site;

pub(crate) use attempt::{AttemptCommand, AttemptLsArgs, ReportArgs};
pub(crate) use audit::{AuditCommand, AuditFilterArgs};
pub(crate) use batch::{
    BatchCommand, BatchLsArgs, Condition, LogsArgs, OverrideArgs, ProbeCommand, QualityWord,
    ThirdPartyCommand, word,
};
pub(crate) use bulk::{BatchesArgs, BulkCommand, JobsArgs};
pub(crate) use context::{ContextCommand, ContextSetArgs};
pub(crate) use directory::{
    DepartmentCommand, DirectoryCommand, DirectoryFileArgs, OnCallArgs, PersonCommand,
};
pub(crate) use job::{ApplyArgs, JobCommand, JobLsArgs, JobRunArgs, JobSubmitArgs, Parameter};
pub(crate) use named::{CalendarCommand, PoolCommand};
pub(crate) use pull::{
    PullCommand, PullGrantsArgs, PullTaskCommand, PullTaskLsArgs, PullTemplateCommand, PullUserCommand,
    TaskKind,
};
pub(crate) use rerun::{ColdStartArgs, HowArgs, PlanArgs, RerunCommand, SpanArgs};
pub(crate) use sign_in::{LoginArgs, PasswordArgs, TokenCommand};
pub use site::PartitionCommand;
pub(crate) use site::{
    DeadLetterCommand, EventsArgs, EventsCommand, FreezeCommand, GroupCommand, KeyCommand, LevelCommand,
    WorkerCommand,
};

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
#[allow(rustdoc::invalid_html_tags, reason = "these are lines of the help")]
pub struct Global {
    /// Configuration file [default: ./tidemill.toml where there is one]
    #[arg(long, env = "TIDEMILL_CONFIG", value_name = "FILE", global = true, hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Data directory [default: ./tidemill-data]
    #[arg(long, env = "TIDEMILL_DATA", value_name = "DIR", global = true, hide_env_values = true)]
    pub data: Option<PathBuf>,
    /// Server to talk to [default: that of the context; without one that of the data directory; with --key
    /// http://127.0.0.1:8780]
    #[arg(long, env = "TIDEMILL_SERVER", value_name = "URL", global = true, hide_env_values = true)]
    pub server: Option<String>,
    /// Application key, APP:SECRET, or a token [default: that of the context; without one <data>/admin.key]
    #[arg(long, env = "TIDEMILL_KEY", value_name = "KEY", global = true, hide_env_values = true)]
    pub key: Option<String>,
    /// Server and key that `tidemill login` kept under this name [default: the current one, where neither --server nor --data
    /// is given]
    #[arg(long, env = "TIDEMILL_CONTEXT", value_name = "NAME", global = true, hide_env_values = true)]
    pub context: Option<String>,
    /// Authorities, in PEM, that may have signed the server's certificate [default: tls.ca_file, else the machine's]
    #[arg(long, env = "TIDEMILL_CA_FILE", value_name = "FILE", global = true, hide_env_values = true)]
    pub ca_file: Option<PathBuf>,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value = "table", global = true)]
    pub output: OutputFormat,
    /// Show a list or a thing again whenever it changes, and look each DURATION at least, 1s to 1h, as in --watch=10s
    /// [default: 5s]
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5s",
        value_parser = interval,
        global = true
    )]
    pub watch: Option<Duration>,
    /// Person in whose name the key calls (X-User) [default: that of the context]
    #[arg(long, env = "TIDEMILL_AS_USER", value_name = "NAME", global = true, hide_env_values = true)]
    pub as_user: Option<String>,
    /// Show no progress on a terminal
    #[arg(long, global = true)]
    pub quiet: bool,
}

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Table,
    /// For people, with every field of a list's items as a column
    Wide,
    /// For programs: the server's answer as it is
    Json,
    /// The same as YAML
    Yaml,
}

impl OutputFormat {
    /// Whether it is the server's answer as it is.
    pub fn is_for_programs(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// What to do, with a server.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Define, run and look at jobs
    #[command(subcommand, visible_alias = "jobs")]
    Job(JobCommand),
    /// Look at, kill and rerun batches, and read their logs
    #[command(subcommand, visible_alias = "batches")]
    Batch(BatchCommand),
    /// List attempts, and report the code of the one that this program runs in
    #[command(subcommand, visible_alias = "attempts")]
    Attempt(AttemptCommand),
    /// Kill, mark, clear, enable or disable all that fit a filter, as one operation
    #[command(subcommand)]
    Bulk(BulkCommand),
    /// Define and look at calendars, whose days jobs can keep to
    #[command(subcommand, visible_alias = "calendars")]
    Calendar(CalendarCommand),
    /// Define and look at pools, whose slots and rates batches of several jobs share
    #[command(subcommand, visible_alias = "pools")]
    Pool(PoolCommand),
    /// Tasks that clients pull: templates, users, tasks, grants; and to pull, complete and return them
    #[command(subcommand)]
    Pull(PullCommand),
    /// Report what outside systems have ready, and list the reports
    #[command(subcommand)]
    ThirdParty(ThirdPartyCommand),
    /// Probe the paths that batches wait for at once, and list probes that are late
    #[command(subcommand)]
    Probe(ProbeCommand),
    /// Plan, approve and watch reruns of many batches
    #[command(subcommand, visible_alias = "reruns")]
    Rerun(RerunCommand),
    /// Plan the first batches of the jobs of a period, for a span of logical times
    ///
    /// It is a rerun from then on: `tidemill rerun approve`, `watch` and the others take its id.
    ColdStart(ColdStartArgs),
    /// Look at workers, drain and resume them
    #[command(subcommand, visible_alias = "workers")]
    Worker(WorkerCommand),
    /// Look at and define worker groups
    #[command(subcommand, visible_alias = "groups")]
    Group(GroupCommand),
    /// Freeze a group or everything, and lift freezes
    #[command(subcommand, visible_alias = "freezes")]
    Freeze(FreezeCommand),
    /// Define, revoke and list application keys
    #[command(subcommand, visible_alias = "keys")]
    Key(KeyCommand),
    /// Make people and departments what a file says, and write them as one
    #[command(subcommand)]
    Directory(DirectoryCommand),
    /// List, disable, enable and delete people
    #[command(subcommand, visible_alias = "people")]
    Person(PersonCommand),
    /// List and delete departments
    #[command(subcommand, visible_alias = "departments")]
    Department(DepartmentCommand),
    /// Say who is on call, now or at another time
    OnCall(OnCallArgs),
    /// Keep a server and a key as a context: the key is read from the terminal, or from standard input
    ///
    /// It is tried first. The context is named by --context [default: default], and is the current one from then on. With --person
    /// the person's password is read, and a token of the person is made and kept.
    Login(LoginArgs),
    /// Forget the key of the current context, or of --context; a token ends, too
    Logout,
    /// Change the password of a person, who knows the present one
    Password(PasswordArgs),
    /// List, make and end tokens, with which programs call as a person
    #[command(subcommand, visible_alias = "tokens")]
    Token(TokenCommand),
    /// Keep servers with their keys under names, and say which one is current
    ///
    /// They stand in contexts.yaml below $XDG_CONFIG_HOME/tidemill or ~/.config/tidemill, or in the file of TIDEMILL_CONTEXTS,
    /// which only its owner may read.
    #[command(subcommand, visible_alias = "contexts")]
    Context(ContextCommand),
    /// Show whose key this is, and which calls it may make
    Whoami,
    /// Show and hold the level of what is written: an upgrade raises it, and older versions stop
    #[command(subcommand)]
    Level(LevelCommand),
    /// Look at who asked for which change and when, and at refused calls
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Follow the public feed of events
    #[command(subcommand)]
    Events(EventsCommand),
    /// Look at commands that were set aside and timers that were suspended, and send them again
    #[command(subcommand)]
    DeadLetters(DeadLetterCommand),
    /// Show partitions, their owners and how far the tables are behind
    Status,
}

/// Reads how many of something.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "must be a whole number from 1 on".to_owned())
}

/// Reads how often to look: whole seconds, minutes or an hour.
fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit_s) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60),
        Some(number) if text.ends_with('h') => (number, 3600),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_s));
    let fits = seconds.filter(|seconds| (1..=3600).contains(seconds));
    fits.map(Duration::from_secs).ok_or_else(|| "must be 1s to 1h, as in 5s or 2m".to_owned())
}
