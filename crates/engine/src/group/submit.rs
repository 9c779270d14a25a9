//! An ad-hoc job: defined, generated and forgotten by its group's shard alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{
    Answer, BatchId, Event, JobDefinition, JobEvent, JobId, Mapping, MissedRuns, OnParentFailure, Origin,
    Parent, Rejection, RunIf, Submission, Timestamp,
};

use super::GroupShard;
use super::job::Job;
use crate::catalogue::{check_program, check_values};
use crate::decision::Decision;

const MAX_PARENTS: usize = 1_000;
const MAX_RETRIES: u64 = 100;
const MAX_RETRY_INTERVAL_MS: u64 = 7 * 86_400_000;

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
            ("retries", u64::from(submission.retries), MAX_RETRIES),
            ("retry_interval_ms", submission.retry_interval_ms, MAX_RETRY_INTERVAL_MS),
        ];
        for (field, value, most) in bounds {
            if value > most {
                return Err(Rejection::field(field, value, format!("must be at most {most}")));
            }
        }
        let parents = submission.parents.iter().map(|job| Parent { job: *job, mapping: Mapping::Latest });
        let definition = JobDefinition {
            id: JobId::mint(self.jobs_minted + 1, self.id),
            version: 1,
            group: submission.group.clone(),
            group_id: group.id,
            name: submission.name.clone(),
            owner: submission.owner.clone(),
            app_name: submission.app_name.clone(),
            job_type: submission.job_type.clone(),
            program: submission.program.clone(),
            parameters: submission.parameters.clone(),
            business_type: String::new(),
            comment: String::new(),
            priority: submission.priority,
            schedule: None,
            parents: parents.collect(),
            on_parent_failure: OnParentFailure::Wait,
            run_if: RunIf::Success,
            max_concurrent: 1,
            retries: submission.retries,
            retry_interval_ms: submission.retry_interval_ms,
            retry_backoff: None,
            exit_codes: None,
            earliest_start_ms: None,
            host: None,
            missed_runs: MissedRuns::All,
            firing: None,
            timeouts: None,
            data: None,
            memory_mb: None,
            execution: None,
            pools: Vec::new(),
        };
        check_program(&definition)
            .and_then(|()| check_values(&definition, &[]))
            .map_err(|field| Rejection::Invalid { fields: vec![field] })?;
        let definition = Arc::new(definition);
        let job = Job::new(Arc::clone(&definition), true, true);
        let time = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        let generated = self.generated(&job, time, 0, Origin::Submission, BTreeMap::new(), None);
        let batch = Some(BatchId::mint(self.batches_minted + 1, self.id));
        let answer = Answer::Submitted { job: definition.id, batch };
        let mut events = vec![Event::Job(JobEvent::Submitted { definition })];
        events.extend(generated);
        Ok(Decision::answered(events, answer))
    }
}
