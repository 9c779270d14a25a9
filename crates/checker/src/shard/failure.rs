//! What a batch does when a parent failed for good.

use tidemill_model::{BatchId, BatchResult, JobId, Mapping, OnParentFailure, RunIf, Timestamp, WaivedParent};

use super::Shard;
use super::batch::{Batch, Phase, Waits};
use super::job::Version;
use crate::{At, Invariant};

impl Version {
    /// Whether the end of a parent is enough.
    pub(super) fn ends_are_enough(&self) -> bool {
        self.spec().on_parent_failure == OnParentFailure::Run || self.spec().run_if == RunIf::Failure
    }
}

/// What its own parents leave of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It may still run, or wait.
    Open,
    /// It has to end so.
    Ends(BatchResult),
    /// Something of a parent is not known here.
    Unknown,
}

impl Shard {
    /// Whether the newest run has ended, however; `None`: not known in this shard.
    pub(super) fn has_ended(&self, parent: JobId, time: Timestamp) -> Option<bool> {
        if !self.jobs.contains_key(&parent) && self.elsewhere.is_parent(parent) {
            return self.elsewhere.is(parent, time, |heard| heard.ended);
        }
        self.oracle(parent, time)?;
        Some(self.runs.get(&(parent, time)).is_some_and(|run| run.result.is_some()))
    }

    /// Whether the newest run ended without success; `None`: not known in this shard.
    pub(super) fn failed(&self, parent: JobId, time: Timestamp) -> Option<bool> {
        Some(self.has_ended(parent, time)? && !self.oracle(parent, time)?)
    }

    fn left(&self, batch: &Batch) -> Left {
        let Some(of) = &batch.of else { return Left::Unknown };
        let others = || batch.waits.iter().filter(|waits| waits.dependency.parent != batch.job);
        let times = || {
            others()
                .flat_map(|waits| waits.dependency.times.iter().map(|time| (waits.dependency.parent, *time)))
        };
        if of.spec().run_if == RunIf::Failure && !batch.needs.waived_parents.is_empty() {
            return Left::Open;
        }
        if of.spec().run_if == RunIf::Failure {
            let stands: Option<Vec<bool>> = times()
                .map(|(parent, time)| Some(self.is_skipped(parent, time)? || self.oracle(parent, time)?))
                .collect();
            return match stands {
                None => Left::Unknown,
                Some(stands) if batch.unmet() == 0 && stands.iter().all(|succeeded| *succeeded) => {
                    Left::Ends(BatchResult::Skipped)
                }
                Some(_) => Left::Open,
            };
        }
        let result = match of.spec().on_parent_failure {
            OnParentFailure::Wait | OnParentFailure::Run => return Left::Open,
            OnParentFailure::Fail => BatchResult::Failed,
            OnParentFailure::Skip => BatchResult::Skipped,
        };
        let lost: Option<Vec<bool>> = others().map(|waits| self.lost(batch, waits)).collect();
        match lost {
            None => Left::Unknown,
            Some(lost) if lost.iter().any(|lost| *lost) => Left::Ends(result),
            Some(_) => Left::Open,
        }
    }

    /// Whether its rule ends a batch for its parents.
    pub(super) fn is_to_end(&self, batch: &Batch) -> bool {
        matches!(self.left(batch), Left::Ends(_))
    }

    /// Whether what a person let it run without leaves this parent in its way for good.
    fn lost(&self, batch: &Batch, waits: &Waits) -> Option<bool> {
        let parent = waits.dependency.parent;
        if batch.is_satisfied(waits, &|time| waits.met.contains(time)) {
            return Some(false);
        }
        let failed = waits.dependency.times.iter().map(|time| {
            let waiver = WaivedParent { job: parent, logical_time: Some(*time) };
            let is_waived = batch.needs.waived_parents.contains(&waiver);
            self.failed(parent, *time).map(|failed| failed && !is_waived)
        });
        let failed: Vec<bool> = failed.collect::<Option<_>>()?;
        let never = waits.dependency.times.iter().zip(&failed);
        let never: Option<Vec<bool>> =
            never.map(|(time, failed)| Some(*failed || self.is_skipped(parent, *time)?)).collect();
        let never = never?;
        Some(match waits.dependency.mapping {
            Mapping::Any => failed.contains(&true) && never.iter().all(|never| *never),
            Mapping::Same | Mapping::Offset(_) | Mapping::All | Mapping::Latest => failed.contains(&true),
        })
    }

    /// `parent_failure_rule_kept`: whether a batch that never ran may end so by itself.
    pub(super) fn ends_for_its_parents(&self, at: &At<'_>, id: BatchId, result: BatchResult) -> bool {
        let Some(batch) = self.batches.get(&id) else { return false };
        let has_rule = batch.of.as_ref().is_some_and(|of| {
            of.spec().run_if == RunIf::Failure
                || matches!(of.spec().on_parent_failure, OnParentFailure::Fail | OnParentFailure::Skip)
        });
        if !has_rule || !matches!(batch.phase, Phase::Waiting | Phase::Pausing { .. }) {
            return false;
        }
        match self.left(batch) {
            Left::Unknown => {}
            Left::Ends(rule) if rule == result => {}
            left => {
                let why = format!("batch {id} ends as {}, and its parents leave {left:?}", result.as_str());
                at.contradicts(Invariant::ParentFailureRuleKept, why, &[batch.said]);
            }
        }
        true
    }

    /// `parent_failure_rule_kept`: one that runs on failure only has one to run for.
    pub(super) fn has_a_failure(&self, at: &At<'_>, id: BatchId, what: &str) {
        let Some(batch) = self.batches.get(&id) else { return };
        let is_ruled = batch.of.as_ref().is_some_and(|of| of.spec().run_if == RunIf::Failure);
        if !is_ruled || !batch.needs.waived_parents.is_empty() {
            return;
        }
        let others = batch.waits.iter().filter(|waits| waits.dependency.parent != batch.job);
        let mut times = others
            .flat_map(|waits| waits.dependency.times.iter().map(|time| (waits.dependency.parent, *time)));
        if times.all(|(parent, time)| self.failed(parent, time) == Some(false)) {
            let why = format!("batch {id} runs on failure only, and is {what} without one");
            at.contradicts(Invariant::ParentFailureRuleKept, why, &[batch.said]);
        }
    }

    /// `parent_failure_rule_kept`, at quiescence.
    pub(super) fn none_is_left_to_end(&self, at: &At<'_>) {
        let waits = |batch: &Batch| matches!(batch.phase, Phase::Waiting | Phase::Pausing { .. });
        for (id, batch) in self.batches.iter().filter(|(_, batch)| waits(batch) && self.is_to_end(batch)) {
            let why = format!("batch {id} still waits, though its parents have ended");
            at.contradicts(Invariant::ParentFailureRuleKept, why, &[batch.said]);
        }
    }
}
