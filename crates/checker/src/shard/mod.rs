//! One shard as its events tell it. The second, small model of what may follow what.
//!
//! ```text
//!           ┌── Pausing ◄── RetryScheduled ──┐
//!           ▼ RetryDue                       │
//!  ──► Waiting ──► Assigned ──► Granted ──► Ended ──► gone
//!           ▲ returned ┘
//! ```

mod applies;
mod batch;
mod blocked;
mod bulks;
mod credentials;
mod days;
mod depend;
mod dependencies;
mod directory;
mod elsewhere;
mod event;
mod external_dependencies;
mod facts;
mod failure;
mod final_commands;
mod fires;
mod generation;
mod hosts;
mod job;
mod leaving;
mod levels;
mod life;
mod lives;
mod moves;
mod outputs;
mod placement;
mod pools;
mod pulls;
mod removals;
mod reruns;
mod restored;
mod rights;
mod skipped;
mod strays;
mod timeouts;
mod vouched;
mod worker;
pub(crate) use self::elsewhere::Stand;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use jiff::SignedDuration;
use tidemill_model::{BatchId, BatchResult, GroupSettings, JobId, ShardId, Timestamp, Token, WorkerId};

use self::applies::Applies;
use self::batch::Batch;
use self::bulks::Bulks;
use self::credentials::Credentials;
use self::days::Calendars;
use self::depend::Dependence;
use self::directory::Directory;
use self::elsewhere::Elsewhere;
use self::external_dependencies::ExternalDependencies;
use self::fires::Failing;
use self::job::{Job, Run};
use self::levels::Levels;
use self::placement::Freezes;
use self::pools::Pools;
use self::pulls::Pulls;
use self::removals::Removals;
use self::reruns::Reruns;
use self::timeouts::{Ended, Owed};
use self::vouched::Vouched;
use self::worker::Worker;
use crate::calendar::words;
use crate::{At, Invariant};

/// What bounds the rules that a journal alone cannot give.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) tolerance: SignedDuration,
    pub(crate) events_per_batch: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Shard {
    id: ShardId,
    bounds: Bounds,
    settings: Option<GroupSettings>,
    jobs: BTreeMap<JobId, Job>,
    /// Parent → children without a schedule.
    children: HashMap<JobId, BTreeSet<JobId>>,
    batches: BTreeMap<BatchId, Batch>,
    /// The unfinished batches of each job that has some.
    unfinished: HashMap<JobId, BTreeSet<BatchId>>,
    /// Jobs without any batch yet → ad-hoc jobs that wait for their first one.
    first_waiters: HashMap<JobId, Vec<BatchId>>,
    /// Jobs of other groups.
    elsewhere: Elsewhere,
    /// The newest run of every logical time.
    runs: HashMap<(JobId, Timestamp), Run>,
    older_runs: facts::OlderRuns,
    /// Batches that their parent's generation asks for.
    triggered: BTreeSet<(JobId, Timestamp)>,
    workers: HashMap<WorkerId, Worker>,
    drained_hosts: hosts::DrainedHosts,
    /// Assigned and granted batches by job.
    running: HashMap<JobId, u32>,
    /// Granted attempts by job and logical time.
    live: HashMap<(JobId, Timestamp), BatchId>,
    last_batch: i64,
    /// Batches above the first and up to the second are of lost lives only.
    lost_batches: Vec<(i64, i64)>,
    last_token: i64,
    /// Attempts that ended in the envelope at hand; each must be settled in it.
    unsettled: Vec<BatchId>,
    applies: Applies,
    bulks: Bulks,
    credentials: Credentials,
    dependence: Dependence,
    directory: Directory,
    levels: Levels,
    pools: Pools,
    pulls: Box<Pulls>,
    removals: Removals,
    /// Deleted jobs that jobs of this shard named then.
    deleted_parents: HashSet<JobId>,
    reruns: Reruns,
    /// Versions of the catalogue's definitions.
    versions: HashMap<JobId, u32>,
    /// Jobs-for-once with a finished batch, oldest first.
    submissions: VecDeque<JobId>,
    /// The alarm that the last event asks for.
    owed: Option<Owed>,
    /// Batches that ended without success, and have a time ahead.
    late: HashMap<BatchId, Ended>,
    freezes: Freezes,
    /// Unfinished batches, as they were marked.
    marks: HashMap<BatchId, BatchResult>,
    /// What batches wait for outside.
    external_dependencies: ExternalDependencies,
    calendars: Calendars,
    failing: Failing,
    /// The worker whose alarm the last event asks for.
    owed_worker: Option<WorkerId>,
    /// People are to hear that half of this worker's lease is over.
    owed_warning: Option<WorkerId>,
    /// People are to hear of strays on this worker.
    owed_strays: Option<WorkerId>,
    strays: strays::Strays,
    /// For whose end a person has just vouched.
    vouched: Option<Vouched>,
    /// Batches that have ended, and whose final command nobody has yet.
    due_finals: HashMap<BatchId, final_commands::Due>,
    finals: HashMap<Token, final_commands::Held>,
}

impl Shard {
    pub(crate) fn new(id: ShardId, bounds: Bounds, ids_above: u64) -> Self {
        let mut shard = Self { id, bounds, ..Self::default() };
        shard.mints_above(ids_above);
        shard
    }

    /// `minted_ids_grow`
    fn minted_ids_grow(&mut self, at: &At<'_>, what: &str, (id, shard): (i64, ShardId)) {
        let last = match what {
            "batch" => &mut self.last_batch,
            "task" => &mut self.pulls.last_task,
            "grant" => &mut self.pulls.last_grant,
            _ => &mut self.last_token,
        };
        let why = if shard != self.id {
            format!("{what} {id} carries shard {shard}, and was minted by shard {}", self.id)
        } else if id <= *last {
            format!("{what} {id} is minted after {what} {last}")
        } else {
            *last = id;
            return;
        };
        at.breaks(Invariant::MintedIdsGrow, why);
    }

    /// `versions_rise`, as the catalogue counts them.
    fn versions_rise(&mut self, at: &At<'_>, job: JobId, version: u32) {
        let before = self.versions.insert(job, version).unwrap_or(0);
        if version != before.saturating_add(1) {
            at.breaks(Invariant::VersionsRise, format!("job {job} gets version {version} after {before}"));
        }
    }

    fn suspend(&mut self, entity: &str) {
        let job = entity.strip_prefix("job/").and_then(|id| id.parse().ok());
        if let Some(job) = job.and_then(|id| self.jobs.get_mut(&id)) {
            job.suspended = true;
        }
        let batch = entity.strip_prefix("batch/").and_then(|id| id.parse().ok());
        if let Some(batch) = batch.and_then(|id| self.batches.get_mut(&BatchId(id))) {
            batch.suspended = true;
        }
        self.late.retain(|id, _| entity != format!("batch/{id}"));
    }
}

impl Shard {
    /// Checks what has to hold at quiescence: `every_assignment_ends`, `children_generated_with_parents`,
    /// and that nothing due is left.
    pub(crate) fn at_rest(&self, at: &At<'_>) {
        self.every_assignment_ends(at);
        self.children_generated_with_parents(at);
        self.nothing_due_is_left(at);
        self.all_have_heard(at);
        self.no_timeout_is_missed(at);
        self.none_is_left_to_end(at);
        self.blocked_ones_say_so(at);
        self.nothing_is_left_of_external_dependencies(at);
        self.calendars_followed(at);
        self.final_commands_end(at);
        self.none_runs_long_untold(at);
        self.permits_are_back(at);
        self.no_grant_is_overdue(at);
        self.empty_hosts_say_so(at);
    }

    fn every_assignment_ends(&self, at: &At<'_>) {
        for (id, batch) in self.batches.iter().filter(|(_, batch)| batch.phase.assignment().is_some()) {
            let why = format!("batch {id} is still {}", batch.phase.word());
            let at = At { offset: batch.said, ..*at };
            at.breaks(Invariant::EveryAssignmentEnds, why);
        }
    }

    fn children_generated_with_parents(&self, at: &At<'_>) {
        for (job, time) in &self.triggered {
            let why = format!("job {job} has no batch for {time}, though a parent got one");
            at.breaks(Invariant::ChildrenGeneratedWithParents, why);
        }
    }

    fn nothing_due_is_left(&self, at: &At<'_>) {
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.enabled && !job.suspended) {
            if let Some(next) = job.next.filter(|next| next.at < at.now) {
                let why = format!("job {id} was due {} and it is {}", words(Some(next)), at.now);
                at.contradicts(Invariant::DueTimesGeneratedOrSkipped, why, &[job.next_said]);
            }
        }
    }
}
