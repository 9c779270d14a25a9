//! BYD-1: what happens to a fire while an earlier scheduled batch of its job is unfinished.

use tidemill_model::{Actor, BatchId, Event, Fire, Overlap};

use crate::group::GroupShard;
use crate::group::jobs::job::Job;

/// Batches that one decision ends.
const MAX_ENDED: usize = 100;

/// What comes before the batch of a fire.
pub(crate) enum Before {
    /// These; then the batch.
    Batch(Vec<Event>),
    /// These, for there are more than one decision can end; then it is looked again.
    More(Vec<Event>),
    /// No batch.
    Nothing,
}

impl GroupShard {
    pub(crate) fn before_batch(&self, job: &Job, fire: Fire) -> Before {
        match job.definition.spec.overlap {
            Overlap::Queue | Overlap::Allow => Before::Batch(Vec::new()),
            Overlap::Skip if scheduled(job).next().is_some() => Before::Nothing,
            Overlap::Skip => Before::Batch(Vec::new()),
            Overlap::CancelOld => self.end_old(job, fire),
        }
    }

    fn end_old(&self, job: &Job, fire: Fire) -> Before {
        let owner = Actor::owner();
        let reason = format!("the batch for {} takes its place (overlap: cancel_old)", fire.logical_time);
        let ended = scheduled(job).map(|batch| self.killed(batch, &owner, &reason));
        let ended = ended.filter(|events| !events.is_empty());
        let events: Vec<Event> = ended.take(MAX_ENDED).flatten().collect();
        if events.len() < MAX_ENDED { Before::Batch(events) } else { Before::More(events) }
    }
}

/// The unfinished batches that the schedule made: those of run 0.
fn scheduled(job: &Job) -> impl Iterator<Item = BatchId> + '_ {
    job.unfinished().filter(|(_, newest)| newest.run == 0).map(|(_, newest)| newest.batch)
}
