//! What the catalogue asks of a group for a rerun or a cold start: what there is, and to start and end batches.

use tidemill_model::{
    Actor, Event, JobId, Origin, ReportedRun, RerunDefinition, RerunEvent, RerunOnly, RerunPlace, RunOutcome,
    RunSkip, RunsQuery, ShardId, ShardMessage, StartRun, Timestamp,
};

use crate::group::GroupShard;
use crate::group::generation::generate::NewBatch;
use crate::group::jobs::job::{Job, NewestRun};
use crate::group::jobs::kept_texts::Kept;

impl GroupShard {
    pub(in crate::group) fn apply_rerun(&mut self, event: &RerunEvent) {
        match event {
            RerunEvent::RunsReported { rerun, part, runs } => {
                let (rerun, part, runs) = (*rerun, *part, runs.clone());
                self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportRuns { rerun, part, runs });
            }
            RerunEvent::RunSkipped { place, reason, .. } => {
                let end = RunOutcome::Skipped(*reason);
                self.mailbox.send(ShardId::CATALOGUE, ShardMessage::ReportRunFinished { place: *place, end });
            }
            // What the catalogue decides.
            RerunEvent::Requested { .. }
            | RerunEvent::RunsQueried { .. }
            | RerunEvent::RunsReceived { .. }
            | RerunEvent::JobsSkipped { .. }
            | RerunEvent::BatchesPlanned { .. }
            | RerunEvent::Planned { .. }
            | RerunEvent::Approved { .. }
            | RerunEvent::RunsRequested { .. }
            | RerunEvent::RunFinished { .. }
            | RerunEvent::RunsBlocked { .. }
            | RerunEvent::Paused { .. }
            | RerunEvent::Resumed { .. }
            | RerunEvent::Cancelled { .. }
            | RerunEvent::Finished { .. } => {}
        }
    }

    /// The newest runs of these logical times, as far as there ever was one.
    pub(crate) fn runs_of(&self, asked: &[RunsQuery]) -> Vec<ReportedRun> {
        let times = asked.iter().flat_map(|asked| asked.times.iter().map(|time| (asked.job, *time)));
        times.filter_map(|(id, time)| reported_run(id, self.jobs.get(&id)?, time)).collect()
    }

    /// GEN-6, GEN-8: one more run, unless one is unfinished; two runs of one logical time never live at once.
    pub(crate) fn start_run(&self, start: &StartRun, now: Timestamp) -> Vec<Event> {
        let StartRun { place, job, logical_time: time, .. } = *start;
        let job = match self.startable(start) {
            Ok(job) => job,
            Err(reason) => {
                return vec![RerunEvent::RunSkipped { place, job, logical_time: time, reason }.into()];
            }
        };
        let newest = job.newest_run(time);
        // What was recorded must still be there when it is used.
        let is_recorded = start.definition == RerunDefinition::Recorded;
        let mut events = if is_recorded { Vec::new() } else { self.evict_history(job, now) };
        let recorded = newest.and_then(|newest| newest.definition).filter(|_| is_recorded);
        let definition = recorded.unwrap_or(&job.definition);
        let parameters = newest.and_then(|newest| newest.parameters.texts()).cloned().unwrap_or_default();
        let origin = if start.cold_start { Origin::ColdStart } else { Origin::Rerun };
        let new = NewBatch::of(job, time, job.next_run(time), origin);
        events.extend(self.generated(NewBatch { definition, parameters, rerun: Some(place), ..new }));
        events
    }

    fn startable(&self, start: &StartRun) -> Result<&Job, RunSkip> {
        let time = start.logical_time;
        let job = self.defined_job(start.job).map_err(|_| RunSkip::UnknownJob)?;
        if !job.enabled && start.cold_start {
            return Err(RunSkip::Disabled);
        }
        if let Some(newest) = job.history.get(time).filter(|newest| newest.result.is_none()) {
            return Err(RunSkip::Unfinished { batch: newest.batch });
        }
        let is_wanted = match start.only {
            RerunOnly::All => true,
            RerunOnly::Missing => !job.has_batch_for(time),
            RerunOnly::Failed => job.has_batch_for(time) && !job.has_succeeded(time),
        };
        if !is_wanted {
            return Err(RunSkip::NotWanted);
        }
        let Some(newest) = job.newest_run(time) else { return Ok(job) };
        if start.definition == RerunDefinition::Recorded && newest.definition.is_none() {
            return Err(RunSkip::UnknownDefinition);
        }
        if newest.parameters == Kept::Dropped {
            return Err(RunSkip::UnknownParameters);
        }
        if gives_parameters_to_another_account(job, &newest, start.definition) && !planted!(OtherAccount) {
            return Err(RunSkip::OtherAccount);
        }
        Ok(job)
    }

    /// What of a cancelled rerun still runs here is ended.
    pub(crate) fn kill_run(&self, place: RerunPlace, by: &Actor) -> Vec<Event> {
        let Some(batch) = self.batches.of_rerun(place) else { return Vec::new() };
        self.killed(batch, by, "its rerun was cancelled")
    }
}

/// DSP-2: parameters decide a part of what a program does. Whoever gave them had the account that the job ran as then, and
/// no other.
fn gives_parameters_to_another_account(
    job: &Job,
    newest: &NewestRun<'_>,
    definition: RerunDefinition,
) -> bool {
    let before = newest.definition.and_then(|definition| definition.spec.run_as.as_ref());
    let account = match definition {
        RerunDefinition::Today => job.definition.spec.run_as.as_ref(),
        RerunDefinition::Recorded => before,
    };
    let has_parameters = newest.parameters.texts().is_some_and(|texts| !texts.is_empty());
    account.is_some() && has_parameters && before != account
}

fn reported_run(id: JobId, job: &Job, time: Timestamp) -> Option<ReportedRun> {
    let newest = job.newest_run(time)?;
    Some(ReportedRun {
        job: id,
        logical_time: time,
        run: newest.number,
        batch: newest.batch,
        result: newest.result,
        version: newest.definition.map(|definition| definition.version),
    })
}
