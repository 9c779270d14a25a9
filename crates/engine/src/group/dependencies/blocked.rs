//! DEP-8: batches that wait for something that nobody brings, because a parent failed.
//!
//! ```text
//!  of a time that a batch waits for, and without which nobody let it run     it blocks
//!  the parent's newest run ended without success                             yes
//!  the parent's newest run is blocked itself, here or in another group       yes: so it goes through the whole subtree
//!  there is no batch yet, or it waits for something else, or runs            no
//! ```
//! Of `any`, nothing blocks as long as one of the times may still come. What a batch's rule ends at once
//! (`failure`) is not blocked.
//!
//! `batch.blocked` names one time that blocks it and since when the batch is blocked. It is written once, and again only
//! when that time blocks no more while another one does. `batch.unblocked` is written before the batch can be assigned; the end
//! of a batch ends it without a word.
//!
//! *Invariant:* batches whose record is not what the state says stand in [`Blocked::turning`]. Whether one does is looked at
//! again whenever how a parent's time stands changes, or what the batch itself waits for.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::Stored;
use tidemill_model::{BatchEvent, BatchId, Condition, Event, JobId, Mapping, Timestamp};

use crate::group::batches::batch::{Batch, Phase, WaitsFor};
use crate::group::dependencies::counted::at_same_time;
use crate::group::dependencies::failure::{Stand, counts, first_of};
use crate::group::{GroupShard, put};

/// Parents behind one another that are named in one answer.
const NAMED: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Blocked {
    by_batch: BTreeMap<BatchId, Blocker>,
    turning: BTreeSet<BatchId>,
}

/// What is on record of a blocked batch.
#[derive(Debug, Clone, Copy, PartialEq, Stored)]
pub(in crate::group) struct Blocker {
    pub(in crate::group) parent: JobId,
    pub(in crate::group) logical_time: Timestamp,
    pub(in crate::group) since: Timestamp,
}

impl Blocked {
    pub(crate) fn forget(&mut self, id: BatchId) {
        self.by_batch.remove(&id);
        self.turning.remove(&id);
    }
}

impl GroupShard {
    /// Whether the newest run of a parent's time is blocked, in another group as its shard last said.
    pub(crate) fn is_blocked(&self, parent: JobId, time: Timestamp) -> bool {
        match self.jobs.get(&parent) {
            Some(job) => {
                let newest = job.newest_run(time).and_then(|newest| newest.batch);
                newest.is_some_and(|batch| self.dependencies.blocked.by_batch.contains_key(&batch))
            }
            None => self.dependencies.foreign.standing(parent, time).is_some_and(|standing| standing.blocked),
        }
    }

    /// Whether a time of a dependency blocks a batch, wherever that may still get another one.
    fn blocks(&self, batch: &Batch, dependency: &WaitsFor, time: Timestamp, met: bool) -> bool {
        let parent = dependency.declared.parent;
        if met || batch.waives(parent, time) {
            return false;
        }
        let is_enough = counts(&batch.definition, &dependency.parent(), Stand::Failed);
        (self.stand_of(parent, time) == Stand::Failed && !is_enough) || self.is_blocked(parent, time)
    }

    fn blocking<'a>(
        &'a self,
        batch: &'a Batch,
        dependency: &'a WaitsFor,
    ) -> impl Iterator<Item = Timestamp> + 'a {
        let parent = dependency.declared.parent;
        let blocks = move |time: &Timestamp, met: bool| self.blocks(batch, dependency, *time, met);
        let times = move || dependency.declared.times.iter().zip(&dependency.met);
        let never = |(time, met): (&Timestamp, &bool)| {
            blocks(time, *met) || self.stand_of(parent, *time) == Stand::Skipped
        };
        let is_lost = match dependency.declared.mapping {
            Mapping::Any => times().all(never),
            Mapping::Same | Mapping::Offset(_) | Mapping::All | Mapping::Latest => true,
        };
        let may_block = is_lost && !batch.is_met(dependency, &[]);
        times().filter(move |(time, met)| may_block && blocks(time, **met)).map(|(time, _)| *time)
    }

    fn blocks_counted(&self, batch: &Batch, parent: JobId) -> bool {
        let is_lost = batch.counted.as_ref().is_some_and(|counted| counted.lost.contains(&parent));
        let is_enough = || counts(&batch.definition, &at_same_time(parent), Stand::Failed);
        is_lost
            && batch.is_kept_back_by(parent)
            && (!is_enough() || self.is_blocked(parent, batch.logical_time))
    }

    /// The first time that blocks a batch, in the order of its definition.
    fn first_blocking(&self, batch: &Batch) -> Option<(JobId, Timestamp)> {
        first_of(
            batch,
            |parent| self.blocks_counted(batch, parent),
            |of| Some((of.declared.parent, self.blocking(batch, of).next()?)),
        )
    }

    fn still_blocks(&self, batch: &Batch, known: &Blocker) -> bool {
        let mut listed = batch.dependencies.iter().filter(|it| it.declared.parent == known.parent);
        known.logical_time == batch.logical_time && self.blocks_counted(batch, known.parent)
            || listed.any(|it| self.blocking(batch, it).any(|time| time == known.logical_time))
    }

    /// What is to be on record of a batch and is not; `None`: nothing.
    pub(in crate::group) fn block_turn(&self, id: BatchId, now: Timestamp) -> Option<Event> {
        let batch = self.batches.get(&id)?;
        let known = self.dependencies.blocked.by_batch.get(&id);
        let waiting = Some(batch).filter(|_| matches!(batch.phase, Phase::Waiting | Phase::Pausing { .. }));
        if let (Some(batch), Some(known)) = (waiting, known)
            && self.still_blocks(batch, known)
        {
            return None;
        }
        let first = waiting.and_then(|batch| self.first_blocking(batch));
        if let Some((parent, logical_time)) = first {
            let since = known.map_or(now, |known| known.since);
            return Some(BatchEvent::Blocked { batch: id, parent, logical_time, since }.into());
        }
        known.map(|_| BatchEvent::Unblocked { batch: id }.into())
    }

    /// The first batch whose record is not what the state says.
    pub(crate) fn next_block(&self) -> Option<BatchId> {
        let mut turning = self.dependencies.blocked.turning.iter().copied();
        turning.find(|id| self.block_turn(*id, Timestamp::MIN).is_some())
    }

    pub(crate) fn look_for_block(&mut self, id: BatchId) {
        let is_turning = self.block_turn(id, Timestamp::MIN).is_some();
        put(&mut self.dependencies.blocked.turning, id, is_turning);
    }

    /// A parent's time stands otherwise, or the batch heard of it. Most of what a batch hears neither blocks it nor
    /// unblocks it, and then it is not looked at.
    pub(crate) fn look_for_block_by(&mut self, id: BatchId, may_block: bool) {
        let Blocked { by_batch, turning } = &self.dependencies.blocked;
        if may_block || by_batch.contains_key(&id) || turning.contains(&id) {
            self.look_for_block(id);
        }
    }

    /// Whether a time that stands so may block whoever waits for it.
    pub(crate) fn may_block(&self, parent: JobId, time: Timestamp) -> bool {
        matches!(self.stand_of(parent, time), Stand::Failed | Stand::Skipped) || self.is_blocked(parent, time)
    }

    /// How a parent's time stands has changed: who waits for it may be blocked now, or no more.
    pub(crate) fn look_at_waiters(&mut self, parent: JobId, time: Timestamp) {
        let may_block = self.may_block(parent, time);
        if !may_block && self.dependencies.blocked == Blocked::default() {
            return;
        }
        let mut waiters: Vec<BatchId> = self.dependencies.waiters.batches_at((parent, time)).collect();
        waiters.extend(self.counting(parent, time));
        for id in waiters {
            self.look_for_block_by(id, may_block);
        }
    }

    /// Whoever waits for the batch is blocked with it, or is not any more.
    pub(in crate::group) fn blocker_changed(&mut self, id: BatchId, blocker: Option<Blocker>) {
        match blocker {
            Some(blocker) => self.dependencies.blocked.by_batch.insert(id, blocker),
            None => self.dependencies.blocked.by_batch.remove(&id),
        };
        self.look_for_block(id);
        let Some(batch) = self.batches.get(&id) else { return };
        let (job, time) = (batch.definition.id, batch.logical_time);
        self.tell_watchers(job, time);
        self.note_lost(job, time);
        self.look_at_waiters(job, time);
    }

    /// That a batch is blocked, for people: by which parent, and by which ones that one is.
    pub(crate) fn why_blocked(&self, id: BatchId) -> Option<Condition> {
        let blocker = self.dependencies.blocked.by_batch.get(&id)?;
        let mut message = "blocked by a failed parent: ".to_owned();
        let mut next = Some(*blocker);
        for _ in 0..NAMED {
            let Some(Blocker { parent, logical_time, .. }) = next else { break };
            let newest = self.jobs.get(&parent).and_then(|job| job.newest_run(logical_time)?.batch);
            next = newest.and_then(|batch| self.dependencies.blocked.by_batch.get(&batch)).copied();
            let name = self.name_of(parent);
            let stands = match next {
                Some(_) => "it is blocked itself, by ".to_owned(),
                None => self.how_parent_stands(parent, logical_time),
            };
            message.push_str(&format!("{name} of {logical_time}: {stands}"));
        }
        let (job, logical_time) = (Some(blocker.parent), Some(blocker.logical_time));
        Some(Condition { job, logical_time, ..Condition::new("blocked", message, Some(blocker.since)) })
    }
}
