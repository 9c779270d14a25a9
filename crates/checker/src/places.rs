//! The batches of reruns, as the shards that run them and the catalogue tell of them: each is started once, its end
//! is what the catalogue hears, and no shard has more of one rerun at once than was requested.

use std::collections::{HashMap, HashSet};

use tidemill_model::{BatchEvent, BatchId, Event, RerunEvent, RerunId, RerunPlace, RunOutcome, ShardId};

use crate::Invariant;
use crate::findings::{At, Findings, Violation};

/// How many run now, how many did at most, and where that was: partition and offset.
type Running = (u32, u32, (u32, u64));

#[derive(Debug, Default)]
pub(crate) struct Places {
    requested: HashMap<RerunId, u32>,
    /// Where a batch was started or skipped: it must be once.
    settled: HashMap<RerunPlace, ShardId>,
    live: HashMap<BatchId, RerunPlace>,
    running: HashMap<(RerunId, ShardId), Running>,
    told: HashMap<RerunPlace, RunOutcome>,
    heard: HashMap<RerunPlace, (RunOutcome, (u32, u64))>,
}

impl Places {
    pub(crate) fn event(&mut self, at: &At<'_>, shard: ShardId, event: &Event) {
        match event {
            Event::Rerun(RerunEvent::Requested { rerun, spec, .. }) => {
                self.requested.insert(*rerun, spec.concurrency);
            }
            Event::Batch(BatchEvent::Generated { batch, rerun: Some(place), .. }) => {
                self.once(at, *place, shard);
                self.live.insert(*batch, *place);
                let (now, most, seen) = self.running.entry((place.rerun, shard)).or_default();
                *now += 1;
                if *now > *most {
                    (*most, *seen) = (*now, (at.partition, at.offset));
                }
            }
            Event::Rerun(RerunEvent::RunSkipped { place, reason, .. }) => {
                self.once(at, *place, shard);
                self.told.insert(*place, RunOutcome::Skipped(*reason));
            }
            Event::Batch(BatchEvent::Finished { batch, result, .. }) => {
                let Some(place) = self.live.remove(batch) else { return };
                self.told.insert(place, RunOutcome::Finished { batch: *batch, result: *result });
                if let Some((now, ..)) = self.running.get_mut(&(place.rerun, shard)) {
                    *now = now.saturating_sub(1);
                }
            }
            Event::Rerun(RerunEvent::RunFinished { place, end }) => {
                self.heard.insert(*place, (end.clone(), (at.partition, at.offset)));
            }
            _ => {}
        }
    }

    fn once(&mut self, at: &At<'_>, place: RerunPlace, shard: ShardId) {
        if let Some(before) = self.settled.insert(place, shard) {
            let RerunPlace { rerun, number } = place;
            let why = format!("{number} of rerun {rerun} has its turn twice, in shard {before} and {shard}");
            at.breaks(Invariant::RerunsKeepToPlan, why);
        }
    }

    /// `reruns_keep_to_plan`, as far as only all partitions together show it.
    pub(crate) fn finish(&self, found: &Findings) {
        let rule = Invariant::RerunsKeepToPlan;
        let mut broken: Vec<((u32, u64), String)> = Vec::new();
        // A history that leaves out what the shards did of a rerun says nothing of its ends.
        let shown: HashSet<RerunId> = self.settled.keys().map(|place| place.rerun).collect();
        for (place, (end, seen)) in &self.heard {
            let told = self.told.get(place);
            if shown.contains(&place.rerun) && told != Some(end) {
                let RerunPlace { rerun, number } = place;
                broken.push((
                    *seen,
                    format!("{number} of rerun {rerun} ended as {end:?}, and was told as {told:?}"),
                ));
            }
        }
        for ((rerun, shard), (_, most, seen)) in &self.running {
            if let Some(requested) = self.requested.get(rerun).filter(|requested| most > *requested) {
                let why = format!(
                    "rerun {rerun} has {most} batches at once in shard {shard}, and may have {requested}"
                );
                broken.push((*seen, why));
            }
        }
        broken.sort();
        for (place, message) in broken {
            found.violation(Violation::of(rule, place, message));
        }
    }
}
