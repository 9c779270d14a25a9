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
mod listed;
mod messages;
mod placement;
mod pull;
mod reason;
mod restored;
mod strays;
pub(in crate::group) mod timers;
mod why;
mod workers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::SignedDuration;
use rustc_hash::FxHashMap;
use tidemill_derive::Stored;
use tidemill_model::{
    AlarmEvent, AlarmKind, BatchId, Event, GroupId, GroupLimits, GroupName, GroupSettings, Incarnation,
    JobDefinition, JobId, LISTED_PARENTS, Level, OnSilence, RunSpec, Severity, ShardId, Timestamp, Token,
    WorkMessage, WorkerId,
};

use self::batches::Batches;
pub(crate) use self::batches::batch::Batch;
use self::batches::batch::{Grant, Phase};
use self::batches::right::Right;
pub(crate) use self::batches::right::puts_rights_in_doubt;
pub use self::batches::right::{Heartbeats, LiveRight, ReadHeartbeat};
use self::dependencies::Dependencies;
pub(crate) use self::due::Chore;
use self::external::External;
pub(crate) use self::final_commands::Ended;
use self::final_commands::Finals;
use self::generation::Generation;
use self::jobs::Jobs;
use self::placement::Placement;
use self::pull::Pull;
pub(crate) use self::pull::{is_by_state, says_state};
use self::strays::Strays;
pub(crate) use self::timers::Timer;
use self::timers::Timers;
pub(crate) use self::workers::is_public_key;
use self::workers::{Lease, Worker, Workers};
use crate::outbox::Mailbox;

/// Finished batches that a late command can still be answered about.
const REMEMBERED_BATCHES: usize = 16_384;

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Sizes {
    /// Logical times of a job kept in full beyond what its children's mappings reach.
    pub(crate) spare_history: usize,
    /// Ended ad-hoc jobs that can still be named as parents or run again.
    pub(crate) remembered_submissions: usize,
    /// Up to so many parents with mapping `same` a new batch lists.
    pub(crate) listed_parents: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { spare_history: 8, remembered_submissions: 16_384, listed_parents: LISTED_PARENTS }
    }
}

/// The state of a group's shard.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub struct GroupShard {
    pub(crate) id: ShardId,
    pub(crate) sizes: Sizes,
    /// The level that stands in the partition: what of a higher one is written is refused by the draft.
    pub(crate) level: Level,
    pub(crate) group: Option<Group>,
    pub(crate) jobs: Jobs,
    pub(crate) generation: Generation,
    pub(crate) batches: Batches,
    pub(crate) dependencies: Dependencies,
    pub(crate) external: External,
    pub(crate) placement: Placement,
    pub(crate) workers: Workers,
    pub(crate) final_commands: Finals,
    /// What runs of lives of the log that are lost.
    pub(crate) strays: Strays,
    /// Tasks that clients pull, and who does.
    pub(crate) pull: Pull,
    pub(crate) timers: Timers,
    pub(crate) mailbox: Mailbox,
}

/// People are to be told of a batch.
fn alarm(
    kind: AlarmKind,
    severity: Severity,
    (batch, definition): (BatchId, &JobDefinition),
    worker: Option<&WorkerId>,
    message: String,
) -> Event {
    let (job, batch, worker) = (Some(definition.id), Some(batch), worker.cloned());
    Event::Alarm(AlarmEvent::Raised { kind, severity, job, batch, worker, message })
}

/// All logical times of a job, as keys of an ordered map.
fn times_of(job: JobId) -> std::ops::RangeInclusive<(JobId, Timestamp)> {
    (job, Timestamp::MIN)..=(job, Timestamp::MAX)
}

/// Takes a value out of the set of a key, and the set with its last value; whether that was so.
fn leave<K: Ord, V: Ord>(sets: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) -> bool {
    let Some(set) = sets.get_mut(key) else { return false };
    set.remove(value);
    let is_last = set.is_empty();
    if is_last {
        sets.remove(key);
    }
    is_last
}

/// Puts a value into a set, or takes it out.
fn put<T: Ord>(set: &mut BTreeSet<T>, value: T, is_in: bool) {
    if is_in {
        set.insert(value);
    } else {
        set.remove(&value);
    }
}

/// What the catalogue said of the group.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) name: GroupName,
    pub(crate) worker_key: String,
    pub(crate) settings: GroupSettings,
}

/// The newest entries of something that would grow without end.
#[derive(Debug, Clone, PartialEq, Stored)]
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
    /// Half of that silence makes an alarm.
    pub owes_warning: bool,
}

/// What a worker's reports are sealed with, as far as the journal says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealing<'a> {
    /// The worker's present life.
    pub incarnation: &'a Incarnation,
    /// The group that it works for.
    pub group: &'a GroupName,
    /// The group's public key when that life registered, in hex; absent: it registered where nothing is sealed yet.
    pub worker_key: Option<&'a str>,
}

impl GroupShard {
    /// A shard that knows nothing yet.
    pub fn new(id: ShardId) -> Self {
        Self { id, ..Self::default() }
    }

    /// Its number.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// The level that stands in its partition. Whoever decides asks it before it writes what is new in a level:
    /// `self.level().allows(Level::new(2))`.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The group's bounds, or the defaults while they are not known.
    pub fn settings(&self) -> GroupSettings {
        self.group.as_ref().map(|group| group.settings.clone()).unwrap_or_default()
    }

    /// Until when the worker of an assignment must have asked for its start.
    fn start_by(&self, now: Timestamp) -> Timestamp {
        let limit = SignedDuration::from_millis(self.settings().start_timeout_ms as i64);
        now.saturating_add(limit).unwrap_or(Timestamp::MAX)
    }

    /// The workers that an owner must watch for silence.
    pub fn live_workers(&self) -> impl Iterator<Item = LiveWorker> + '_ {
        self.workers.iter().filter(|(_, worker)| !worker.expired).map(|(id, worker)| LiveWorker {
            worker: id.clone(),
            incarnation: worker.incarnation.clone(),
            lost: worker.lost,
            lease_ends_after_ms: self.lease_of(worker).ends_after_ms,
            owes_warning: self.owes_warning(worker),
        })
    }

    /// Whether this life of the worker is the registered one, and its lease is not over.
    pub fn is_live(&self, worker: &WorkerId, incarnation: &Incarnation) -> bool {
        self.workers.get(worker).is_some_and(|known| known.incarnation == *incarnation && !known.expired)
    }

    /// The life of a worker that registered last.
    pub fn life_of(&self, worker: &WorkerId) -> Option<&Incarnation> {
        self.workers.get(worker).map(|known| &known.incarnation)
    }

    /// Whether another life of the worker has replaced this one.
    pub fn has_ended(&self, worker: &WorkerId, life: &Incarnation) -> bool {
        self.workers.get(worker).is_some_and(|known| known.ended_lives.contains(life))
    }

    /// How a worker that is registered seals its reports; whether a seal is right, the journal cannot say.
    pub fn sealing(&self, worker: &WorkerId) -> Option<Sealing<'_>> {
        let (group, known) = (self.group.as_ref()?, self.workers.get(worker)?);
        let worker_key = known.seals_by.as_deref();
        Some(Sealing { incarnation: &known.incarnation, group: &group.name, worker_key })
    }

    /// What the worker's silence means: what it was told counts, and a group that holds now holds everything.
    fn lease_of(&self, worker: &Worker) -> Lease {
        match self.settings().on_silence {
            OnSilence::Kill if planted!(LeaseShortenedAtOnce) => Lease::of(&self.settings()),
            OnSilence::Kill => worker.told.lease(),
            OnSilence::Hold => Lease { ends_after_ms: None },
        }
    }

    /// Unfinished batches.
    pub fn unfinished_batches(&self) -> usize {
        self.batches.len()
    }

    /// Ready batches that wait for a slot.
    pub fn queued_batches(&self) -> usize {
        self.placement.queue().len()
    }

    /// The tokens that a worker holds, in order.
    pub(crate) fn tokens_of(&self, worker: &WorkerId) -> impl Iterator<Item = Token> + '_ {
        self.workers.get(worker).into_iter().flat_map(|known| known.tokens.iter().copied())
    }

    /// What the holder of a token must hear so that nothing outstanding is lost.
    pub(crate) fn outstanding_of_token(&self, token: Token) -> Vec<WorkMessage> {
        let found = self.batches.of_token(token).and_then(|id| Some((id, self.batches.get(&id)?)));
        let Some((id, batch)) = found else {
            return self
                .outstanding_final(token)
                .or_else(|| self.outstanding_stray(token))
                .into_iter()
                .collect();
        };
        match &batch.phase {
            Phase::Assigned { right: Some(_), .. } => self.outstanding_right(id, batch, token),
            Phase::Assigned { worker, right: None, .. } => vec![self.assigned_message(batch, worker, token)],
            Phase::Granted(grant) => {
                let kill = || WorkMessage::Kill { token, grace_ms: self.settings().kill_grace_ms };
                self.granted_message(token).into_iter().chain(grant.kill.is_some().then(kill)).collect()
            }
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => Vec::new(),
        }
    }

    pub(crate) fn assigned_message(&self, batch: &Batch, worker: &WorkerId, token: Token) -> WorkMessage {
        WorkMessage::Assigned {
            worker: worker.clone(),
            token,
            job_type: batch.definition.spec.job_type.clone(),
            checks: self.external.checks_of(batch),
        }
    }

    /// The order to start a granted token, with everything the worker needs.
    pub(crate) fn granted_message(&self, token: Token) -> Option<WorkMessage> {
        let id = self.batches.of_token(token)?;
        let batch = self.batches.get(&id)?;
        let grant = batch.grant()?;
        if grant.under_right {
            let (incarnation, nonce) = (grant.incarnation.clone(), grant.nonce.clone());
            return Some(WorkMessage::Confirmed { incarnation, nonce, token });
        }
        let spec = self.run_spec(id, batch, token).ok()?;
        Some(WorkMessage::Granted {
            incarnation: grant.incarnation.clone(),
            nonce: grant.nonce.clone(),
            spec: Box::new(spec),
        })
    }

    /// What the attempt would run, templates resolved; the error is for people.
    pub(crate) fn run_spec(&self, id: BatchId, batch: &Batch, token: Token) -> Result<RunSpec, String> {
        let values = match (batch.grant(), batch.right()) {
            (Some(Grant { values, .. }), _) | (None, Some(Right { values, .. })) => {
                values.as_deref().cloned().unwrap_or_default()
            }
            (None, None) => self.values_for(batch)?,
        };
        let run = crate::schedule::run_spec(id, batch, token, &self.zone_of(&batch.definition), &values)?;
        let unconfirmed = match planted!(UnconfirmedNotPassedOn) {
            true => Vec::new(),
            false => self.batches.unconfirmed(&id).to_vec(),
        };
        Ok(RunSpec { group_limits: self.limits(), unconfirmed, ..run })
    }

    /// EXE-2: what the group says that attempts may use.
    fn limits(&self) -> GroupLimits {
        let limits = self.group.as_ref().and_then(|group| group.settings.limits.as_deref());
        limits.copied().unwrap_or_default()
    }
}
