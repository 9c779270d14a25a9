//! Reruns and cold starts as the catalogue's journal tells them: what was planned is what runs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tidemill_model::{
    Event, JobDefinition, JobEvent, JobId, Mapping, OrderedRun, PlannedBatch, ReportedRun, RerunDefinition,
    RerunEvent, RerunId, RerunOnly, RerunOrder, RerunResult, RerunSpec, RunOutcome, SkippedTimes, TimesSkip,
    Timestamp,
};

use crate::Invariant;
use crate::at::At;
use crate::findings::Findings;

/// How a planned batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    Planned,
    Ordered,
    Well,
    /// It ran.
    Failed,
    /// It never ran.
    Left,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Planning,
    Planned,
    Running,
    Paused,
    Cancelled,
}

#[derive(Debug)]
struct Planned {
    job: JobId,
    time: Timestamp,
    after: Vec<u32>,
    stand: Stand,
}

/// One that has not ended.
#[derive(Debug)]
struct Rerun {
    spec: Arc<RerunSpec>,
    versions: BTreeMap<JobId, u32>,
    /// The parents of jobs that say what they do when one of these failed.
    ruled: BTreeMap<JobId, Vec<JobId>>,
    stage: Stage,
    parts: u32,
    upto: usize,
    open: BTreeSet<u32>,
    asked: BTreeSet<(JobId, Timestamp)>,
    told: HashMap<(JobId, Timestamp), ReportedRun>,
    skipped: HashSet<JobId>,
    batches: Vec<Planned>,
    outstanding: usize,
}

/// All of them, and the definitions that their plans are held against.
#[derive(Debug, Default)]
pub(super) struct Reruns {
    known: HashMap<JobId, Arc<JobDefinition>>,
    live: HashMap<RerunId, Rerun>,
    minted: i64,
}

impl Reruns {
    /// `reruns_keep_to_plan`
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event, found: &mut Findings) {
        if let Some(why) = self.wrong(event) {
            at.breaks(found, Invariant::RerunsKeepToPlan, why);
        }
        self.fold(event);
    }

    /// What the event says that cannot be.
    fn wrong(&self, event: &Event) -> Option<String> {
        let id = match event {
            Event::Rerun(RerunEvent::Requested { rerun, jobs, .. }) => {
                let unknown = jobs
                    .iter()
                    .find(|job| self.known.get(&job.job).is_none_or(|known| known.version != job.version));
                let again = rerun.0 <= self.minted;
                return match unknown {
                    Some(job) => Some(format!("job {} is not there in version {}", job.job, job.version)),
                    None => again.then(|| format!("rerun {rerun} is minted after {}", self.minted)),
                };
            }
            Event::Rerun(
                RerunEvent::RunsQueried { rerun, .. }
                | RerunEvent::RunsReceived { rerun, .. }
                | RerunEvent::JobsSkipped { rerun, .. }
                | RerunEvent::BatchesPlanned { rerun, .. }
                | RerunEvent::Planned { rerun, .. }
                | RerunEvent::Approved { rerun, .. }
                | RerunEvent::RunsRequested { rerun, .. }
                | RerunEvent::RunsBlocked { rerun, .. }
                | RerunEvent::Paused { rerun, .. }
                | RerunEvent::Resumed { rerun, .. }
                | RerunEvent::Cancelled { rerun, .. }
                | RerunEvent::Finished { rerun, .. },
            ) => *rerun,
            Event::Rerun(RerunEvent::RunFinished { place, .. }) => place.rerun,
            _ => return None,
        };
        let Some(rerun) = self.live.get(&id) else {
            return Some(format!("rerun {id} is over, or never was"));
        };
        let wrong = match event {
            Event::Rerun(RerunEvent::RunsQueried { part, upto, .. }) => {
                let moves = *part == rerun.parts + 1 && *upto as usize >= rerun.upto;
                (!moves || rerun.stage != Stage::Planning)
                    .then(|| format!("question {part} after {}", rerun.parts))
            }
            Event::Rerun(RerunEvent::RunsReceived { part, .. }) => {
                (!rerun.open.contains(part)).then(|| format!("nobody asked question {part}"))
            }
            Event::Rerun(RerunEvent::JobsSkipped { times, .. }) => {
                times.iter().find_map(|skip| rerun.wrong_skip(skip))
            }
            Event::Rerun(RerunEvent::BatchesPlanned { first, batches, .. }) => {
                self.wrong_plan(rerun, *first, batches)
            }
            Event::Rerun(RerunEvent::Planned { batches, .. }) => (*batches as usize != rerun.batches.len()
                || rerun.stage != Stage::Planning)
                .then(|| format!("{batches} batches are said, {} are planned", rerun.batches.len())),
            Event::Rerun(RerunEvent::Approved { .. }) => self.wrong_approval(rerun),
            Event::Rerun(RerunEvent::RunsRequested { runs, .. }) => rerun.wrong_order(runs),
            Event::Rerun(RerunEvent::RunFinished { place, .. }) => {
                let is_out = rerun.at(place.number).is_some_and(|batch| batch.stand == Stand::Ordered);
                (!is_out).then(|| format!("{} ends, and was not started, or ended before", place.number))
            }
            Event::Rerun(RerunEvent::RunsBlocked { numbers, .. }) => rerun.wrong_block(numbers),
            Event::Rerun(RerunEvent::Paused { .. }) => {
                (rerun.stage != Stage::Running).then(|| "it does not run".to_owned())
            }
            Event::Rerun(RerunEvent::Resumed { .. }) => {
                (rerun.stage != Stage::Paused).then(|| "it is not paused".to_owned())
            }
            Event::Rerun(RerunEvent::Finished { result, .. }) => rerun.wrong_end(*result),
            _ => None,
        };
        wrong.map(|why| format!("rerun {id}: {why}"))
    }

    fn wrong_plan(&self, rerun: &Rerun, first: u32, batches: &[PlannedBatch]) -> Option<String> {
        let is_asked = rerun.open.is_empty() && rerun.upto == rerun.versions.len();
        if rerun.stage != Stage::Planning || !is_asked || first as usize != rerun.batches.len() + 1 {
            return Some(format!("batches from {first} on cannot be planned now"));
        }
        let mut last = rerun.batches.last().map(|batch| batch.time);
        for (batch, number) in batches.iter().zip(first..) {
            let key = (batch.job, batch.logical_time);
            let told = rerun.told.get(&key);
            let wanted = match rerun.spec.only {
                RerunOnly::All => true,
                RerunOnly::Missing => told.is_none(),
                RerunOnly::Failed => {
                    told.and_then(|told| told.result).is_some_and(|result| !result.satisfies())
                }
            };
            let in_order = last.is_none_or(|last| match rerun.spec.order {
                RerunOrder::Oldest => last <= batch.logical_time,
                RerunOrder::Newest => last >= batch.logical_time,
            });
            if !rerun.asked.contains(&key) || rerun.skipped.contains(&batch.job) || !wanted || !in_order {
                return Some(format!("{number} has no place in the plan"));
            }
            if batch.logical_time > rerun.reach() {
                return Some(format!("{number} is for {}, later than it reaches", batch.logical_time));
            }
            if batch.run != told.map(|told| told.run + 1) {
                return Some(format!("{number} is to be run {:?}, after {told:?}", batch.run));
            }
            last = Some(batch.logical_time);
        }
        None
    }

    /// Whether the plan is whole and as requested: each batch asked for and wanted is in it, after its parents'.
    fn wrong_approval(&self, rerun: &Rerun) -> Option<String> {
        if rerun.stage != Stage::Planned {
            return Some("it is approved, and is not planned, or was before".to_owned());
        }
        let today = |job: &JobId| self.known.get(job).map(|known| known.version);
        if let Some((job, _)) = rerun.versions.iter().find(|(job, version)| today(job) != Some(**version)) {
            return Some(format!("it is approved, and job {job} has changed"));
        }
        let numbers: HashMap<(JobId, Timestamp), u32> =
            rerun.batches.iter().zip(1..).map(|(batch, number)| ((batch.job, batch.time), number)).collect();
        if numbers.len() != rerun.batches.len() {
            return Some("a batch is planned twice".to_owned());
        }
        if rerun.spec.only == RerunOnly::All {
            let wanted = |key: &&(JobId, Timestamp)| !rerun.skipped.contains(&key.0);
            if let Some((job, time)) =
                rerun.asked.iter().filter(wanted).find(|key| !numbers.contains_key(key))
            {
                return Some(format!("job {job} for {time} is left out of the plan"));
            }
        }
        for (batch, number) in rerun.batches.iter().zip(1_u32..) {
            let parents = self.known.get(&batch.job).into_iter().flat_map(|known| known.parents.iter());
            let same = parents.filter(|parent| parent.mapping == Mapping::Same);
            let mut before = same.filter_map(|parent| numbers.get(&(parent.job, batch.time)));
            if let Some(missing) = before.find(|before| !batch.after.contains(before)) {
                return Some(format!("{number} does not wait for {missing}, of its parent"));
            }
        }
        None
    }

    fn fold(&mut self, event: &Event) {
        match event {
            Event::Job(JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. }) => {
                self.known.insert(definition.id, Arc::clone(definition));
            }
            Event::Job(JobEvent::Deleted { job }) => {
                self.known.remove(job);
            }
            Event::Rerun(RerunEvent::Requested { rerun, spec, jobs, .. }) => {
                self.minted = self.minted.max(rerun.0);
                let versions = jobs.iter().map(|job| (job.job, job.version)).collect();
                let known = jobs.iter().filter_map(|job| self.known.get(&job.job));
                let ruled = known.filter(|definition| definition.spec.has_failure_rule());
                let parents = |of: &JobDefinition| of.parents.iter().map(|parent| parent.job).collect();
                let ruled = ruled.map(|definition| (definition.id, parents(definition))).collect();
                self.live.insert(*rerun, Rerun::new(Arc::clone(spec), versions, ruled));
            }
            Event::Rerun(RerunEvent::Finished { rerun, .. }) => {
                self.live.remove(rerun);
            }
            Event::Rerun(RerunEvent::RunFinished { place, end }) => {
                if let Some(rerun) = self.live.get_mut(&place.rerun) {
                    let ran = matches!(end, RunOutcome::Finished { .. });
                    let otherwise = if ran { Stand::Failed } else { Stand::Left };
                    rerun.settle(place.number, if end.is_well() { Stand::Well } else { otherwise });
                }
            }
            Event::Rerun(
                RerunEvent::RunsQueried { rerun, .. }
                | RerunEvent::RunsReceived { rerun, .. }
                | RerunEvent::JobsSkipped { rerun, .. }
                | RerunEvent::BatchesPlanned { rerun, .. }
                | RerunEvent::Planned { rerun, .. }
                | RerunEvent::Approved { rerun, .. }
                | RerunEvent::RunsRequested { rerun, .. }
                | RerunEvent::RunsBlocked { rerun, .. }
                | RerunEvent::Paused { rerun, .. }
                | RerunEvent::Resumed { rerun, .. }
                | RerunEvent::Cancelled { rerun, .. },
            ) => {
                if let Some(rerun) = self.live.get_mut(rerun) {
                    rerun.fold(event);
                }
            }
            _ => {}
        }
    }
}

impl Rerun {
    /// The last logical time that it may plan. Without one on record, it reaches to the end of its span.
    fn reach(&self) -> Timestamp {
        self.spec.reach.unwrap_or(self.spec.to).max(self.spec.to)
    }

    /// What a cascade does not follow is of a job of the plan, and comes after all that it asked about.
    fn wrong_skip(&self, skip: &SkippedTimes) -> Option<String> {
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

    fn new(spec: Arc<RerunSpec>, versions: BTreeMap<JobId, u32>, ruled: BTreeMap<JobId, Vec<JobId>>) -> Self {
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

    fn at(&self, number: u32) -> Option<&Planned> {
        self.batches.get((number as usize).checked_sub(1)?)
    }

    fn wrong_order(&self, runs: &[OrderedRun]) -> Option<String> {
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

    fn wrong_block(&self, numbers: &[u32]) -> Option<String> {
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

    fn wrong_end(&self, result: RerunResult) -> Option<String> {
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

    fn settle(&mut self, number: u32, stand: Stand) {
        let Some(batch) = (number as usize).checked_sub(1).and_then(|at| self.batches.get_mut(at)) else {
            return;
        };
        if batch.stand == Stand::Ordered {
            self.outstanding -= 1;
        }
        batch.stand = stand;
    }

    fn fold(&mut self, event: &Event) {
        match event {
            Event::Rerun(RerunEvent::RunsQueried { part, asked, upto, .. }) => {
                self.parts = *part;
                self.upto = *upto as usize;
                if !asked.is_empty() {
                    self.open.insert(*part);
                }
                let times = |runs: &tidemill_model::RunsQuery| {
                    runs.times.iter().map(|time| (runs.job, *time)).collect::<Vec<_>>()
                };
                self.asked.extend(asked.iter().flat_map(times));
            }
            Event::Rerun(RerunEvent::RunsReceived { part, runs, .. }) => {
                self.open.remove(part);
                self.told.extend(runs.iter().map(|run| ((run.job, run.logical_time), run.clone())));
            }
            Event::Rerun(RerunEvent::JobsSkipped { jobs, .. }) => {
                self.skipped.extend(jobs.iter().map(|skip| skip.job))
            }
            Event::Rerun(RerunEvent::BatchesPlanned { batches, .. }) => {
                self.batches.extend(batches.iter().map(|batch| Planned {
                    job: batch.job,
                    time: batch.logical_time,
                    after: batch.after.clone(),
                    stand: Stand::Planned,
                }))
            }
            Event::Rerun(RerunEvent::Planned { .. }) => self.stage = Stage::Planned,
            Event::Rerun(RerunEvent::Approved { .. } | RerunEvent::Resumed { .. }) => {
                self.stage = Stage::Running
            }
            Event::Rerun(RerunEvent::Paused { .. }) => self.stage = Stage::Paused,
            Event::Rerun(RerunEvent::Cancelled { .. }) => self.stage = Stage::Cancelled,
            Event::Rerun(RerunEvent::RunsRequested { runs, .. }) => {
                for run in runs {
                    if let Some(batch) =
                        (run.number as usize).checked_sub(1).and_then(|at| self.batches.get_mut(at))
                    {
                        batch.stand = Stand::Ordered;
                        self.outstanding += 1;
                    }
                }
            }
            Event::Rerun(RerunEvent::RunsBlocked { numbers, .. }) => {
                for number in numbers {
                    self.settle(*number, Stand::Left);
                }
            }
            _ => {}
        }
    }
}
