//! Parents in other groups, as far as a shard was told of them.

use std::collections::{HashMap, HashSet};

use tidemill_model::{BatchEvent, Dependency, Event, JobId, ReplicationEvent, Timestamp};

use super::Shard;

/// What a shard knows of other groups' jobs.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    parents: HashSet<JobId>,
    times: HashMap<(JobId, Timestamp), Heard>,
}

/// One logical time of a job of another group.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Batches that wait for it.
    waiting: u32,
    /// What was heard last.
    pub(super) succeeded: bool,
    /// Its newest run has ended.
    pub(super) ended: bool,
    /// It has no batch, and gets none.
    skipped: bool,
    /// It has no batch, and the job was deleted though jobs of this shard named it.
    deleted: bool,
    pub(super) blocked: bool,
    /// Since then there was a moment at which nothing waited for it, so the owner may have forgotten it.
    is_old: bool,
    said: u64,
}

/// How one logical time stands: its newest run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stand {
    /// The newest run; `None`: there is no batch.
    pub(crate) run: Option<u32>,
    pub(crate) ended: bool,
    pub(crate) succeeded: bool,
    /// There is no batch, and none comes; `None`: either is right.
    pub(crate) skipped: Option<bool>,
    /// The newest run waits, blocked by a failed parent.
    pub(crate) blocked: bool,
}

impl Stand {
    /// Whether both may be said of one moment.
    pub(crate) fn agrees(&self, other: &Stand) -> bool {
        let is_either = self.skipped.is_none() || other.skipped.is_none();
        let same = |stand: &Stand| (stand.run, stand.ended, stand.succeeded, stand.blocked);
        same(self) == same(other) && (is_either || self.skipped == other.skipped)
    }
}

impl std::fmt::Display for Stand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.run, self.ended, self.succeeded) {
            (None, _, _) if self.skipped == Some(true) => f.write_str("was skipped"),
            (None, _, _) => f.write_str("has no batch"),
            (Some(run), false, _) if self.blocked => write!(f, "is blocked in run {run}"),
            (Some(run), false, _) => write!(f, "has not finished run {run}"),
            (Some(run), true, true) => write!(f, "succeeded in run {run}"),
            (Some(run), true, false) => write!(f, "did not succeed in run {run}"),
        }
    }
}

impl Elsewhere {
    pub(super) fn is_parent(&self, job: JobId) -> bool {
        self.parents.contains(&job)
    }

    /// Whether it was skipped, as far as it was heard; `None`: either is right.
    pub(super) fn is_skipped(&self, parent: JobId, time: Timestamp) -> Option<bool> {
        // Whether the times of a deleted job count follows from who names it.
        self.is(parent, time, |heard| heard.skipped)
            .filter(|_| self.times.get(&(parent, time)).is_none_or(|heard| !heard.deleted))
    }

    /// Whether something is so of a time, as far as it was heard; `None`: either is right. Of what was never heard of nothing is
    /// so; what was so once may have been forgotten.
    pub(super) fn is(&self, parent: JobId, time: Timestamp, so: impl Fn(&Heard) -> bool) -> Option<bool> {
        let Some(heard) = self.times.get(&(parent, time)) else { return Some(false) };
        let is_so = so(heard);
        (!heard.is_old || !is_so).then_some(is_so)
    }

    /// Whether something was heard for which a time may count as met.
    pub(super) fn may_count(&self, parent: JobId, time: Timestamp) -> bool {
        let heard = self.times.get(&(parent, time));
        heard.is_some_and(|heard| heard.succeeded || heard.ended || heard.skipped)
    }

    pub(super) fn said(&self, parent: JobId, time: Timestamp) -> Option<u64> {
        self.times.get(&(parent, time)).map(|heard| heard.said)
    }

    /// Whether its shard has said anything of a time; one that a batch waits for is known before that, with offset 0.
    pub(super) fn has_heard(&self, parent: JobId, time: Timestamp) -> bool {
        self.said(parent, time).is_some_and(|said| said > 0)
    }

    /// A batch waits for these.
    pub(super) fn wait(&mut self, dependency: &Dependency) {
        for time in &dependency.times {
            self.times.entry((dependency.parent, *time)).or_default().waiting += 1;
        }
    }

    /// It waits no more.
    pub(super) fn let_go(&mut self, dependency: &Dependency) {
        for time in &dependency.times {
            if let Some(heard) = self.times.get_mut(&(dependency.parent, *time)) {
                heard.waiting = heard.waiting.saturating_sub(1);
                heard.is_old |= heard.waiting == 0;
            }
        }
    }
}

impl Shard {
    /// What other shards say.
    pub(super) fn heard(&mut self, offset: u64, event: &ReplicationEvent) {
        match event {
            ReplicationEvent::ParentsReplicated { parents } => {
                self.elsewhere.parents.extend(parents.iter().map(|parent| parent.job));
            }
            ReplicationEvent::ParentStatusUpdated { parent, standings } => {
                for standing in standings {
                    let heard = self.elsewhere.times.entry((*parent, standing.logical_time)).or_default();
                    heard.succeeded = standing.succeeded;
                    heard.ended = standing.has_ended();
                    heard.skipped = standing.skipped;
                    heard.deleted = standing.deleted && standing.run.is_none() && !standing.skipped;
                    heard.blocked = standing.blocked;
                    heard.is_old = heard.waiting == 0;
                    heard.said = offset;
                }
            }
            ReplicationEvent::ParentGenerationsReceived { parent, times, .. } => {
                for time in times {
                    self.trigger_children(*parent, *time);
                }
            }
            _ => {}
        }
    }

    /// Whether a parent runs elsewhere, or is not known at all.
    pub(crate) fn is_elsewhere(&self, job: JobId) -> bool {
        !self.jobs.contains_key(&job)
    }

    /// The version with which the job came from another group; 0: it was defined in this one.
    pub(crate) fn tenure(&self, job: JobId) -> u32 {
        self.jobs.get(&job).and_then(|job| job.tenure).unwrap_or(0)
    }

    /// How a logical time of a job of this shard stands.
    pub(crate) fn stand(&self, job: JobId, time: Timestamp) -> Stand {
        let run = self.runs.get(&(job, time));
        // A shard whose jobs go on naming it hears something else than one that only has batches that wait for it.
        Stand {
            run: run.map(|run| run.number),
            ended: run.is_some_and(|run| !self.batches.contains_key(&run.batch)),
            succeeded: run.is_some_and(|run| run.succeeded),
            skipped: self.is_skipped(job, time).filter(|_| run.is_some() || !self.is_removed(job)),
            blocked: self.is_blocked(job, time) == Some(true),
        }
    }

    /// The job and logical time of the batch of which an event is about to change how it stands.
    pub(crate) fn ends(&self, event: &Event) -> Option<(JobId, Timestamp)> {
        match event {
            Event::Batch(
                BatchEvent::Finished { batch, .. }
                | BatchEvent::Blocked { batch, .. }
                | BatchEvent::Unblocked { batch },
            ) => self.batches.get(batch).map(|batch| (batch.job, batch.time)),
            Event::Batch(BatchEvent::ResultOverridden { job, logical_time, .. }) => {
                Some((*job, *logical_time))
            }
            _ => None,
        }
    }
}
