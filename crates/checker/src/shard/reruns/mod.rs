//! Reruns and cold starts as the catalogue's journal tells them: what was planned is what runs.

mod rerun;

use std::collections::HashMap;
use std::sync::Arc;

use tidemill_model::{
    Event, JobDefinition, JobEvent, JobId, Mapping, PlannedBatch, RerunEvent, RerunId, RerunOnly, RerunOrder,
    Timestamp,
};

use self::rerun::{Rerun, Stage, Stand};
use crate::{At, Invariant};

/// All of them, and the definitions that their plans are held against.
#[derive(Debug, Default)]
pub(super) struct Reruns {
    known: HashMap<JobId, Arc<JobDefinition>>,
    live: HashMap<RerunId, Rerun>,
    minted: i64,
}

impl Reruns {
    /// `reruns_keep_to_plan`
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event) {
        if let Some(why) = self.wrong(event) {
            at.breaks(Invariant::RerunsKeepToPlan, why);
        }
        self.fold(event);
    }

    /// What the event says that cannot be.
    fn wrong(&self, event: &Event) -> Option<String> {
        let Event::Rerun(event) = event else { return None };
        if let RerunEvent::Requested { rerun, jobs, .. } = event {
            let unknown = jobs
                .iter()
                .find(|job| self.known.get(&job.job).is_none_or(|known| known.version != job.version));
            let again = rerun.0 <= self.minted;
            return match unknown {
                Some(job) => Some(format!("job {} is not there in version {}", job.job, job.version)),
                None => again.then(|| format!("rerun {rerun} is minted after {}", self.minted)),
            };
        }
        let id = rerun_of(event)?;
        let Some(rerun) = self.live.get(&id) else {
            return Some(format!("rerun {id} is over, or never was"));
        };
        let wrong = match event {
            RerunEvent::RunsQueried { part, upto, .. } => {
                let moves = *part == rerun.parts + 1 && *upto as usize >= rerun.upto;
                (!moves || rerun.stage != Stage::Planning)
                    .then(|| format!("question {part} after {}", rerun.parts))
            }
            RerunEvent::RunsReceived { part, .. } => {
                (!rerun.open.contains(part)).then(|| format!("nobody asked question {part}"))
            }
            RerunEvent::JobsSkipped { times, .. } => times.iter().find_map(|skip| rerun.wrong_skip(skip)),
            RerunEvent::BatchesPlanned { first, batches, .. } => self.wrong_plan(rerun, *first, batches),
            RerunEvent::Planned { batches, .. } => (*batches as usize != rerun.batches.len()
                || rerun.stage != Stage::Planning)
                .then(|| format!("{batches} batches are said, {} are planned", rerun.batches.len())),
            RerunEvent::Approved { .. } => self.wrong_approval(rerun),
            RerunEvent::RunsRequested { runs, .. } => rerun.wrong_order(runs),
            RerunEvent::RunFinished { place, .. } => {
                let is_out = rerun.at(place.number).is_some_and(|batch| batch.stand == Stand::Ordered);
                (!is_out).then(|| format!("{} ends, and was not started, or ended before", place.number))
            }
            RerunEvent::RunsBlocked { numbers, .. } => rerun.wrong_block(numbers),
            RerunEvent::Paused { .. } => {
                (rerun.stage != Stage::Running).then(|| "it does not run".to_owned())
            }
            RerunEvent::Resumed { .. } => {
                (rerun.stage != Stage::Paused).then(|| "it is not paused".to_owned())
            }
            RerunEvent::Finished { result, .. } => rerun.wrong_end(*result),
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
            Event::Rerun(event) => {
                if let Some(rerun) = rerun_of(event).and_then(|id| self.live.get_mut(&id)) {
                    rerun.fold(event);
                }
            }
            _ => {}
        }
    }
}

/// Which rerun the catalogue goes on with.
fn rerun_of(event: &RerunEvent) -> Option<RerunId> {
    match event {
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
        | RerunEvent::Finished { rerun, .. } => Some(*rerun),
        RerunEvent::RunFinished { place, .. } => Some(place.rerun),
        _ => None,
    }
}
