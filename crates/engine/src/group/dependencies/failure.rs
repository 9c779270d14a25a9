//! BYD-18: what a batch does when a parent failed for good.
//!
//! ```text
//!  a parent's time stands     wait    fail / skip    run      run_if: failure
//!  open                       waits   waits          waits    waits
//!  satisfied                  met     met            met      met; all of them: skipped
//!  failed                     waits   it ends so     met      met, and it may run
//! ```
//!
//! *Invariant:* the batches that are to be ended for their parents stand in [`Dependencies`](super::Dependencies); whether one
//! does is looked at again whenever a parent's newest run, what it has heard of it, or its own phase changes.

use std::sync::Arc;

use tidemill_model::{
    BatchId, BatchResult, Event, JobDefinition, JobId, Mapping, OnParentFailure, Parent, RunIf, Timestamp,
};

use crate::group::batches::batch::{Batch, PauseAfter, Phase, WaitsFor};
use crate::group::dependencies::Dependencies;
use crate::group::jobs::job::Job;
use crate::group::{GroupShard, put};

/// How the newest run of a job's logical time stands for those who wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It is not there, or has not ended.
    Open,
    /// It succeeded, or was skipped.
    Satisfied,
    /// It ended otherwise.
    Failed,
    /// There is none, and the parent makes none.
    Skipped,
}

impl Job {
    pub(crate) fn stand(&self, time: Timestamp) -> Stand {
        match self.newest_run(time).and_then(|newest| newest.result) {
            Some(result) if result.satisfies() => Stand::Satisfied,
            Some(_) => Stand::Failed,
            None => Stand::Open,
        }
    }
}

impl Dependencies {
    /// The same of a parent in another group, as its shard last said.
    fn stand_elsewhere(&self, parent: JobId, time: Timestamp) -> Stand {
        let is_named = self.is_deleted_and_named(parent);
        match self.foreign.standing(parent, time) {
            Some(standing) if standing.succeeded => Stand::Satisfied,
            Some(standing) if standing.has_ended() => Stand::Failed,
            // Its shard may not know that jobs of this one name it, where these came later.
            Some(standing) if standing.skipped && (standing.deleted || is_named != Some(true)) => {
                Stand::Skipped
            }
            Some(standing) if standing.deleted && standing.run.is_none() && is_named == Some(false) => {
                Stand::Skipped
            }
            None if self.foreign.get(parent).is_none() && is_named == Some(false) => Stand::Skipped,
            Some(_) | None => Stand::Open,
        }
    }
}

impl GroupShard {
    /// How a parent's logical time stands, as far as this shard knows.
    pub(crate) fn stand_of(&self, parent: JobId, time: Timestamp) -> Stand {
        let Some(job) = self.jobs.get(&parent) else {
            return self.dependencies.stand_elsewhere(parent, time);
        };
        match job.stand(time) {
            Stand::Open if self.is_skipped(parent, time) => Stand::Skipped,
            stand => stand,
        }
    }

    /// Whether a batch that runs on failure only has none to run for. Somebody who lets it run without a parent lets it
    /// run without a failure, too.
    pub(crate) fn lacks_a_failure(&self, batch: &Batch) -> bool {
        batch.definition.spec.run_if == RunIf::Failure
            && !batch.has_waivers()
            && !parents_of(batch).any(|(parent, time)| self.stand_of(parent, time) == Stand::Failed)
    }

    /// How a batch is to be ended for its parents, and why; `None`: it is not.
    fn outcome_by_parents(&self, id: BatchId) -> Option<(BatchResult, String)> {
        let batch = self.batches.get(&id)?;
        // One whose output is looked for may have run already.
        match batch.phase {
            Phase::Waiting => {}
            Phase::Pausing { after, .. } if after != PauseAfter::LostOutput => {}
            _ => return None,
        }
        if batch.definition.spec.run_if == RunIf::Failure {
            let idle = [Stand::Satisfied, Stand::Skipped];
            let is_met = |(parent, time)| idle.contains(&self.stand_of(parent, time));
            let is_idle = !batch.has_waivers() && batch.unmet() == 0 && parents_of(batch).all(is_met);
            let message = "it runs only on failure, and none of its parents failed".to_owned();
            return is_idle.then_some((BatchResult::Skipped, message));
        }
        let result = match batch.definition.spec.on_parent_failure {
            OnParentFailure::Wait | OnParentFailure::Run => return None,
            OnParentFailure::Fail => BatchResult::Failed,
            OnParentFailure::Skip => BatchResult::Skipped,
        };
        let (parent, time) = self.first_lost(batch)?;
        Some((result, format!("its parent {} of {time} ended without success", self.name_of(parent))))
    }

    /// The first parent, in the order of the definition, for which a dependency cannot be met any more, and its time.
    fn first_lost(&self, batch: &Batch) -> Option<(JobId, Timestamp)> {
        let (own, time) = (batch.definition.id, batch.logical_time);
        let is_lost = |parent| self.stand_of(parent, time) == Stand::Failed && batch.is_kept_back_by(parent);
        first_of(batch, is_lost, |of| self.lost(batch, of).filter(|(parent, _)| *parent != own))
    }

    /// A parent's time for which a dependency cannot be met any more.
    fn lost(&self, batch: &Batch, dependency: &WaitsFor) -> Option<(JobId, Timestamp)> {
        if batch.is_met(dependency, &[]) {
            return None;
        }
        let parent = dependency.declared.parent;
        let failed = |time: &&Timestamp| {
            self.stand_of(parent, **time) == Stand::Failed && !batch.waives(parent, **time)
        };
        let never = |time: &Timestamp| failed(&time) || self.stand_of(parent, *time) == Stand::Skipped;
        let mut times = dependency.declared.times.iter();
        let lost = match dependency.declared.mapping {
            Mapping::Any if times.clone().all(never) => times.find(failed),
            Mapping::Any => None,
            Mapping::Same | Mapping::Offset(_) | Mapping::All | Mapping::Latest => times.find(failed),
        };
        lost.map(|time| (parent, *time))
    }

    pub(crate) fn next_concluding(&self) -> Option<BatchId> {
        let mut concluding = self.dependencies.concluding.iter().copied();
        concluding.find(|id| self.outcome_by_parents(*id).is_some())
    }

    pub(crate) fn conclude(&self, id: BatchId) -> Vec<Event> {
        let finished = |(result, message)| self.batches.batch_end(id, result, None, message);
        self.outcome_by_parents(id).map(finished).into_iter().collect()
    }

    /// Looks again whether a batch is to be ended for its parents, or blocked by them, or may not run any more.
    pub(crate) fn reconsider(&mut self, id: BatchId) {
        self.reconsider_rule(id);
        self.look_for_block(id);
    }

    /// Looks again whether its rule ends a batch for its parents, or lets it run no more.
    pub(crate) fn reconsider_rule(&mut self, id: BatchId) {
        let Some(batch) = self.batches.get(&id).filter(|batch| has_rule(&batch.definition)) else { return };
        if let Phase::Ready { key } = batch.phase
            && self.lacks_a_failure(batch)
        {
            let definition = Arc::clone(&batch.definition);
            if let Some(batch) = self.batches.get_mut(&id) {
                batch.phase = Phase::Waiting;
            }
            self.unqueue(&definition, key);
        } else if batch.phase == Phase::Waiting {
            // What runs on failure may have got one without hearing anything new.
            self.make_ready(batch.since, id);
        }
        let is_due = self.outcome_by_parents(id).is_some();
        put(&mut self.dependencies.concluding, id, is_due);
    }

    /// The newest run of a parent's time is another one, or ended.
    pub(crate) fn reconsider_waiters(&mut self, parent: JobId, time: Timestamp) {
        let listing = self.dependencies.waiters.batches_at((parent, time));
        let ruled = |id: &BatchId| self.batches.get(id).is_some_and(|batch| has_rule(&batch.definition));
        let mut concerned: Vec<BatchId> = listing.filter(ruled).collect();
        concerned.extend(self.counting(parent, time).into_iter().filter(ruled));
        concerned.sort_unstable();
        for id in concerned {
            self.reconsider_rule(id);
        }
        self.look_at_waiters(parent, time);
    }
}

/// Whether a parent's time that stands so is what a batch of this job waits for by that mapping.
pub(crate) fn counts(definition: &JobDefinition, parent: &Parent, stand: Stand) -> bool {
    match stand {
        Stand::Open => false,
        Stand::Satisfied => true,
        Stand::Failed => definition.spec.waits_for_ends() && parent.job != definition.id,
        // Of `any`, one has to succeed.
        Stand::Skipped => parent.mapping != Mapping::Any,
    }
}

/// Parents' times that a batch waits for, the own past left out.
pub(crate) fn parents_of(batch: &Batch) -> impl Iterator<Item = (JobId, Timestamp)> {
    let listed = of_others(batch).flat_map(|dependency| {
        dependency.declared.times.iter().map(|time| (dependency.declared.parent, *time))
    });
    let counted = batch.counted.iter().flat_map(|counted| counted.parents());
    listed.chain(counted.map(|parent| (parent, batch.logical_time)))
}

/// The first parent's time, in the order of the definition, of those that a batch counts, where `counted` says so, and of
/// those of its dependencies that `listed` gives.
pub(super) fn first_of(
    batch: &Batch,
    counted: impl Fn(JobId) -> bool,
    listed: impl Fn(&WaitsFor) -> Option<(JobId, Timestamp)>,
) -> Option<(JobId, Timestamp)> {
    // Few are lost among very many parents.
    let of_counted = batch.counted.as_deref().filter(|of| of.lost.iter().any(|parent| counted(*parent)));
    let Some(of_counted) = of_counted else { return batch.dependencies.iter().find_map(listed) };
    batch.definition.parents.iter().find_map(|parent| match of_counted.contains(parent.job) {
        true => counted(parent.job).then_some((parent.job, batch.logical_time)),
        false => batch.dependencies.iter().filter(|it| it.declared.parent == parent.job).find_map(&listed),
    })
}

fn has_rule(definition: &JobDefinition) -> bool {
    definition.spec.run_if == RunIf::Failure
        || matches!(definition.spec.on_parent_failure, OnParentFailure::Fail | OnParentFailure::Skip)
}

fn of_others(batch: &Batch) -> impl Iterator<Item = &WaitsFor> {
    let own = batch.definition.id;
    batch.dependencies.iter().filter(move |dependency| dependency.declared.parent != own)
}
