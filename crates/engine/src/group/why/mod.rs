//! DEP-8: every condition that keeps a batch from running, and since when.

mod external_work;
mod parents;
mod placement;

use tidemill_model::{BatchId, BatchState, Condition, JobId, LiveAnswer, LiveQuery, Timestamp, Why};

use crate::group::GroupShard;
use crate::group::batches::batch::Batch;

/// Unmet times of one dependency that are listed one by one.
const LISTED_TIMES: usize = 50;
/// Batches with slots of a full pool that are named.
const LISTED_HOLDERS: usize = 5;
/// Batches of one answer about a pool.
const MAX_HOLDERS: usize = 1_000;

impl GroupShard {
    /// Answers a question about the present.
    pub fn answer(&self, query: &LiveQuery) -> LiveAnswer {
        match query {
            LiveQuery::PlanApply { .. }
            | LiveQuery::CheckDirectory { .. }
            | LiveQuery::Notified { .. }
            | LiveQuery::Level => LiveAnswer::NotFound,
            LiveQuery::Worker { worker } => self.present(worker),
            LiveQuery::Mailboxes { with } => self.mailbox_state(with),
            LiveQuery::WantedExternalDependencies { after, limit } => {
                self.wanted_external_dependencies(*after, *limit)
            }
            LiveQuery::WantedQuality { after, limit } => self.wanted_quality(*after, *limit),
            LiveQuery::Why { batch } => self.why(*batch).map_or(LiveAnswer::NotFound, LiveAnswer::Why),
            LiveQuery::TaskLedger { task, before, limit } => self.pull.task_ledger(*task, *before, *limit),
            LiveQuery::User { user, at } => self.user_standing(user, *at),
            LiveQuery::Pool { name } => self.pool_holders(name),
            LiveQuery::NewestBatch { job } => {
                let Some(job) = self.jobs.get(job) else { return LiveAnswer::NotFound };
                let newest = job.history.last().map(|(_, newest)| newest);
                if newest.is_none() && job.newest_upto(Timestamp::MAX).is_some() {
                    // Another group ran it, so that its id is not known here.
                    return LiveAnswer::NotFound;
                }
                let live = newest.and_then(|newest| self.batches.get(&newest.batch));
                let state = newest.map(|_| live.map_or(BatchState::Finished, Batch::state));
                LiveAnswer::NewestBatch { batch: newest.map(|newest| newest.batch), state }
            }
        }
    }

    fn why(&self, id: BatchId) -> Option<Why> {
        let Some(batch) = self.batches.get(&id) else {
            let result = self.batches.result_of(id)?;
            let state = BatchState::Finished;
            let (conditions, left_out) = (Vec::new(), Vec::new());
            return Some(Why { batch: id, state, result: Some(result), conditions, left_out, blocked: None });
        };
        // What runs waits for nothing, even if a parent runs again meanwhile.
        let waits_for = if batch.grant().is_some() { &[][..] } else { &batch.dependencies[..] };
        let mut conditions: Vec<Condition> = waits_for
            .iter()
            .filter(|dependency| !batch.is_met(dependency, &[]))
            .flat_map(|dependency| self.unmet_times(batch, dependency))
            .collect();
        conditions.extend(self.why_no_failure(batch));
        if batch.grant().is_none() {
            conditions.extend(self.why_counted(batch));
            conditions.extend(self.external.unmet_external_dependencies(batch));
            conditions.extend(self.why_gated(batch));
        }
        conditions.extend(self.why_disabled(batch));
        conditions.extend(self.why_held_back(id, batch));
        conditions.extend(self.why_pools(id, batch));
        conditions.extend(self.unmet_phase(id, batch));
        let (left_out, blocked) = (self.left_out(batch), self.why_blocked(id));
        Some(Why { batch: id, state: batch.state(), result: None, conditions, left_out, blocked })
    }

    fn condition(&self, kind: &str, message: String, batch: &Batch) -> Condition {
        Condition::new(kind, message, Some(batch.since))
    }

    pub(crate) fn name_of(&self, job: JobId) -> String {
        let here = self.jobs.get(&job).map(|job| job.definition.full_name());
        let name = here.or_else(|| self.dependencies.foreign().get(job).map(|job| job.name.clone()));
        let name = name.or_else(|| self.dependencies.deleted_name(job));
        name.unwrap_or_else(|| format!("job {job}"))
    }

    /// Whether the job had that full name before, and so where an older definition names it.
    pub(crate) fn was_named(&self, job: JobId, name: &str) -> bool {
        let here = self.jobs.get(&job).map(|job| &job.former_names);
        let names = here.or_else(|| self.dependencies.foreign().get(job).map(|job| &job.former_names));
        names.is_some_and(|names| names.had(name))
    }
}
