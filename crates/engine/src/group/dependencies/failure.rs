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

use tidemill_model::{
    BatchId, BatchResult, Event, JobDefinition, JobId, Mapping, OnParentFailure, Parent, RunIf, Timestamp,
    WaivedParent,
};

use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, Phase, WaitsFor};
use crate::group::dependencies::Dependencies;
use crate::group::jobs::job::Job;

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
        match self.foreign.standing(parent, time) {
            Some(standing) if standing.succeeded => Stand::Satisfied,
            Some(standing) if standing.has_ended() => Stand::Failed,
            // Its shard may not know that jobs of this one name it, where these came later.
            Some(standing)
                if standing.skipped && (standing.deleted || !self.is_named_though_deleted(parent)) =>
            {
                Stand::Skipped
            }
            Some(standing) if standing.deleted && standing.run.is_none() && self.is_adopted_from(parent) => {
                Stand::Skipped
            }
            None if self.foreign.get(parent).is_none() && self.is_adopted_from(parent) => Stand::Skipped,
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

    /// Whether a parent's time is what a batch of this job waits for by that mapping.
    pub(crate) fn is_met_for(&self, definition: &JobDefinition, parent: &Parent, time: Timestamp) -> bool {
        counts(definition, parent, self.stand_of(parent.job, time))
    }

    /// Whether a batch that runs on failure only has none to run for. Somebody who lets it run without a parent lets it
    /// run without a failure, too.
    pub(crate) fn lacks_a_failure(&self, batch: &Batch) -> bool {
        batch.definition.spec.run_if == RunIf::Failure
            && !batch.has_waivers()
            && !self.parents_of(batch).any(|(parent, time)| self.stand_of(parent, time) == Stand::Failed)
    }

    /// Parents' times that it waits for, the own past left out.
    pub(crate) fn parents_of<'a>(&self, batch: &'a Batch) -> impl Iterator<Item = (JobId, Timestamp)> + 'a {
        let listed = of_others(batch).flat_map(|dependency| {
            dependency.declared.times.iter().map(|time| (dependency.declared.parent, *time))
        });
        let counted = batch.counted.iter().flat_map(|counted| counted.parents());
        listed.chain(counted.map(|parent| (parent, batch.logical_time)))
    }

    /// How a batch is to be ended for its parents, and why; `None`: it is not.
    fn outcome_by_parents(&self, batch: &Batch) -> Option<(BatchResult, String)> {
        if !matches!(batch.phase, Phase::Waiting | Phase::Pausing { .. }) {
            return None;
        }
        if batch.definition.spec.run_if == RunIf::Failure {
            let idle = [Stand::Satisfied, Stand::Skipped];
            let is_met = |(parent, time)| idle.contains(&self.stand_of(parent, time));
            let is_idle = !batch.has_waivers() && batch.unmet() == 0 && self.parents_of(batch).all(is_met);
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
        let listed = || of_others(batch).find_map(|dependency| self.lost(batch, dependency));
        let Some(counted) = batch.counted.as_ref() else { return listed() };
        let time = batch.logical_time;
        let is_lost = |parent: JobId| {
            self.stand_of(parent, time) == Stand::Failed
                && !counted.is_told_met(parent)
                && !batch.waives_counted(parent)
        };
        if !counted.lost().any(is_lost) {
            return listed();
        }
        batch.definition.other_parents().find_map(|parent| match counted.contains(parent) {
            true => is_lost(parent).then_some((parent, time)),
            false => {
                let mut of_it = of_others(batch).filter(|dependency| dependency.declared.parent == parent);
                of_it.find_map(|dependency| self.lost(batch, dependency))
            }
        })
    }

    /// A parent's time for which a dependency cannot be met any more.
    fn lost(&self, batch: &Batch, dependency: &WaitsFor) -> Option<(JobId, Timestamp)> {
        if batch.is_met(dependency, &[]) {
            return None;
        }
        let parent = dependency.declared.parent;
        let failed = |time: &&Timestamp| {
            let waiver = WaivedParent { job: parent, logical_time: Some(**time) };
            self.stand_of(parent, **time) == Stand::Failed && !batch.waived().contains(&waiver)
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

    /// The first batch that is to be ended for its parents.
    pub(crate) fn next_concluding(&self) -> Option<BatchId> {
        let is_due = |id: &&BatchId| {
            self.batches.get(id).is_some_and(|batch| self.outcome_by_parents(batch).is_some())
        };
        self.dependencies.concluding.iter().find(is_due).copied()
    }

    pub(crate) fn conclude(&self, id: BatchId) -> Vec<Event> {
        let outcome_by_parents = self.batches.get(&id).and_then(|batch| self.outcome_by_parents(batch));
        let finished = |(result, message)| self.batches.batch_end(id, result, None, message);
        outcome_by_parents.map(finished).into_iter().collect()
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
            let definition = std::sync::Arc::clone(&batch.definition);
            if let Some(batch) = self.batches.get_mut(&id) {
                batch.phase = Phase::Waiting;
            }
            self.unqueue(&definition, key);
        } else if batch.phase == Phase::Waiting {
            // What runs on failure may have got one without hearing anything new.
            self.make_ready(batch.since, id);
        }
        let ends = self.batches.get(&id).is_some_and(|batch| self.outcome_by_parents(batch).is_some());
        if ends {
            self.dependencies.concluding.insert(id);
        } else {
            self.dependencies.concluding.remove(&id);
        }
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

fn has_rule(definition: &JobDefinition) -> bool {
    definition.spec.run_if == RunIf::Failure
        || matches!(definition.spec.on_parent_failure, OnParentFailure::Fail | OnParentFailure::Skip)
}

fn of_others(batch: &Batch) -> impl Iterator<Item = &WaitsFor> {
    let own = batch.definition.id;
    batch.dependencies.iter().filter(move |dependency| dependency.declared.parent != own)
}
