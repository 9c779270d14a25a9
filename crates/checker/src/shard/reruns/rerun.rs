//! One rerun or cold start that has not ended.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tidemill_model::{
    JobId, OrderedRun, ReportedRun, RerunDefinition, RerunEvent, RerunResult, RerunSpec, RunOutcome,
    RunsQuery, SkippedTimes, TimesSkip, Timestamp,
};

/// How a planned batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    Planned,
    Ordered,
    Well,
    /// It ran.
    Failed,
    /// It never ran.
    Left,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Planning,
    Planned,
    Running,
    Paused,
    Cancelled,
}

#[derive(Debug)]
pub(super) struct Planned {
    pub(super) job: JobId,
    pub(super) time: Timestamp,
    pub(super) after: Vec<u32>,
    pub(super) stand: Stand,
}

#[derive(Debug)]
pub(super) struct Rerun {
    pub(super) spec: Arc<RerunSpec>,
    pub(super) versions: BTreeMap<JobId, u32>,
    /// The parents of jobs that say what they do when one of these failed.
    pub(super) ruled: BTreeMap<JobId, Vec<JobId>>,
    pub(super) stage: Stage,
    pub(super) parts: u32,
    pub(super) upto: usize,
    pub(super) open: BTreeSet<u32>,
    pub(super) asked: BTreeSet<(JobId, Timestamp)>,
    pub(super) told: HashMap<(JobId, Timestamp), ReportedRun>,
    pub(super) skipped: HashSet<JobId>,
    pub(super) batches: Vec<Planned>,
    pub(super) outstanding: usize,
}

impl Rerun {
    /// The last logical time that it may plan. Without one on record, it reaches to the end of its span.
    pub(super) fn reach(&self) -> Timestamp {
        self.spec.reach.unwrap_or(self.spec.to).max(self.spec.to)
    }

    /// What a cascade does not follow is of a job of the plan, and comes after all that it asked about.
    pub(super) fn wrong_skip(&self, skip: &SkippedTimes) -> Option<String> {
        let SkippedTimes { job, from, reason } = skip;
        let is_beyond = *from > self.reach();
        let is_so = match reason {
            TimesSkip::BeyondReach => is_beyond,
            TimesSkip::OwnPast => !is_beyond,
        };
        let is_behind = self.asked.iter().filter(|(asked, _)| asked == job).all(|(_, time)| time < from);
        let is_fine = self.versions.contains_key(job) && is_so && is_behind;
        (!is_fine).then(|| format!("job {job} is left out from {from} on, {reason:?}, which cannot be"))
    }

    pub(super) fn new(
        spec: Arc<RerunSpec>,
        versions: BTreeMap<JobId, u32>,
        ruled: BTreeMap<JobId, Vec<JobId>>,
    ) -> Self {
        Self {
            spec,
            versions,
            ruled,
            stage: Stage::Planning,
            parts: 0,
            upto: 0,
            open: BTreeSet::new(),
            asked: BTreeSet::new(),
            told: HashMap::new(),
            skipped: HashSet::new(),
            batches: Vec::new(),
            outstanding: 0,
        }
    }

    pub(super) fn at(&self, number: u32) -> Option<&Planned> {
        self.batches.get((number as usize).checked_sub(1)?)
    }

    pub(super) fn wrong_order(&self, runs: &[OrderedRun]) -> Option<String> {
        if self.stage != Stage::Running {
            return Some(format!("batches are started while it is {:?}", self.stage).to_lowercase());
        }
        if self.outstanding + runs.len() > self.spec.concurrency as usize {
            let (out, most) = (self.outstanding, self.spec.concurrency);
            return Some(format!("{} are started, {out} have not ended, and {most} are allowed", runs.len()));
        }
        for run in runs {
            let batch = self.at(run.number).filter(|batch| batch.stand == Stand::Planned);
            let Some(batch) = batch.filter(|batch| (batch.job, batch.time) == (run.job, run.logical_time))
            else {
                return Some(format!("{} is started, and is not that batch, or was before", run.number));
            };
            let not_well = |number: &&u32| {
                self.at(**number)
                    .is_none_or(|before| before.stand != Stand::Well && !self.bears(batch, before))
            };
            if let Some(before) = batch.after.iter().find(not_well) {
                return Some(format!("{} is started before {before} has ended well", run.number));
            }
        }
        None
    }

    /// Whether the job of `batch` says what it does when its parent's `before` failed, as that did.
    fn bears(&self, batch: &Planned, before: &Planned) -> bool {
        let parents = self.ruled.get(&batch.job);
        before.stand == Stand::Failed
            && self.spec.definition == RerunDefinition::Today
            && batch.job != before.job
            && parents.is_some_and(|parents| parents.contains(&before.job))
    }

    pub(super) fn wrong_block(&self, numbers: &[u32]) -> Option<String> {
        let may_be_blocked = |number: &&u32| {
            let Some(batch) = self.at(**number).filter(|batch| batch.stand == Stand::Planned) else {
                return false;
            };
            let mut before = batch.after.iter().filter_map(|number| self.at(*number));
            before.any(|before| match before.stand {
                Stand::Failed => !self.bears(batch, before),
                Stand::Left => true,
                Stand::Planned | Stand::Ordered | Stand::Well => false,
            })
        };
        let wrong = numbers.iter().find(|number| !may_be_blocked(number));
        wrong.map(|number| format!("{number} is blocked, and nothing before it ended otherwise than well"))
    }

    pub(super) fn wrong_end(&self, result: RerunResult) -> Option<String> {
        let left = self.batches.iter().zip(1..).find(|(batch, _)| match result {
            RerunResult::Done => batch.stand != Stand::Well,
            RerunResult::DoneWithFailures => matches!(batch.stand, Stand::Planned | Stand::Ordered),
            RerunResult::Cancelled | RerunResult::Refused => batch.stand == Stand::Ordered,
        });
        let fits = match result {
            RerunResult::Done | RerunResult::DoneWithFailures => {
                matches!(self.stage, Stage::Running | Stage::Paused)
            }
            RerunResult::Cancelled => self.stage == Stage::Cancelled && self.open.is_empty(),
            RerunResult::Refused => matches!(self.stage, Stage::Planning | Stage::Planned),
        };
        match left {
            Some((batch, number)) => {
                Some(format!("it ends as {result:?}, and {number} is {:?}", batch.stand))
            }
            None => (!fits).then(|| format!("it ends as {result:?} while it is {:?}", self.stage)),
        }
    }

    pub(super) fn settle(&mut self, number: u32, stand: Stand) {
        let Some(batch) = (number as usize).checked_sub(1).and_then(|at| self.batches.get_mut(at)) else {
            return;
        };
        if batch.stand == Stand::Ordered {
            self.outstanding -= 1;
        }
        if stand == Stand::Ordered {
            self.outstanding += 1;
        }
        batch.stand = stand;
    }

    pub(super) fn fold(&mut self, event: &RerunEvent) {
        match event {
            RerunEvent::RunsQueried { part, asked, upto, .. } => {
                self.parts = *part;
                self.upto = *upto as usize;
                if !asked.is_empty() {
                    self.open.insert(*part);
                }
                let times =
                    |runs: &RunsQuery| runs.times.iter().map(|time| (runs.job, *time)).collect::<Vec<_>>();
                self.asked.extend(asked.iter().flat_map(times));
            }
            RerunEvent::RunsReceived { part, runs, .. } => {
                self.open.remove(part);
                self.told.extend(runs.iter().map(|run| ((run.job, run.logical_time), run.clone())));
            }
            RerunEvent::JobsSkipped { jobs, .. } => self.skipped.extend(jobs.iter().map(|skip| skip.job)),
            RerunEvent::BatchesPlanned { batches, .. } => {
                self.batches.extend(batches.iter().map(|batch| Planned {
                    job: batch.job,
                    time: batch.logical_time,
                    after: batch.after.clone(),
                    stand: Stand::Planned,
                }))
            }
            RerunEvent::Planned { .. } => self.stage = Stage::Planned,
            RerunEvent::Approved { .. } | RerunEvent::Resumed { .. } => self.stage = Stage::Running,
            RerunEvent::Paused { .. } => self.stage = Stage::Paused,
            RerunEvent::Cancelled { .. } => self.stage = Stage::Cancelled,
            RerunEvent::RunsRequested { runs, .. } => {
                for run in runs {
                    self.settle(run.number, Stand::Ordered);
                }
            }
            RerunEvent::RunsBlocked { numbers, .. } => {
                for number in numbers {
                    self.settle(*number, Stand::Left);
                }
            }
            RerunEvent::RunFinished { place, end } => {
                let ran = matches!(end, RunOutcome::Finished { .. });
                let otherwise = if ran { Stand::Failed } else { Stand::Left };
                self.settle(place.number, if end.is_well() { Stand::Well } else { otherwise });
            }
            _ => {}
        }
    }
}
