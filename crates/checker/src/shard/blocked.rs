//! Batches that a failed parent blocks.

use tidemill_model::{BatchId, JobId, Mapping, Timestamp, WaivedParent};

use super::Shard;
use super::batch::{Batch, Phase, Waits};
use super::job::Version;
use crate::{At, Invariant};

const RULE: Invariant = Invariant::BlockedBatchesSaySo;

/// What is on record of a blocked batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocker {
    parent: JobId,
    time: Timestamp,
    since: Timestamp,
}

impl Shard {
    /// Whether the newest run of a job's time is on record as blocked, of one in another group as it was heard; `None`:
    /// not known in this shard.
    pub(super) fn is_blocked(&self, job: JobId, time: Timestamp) -> Option<bool> {
        if !self.jobs.contains_key(&job) && self.elsewhere.is_parent(job) {
            return self.elsewhere.is(job, time, |heard| heard.blocked);
        }
        let newest = self.runs.get(&(job, time)).and_then(|run| self.batches.get(&run.batch));
        Some(newest.is_some_and(|batch| batch.blocked.is_some()))
    }

    /// Whether a time of a parent blocks a batch; `None`: not known in this shard.
    fn blocks(&self, batch: &Batch, waits: &Waits, time: Timestamp) -> Option<bool> {
        let parent = waits.dependency.parent;
        let waiver = WaivedParent { job: parent, logical_time: Some(time) };
        if waits.met.contains(&time) || batch.needs.waived_parents.contains(&waiver) {
            return Some(false);
        }
        let of = batch.of.as_ref()?;
        let is_enough = Version::ends_are_enough(of) && parent != batch.job;
        Some((self.failed(parent, time)? && !is_enough) || self.is_blocked(parent, time)?)
    }

    /// The times of one parent that block a batch; `None`: not known in this shard.
    fn blocking(&self, batch: &Batch, waits: &Waits) -> Option<Vec<Timestamp>> {
        if batch.is_satisfied(waits, &|time| waits.met.contains(time)) {
            return Some(Vec::new());
        }
        let (mut blocking, mut may_come) = (Vec::new(), false);
        for time in &waits.dependency.times {
            if self.blocks(batch, waits, *time)? {
                blocking.push(*time);
            } else {
                may_come |= !self.is_skipped(waits.dependency.parent, *time)?;
            }
        }
        let is_kept = waits.dependency.mapping == Mapping::Any && may_come;
        Some(if is_kept { Vec::new() } else { blocking })
    }

    /// What blocks a batch; `None`: not known in this shard.
    fn blockers(&self, batch: &Batch) -> Option<Vec<(JobId, Timestamp)>> {
        if !matches!(batch.phase, Phase::Waiting | Phase::Pausing { .. }) {
            return Some(Vec::new());
        }
        let mut blockers = Vec::new();
        for waits in &batch.waits {
            let times = self.blocking(batch, waits)?;
            blockers.extend(times.into_iter().map(|time| (waits.dependency.parent, time)));
        }
        Some(blockers)
    }

    /// `blocked_batches_say_so`, of what is recorded.
    pub(super) fn block_recorded(
        &mut self,
        at: &At<'_>,
        id: BatchId,
        blocker: Option<(JobId, Timestamp, Timestamp)>,
    ) {
        let Some(batch) = self.batches.get(&id) else { return };
        let (blockers, known, said) = (self.blockers(batch), batch.blocked, batch.said);
        let still = |known: &Blocker| blockers.as_ref().map(|all| all.contains(&(known.parent, known.time)));
        let wrong = |why: String| at.contradicts(RULE, why, &[said]);
        let now = match blocker {
            Some((parent, time, since)) => {
                if blockers.as_ref().is_some_and(|all| !all.contains(&(parent, time))) {
                    wrong(format!(
                        "batch {id} is said to be blocked by {parent} for {time}, which does not block it"
                    ));
                }
                if since != known.map_or(at.now, |known| known.since) {
                    wrong(format!(
                        "batch {id} is said to be blocked since {since}, which is not when that began"
                    ));
                }
                if known.as_ref().and_then(still) == Some(true) {
                    wrong(format!("batch {id} is said to be blocked again, and what blocked it still does"));
                }
                Some(Blocker { parent, time, since })
            }
            None => {
                if known.is_none() {
                    wrong(format!("batch {id} is said to be blocked no more, and it was not"));
                } else if blockers.as_ref().is_some_and(|all| !all.is_empty()) {
                    wrong(format!("batch {id} is said to be blocked no more, and {blockers:?} block it"));
                }
                None
            }
        };
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.blocked = now;
        }
    }

    /// `blocked_batches_say_so`, at quiescence.
    pub(super) fn blocked_ones_say_so(&self, at: &At<'_>) {
        for (id, batch) in self.batches.iter().filter(|(_, batch)| !self.is_to_end(batch)) {
            let Some(blockers) = self.blockers(batch) else { continue };
            let why = match &batch.blocked {
                None if blockers.is_empty() => continue,
                Some(known) if blockers.contains(&(known.parent, known.time)) => continue,
                None => format!("batch {id} does not say that {blockers:?} block it"),
                Some(known) => format!("batch {id} says that {} for {} blocks it", known.parent, known.time),
            };
            at.contradicts(RULE, why, &[batch.said]);
        }
    }
}
