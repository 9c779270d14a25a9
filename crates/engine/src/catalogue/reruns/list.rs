//! The plan is written down, part by part.

use tidemill_model::{
    AlarmKind, Event, JobSkip, Mapping, PlannedBatch, RerunEvent, RerunId, RerunScope, Severity, Timestamp,
};

use super::{CHUNK, Listing, Planned, Rerun, Stage, refused};
use crate::catalogue::Catalogue;
use crate::catalogue::reports::alarm;
use crate::schedule::required_times;

const CHUNK_BYTES: usize = 96 * 1024;

impl Catalogue {
    /// What it leaves out, then its batches, then that it is whole.
    pub(super) fn list_more(&self, id: RerunId, rerun: &Rerun) -> Vec<Event> {
        let listing = &rerun.listing;
        if let Some(fault) = &listing.fault {
            return refused(id, fault.clone());
        }
        let is_told = listing.skips_done == listing.skips.len();
        if !is_told || listing.left_out_done < listing.left_out.len() {
            return self.skip_more(id, rerun);
        }
        let done = rerun.batches.len();
        if done == listing.order.len() {
            let batches = u32::try_from(done).unwrap_or(u32::MAX);
            return vec![Event::Rerun(RerunEvent::Planned { rerun: id, batches })];
        }
        let mut batches = Vec::new();
        let mut weight = 0;
        for (at, time) in listing.order[done..].iter().take(CHUNK) {
            let batch = rerun.planned(*at, *time);
            weight += 100 + 8 * batch.after.len();
            batches.push(batch);
            if weight > CHUNK_BYTES {
                break;
            }
        }
        let first = u32::try_from(done + 1).unwrap_or(u32::MAX);
        vec![Event::Rerun(RerunEvent::BatchesPlanned { rerun: id, first, batches })]
    }

    /// GEN-8: each job that is left out is on record, and the administrators hear of them once.
    fn skip_more(&self, id: RerunId, rerun: &Rerun) -> Vec<Event> {
        let listing = &rerun.listing;
        let jobs: Vec<_> = listing.skips[listing.skips_done..].iter().take(CHUNK).cloned().collect();
        let unfinished =
            listing.skips.iter().filter(|skip| matches!(skip.reason, JobSkip::Unfinished { .. })).count();
        let left_out = &listing.left_out[listing.left_out_done..];
        let times = left_out.iter().take(CHUNK).copied().collect();
        let mut events = vec![Event::Rerun(RerunEvent::JobsSkipped { rerun: id, jobs, times })];
        let is_cold = matches!(rerun.spec.scope, RerunScope::ColdStart { .. });
        if is_cold && unfinished > 0 && listing.skips_done == 0 && listing.left_out_done == 0 {
            let name = |job| self.jobs.get(&job).map_or_else(String::new, |job| job.definition.full_name());
            let named: Vec<String> = listing.skips.iter().take(10).map(|skip| name(skip.job)).collect();
            let named = named.join(", ");
            let message =
                format!("cold start {id} leaves out {unfinished} jobs with unfinished batches: {named}");
            events.push(alarm(AlarmKind::ColdStartSkipped, Severity::Notice, message));
        }
        events
    }

    pub(super) fn batches_planned(&mut self, id: RerunId, batches: &[PlannedBatch]) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        let places = rerun.places();
        for batch in batches {
            let Some(job) = places.get(&batch.job).copied() else { continue };
            let waits = u32::try_from(batch.after.len()).unwrap_or(u32::MAX);
            rerun.batches.push(Planned {
                job,
                time: batch.logical_time,
                after: batch.after.clone(),
                waits,
                before: Vec::new(),
                settled: false,
            });
        }
    }

    /// From now on only what is planned counts; what it was made from is let go.
    pub(super) fn rerun_planned(&mut self, id: RerunId) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        rerun.stage = Stage::Planned;
        rerun.listing = Listing::default();
        for job in &mut rerun.jobs {
            job.times = Vec::new();
            job.told.clear();
        }
        for index in 0..rerun.batches.len() {
            let number = index as u32 + 1;
            let after = std::mem::take(&mut rerun.batches[index].after);
            if after.is_empty() {
                rerun.free.insert(number);
            }
            for before in after {
                if let Some(before) = rerun.batch_mut(before) {
                    before.before.push(number);
                }
            }
        }
    }
}

impl Rerun {
    pub(super) fn planned(&self, at: usize, time: Timestamp) -> PlannedBatch {
        let job = &self.jobs[at];
        let mut after: Vec<u32> = Vec::new();
        for (parent, mapping) in &job.parents {
            let times = self.waited_for(at, *parent, *mapping, time);
            after.extend(times.iter().filter_map(|time| self.listing.numbers.get(&(*parent, *time))));
        }
        after.extend(self.makers(at, time));
        after.sort_unstable();
        after.dedup();
        let run = job.told.get(&time).map(|told| told.run + 1);
        PlannedBatch { job: job.definition.id, logical_time: time, run, after }
    }

    pub(super) fn waited_for(
        &self,
        at: usize,
        parent: usize,
        mapping: Mapping,
        time: Timestamp,
    ) -> Vec<Timestamp> {
        let (own, grid) = (&self.jobs[at].grid, &self.jobs[parent].grid);
        match (mapping, own, grid) {
            (Mapping::Same, _, _) | (_, None, _) | (_, _, None) => vec![time],
            (mapping, Some(own), Some(grid)) => {
                required_times(own, grid, mapping, time).unwrap_or_else(|_| vec![time])
            }
        }
    }
}
