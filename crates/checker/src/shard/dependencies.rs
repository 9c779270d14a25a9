//! What a batch waits for. The newest run of a parent's logical time decides.

use std::collections::BTreeSet;

use tidemill_model::{BatchId, CountedParents, Dependency, JobId, Mapping, Timestamp};

use super::Shard;
use super::batch::Waits;
use super::job::{Job, Version};
use crate::{At, Invariant};

const RULE: Invariant = Invariant::DependencyEventsMatchNewestRuns;

impl Shard {
    /// Whether the newest run of a parent's time succeeded, for one in another group as it was last heard; `None`:
    /// not known in this shard.
    pub(super) fn oracle(&self, parent: JobId, time: Timestamp) -> Option<bool> {
        if !self.jobs.contains_key(&parent) && self.elsewhere.is_parent(parent) {
            return self.elsewhere.is(parent, time, |heard| heard.succeeded);
        }
        let job = self.jobs.get(&parent).filter(|job| !job.removed)?;
        let run = self.runs.get(&(parent, time));
        job.newest().map(|_| run.is_some_and(|run| run.succeeded))
    }

    /// What a new batch is said to have met is what has succeeded.
    pub(super) fn met_at_generation(
        &self,
        at: &At<'_>,
        (batch, job, of): (BatchId, JobId, Option<&Version>),
        waits: &[Waits],
    ) {
        for waits in waits {
            for time in &waits.dependency.times {
                let said = waits.met.contains(time);
                let parent = waits.dependency.parent;
                let oracle = self.oracle_of((job, of), &waits.dependency, *time);
                if said && parent != job {
                    self.met_by_deleted(at, batch, (parent, *time));
                }
                if let Some(oracle) = oracle.filter(|oracle| *oracle != said) {
                    let why = format!(
                        "batch {batch} is generated with {parent} for {time} {}, though its newest run {}",
                        if said { "met" } else { "unmet" },
                        succeeded(oracle)
                    );
                    at.contradicts(RULE, why, &self.said(parent, *time));
                }
            }
        }
    }

    /// `counted_parents_as_declared`: the parents that a new batch waits for and does not list, by its definition, and which
    /// of them are met, by what is on record of them.
    pub(super) fn counted(
        &self,
        at: &At<'_>,
        (batch, job, of): (BatchId, JobId, Option<&Version>),
        (time, listed, said): (Timestamp, &[Dependency], CountedParents),
    ) -> Vec<Waits> {
        let rule = Invariant::CountedParentsAsDeclared;
        let Some(of) = of else { return Vec::new() };
        let listed: BTreeSet<JobId> = listed.iter().map(|dependency| dependency.parent).collect();
        let counted = of.same.iter().copied().filter(|parent| !listed.contains(parent));
        let mut is_known = true;
        let waits: Vec<Waits> = counted
            .map(|parent| {
                let (mapping, times) = (Mapping::Same, vec![time]);
                let dependency = Dependency { parent, mapping, times, met: Vec::new() };
                let oracle = self.oracle_of((job, Some(of)), &dependency, time);
                is_known &= oracle.is_some();
                // What its owner has forgotten of a time was so all the same.
                let run = self.runs.get(&(parent, time));
                let ended = || run.is_some_and(|run| run.result.is_some());
                let before =
                    || if of.ends_are_enough() { ended() } else { run.is_some_and(|run| run.succeeded) };
                let met = oracle.unwrap_or_else(before).then_some(time).into_iter().collect();
                Waits { dependency, met, is_counted: true }
            })
            .collect();
        let unmet = waits.iter().filter(|waits| waits.met.is_empty()).count();
        if let Some(elsewhere) = waits.iter().find(|waits| self.is_elsewhere(waits.dependency.parent)) {
            let parent = elsewhere.dependency.parent;
            at.breaks(rule, format!("batch {batch} counts {parent}, which is in another group"));
        }
        if usize::try_from(said.parents) != Ok(waits.len()) {
            let why = format!(
                "batch {batch} is said to count {} parents, and its definition names {} that it does not list",
                said.parents,
                waits.len()
            );
            at.breaks(rule, why);
        } else if is_known && usize::try_from(said.unmet) != Ok(unmet) {
            let why = format!(
                "batch {batch} is said to count {} unmet parents, and {unmet} have not succeeded",
                said.unmet
            );
            at.breaks(rule, why);
        }
        waits
    }

    /// `dependency_events_match_newest_runs`
    pub(super) fn dependency_changed(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        (parent, time): (JobId, Timestamp),
        (met, unmet): (bool, u32),
    ) {
        let Some(batch) = self.batches.get(&id) else { return };
        let named =
            |waits: &&Waits| waits.dependency.parent == parent && waits.dependency.times.contains(&time);
        let of = (batch.job, batch.of.as_deref());
        let waits = batch.waits.iter().find(named);
        let oracle = waits.and_then(|waits| self.oracle_of(of, &waits.dependency, time));
        if let Some(oracle) = oracle.filter(|oracle| *oracle != met) {
            let why = format!(
                "batch {id} hears that {parent} for {time} is {}, though its newest run {}",
                if met { "met" } else { "unmet" },
                succeeded(oracle)
            );
            at.contradicts(RULE, why, &self.said(parent, time));
        }
        if met && parent != of.0 {
            self.met_by_deleted(at, id, (parent, time));
        }
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let mut heard = false;
        for waits in batch.waits.iter_mut().filter(|waits| waits.dependency.parent == parent) {
            if waits.dependency.times.contains(&time) && waits.met.contains(&time) != met {
                heard = true;
                waits.met.retain(|known| *known != time);
                waits.met.extend(met.then_some(time));
            }
        }
        let left = batch.unmet();
        if !heard {
            at.breaks(RULE, format!("batch {id} hears nothing new of {parent} for {time}"));
        } else if usize::try_from(unmet) != Ok(left) {
            at.breaks(RULE, format!("batch {id} is said to have {unmet} unmet dependencies, and has {left}"));
        }
    }

    /// A dependency of a batch that does not hold at this point, in words.
    pub(super) fn unheld(&self, id: BatchId) -> Option<(String, Vec<u64>)> {
        let batch = self.batches.get(&id)?;
        if batch.unmet() > 0 {
            return Some((format!("{} dependencies are unmet", batch.unmet()), vec![batch.said]));
        }
        let is_off = |job: &&Job| !job.enabled && !job.removed;
        let off = self.jobs.get(&batch.job).filter(is_off).filter(|_| batch.origin.waits_while_disabled());
        if let Some(job) = off {
            return Some(("its job is disabled".to_owned(), vec![job.next_said]));
        }
        batch.waits.iter().find_map(|waits| {
            let (parent, of) = (waits.dependency.parent, (batch.job, batch.of.as_deref()));
            let is_met = |time: &Timestamp| {
                waits.met.contains(time) && self.oracle_of(of, &waits.dependency, *time).unwrap_or(true)
            };
            let lost = waits.met.iter().find(|time| !is_met(time)).copied();
            let lost = lost.filter(|_| !batch.is_satisfied(waits, &is_met))?;
            let why = format!("the newest run of {parent} for {lost} has not succeeded");
            Some((why, self.said(parent, lost)))
        })
    }

    /// At rest, every batch has heard how its parents stand.
    pub(super) fn all_have_heard(&self, at: &At<'_>) {
        for (id, batch) in &self.batches {
            for waits in &batch.waits {
                let parent = waits.dependency.parent;
                for time in &waits.dependency.times {
                    let marked = waits.met.contains(time);
                    let of = (batch.job, batch.of.as_deref());
                    let oracle = self.oracle_of(of, &waits.dependency, *time);
                    if let Some(oracle) = oracle.filter(|oracle| *oracle != marked) {
                        let is_skipped = self.is_skipped(parent, *time) == Some(true);
                        let (rule, stands) = match is_skipped {
                            true => (Invariant::SkippedTimesNotWaitedFor, "was skipped"),
                            false => (RULE, succeeded(oracle)),
                        };
                        let why = format!("batch {id} has not heard that {parent} for {time} {stands}");
                        at.contradicts(rule, why, &self.said(parent, *time));
                    }
                }
            }
        }
    }

    fn said(&self, job: JobId, time: Timestamp) -> Vec<u64> {
        let here = self.runs.get(&(job, time)).map(|run| run.said);
        here.or_else(|| self.elsewhere.said(job, time)).into_iter().collect()
    }
}

fn succeeded(oracle: bool) -> &'static str {
    if oracle { "succeeded" } else { "has not succeeded" }
}
