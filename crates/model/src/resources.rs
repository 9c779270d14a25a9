//! What a worker has: slots, some of them reserved, memory, and how busy its machine is.

use std::collections::BTreeMap;

use tidemill_derive::vocabulary;

use crate::{BatchId, JobId, JobType, Priority, Timestamp, Token};

/// How a worker's machine stands, as its heartbeats say it. Memory in MiB.
#[vocabulary(Copy, Eq, Default)]
pub struct Measure {
    /// Memory of the machine.
    pub memory_total_mb: u32,
    /// What of it can be had without swapping.
    pub memory_free_mb: u32,
    /// Processes that run or want to, over the last minute, in percent of its processors: 100 is one for each.
    pub load_percent: u32,
}

/// Whether a worker can run jobs of a type.
#[vocabulary(Eq, Default)]
pub struct TypeStatus {
    /// Attempts at once; 0: none.
    pub slots: u32,
    /// Why it runs none, for people; absent: it can.
    pub problem: Option<String>,
}

/// Types in what a worker says of them.
const STATUS_TYPES: usize = 64;
/// Of why it does not run one, characters.
const PROBLEM_CHARS: usize = 300;

impl TypeStatus {
    /// What a worker says of its types, cut to its bounds, whoever sent it.
    pub fn bounded(types: &BTreeMap<JobType, Self>) -> BTreeMap<JobType, Self> {
        let cut = |text: &String| text.chars().take(PROBLEM_CHARS).collect();
        let bounded = |status: &Self| Self { slots: status.slots, problem: status.problem.as_ref().map(cut) };
        let first = types.iter().take(STATUS_TYPES);
        first.map(|(job_type, status)| (job_type.clone(), bounded(status))).collect()
    }
}

/// Slots of a worker that are kept for some jobs: for those that are pinned to its host, and for those of high
/// enough a priority.
#[vocabulary(Copy, Eq)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// How many of the type's slots.
    pub slots: u32,
    /// Also for jobs of this priority or a higher one (a smaller number); absent: for pinned jobs only.
    pub priority: Option<Priority>,
}

impl Reserved {
    /// Whether a job may use them.
    pub fn serves(&self, pinned: bool, priority: Priority) -> bool {
        pinned || self.priority.is_some_and(|least| priority <= least)
    }
}

/// What the processes of an attempt use at a moment while it runs, as its worker sees them.
#[vocabulary(Copy, Eq, Default)]
pub struct LiveUsage {
    /// Since its shim began, milliseconds.
    pub duration_ms: u64,
    /// User and system time, milliseconds: of what runs, and of what has ended and was waited for.
    pub cpu_ms: u64,
    /// Memory of all of them together, KiB, without files in the cache. What they share counts in each.
    pub memory_kib: u64,
    /// The most of that which was seen so far, KiB.
    pub peak_memory_kib: u64,
    /// Processes and threads.
    pub processes: u32,
    /// The most at once that were seen so far.
    pub peak_processes: u32,
    /// Read from disks, KiB; absent: the kernel does not say.
    pub read_kib: Option<u64>,
    /// Written to disks, KiB.
    pub written_kib: Option<u64>,
}

/// What a worker says of itself in a heartbeat, for people.
#[vocabulary(Eq, Default)]
pub struct WorkerStatus {
    /// Slots that are free, of all job types together.
    pub free_slots: u32,
    /// How many attempts it runs.
    pub running: u32,
    /// Their tokens, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Token>,
    /// Its last removal of old output; absent: there was none in this life yet.
    pub sweep: Option<Sweep>,
}

/// Tokens in a [`WorkerStatus`].
const STATUS_ATTEMPTS: usize = 100;
/// Failures that a [`Sweep`] names.
const SWEEP_FAILURES: usize = 5;
/// Of each, characters.
const SWEEP_FAILURE_CHARS: usize = 200;

impl WorkerStatus {
    /// Cut to its bounds, whoever sent it.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.attempts.truncate(STATUS_ATTEMPTS);
        if let Some(sweep) = &mut self.sweep {
            let failures = std::mem::take(&mut sweep.failures);
            failures.into_iter().for_each(|failure| sweep.name(&failure));
        }
        self
    }
}

/// One removal of the output of old attempts.
#[vocabulary(Eq)]
pub struct Sweep {
    /// When it began.
    pub at: Timestamp,
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// Directories of attempts that it removed.
    pub removed: u64,
    /// What was in them, bytes.
    pub removed_bytes: u64,
    /// Directories that it could not remove.
    pub failed: u64,
    /// The first 5 of them, and why, at most 200 characters each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

impl Sweep {
    /// One that has done nothing yet.
    pub fn new(at: Timestamp) -> Self {
        Self { at, duration_ms: 0, removed: 0, removed_bytes: 0, failed: 0, failures: Vec::new() }
    }

    /// Something could not be removed.
    pub fn fail(&mut self, failure: &str) {
        self.failed += 1;
        self.name(failure);
    }

    fn name(&mut self, failure: &str) {
        if self.failures.len() < SWEEP_FAILURES {
            self.failures.push(failure.chars().take(SWEEP_FAILURE_CHARS).collect());
        }
    }
}

/// Slots of one job type of a worker.
#[vocabulary(Copy, Eq)]
pub struct SlotUse {
    /// How many there are.
    pub slots: u32,
    /// How many of them are taken.
    pub used: u32,
}

/// How it stands with a worker now, as the owner of its group's shard knows.
#[vocabulary(Eq, Default)]
pub struct WorkerPresent {
    /// So long ago its last heartbeat was read, milliseconds; absent: its present owner has read none.
    pub heartbeat_age_ms: Option<u64>,
    /// Slots by job type.
    pub slots: BTreeMap<JobType, SlotUse>,
    /// What that heartbeat says.
    pub status: Option<WorkerStatus>,
    /// The log has lost its end since it registered: it gets nothing until it registers again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unheard: bool,
    /// Attempts of a lost life of the log that run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strays: Vec<RunningAttempt>,
}

/// An attempt that runs, as its worker knows it.
#[vocabulary(Copy, Eq)]
pub struct RunningAttempt {
    /// Which.
    pub token: Token,
    /// Of which batch.
    pub batch: BatchId,
    /// Of which job.
    pub job: JobId,
    /// For which logical time.
    pub logical_time: Timestamp,
    /// It is the final command of that batch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DSP-4: reserved slots are for pinned jobs, and for those of a priority.
    #[test]
    fn reserved_slots_serve_pinned_jobs_and_high_priorities() {
        let priority = |n: u8| Priority::try_from(n).unwrap();
        let pinned_only = Reserved { slots: 1, priority: None };
        assert!(pinned_only.serves(true, priority(9)));
        assert!(!pinned_only.serves(false, priority(0)));
        let high = Reserved { slots: 1, priority: Some(priority(2)) };
        assert!(high.serves(false, priority(2)) && !high.serves(false, priority(3)));
    }
}
