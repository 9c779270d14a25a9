//! Jobs that leave for another group, or come from one (JOB-9).

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{BatchId, Fire, JobDefinition, JobId, MovedJob, MovedRuns, Timestamp};

use super::Shard;
use super::job::Run;
use super::skipped::Skips;
use crate::calendar::words;
use crate::requests::fingerprint;
use crate::{At, Invariant};

/// The batch of a run that another group made.
pub(super) const ELSEWHERE: BatchId = BatchId(0);

impl Shard {
    /// `moved_jobs_keep_their_runs`, of the group that lets a job go.
    pub(super) fn job_detached(&mut self, at: &At<'_>, id: JobId, moved: &MovedJob) {
        if let Some(why) = self.wrong_release(id, moved) {
            at.breaks(Invariant::MovedJobsKeepTheirRuns, why);
        }
        self.late.retain(|_, late| late.job != id);
        self.job_dropped(id);
        self.jobs.remove(&id);
        self.runs.retain(|(job, _), _| *job != id);
    }

    fn wrong_release(&self, id: JobId, moved: &MovedJob) -> Option<String> {
        let Some(job) = self.jobs.get(&id).filter(|job| !job.removed) else {
            return Some(format!("job {id} is let go, and is not known to shard {}", self.id));
        };
        let mut unfinished =
            self.batches.iter().filter(|(_, batch)| batch.job == id).map(|(batch, _)| *batch);
        if let Some(batch) = unfinished.next() {
            return Some(format!("job {id} is let go, and batch {batch} of it is unfinished"));
        }
        let mut told: BTreeMap<Timestamp, &MovedRuns> = BTreeMap::new();
        for of in &moved.runs {
            if let Some(twice) = of.logical_times().find(|time| told.insert(*time, of).is_some()) {
                return Some(format!("job {id} is let go with {twice} twice"));
            }
        }
        let known = self.runs.iter().filter(|((job, _), _)| *job == id);
        let known: BTreeMap<Timestamp, &Run> = known.map(|((_, time), run)| (*time, run)).collect();
        if let Some(other) =
            told.keys().chain(known.keys()).find(|time| told.contains_key(*time) != known.contains_key(*time))
        {
            return Some(format!(
                "job {id} is let go, and whether it had a batch for {other} is not as it was"
            ));
        }
        let is_other = |(time, of): &(&Timestamp, &&MovedRuns)| {
            let run = known[*time];
            let parameters = of.parameters_dropped || fingerprint(&of.parameters) == run.parameters;
            (of.run, of.version, Some(of.result)) != (run.number, run.version, run.result) || !parameters
        };
        if let Some((time, of)) = told.iter().find(is_other) {
            let run = known[time];
            return Some(format!(
                "job {id} is let go with run {} of {time} ({:?}, version {}), and had run {} ({:?}, version {})",
                of.run, of.result, of.version, run.number, run.result, run.version
            ));
        }
        let follows_days = job.newest().is_some_and(|of| of.days().is_some());
        let expected = job.next.filter(|_| job.enabled);
        (!follows_days && moved.next != expected).then(|| {
            format!("job {id} is let go to fire {}, and was to fire {}", words(moved.next), words(expected))
        })
    }

    /// A job of another group is this one's from now on.
    pub(super) fn job_attached(
        &mut self,
        at: &At<'_>,
        (definition, moved): (&Arc<JobDefinition>, &MovedJob),
        enabled: bool,
        next: Option<Fire>,
    ) {
        let id = definition.id;
        if self.jobs.contains_key(&id) {
            let why = format!("job {id} comes from another group, and is one of shard {} already", self.id);
            at.breaks(Invariant::MovedJobsKeepTheirRuns, why);
        }
        self.job_known(at, definition, enabled, (moved.next.filter(|_| enabled), next));
        if let Some(job) = self.jobs.get_mut(&id) {
            job.tenure = Some(definition.version);
            job.skips_off =
                moved.skipped_before_off.filter(|_| !enabled).map_or(Skips::Nothing, Skips::Before);
        }
        for of in &moved.runs {
            for time in of.logical_times() {
                let run = Run {
                    number: of.run,
                    batch: ELSEWHERE,
                    version: of.version,
                    parameters: fingerprint(&of.parameters),
                    succeeded: of.result.satisfies(),
                    result: Some(of.result),
                    fired: None,
                    said: at.offset,
                };
                self.runs.insert((id, time), run);
            }
        }
    }
}
