//! What a job is, once it has been accepted.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{AsStr, Word, vocabulary};

use crate::bounds::settings;
use crate::{AllowedAccounts, GroupId, GroupLimits, JobId, JobSpec};

/// 0 (highest) to 9.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash)]
#[serde(try_from = "i64", into = "u8")]
#[schemars(with = "u8", extend("maximum" = Priority::LOWEST))]
pub struct Priority(u8);

impl Priority {
    /// The priority of a job that names none.
    pub const DEFAULT: Priority = Priority(5);
    const LOWEST: u8 = 9;
}

impl TryFrom<i64> for Priority {
    type Error = String;
    fn try_from(value: i64) -> Result<Self, String> {
        let small = u8::try_from(value).ok().filter(|value| *value <= Self::LOWEST);
        small.map(Self).ok_or_else(|| format!("priority {value} must be 0 (highest) to 9"))
    }
}

impl TryFrom<u8> for Priority {
    type Error = String;
    fn try_from(value: u8) -> Result<Self, String> {
        Self::try_from(i64::from(value))
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> u8 {
        priority.0
    }
}

/// How often a job of fixed period runs.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash, Word)]
pub enum Period {
    /// At xx:01, for the hour that began at xx:00.
    Hour,
    /// At 00:01.
    Day,
    /// On Monday at 00:02.
    Week,
    /// On the 1st at 00:05.
    Month,
}

/// What fires a scheduled job.
#[vocabulary(Eq)]
pub enum ScheduleRule {
    /// A fixed period with its base time.
    Period(Period),
    /// A Quartz cron expression.
    Cron(String),
}

/// When a job runs: kept as text, so that an old event stays readable whatever a later parser accepts.
#[vocabulary(Eq)]
pub struct ScheduleSpec {
    /// What fires.
    #[serde(flatten)]
    pub rule: ScheduleRule,
    /// IANA zone in which the rule is read.
    pub zone: String,
}

/// How a batch's logical time maps onto those of one of its parents.
#[vocabulary(Copy, Eq, Hash, Default, AsStr)]
pub enum Mapping {
    /// The same logical time; both must be on the same grid.
    #[default]
    Same,
    /// The parent's n-th logical time before the newest one that is not after mine.
    Offset(u16),
    /// Every logical time of the parent in (my previous, mine].
    All,
    /// The parent's newest logical time that is not after mine.
    Latest,
    /// At least one success in (my previous, mine].
    Any,
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mapping::Same => f.write_str("same"),
            Mapping::Offset(back) => write!(f, "offset {back}"),
            Mapping::All => f.write_str("all"),
            Mapping::Latest => f.write_str("latest"),
            Mapping::Any => f.write_str("any"),
        }
    }
}

/// A job that must have succeeded first.
#[vocabulary(Eq)]
pub struct Parent {
    /// Which.
    pub job: JobId,
    /// For which of its logical times.
    #[serde(default)]
    pub mapping: Mapping,
}

/// What a job runs.
#[vocabulary(Eq)]
pub enum Program {
    /// Script text without arguments, handed to the type's interpreter.
    Command(String),
    /// Script text with arguments.
    Script {
        /// The text, handed to the type's interpreter.
        text: String,
        /// Its arguments, one each; the first is `$1` of a shell script.
        arguments: Vec<String>,
    },
    /// A program file on the worker.
    Path {
        /// Path of the program.
        path: String,
        /// Main class, for types that have one.
        class: Option<String>,
        /// Arguments, one each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String>,
    },
    /// Nothing: types `noop` and `anchor`.
    None,
}

/// What happens to base times that passed while nothing could generate.
#[vocabulary(Copy, Eq, Default)]
pub enum MissedRuns {
    /// Every one, at most 7 days back and 1,000 batches.
    #[default]
    All,
    /// Only the newest.
    Latest,
    /// None: a base time that passed more than 60 seconds before it could be generated is skipped, on record. One
    /// that is less late is no missed one, so that a takeover, which takes up to 10 seconds, skips nothing.
    None,
}

// BYD-18.
/// What becomes of a batch when the newest run of a parent's time that it waits for ended without success, and so
/// what it waits for cannot come any more unless somebody runs that parent again or marks it. The own previous batch
/// is waited for in any case.
#[vocabulary(Copy, Eq, Default)]
pub enum OnParentFailure {
    /// It waits on.
    #[default]
    Wait,
    /// It has failed.
    Fail,
    /// It is skipped.
    Skip,
    /// It runs: parents must have ended, however.
    Run,
}

/// When a batch runs, once its parents have ended.
#[vocabulary(Copy, Eq, Default)]
pub enum RunIf {
    /// When they succeeded, or as `on_parent_failure` says.
    #[default]
    Success,
    /// When one of them ended without success; when all succeeded, it is skipped.
    Failure,
}

/// A job as the catalogue accepted it: what was written, and what it came to.
#[vocabulary(Eq)]
pub struct JobDefinition {
    /// Its id, for ever.
    pub id: JobId,
    /// Counts the accepted changes, from 1.
    pub version: u32,
    /// The number of the group that it belongs to.
    pub group_id: GroupId,
    /// After what: the parents that it names, and itself where it depends on its past.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::parent_list::ids")]
    #[schemars(with = "Vec<crate::parent_list::ParentsElement>")]
    pub parents: Vec<Parent>,
    /// DSP-2: the application key that vouches for `spec.run_as`.
    pub run_as_by: Option<Arc<str>>,
    /// As it was written, in the form of [`JobSpec::normalized`].
    pub spec: JobSpec,
}

impl JobDefinition {
    /// Its parents, itself left out. Without a schedule of its own it has the logical times of the first.
    pub fn other_parents(&self) -> impl Iterator<Item = JobId> + '_ {
        self.parents.iter().map(|parent| parent.job).filter(|parent| *parent != self.id)
    }

    /// As `group/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.spec.group, self.spec.name)
    }
}

/// What happens to a running attempt whose worker falls silent.
#[vocabulary(Copy, Eq, Default)]
pub enum OnSilence {
    /// The worker kills it before its lease ends; the owner replaces it after.
    #[default]
    Kill,
    /// It runs on; nothing replaces it until its end is witnessed or a person vouches for it.
    Hold,
}

/// The bounds of one group. Times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupSettings {
    /// Assigned but not started for longer: another worker gets it.
    #[schemars(range(min = settings::START_TIMEOUT_MS.0, max = settings::START_TIMEOUT_MS.1))]
    pub start_timeout_ms: u64,
    /// A worker not heard of for longer is lost.
    #[schemars(range(min = settings::LOST_AFTER_MS.0, max = settings::LOST_AFTER_MS.1))]
    pub lost_after_ms: u64,
    /// A worker that got no acknowledgement for longer has killed what it runs.
    #[schemars(range(min = settings::LEASE_MS.0, max = settings::LEASE_MS.1))]
    pub lease_ms: u64,
    /// What the owner waits beyond the lease.
    #[schemars(range(min = settings::LEASE_MARGIN_MS.0, max = settings::LEASE_MARGIN_MS.1))]
    pub lease_margin_ms: u64,
    /// What silence means for a running attempt.
    pub on_silence: OnSilence,
    /// From TERM to KILL.
    #[schemars(range(min = settings::KILL_GRACE_MS.0, max = settings::KILL_GRACE_MS.1))]
    pub kill_grace_ms: u64,
    /// The quality service did not answer for longer: it is asked again.
    #[serde(skip_serializing_if = "is_quality_retry")]
    #[schemars(range(min = settings::QUALITY_RETRY_MS.0, max = settings::QUALITY_RETRY_MS.1))]
    pub quality_retry_ms: u64,
    /// Asked so often without an answer: people are told. A number, not a time.
    #[serde(skip_serializing_if = "is::<QUALITY_ALARM_AFTER>")]
    #[schemars(range(min = settings::QUALITY_ALARM_AFTER.0, max = settings::QUALITY_ALARM_AFTER.1))]
    pub quality_alarm_after: u32,
    /// A worker whose load is above this gets no work until it is below four fifths of it, percent of its
    /// processors; 0: whatever its load.
    #[serde(skip_serializing_if = "crate::is_default")]
    #[schemars(range(min = settings::MAX_LOAD_PERCENT.0, max = settings::MAX_LOAD_PERCENT.1))]
    pub max_load_percent: u32,
    /// A worker with less free memory than this gets no work until it has a quarter more, percent of all; 0:
    /// however little it has.
    #[serde(skip_serializing_if = "crate::is_default")]
    #[schemars(range(min = settings::MIN_FREE_MEMORY_PERCENT.0, max = settings::MIN_FREE_MEMORY_PERCENT.1))]
    pub min_free_memory_percent: u32,
    /// PUL-5: how far back a user's first pull reaches, and how far ahead the next task is told of, hours, 1 to 23.
    #[serde(skip_serializing_if = "is::<PULL_WINDOW_HOURS>")]
    #[schemars(range(min = settings::PULL_WINDOW_HOURS.0, max = settings::PULL_WINDOW_HOURS.1))]
    pub pull_window_hours: u32,
    /// PUL-10: rotating tasks that the group, and each of its users, may have, 1 to 1,000.
    #[serde(skip_serializing_if = "is::<PULL_ROTATING_LIMIT>")]
    #[schemars(range(min = settings::PULL_ROTATING_LIMIT.0, max = settings::PULL_ROTATING_LIMIT.1))]
    pub pull_rotating_limit: u32,
    /// PUL-14: what started longer ago can no longer be pulled, and is forgotten, days, 1 to 3,650.
    #[serde(skip_serializing_if = "is::<PULL_RETENTION_DAYS>")]
    #[schemars(range(min = settings::PULL_RETENTION_DAYS.0, max = settings::PULL_RETENTION_DAYS.1))]
    pub pull_retention_days: u32,
    /// EXE-2: what attempts may use where their job does not say it, and the most that jobs may name; default no limit.
    /// Workers are told of each attempt's alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Arc<GroupLimits>>,
    /// DSP-2: which accounts jobs may run as, under `*`; absent: none but the worker's own. Workers are not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounts: Option<Arc<AllowedAccounts>>,
}

const QUALITY_RETRY_MS: u64 = 600_000;
const QUALITY_ALARM_AFTER: u32 = 3;
const PULL_WINDOW_HOURS: u32 = 6;
const PULL_ROTATING_LIMIT: u32 = 100;
const PULL_RETENTION_DAYS: u32 = 30;

fn is_quality_retry(ms: &u64) -> bool {
    *ms == QUALITY_RETRY_MS
}

fn is<const DEFAULT: u32>(number: &u32) -> bool {
    *number == DEFAULT
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            start_timeout_ms: 300_000,
            lost_after_ms: 30_000,
            lease_ms: 600_000,
            lease_margin_ms: 5_000,
            on_silence: OnSilence::Kill,
            kill_grace_ms: 10_000,
            quality_retry_ms: QUALITY_RETRY_MS,
            quality_alarm_after: QUALITY_ALARM_AFTER,
            max_load_percent: 0,
            min_free_memory_percent: 0,
            pull_window_hours: PULL_WINDOW_HOURS,
            pull_rotating_limit: PULL_ROTATING_LIMIT,
            pull_retention_days: PULL_RETENTION_DAYS,
            limits: None,
            accounts: None,
        }
    }
}
