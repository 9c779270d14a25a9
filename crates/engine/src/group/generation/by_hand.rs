//! What people do to one job or batch: run, rerun, kill, submit an ad-hoc job. That one is defined, generated and forgotten
//! by its group's shard alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{
    Actor, Answer, AttemptEvent, BatchId, BatchResult, Event, JobDefinition, JobEvent, JobId, JobSpec,
    Mapping, Origin, Parent, RecordedBatch, Rejection, Submission, Timestamp, bounds,
};

use crate::catalogue::{check_parameters, check_program, check_values};
use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::generation::generate::NewBatch;
use crate::group::jobs::history::Newest;
use crate::group::jobs::job::{Job, NewestRun};
use crate::group::jobs::kept_texts::{Kept, Texts};

const MAX_PARAMETERS_BYTES: usize = 64 * 1024;
const MAX_PARENTS: usize = 1_000;

pub(crate) struct ByHand<'a> {
    /// Absent: the current period's.
    pub(crate) logical_time: Option<Timestamp>,
    pub(crate) parameters: &'a BTreeMap<String, String>,
    /// Beside unfinished batches of the job.
    pub(crate) concurrent: bool,
}

/// Which batch is to be run again, and what whoever asks knows of it.
pub(crate) struct Rerun<'a> {
    pub(crate) batch: BatchId,
    pub(crate) job: JobId,
    pub(crate) logical_time: Timestamp,
    pub(crate) recorded: Option<&'a RecordedBatch>,
}

impl Rerun<'_> {
    /// GEN-10: the parameters that the batch had, though it is an older run than the newest, or those of the newest
    /// are not kept.
    fn parameters(&self, newest: &NewestRun<'_>) -> Result<Texts, Rejection> {
        match (self.recorded, newest.parameters) {
            (Some(recorded), _) if recorded.run > newest.number => {
                Err(Rejection::unknown("batch", self.batch))
            }
            (Some(recorded), _) if recorded.run < newest.number => Ok(recorded.parameters.clone()),
            (_, Kept::Nothing) => Ok(Texts::new()),
            (_, Kept::These(parameters)) => Ok(Texts::clone(parameters)),
            (Some(recorded), Kept::Dropped) => Ok(recorded.parameters.clone()),
            (None, Kept::Dropped) => {
                let rule = "ended so long ago that its shard does not keep its parameters, and the request does \
                            not give them; repeat it";
                Err(Rejection::field("batch", self.batch, rule))
            }
        }
    }
}

impl GroupShard {
    /// GEN-5: one batch for the current period, unless one of the job is unfinished; with `concurrent`, unless one for
    /// the same logical time is. DSP-1: of a disabled job, too.
    pub(crate) fn run_job(
        &self,
        id: JobId,
        by_hand: &ByHand<'_>,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        let ByHand { logical_time, parameters, concurrent } = *by_hand;
        let job = self.defined_job(id)?;
        let size: usize = parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_PARAMETERS_BYTES {
            let rule = format!("all parameters together must be at most {MAX_PARAMETERS_BYTES} bytes");
            return Err(Rejection::field("parameters", format!("{size} bytes"), rule));
        }
        let mut all = job.definition.spec.parameters.clone();
        all.extend(parameters.iter().map(|(name, value)| (name.clone(), value.clone())));
        check_parameters(&all)?;
        let millis = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        let current = || self.grid(job).and_then(|grid| grid.schedule().period_start(now)).unwrap_or(millis);
        let time = logical_time.unwrap_or_else(current);
        if !concurrent {
            check_alone(job, time)?;
        }
        let new = NewBatch::of(job, time, job.next_run(time), Origin::Manual);
        let parameters = parameters.clone();
        self.another_run(NewBatch { parameters, concurrent: Some(concurrent), ..new }, now)
    }

    /// The same logical time again, with the parameters that the batch had and today's definition.
    pub(crate) fn rerun_batch(&self, rerun: &Rerun<'_>, now: Timestamp) -> Result<Decision, Rejection> {
        let Rerun { batch, job, logical_time: time, .. } = *rerun;
        if let Some(live) = self.batches.get(&batch) {
            return Err(unfinished(job, batch, live.logical_time));
        }
        let job = self.defined_job(job)?;
        let newest = job.newest_run(time).ok_or_else(|| Rejection::unknown("batch", batch))?;
        let new = NewBatch::of(job, time, job.next_run(time), Origin::Rerun);
        self.another_run(NewBatch { parameters: rerun.parameters(&newest)?, ..new }, now)
    }

    fn another_run(&self, new: NewBatch<'_>, now: Timestamp) -> Result<Decision, Rejection> {
        let (job, time) = (new.job, new.logical_time);
        // What is unfinished never leaves the history.
        if let Some(newest) = job.history.get(time).filter(|newest| newest.result.is_none()) {
            return Err(unfinished(job.definition.id, newest.batch, time));
        }
        let batch = self.batches.next_id(self.id);
        let mut events = self.evict_history(job, now);
        events.extend(self.generated(new));
        Ok(Decision::answered(events, Answer::Generated { batch, disabled: !job.enabled }))
    }

    pub(crate) fn defined_job(&self, id: JobId) -> Result<&Job, Rejection> {
        if let Some(job) = self.jobs.get(&id).filter(|job| !job.removed) {
            return Ok(job);
        }
        // The id of an ad-hoc job, which may be forgotten (ADR 6).
        if id.shard() == self.id && id.0 > 0 && id < self.jobs.next_id(self.id) {
            let rule = format!(
                "was submitted to run once, and its definition is no longer kept: {} others \
                 have ended since, or it was deleted; submit it again",
                self.sizes.remembered_submissions
            );
            return Err(Rejection::field("job", id, rule));
        }
        Err(Rejection::unknown("job", id))
    }

    /// API-1 without cron: runs at once, or as soon as the newest batches of its parents have succeeded. A parent
    /// that has never had a batch is waited for until it has had one.
    pub(crate) fn submit_job(&self, submission: &Submission, now: Timestamp) -> Result<Decision, Rejection> {
        let known = self.group.as_ref().filter(|group| group.name == submission.group);
        let group = known.ok_or_else(|| Rejection::unknown("group", &submission.group))?;
        if submission.parents.len() > MAX_PARENTS {
            let rule = format!("at most {MAX_PARENTS} jobs can be waited for");
            return Err(Rejection::field("dependency_jobids", submission.parents.len(), rule));
        }
        if let Some(unknown) = submission.parents.iter().find(|parent| self.defined_job(**parent).is_err()) {
            return Err(Rejection::unknown("job", unknown));
        }
        let bounds = [
            ("retries", submission.retries, bounds::RETRIES),
            ("retry_interval_s", submission.retry_interval_s, bounds::RETRY_INTERVAL_S),
        ];
        for (field, value, most) in bounds {
            if value > most {
                return Err(Rejection::field(field, value, format!("must be at most {most}")));
            }
        }
        let parents = submission.parents.iter().map(|job| Parent { job: *job, mapping: Mapping::Latest });
        let spec = JobSpec {
            owner: submission.owner.clone(),
            app_name: submission.app_name.clone(),
            parameters: submission.parameters.clone(),
            priority: submission.priority,
            retries: submission.retries,
            retry_interval_s: submission.retry_interval_s,
            ..JobSpec::new(&submission.group, &submission.name, &submission.job_type)
        };
        let definition = JobDefinition {
            id: self.jobs.next_id(self.id),
            version: 1,
            group_id: group.id,
            parents: parents.collect(),
            run_as_by: None,
            spec: spec.running(submission.program.clone()),
        };
        check_program(&definition).and_then(|()| check_values(&definition, &[]))?;
        let definition = Arc::new(definition);
        let job = Job::new(Arc::clone(&definition), true, true);
        let time = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        let generated = self.generated(NewBatch::of(&job, time, 0, Origin::Submission));
        let batch = Some(self.batches.next_id(self.id));
        let answer = Answer::Submitted { job: definition.id, batch };
        let mut events = vec![Event::Job(JobEvent::Submitted { definition })];
        events.extend(generated);
        Ok(Decision::answered(events, answer))
    }

    /// EXE-5: a waiting or assigned batch is cancelled at once, a running one is ended by its worker.
    pub(crate) fn kill_batch(&self, id: BatchId, by: &Actor, reason: &str) -> Result<Decision, Rejection> {
        let batch = self.unfinished(id)?;
        let reason: String = reason.chars().take(bounds::KILL_REASON_CHARS).collect();
        let event = match batch.running_as() {
            Some((_, Some(_))) => return Ok(Decision::nothing()),
            Some((token, None)) => {
                let by = by.clone();
                AttemptEvent::KillRequested { batch: id, token, by, reason }.into()
            }
            None => self.batches.batch_end(id, BatchResult::Killed, Some(by.clone()), reason),
        };
        Ok(Decision::of(event))
    }

    /// What ends a batch, if something is to be done for that.
    pub(crate) fn killed(&self, id: BatchId, by: &Actor, reason: &str) -> Vec<Event> {
        Decision::from(self.kill_batch(id, by, reason)).into_events()
    }

    /// The job call's kill: the newest unfinished batch of the job; if there is none, its newest batch tells so.
    pub(crate) fn kill_job(&self, id: JobId, by: &Actor) -> Result<Decision, Rejection> {
        let job = self.jobs.get(&id).ok_or_else(|| Rejection::unknown("job", id))?;
        let newest = job.unfinished().last().or_else(|| job.history.last());
        let (_, newest) = newest.ok_or_else(|| Rejection::unknown("batch of job", id))?;
        self.kill_batch(newest.batch, by, "")
    }
}

/// GEN-5: nothing else of the job is unfinished. What is unfinished for `time` itself is refused whatever was asked.
fn check_alone(job: &Job, time: Timestamp) -> Result<(), Rejection> {
    let is_unfinished = |(other, newest): &(Timestamp, &Newest)| newest.result.is_none() && *other != time;
    let Some((other, newest)) = job.history.iter().rev().find(is_unfinished) else { return Ok(()) };
    Err(Rejection::JobUnfinished {
        job: job.definition.id.0,
        batch: newest.batch.0,
        logical_time: other.to_string(),
    })
}

fn unfinished(job: JobId, batch: BatchId, time: Timestamp) -> Rejection {
    Rejection::BatchUnfinished { job: job.0, batch: batch.0, logical_time: time.to_string() }
}
