//! What facts are made of: where batches come from, how attempts and batches end.

use std::collections::BTreeMap;

use tidemill_derive::{AsStr, Word, vocabulary};

use crate::{Excess, JobId, LimitKind, Mapping, Timestamp};

/// When a schedule fires, and for which logical time. Computed once, then stored.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash)]
pub struct Fire {
    /// The base or cron time.
    pub at: Timestamp,
    /// The logical time of the batch.
    pub logical_time: Timestamp,
}

/// Where a batch came from.
#[vocabulary(Copy, Eq, AsStr)]
pub enum Origin {
    /// Its job's schedule.
    Schedule,
    /// The generation of a parent's batch for the same logical time.
    Parent,
    /// A person.
    Manual,
    /// A rerun of an earlier batch.
    Rerun,
    /// A cold start.
    ColdStart,
    /// Submitted with its job.
    Submission,
}

impl Origin {
    /// DSP-1: whether its batches wait while their job is disabled: those of a schedule, a parent or a cold start do; what
    /// a person asked for by name does not.
    #[must_use]
    pub fn waits_while_disabled(self) -> bool {
        match self {
            Origin::Schedule | Origin::Parent | Origin::ColdStart => true,
            Origin::Manual | Origin::Rerun | Origin::Submission => false,
        }
    }
}

/// A parent's logical times that a batch waits for.
#[vocabulary(Eq)]
pub struct Dependency {
    /// The parent.
    pub parent: JobId,
    /// The declared mapping that gave these times.
    pub mapping: Mapping,
    /// The parent's logical times.
    pub times: Vec<Timestamp>,
    /// Those that had succeeded when the batch was generated, or were left out because the parent makes no batch for
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub met: Vec<Timestamp>,
}

impl Dependency {
    /// Whether `met` of its times succeeded is enough.
    pub fn is_satisfied(&self, met: usize) -> bool {
        match self.mapping {
            Mapping::Any => met > 0,
            Mapping::Same | Mapping::Offset(_) | Mapping::All | Mapping::Latest => met >= self.times.len(),
        }
    }
}

/// Parents that a batch waits for and does not list: those of its definition with mapping `same` that are not among its
/// dependencies, itself left out. It waits for each of them at its own logical time. Which of them are met follows from
/// what is on record of them before.
#[vocabulary(Copy, Eq)]
pub struct CountedParents {
    /// How many they are.
    pub parents: u32,
    /// How many of them were not met when the batch was generated.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub unmet: u32,
}

/// Why fires made no batch.
#[vocabulary(Copy, Eq, AsStr)]
pub enum SkipReason {
    /// The job's policy for missed runs.
    Policy,
    /// More than 7 days back.
    TooOld,
    /// More than 1,000 at once.
    TooMany,
    /// The logical time was run by hand before its base time.
    RunByHand,
    /// Later than its job allows.
    TooLate,
    /// An earlier scheduled batch was unfinished.
    Overlap,
    /// Its day is none on which its job runs.
    Calendar,
}

/// Why an assignment ended without an attempt.
#[vocabulary(Eq, AsStr)]
pub enum ReturnReason {
    /// The worker gave it back.
    Rejected(String),
    /// The worker did not start it in time.
    NotStarted,
    /// The worker was lost.
    WorkerLost,
    /// The worker came back as a new process.
    WorkerRestarted,
    /// The worker's machine lacks what the batch needs, for now. Since level 3.
    LacksResources(String),
    /// The worker leaves: its process was told to stop. Since level 3.
    WorkerLeaving,
}

/// How an attempt ended.
#[vocabulary(Copy, Eq, AsStr)]
pub enum AttemptResult {
    /// By its success check.
    Success,
    /// By its success check.
    Failed,
    /// Ended on request.
    Killed,
    /// Its worker was lost, or came back without it.
    Lost,
    /// It ran longer than its job allows, and was ended.
    TimedOut,
}

/// How an attempt ended, and what is known of it.
#[vocabulary(Eq)]
pub struct AttemptOutcome {
    /// In one word.
    pub result: AttemptResult,
    /// Exit code, where there was one.
    pub exit_code: Option<i32>,
    /// Signal, where one ended it.
    pub signal: Option<i32>,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What it wanted more of than there was.
    pub excess: Option<Excess>,
    /// Small values that it passes to children of its batch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

/// The longest file of values that an attempt may leave, and the most that names and values of one may take, bytes.
pub const MAX_VALUES_BYTES: usize = 8 * 1024;

impl AttemptOutcome {
    /// Ended well.
    pub fn success() -> Self {
        Self { exit_code: Some(0), ..Self::bare(AttemptResult::Success) }
    }

    /// Of which nothing more is known.
    pub fn bare(result: AttemptResult) -> Self {
        Self {
            result,
            exit_code: None,
            signal: None,
            message: String::new(),
            excess: None,
            values: BTreeMap::new(),
        }
    }

    /// Bytes of the names and values that it passes on.
    pub fn values_bytes(&self) -> usize {
        self.values.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

/// What an attempt used.
#[vocabulary(Eq, Default)]
pub struct Usage {
    /// From exec to the end of the tree, milliseconds.
    pub duration_ms: u64,
    /// User and system time, milliseconds.
    pub cpu_ms: u64,
    /// The most memory of all its processes together that was seen, KiB; that of the largest one, where no more was.
    pub peak_memory_kib: u64,
    /// The most processes and threads at once that were seen.
    pub peak_processes: Option<u32>,
    /// Read from disks, KiB.
    pub read_kib: Option<u64>,
    /// Written to disks, KiB.
    pub written_kib: Option<u64>,
    /// Limits that it had and that its worker could not keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<LimitKind>,
}

/// How a batch ended.
#[vocabulary(Copy, Eq, Word)]
pub enum BatchResult {
    /// One attempt succeeded.
    Success,
    /// Its attempts are used up.
    Failed,
    /// A person ended it.
    Killed,
    /// Nothing of it had to run; whoever waits for it goes on as after a success.
    Skipped,
}

impl BatchResult {
    /// Every result, in the order in which people are told of them.
    pub const ALL: [BatchResult; 4] =
        [BatchResult::Success, BatchResult::Failed, BatchResult::Killed, BatchResult::Skipped];

    /// Whether it is what batches that wait for this one wait for.
    pub fn satisfies(self) -> bool {
        match self {
            BatchResult::Success | BatchResult::Skipped => true,
            BatchResult::Failed | BatchResult::Killed => false,
        }
    }
}

// BYD-16.
/// How a person says that a batch ended.
#[vocabulary(Copy, Eq)]
pub enum OverriddenResult {
    /// What it was to do is done.
    Success,
    /// It is not.
    Failed,
    /// It need not be.
    Skipped,
}

impl From<OverriddenResult> for BatchResult {
    fn from(marked: OverriddenResult) -> Self {
        match marked {
            OverriddenResult::Success => BatchResult::Success,
            OverriddenResult::Failed => BatchResult::Failed,
            OverriddenResult::Skipped => BatchResult::Skipped,
        }
    }
}
