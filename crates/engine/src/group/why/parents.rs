//! Why a batch waits for parents.

use super::LISTED_TIMES;
use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, Phase, WaitsFor};
use crate::group::dependencies::failure::{Stand, parents_of};
use tidemill_model::{BatchState, Condition, JobId, LeftOut, Mapping, Timestamp};

impl GroupShard {
    /// Parents' times that were skipped, before it runs. The own past has none: it holds what there was.
    pub(in crate::group) fn left_out(&self, batch: &Batch) -> Vec<LeftOut> {
        let waits_for = parents_of(batch).filter(|_| batch.grant().is_none());
        let skipped = waits_for.filter(|(parent, time)| self.stand_of(*parent, *time) == Stand::Skipped);
        let left_out = skipped.take(LISTED_TIMES).map(|(job, logical_time)| {
            let name = self.name_of(job);
            let message =
                format!("leaves out {name} of {logical_time}: it skipped this time and has no batch for it");
            LeftOut { job, logical_time, message }
        });
        left_out.collect()
    }

    pub(in crate::group) fn unmet_times(&self, batch: &Batch, dependency: &WaitsFor) -> Vec<Condition> {
        let parent = dependency.declared.parent;
        let name = self.name_of(parent);
        let is_for_once = self.jobs.get(&batch.definition.id).is_some_and(|job| job.submitted);
        if dependency.is_open() && is_for_once {
            let message = format!("waits for the first batch of {name}: it has no batch yet");
            return vec![Condition { job: Some(parent), ..self.condition("dependency", message, batch) }];
        }
        if dependency.declared.times.is_empty() {
            let message = format!("{name} has no logical time in this batch's period, and one must succeed");
            return vec![Condition { job: Some(parent), ..self.condition("dependency", message, batch) }];
        }
        let times = dependency.declared.times.iter().zip(&dependency.met);
        let any = if dependency.declared.mapping == Mapping::Any { "any of: " } else { "" };
        let waits = format!("{any}waits for ");
        times
            .filter(|(time, met)| !**met && !batch.waives(parent, **time))
            .take(LISTED_TIMES)
            .map(|(time, _)| self.unmet_time(batch, &waits, parent, *time))
            .collect()
    }

    /// BYD-18: it runs only on failure, its mappings are met without one, and these may still fail.
    pub(in crate::group) fn why_no_failure(&self, batch: &Batch) -> Vec<Condition> {
        if batch.phase != Phase::Waiting || batch.unmet() > 0 || !self.lacks_a_failure(batch) {
            return Vec::new();
        }
        let open = parents_of(batch).filter(|(parent, time)| self.stand_of(*parent, *time) == Stand::Open);
        let waits = "it runs only on failure, and waits for the end of ";
        open.take(LISTED_TIMES).map(|(parent, time)| self.unmet_time(batch, waits, parent, time)).collect()
    }

    /// Of very many parents at its own logical time, some that keep it back, and how many more there are.
    pub(in crate::group) fn why_counted(&self, batch: &Batch) -> Vec<Condition> {
        let time = batch.logical_time;
        let unmet = Self::unmet_counted(batch).take(LISTED_TIMES);
        let mut conditions: Vec<Condition> =
            unmet.map(|parent| self.unmet_time(batch, "waits for ", parent, time)).collect();
        let unmet = batch.counted.as_ref().map_or(0, |counted| counted.unmet) as usize;
        let more = unmet.saturating_sub(conditions.len());
        if more > 0 {
            let message = format!("waits for {more} more of its parents of {time}, {unmet} in all");
            conditions
                .push(Condition { logical_time: Some(time), ..self.condition("dependency", message, batch) });
        }
        conditions
    }

    /// What it is waiting to hear of a parent's time.
    fn unmet_time(&self, batch: &Batch, waits: &str, parent: JobId, time: Timestamp) -> Condition {
        let since = batch.waits_since(parent, time);
        let condition = match self.why_parent_deleted(batch, waits, parent, time) {
            Some((deleted, message)) => Condition::new("parent_deleted", message, Some(deleted.max(since))),
            None => {
                let (name, stands) = (self.name_of(parent), self.how_parent_stands(parent, time));
                Condition::new("dependency", format!("{waits}{name} of {time}: {stands}"), Some(since))
            }
        };
        Condition { job: Some(parent), logical_time: Some(time), ..condition }
    }

    fn how_foreign_stands(&self, parent: JobId, time: Timestamp) -> String {
        let Some(standing) = self.dependencies.foreign().standing(parent, time) else {
            return "its group has not answered yet".to_owned();
        };
        let Some(run) = standing.run else {
            let stands = if standing.skipped { "skipped it" } else { "has no batch yet" };
            return format!("its group last said that it {stands}");
        };
        let named = standing.batch.map_or(format!("run {run}"), |batch| format!("batch {batch} (run {run})"));
        let stands = match standing.result {
            Some(result) => result.as_str(),
            None if standing.blocked => "is blocked by a failed parent",
            None if standing.batch.is_some() => "is not finished",
            None => "did not succeed",
        };
        format!("its group last said that {named} {stands}")
    }

    pub(crate) fn how_parent_stands(&self, parent: JobId, time: Timestamp) -> String {
        if self.dependencies.foreign().get(parent).is_some() {
            return self.how_foreign_stands(parent, time);
        }
        let job = self.jobs.get(&parent);
        let Some(newest) = job.and_then(|job| job.newest_run(time)) else {
            let stands = match job.is_some_and(|job| job.is_off()) {
                _ if self.is_skipped(parent, time) => "it skipped this time",
                true => "it is disabled and has no batch yet",
                false => "it has no batch yet",
            };
            return stands.to_owned();
        };
        let number = newest.number;
        let named =
            newest.batch.map_or(format!("run {number}"), |batch| format!("batch {batch} (run {number})"));
        match newest.result {
            Some(result) => format!("{named} {}", result.as_str()),
            None => {
                let live = newest.batch.and_then(|batch| self.batches.get(&batch));
                format!("{named} is {}", live.map_or(BatchState::Finished, Batch::state).as_str())
            }
        }
    }
}
