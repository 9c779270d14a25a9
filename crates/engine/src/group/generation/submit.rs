//! An ad-hoc job: defined, generated and forgotten by its group's shard alone.

use std::sync::Arc;

use tidemill_model::{
    Answer, Event, JobDefinition, JobEvent, JobSpec, Mapping, Origin, Parent, Rejection, Submission,
    Timestamp, bounds,
};

use crate::catalogue::{check_program, check_values};
use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::generation::generate::NewBatch;
use crate::group::jobs::job::Job;

const MAX_PARENTS: usize = 1_000;

impl GroupShard {
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
}
