//! The shard of one worker group: its jobs' batches, from generation to result, and its workers.
//!
//! ```text
//!  BatchGenerated        DependencySatisfied (unmet 0)     BatchAssigned       StartGranted
//! ───────────────► Waiting ───────────────────────► Ready ───────────► Assigned ───────► Granted ─► finished
//!                     ▲     ◄─── DependencyRevoked ──┘ ◄─ AssignmentReturned ┘            │
//!                     └──────────────────────── Pausing ◄──── RetryScheduled ───────────────┘
//! ```
//!
//! *Invariant:* a batch is in exactly one phase; assigned and granted ones are counted in their job's limit and
//! in one worker's slots, and those counts are never recomputed, only moved with the phase.

mod apply;
mod batches;
mod decide;
mod dependencies;
mod due;
pub(crate) mod external;
mod final_commands;
mod generation;
mod jobs;
mod messages;
mod placement;
mod pull;
pub(in crate::group) mod timers;
mod why;
mod workers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use tidemill_model::{
    Actor, BatchId, BatchResult, GroupId, GroupName, GroupSettings, Incarnation, JobId, LISTED_PARENTS,
    OnSilence, RerunPlace, RunSpec, ShardId, Timestamp, Token, WorkMessage, WorkerId,
};

pub(crate) use self::batches::batch::Batch;
use self::batches::batch::Phase;
use self::batches::mark::Marks;
use self::batches::timeouts::Late;
use self::dependencies::blocked::Blocked;
use self::dependencies::deleted_parents::DeletedParents;
use self::dependencies::followers::Followers;
use self::dependencies::foreign::Foreign;
use self::dependencies::waiters::Waiters;
pub(crate) use self::due::Chore;
use self::external::external_dependencies::ExternalDependencies;
use self::external::quality::Quality;
use self::final_commands::final_command::Finals;
use self::generation::failing::Tick;
use self::generation::triggers::Triggers;
use self::jobs::calendars::Calendars;
use self::jobs::job::Job;
use self::placement::freeze::{Early, FreezeSet};
use self::placement::pools::Pools;
use self::placement::queue::Queue;
use self::pull::Pull;
pub(crate) use self::pull::{is_by_state, says_state};
pub(crate) use self::timers::Timer;
use self::timers::Timers;
use self::workers::lease::Lease;
pub(crate) use self::workers::registration::is_public_key;
use self::workers::settle::Unsettled;
use self::workers::worker::{Worker, Workers};
use crate::outbox::Mailbox;

/// Finished batches that a late command can still be answered about.
const REMEMBERED_BATCHES: usize = 16_384;
/// Logical times of a job kept in full beyond what its children's mappings reach.
const SPARE_HISTORY: usize = 8;
/// Finished ad-hoc jobs that can still be named as parents or run again.
const REMEMBERED_SUBMISSIONS: usize = 16_384;

/// The state of a group's shard.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupShard {
    pub(crate) id: ShardId,
    /// Logical times of a job kept in full beyond what its children's mappings reach.
    pub(crate) spare_history: usize,
    /// Ended ad-hoc jobs that can still be named as parents or run again.
    pub(crate) remembered_submissions: usize,
    pub(crate) group: Option<Group>,
    pub(crate) jobs: BTreeMap<JobId, Box<Job>>,
    /// Jobs whose parent is not known here (yet, or any more), by that parent.
    pub(crate) orphans: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Deleted jobs that jobs of this shard name as parent, or named when they were deleted.
    pub(crate) deleted_parents: DeletedParents,
    pub(crate) batches: FxHashMap<BatchId, Batch>,
    pub(crate) tokens: FxHashMap<Token, BatchId>,
    /// Who waits for which logical time of a parent.
    pub(crate) waiters: Waiters,
    /// Batches that count parents which they do not list, by logical time.
    pub(crate) counted: BTreeMap<Timestamp, BTreeSet<BatchId>>,
    /// Up to so many parents with mapping `same` a new batch lists.
    pub(crate) listed_parents: usize,
    /// Generated batches whose dependency-triggered children are still to be generated.
    pub(crate) triggers: Triggers,
    /// Parents in other groups.
    pub(crate) foreign: Foreign,
    /// Other groups that have children of this one's jobs.
    pub(crate) followers: Followers,
    pub(crate) queue: Queue,
    /// What batches of several jobs share.
    pub(crate) pools: Pools,
    pub(crate) workers: Workers,
    /// Workers with tokens that are to be taken from them.
    pub(crate) unsettled: BTreeMap<WorkerId, Unsettled>,
    /// Batches that are to be ended, for their jobs were deleted, and who wants it.
    pub(crate) cancelling: BTreeMap<BatchId, Actor>,
    pub(crate) timers: Timers,
    /// Unfinished batches of reruns and cold starts.
    pub(crate) reruns: BTreeMap<BatchId, RerunPlace>,
    /// Batches that ended without success and have a time ahead.
    pub(crate) late: Late,
    /// Batches that are to be ended for their parents.
    pub(crate) concluding: BTreeSet<BatchId>,
    /// Batches that a failed parent blocks.
    pub(crate) blocked: Blocked,
    /// What may not be assigned now.
    pub(crate) frozen: FreezeSet,
    /// Batches whose earliest start is ahead.
    pub(crate) early: Early,
    /// Batches that end as somebody said, once what runs of them has ended.
    pub(crate) marks: Marks,
    /// What batches wait for outside.
    pub(crate) external_dependencies: ExternalDependencies,
    /// What the quality service is to be asked.
    pub(crate) quality: Quality,
    /// Tasks that clients pull, and who does.
    pub(crate) pull: Pull,
    pub(crate) calendars: Calendars,
    /// Jobs whose fires failed lately.
    pub(crate) failing: Tick,
    pub(crate) finals: Finals,
    pub(crate) finished: Remembered<BatchId, BatchResult>,
    pub(crate) submissions: VecDeque<JobId>,
    pub(crate) mailbox: Mailbox,
    pub(crate) jobs_minted: u64,
    pub(crate) batches_minted: u64,
    pub(crate) tokens_minted: u64,
}

/// What the catalogue said of the group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) name: GroupName,
    pub(crate) worker_key: String,
    pub(crate) settings: GroupSettings,
}

/// The newest entries of something that would grow without end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Remembered<K: std::hash::Hash + Eq, V> {
    by_key: FxHashMap<K, V>,
    order: VecDeque<K>,
}

impl<K: std::hash::Hash + Eq, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { by_key: FxHashMap::default(), order: VecDeque::new() }
    }
}

impl<K: std::hash::Hash + Eq + Copy, V> Remembered<K, V> {
    fn new() -> Self {
        Self::default()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.by_key.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > REMEMBERED_BATCHES {
            if let Some(oldest) = self.order.pop_front() {
                self.by_key.remove(&oldest);
            }
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.by_key.get(key)
    }
}

/// A worker that holds something or may get something, as its owner must watch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorker {
    /// Which.
    pub worker: WorkerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// It has been declared lost; what remains is its lease.
    pub lost: bool,
    /// The silence, in milliseconds, after which nothing runs on it any more, by the longest lease that it
    /// was told and may go by. `None`: however long it is silent, what it runs runs on.
    pub lease_ends_after_ms: Option<u64>,
}

impl GroupShard {
    /// A shard that knows nothing yet.
    pub fn new(id: ShardId) -> Self {
        Self {
            id,
            spare_history: SPARE_HISTORY,
            remembered_submissions: REMEMBERED_SUBMISSIONS,
            group: None,
            jobs: BTreeMap::new(),
            orphans: BTreeMap::new(),
            deleted_parents: DeletedParents::new(),
            batches: FxHashMap::default(),
            tokens: FxHashMap::default(),
            waiters: Waiters::default(),
            counted: BTreeMap::new(),
            listed_parents: LISTED_PARENTS,
            triggers: Triggers::default(),
            foreign: Foreign::default(),
            followers: Followers::default(),
            queue: Queue::default(),
            pools: Pools::default(),
            workers: Workers::default(),
            unsettled: BTreeMap::new(),
            cancelling: BTreeMap::new(),
            timers: Timers::default(),
            reruns: BTreeMap::new(),
            late: Late::default(),
            concluding: BTreeSet::new(),
            blocked: Blocked::default(),
            frozen: FreezeSet::default(),
            early: Early::new(),
            marks: Marks::default(),
            external_dependencies: ExternalDependencies::default(),
            quality: Quality::default(),
            pull: Pull::default(),
            calendars: Calendars::default(),
            failing: Tick::default(),
            finals: Finals::default(),
            finished: Remembered::new(),
            submissions: VecDeque::new(),
            mailbox: Mailbox::default(),
            jobs_minted: 0,
            batches_minted: 0,
            tokens_minted: 0,
        }
    }

    /// Its number.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// The group's bounds, or the defaults while they are not known.
    pub fn settings(&self) -> GroupSettings {
        self.group.as_ref().map(|group| group.settings.clone()).unwrap_or_default()
    }

    /// How long an assignment may wait for its worker's question.
    pub(crate) fn start_timeout_ms(&self) -> u64 {
        let default = || GroupSettings::default().start_timeout_ms;
        self.group.as_ref().map_or_else(default, |group| group.settings.start_timeout_ms)
    }

    /// The workers that an owner must watch for silence.
    pub fn live_workers(&self) -> impl Iterator<Item = LiveWorker> + '_ {
        self.workers.iter().filter(|(_, worker)| !worker.expired).map(|(id, worker)| LiveWorker {
            worker: id.clone(),
            incarnation: worker.incarnation.clone(),
            lost: worker.lost,
            lease_ends_after_ms: self.lease_of(worker).ends_after_ms(),
        })
    }

    /// Whether this life of the worker is the registered one, and its lease is not over.
    pub fn is_live(&self, worker: &WorkerId, incarnation: &Incarnation) -> bool {
        self.workers.get(worker).is_some_and(|known| known.incarnation == *incarnation && !known.expired)
    }

    /// What the worker's silence means: what it was told counts, and a group that holds now holds everything.
    fn lease_of(&self, worker: &Worker) -> Lease {
        match self.settings().on_silence {
            OnSilence::Kill if planted!(LeaseShortenedAtOnce) => Lease::of(&self.settings()),
            OnSilence::Kill => worker.told.lease(),
            OnSilence::Hold => Lease::Holds,
        }
    }

    /// Unfinished batches.
    pub fn unfinished_batches(&self) -> usize {
        self.batches.len()
    }

    /// Ready batches that wait for a slot.
    pub fn queued_batches(&self) -> usize {
        self.queue.len()
    }

    /// The tokens that a worker holds, in order.
    pub(crate) fn tokens_of(&self, worker: &WorkerId) -> impl Iterator<Item = Token> + '_ {
        self.workers.get(worker).into_iter().flat_map(|known| known.tokens.iter().copied())
    }

    /// What the holder of a token must hear so that nothing outstanding is lost.
    pub(crate) fn outstanding_of_token(&self, token: Token) -> Vec<WorkMessage> {
        let Some(batch) = self.tokens.get(&token).and_then(|id| self.batches.get(id)) else {
            return self.outstanding_final(token).into_iter().collect();
        };
        match &batch.phase {
            Phase::Assigned { token, worker, .. } => vec![WorkMessage::Assigned {
                worker: worker.clone(),
                token: *token,
                job_type: batch.definition.spec.job_type.clone(),
                checks: self.checks_of(batch),
            }],
            Phase::Granted(grant) => {
                let kill = grant
                    .kill
                    .as_ref()
                    .map(|_| WorkMessage::Kill { token, grace_ms: self.settings().kill_grace_ms });
                self.granted_message(token).into_iter().chain(kill).collect()
            }
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => Vec::new(),
        }
    }

    /// The order to start a granted token, with everything the worker needs.
    pub(crate) fn granted_message(&self, token: Token) -> Option<WorkMessage> {
        let id = *self.tokens.get(&token)?;
        let batch = self.batches.get(&id)?;
        let grant = batch.grant()?;
        let spec = self.run_spec(id, batch, token).ok()?;
        Some(WorkMessage::Granted {
            incarnation: grant.incarnation.clone(),
            nonce: grant.nonce.clone(),
            spec: Box::new(spec),
        })
    }

    /// What the attempt would run, templates resolved; the error is for people.
    pub(crate) fn run_spec(&self, id: BatchId, batch: &Batch, token: Token) -> Result<RunSpec, String> {
        let values = match batch.grant() {
            Some(grant) => grant.values.as_deref().cloned().unwrap_or_default(),
            None => self.values_for(batch)?,
        };
        crate::schedule::run_spec(id, batch, token, &self.zone_of(&batch.definition), &values)
    }
}
