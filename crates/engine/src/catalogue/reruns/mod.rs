//! Reruns and cold starts: one request for many batches in many groups, planned, approved, carried out.
//!
//! ```text
//!  RerunRequested ─► RunsQueried … ─► RunsReceived … ─► BatchesPlanned … ─► RerunPlanned ─► RerunApproved ─► running
//!                       └─ QueryRuns ─► shard ─ ReportRuns ┘                                                  │
//!                                                                     ┌──── room, and what it waits for ──┤
//!                                                     RunsRequested ◄───┘     has ended well                │
//!                                                         └─ StartRun ─► shard ─ ReportRunFinished ─► RunFinished ─────┘
//! ```
//!
//! *Invariant:* a permit is given in `RunsRequested` and comes back in `RunFinished`, which a shard tells only once its own
//! journal holds the batch's end. So no journal ever shows more than the requested concurrency.
//!
//! A cancelled one stays until everything that it sent has been answered: its id is the tombstone.

mod ask;
mod list;
mod paths;
mod run;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_calendar::Timetable;
use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, Event, JobDefinition, JobId, Mapping, Rejection, ReportedRun, RerunEvent, RerunId,
    RerunResult, RerunSpec, ShardId, SkippedJob, SkippedTimes, Timestamp,
};

use super::{Catalogue, NAMED_JOBS};
use crate::decision::{Decision, Ruled};

const MAX_LIVE: usize = 64;
const MAX_BATCHES: usize = 100_000;
const MAX_LIVE_BATCHES: usize = 300_000;
/// Entries of one event.
const CHUNK: usize = 500;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Reruns {
    minted: u64,
    live: BTreeMap<RerunId, Rerun>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct Rerun {
    spec: Arc<RerunSpec>,
    jobs: Vec<PlanJob>,
    stage: Stage,
    /// Jobs asked about in full.
    asked_upto: usize,
    parts: u32,
    /// Questions without an answer.
    open: BTreeSet<u32>,
    listing: Listing,
    batches: Vec<Planned>,
    /// Batches whose turn it could be, by number.
    free: BTreeSet<u32>,
    /// Batches that are to be blocked.
    doomed: BTreeSet<u32>,
    /// Batches that were ordered and have not ended.
    outstanding: BTreeSet<u32>,
    ordered: u32,
    ended: u32,
    /// Of those that are settled: those that did not end well, or were not started.
    unwell: u32,
    settled: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Stored)]
enum Stage {
    Planning,
    Planned,
    Running,
    Paused,
    Cancelled,
}

impl Reruns {
    pub(super) fn minted(&self) -> u64 {
        self.minted
    }

    pub(super) fn mint_above(&mut self, counter: u64) {
        self.minted = self.minted.max(counter);
    }
}

impl Stage {
    fn as_str(self) -> &'static str {
        match self {
            Stage::Planning => "planning",
            Stage::Planned => "planned",
            Stage::Running => "running",
            Stage::Paused => "paused",
            Stage::Cancelled => "cancelled",
        }
    }
}

/// A job of the plan, as it was when the plan was requested.
#[derive(Debug, Clone, PartialEq, Stored)]
struct PlanJob {
    definition: Arc<JobDefinition>,
    shard: Option<ShardId>,
    grid: Option<Arc<Timetable>>,
    is_named: bool,
    enabled: bool,
    /// Parents within the plan, itself among them where it depends on its past.
    parents: Vec<(usize, Mapping)>,
    /// In a cascade by data: the logical times that it reruns; absent: they follow from its parents'.
    by_data: Option<Vec<Timestamp>>,
    /// Logical times asked about, oldest first; gone once the plan is made.
    times: Vec<Timestamp>,
    told: BTreeMap<Timestamp, ReportedRun>,
}

/// How the plan is written down once all have answered.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
struct Listing {
    ready: bool,
    /// Job and time, in order of number.
    order: Vec<(usize, Timestamp)>,
    numbers: BTreeMap<(usize, Timestamp), u32>,
    skips: Vec<SkippedJob>,
    skips_done: usize,
    /// Logical times that the cascade does not follow.
    left_out: Vec<SkippedTimes>,
    left_out_done: usize,
    /// In a cascade by data: what makes a path, by number.
    written: BTreeMap<String, Vec<u32>>,
    /// Why there can be no plan.
    fault: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct Planned {
    job: usize,
    time: Timestamp,
    after: Vec<u32>,
    /// Of `after`, those that have not ended well.
    waits: u32,
    /// Those that wait for it.
    before: Vec<u32>,
    settled: bool,
}

impl Rerun {
    fn number_of_batches(&self) -> usize {
        match self.stage {
            Stage::Planning => self.jobs.iter().map(|job| job.times.len()).sum(),
            Stage::Planned | Stage::Running | Stage::Paused | Stage::Cancelled => self.batches.len(),
        }
    }

    fn places(&self) -> BTreeMap<JobId, usize> {
        self.jobs.iter().enumerate().map(|(at, job)| (job.definition.id, at)).collect()
    }

    fn batch(&self, number: u32) -> Option<&Planned> {
        self.batches.get((number as usize).checked_sub(1)?)
    }

    fn batch_mut(&mut self, number: u32) -> Option<&mut Planned> {
        self.batches.get_mut((number as usize).checked_sub(1)?)
    }

    fn room(&self) -> usize {
        (self.spec.concurrency as usize).saturating_sub((self.ordered - self.ended) as usize)
    }

    fn may_start(&self) -> bool {
        self.stage == Stage::Running || (self.stage == Stage::Cancelled && planted!(StartAfterCancel))
    }

    /// Whether something is to be decided without anybody's asking.
    fn has_work(&self) -> bool {
        let can_start = self.may_start() && !self.free.is_empty() && self.room() > 0;
        match self.stage {
            Stage::Planning if self.asked_upto < self.jobs.len() => self.open.len() < ask::MAX_OPEN,
            Stage::Planning => self.listing.ready,
            Stage::Planned => self.spec.approve,
            Stage::Running | Stage::Paused => !self.doomed.is_empty() || can_start || self.is_through(),
            Stage::Cancelled => can_start || (self.open.is_empty() && self.outstanding.is_empty()),
        }
    }

    fn is_through(&self) -> bool {
        self.settled as usize == self.batches.len()
    }
}

impl Catalogue {
    /// The first rerun that asks for something by itself.
    pub(super) fn next_rerun(&self) -> Option<RerunId> {
        self.reruns.live.iter().find(|(_, rerun)| rerun.has_work()).map(|(id, _)| *id)
    }

    /// A rerun that lists the job and has not ended.
    pub(super) fn rerun_of(&self, job: JobId) -> Option<RerunId> {
        let lists = |rerun: &Rerun| rerun.jobs.iter().any(|planned| planned.definition.id == job);
        self.reruns.live.iter().find(|(_, rerun)| lists(rerun)).map(|(id, _)| *id)
    }

    pub(super) fn carry_on(&self, id: RerunId) -> Vec<Event> {
        let Some(rerun) = self.reruns.live.get(&id) else { return Vec::new() };
        match rerun.stage {
            Stage::Planning if rerun.asked_upto < rerun.jobs.len() => self.ask_more(id, rerun),
            Stage::Planning => self.list_more(id, rerun),
            Stage::Planned => self.approve_as_requested(id, rerun),
            Stage::Running | Stage::Paused if !rerun.doomed.is_empty() => {
                let numbers = rerun.doomed.iter().take(CHUNK).copied().collect();
                vec![Event::Rerun(RerunEvent::RunsBlocked { rerun: id, numbers })]
            }
            Stage::Running | Stage::Paused | Stage::Cancelled => self.order_more(id, rerun),
        }
    }

    fn live(&self, id: RerunId) -> Result<&Rerun, Rejection> {
        self.reruns.live.get(&id).ok_or_else(|| Rejection::unknown("live rerun", id))
    }

    pub(super) fn approve_rerun(&self, id: RerunId, by: &Actor) -> Ruled {
        let rerun = self.live(id)?;
        match rerun.stage {
            Stage::Planned => {}
            Stage::Planning => return Err(not_ready(id, rerun, "wait until it is planned")),
            Stage::Running | Stage::Paused => return Ok(Decision::unchanged(Answer::Done)),
            Stage::Cancelled => return Err(not_ready(id, rerun, "plan it anew")),
        }
        self.check_versions(id, rerun)?;
        Ok(Decision::done(RerunEvent::Approved { rerun: id, by: by.clone() }))
    }

    /// What was planned must be what will run.
    fn check_versions(&self, id: RerunId, rerun: &Rerun) -> Result<(), Rejection> {
        let is_as_it_was = |job: &&PlanJob| {
            let today = self.jobs.get(&job.definition.id);
            today.is_some_and(|today| today.definition.version == job.definition.version)
        };
        let changed = rerun.jobs.iter().filter(|job| !is_as_it_was(job));
        let jobs: Vec<String> = changed.map(|job| job.definition.full_name()).take(NAMED_JOBS).collect();
        if jobs.is_empty() { Ok(()) } else { Err(Rejection::PlanOutdated { rerun: id.0, jobs }) }
    }

    fn approve_as_requested(&self, id: RerunId, rerun: &Rerun) -> Vec<Event> {
        match self.check_versions(id, rerun) {
            Ok(()) => vec![Event::Rerun(RerunEvent::Approved { rerun: id, by: Actor::owner() })],
            Err(rejection) => refused(id, rejection.to_string()),
        }
    }

    pub(super) fn pause_rerun(&self, id: RerunId, by: &Actor) -> Ruled {
        let paused = RerunEvent::Paused { rerun: id, by: by.clone() };
        self.turn(id, [Stage::Running, Stage::Paused], paused, "only a running one can be paused")
    }

    pub(super) fn resume_rerun(&self, id: RerunId, by: &Actor) -> Ruled {
        let resumed = RerunEvent::Resumed { rerun: id, by: by.clone() };
        self.turn(id, [Stage::Paused, Stage::Running], resumed, "only a paused one can be resumed")
    }

    /// From one stage to another, where it may be already.
    fn turn(&self, id: RerunId, [from, to]: [Stage; 2], event: RerunEvent, rule: &str) -> Ruled {
        match self.live(id)? {
            rerun if rerun.stage == to => Ok(Decision::unchanged(Answer::Done)),
            rerun if rerun.stage == from => Ok(Decision::done(event)),
            rerun => Err(not_ready(id, rerun, rule)),
        }
    }

    /// A second time it may also end what runs.
    pub(super) fn cancel_rerun(&self, id: RerunId, kill: bool, by: &Actor) -> Ruled {
        let rerun = self.live(id)?;
        if rerun.stage == Stage::Cancelled && !kill {
            return Ok(Decision::unchanged(Answer::Done));
        }
        Ok(Decision::done(RerunEvent::Cancelled { rerun: id, by: by.clone(), kill }))
    }

    pub(super) fn apply_rerun(&mut self, event: &RerunEvent) {
        match event {
            RerunEvent::Requested { rerun, spec, jobs, .. } => self.rerun_requested(*rerun, spec, jobs),
            RerunEvent::RunsQueried { .. } => self.runs_queried(event),
            RerunEvent::RunsReceived { rerun, part, runs, .. } => self.runs_received(*rerun, *part, runs),
            RerunEvent::JobsSkipped { rerun, jobs, times } => {
                if let Some(rerun) = self.reruns.live.get_mut(rerun) {
                    rerun.listing.skips_done += jobs.len();
                    rerun.listing.left_out_done += times.len();
                }
            }
            RerunEvent::BatchesPlanned { rerun, batches, .. } => self.batches_planned(*rerun, batches),
            RerunEvent::Planned { rerun, .. } => self.rerun_planned(*rerun),
            RerunEvent::Approved { rerun, .. } | RerunEvent::Resumed { rerun, .. } => {
                self.stage(*rerun, Stage::Running);
            }
            RerunEvent::Paused { rerun, .. } => self.stage(*rerun, Stage::Paused),
            RerunEvent::Cancelled { rerun, by, kill } => self.rerun_cancelled(*rerun, by, *kill),
            RerunEvent::RunsRequested { rerun, runs } => self.runs_requested(*rerun, runs),
            RerunEvent::RunFinished { place, end } => self.run_finished(place.rerun, place.number, end),
            RerunEvent::RunsBlocked { rerun, numbers } => self.runs_blocked(*rerun, numbers),
            RerunEvent::Finished { rerun, .. } => {
                self.reruns.live.remove(rerun);
            }
            // Facts of group shards.
            RerunEvent::RunsReported { .. } | RerunEvent::RunSkipped { .. } => {}
        }
    }

    fn stage(&mut self, id: RerunId, stage: Stage) {
        if let Some(rerun) = self.reruns.live.get_mut(&id) {
            rerun.stage = stage;
        }
    }
}

fn refused(id: RerunId, message: String) -> Vec<Event> {
    vec![Event::Rerun(RerunEvent::Finished { rerun: id, result: RerunResult::Refused, message })]
}

fn not_ready(id: RerunId, rerun: &Rerun, rule: &str) -> Rejection {
    let (state, rule) = (rerun.stage.as_str().to_owned(), rule.to_owned());
    Rejection::RerunNotReady { rerun: id.0, state, rule }
}
