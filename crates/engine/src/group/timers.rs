//! What is to be decided at a time.
//!
//! *Invariant:* a timer stands here exactly as long as what it belongs to names its time (a job its next fire, a batch its
//! pause, a token its time to start), so that whoever changes that cancels it by the time that it had.

use std::collections::BTreeSet;

use tidemill_derive::Stored;
use tidemill_model::{BatchId, GrantId, JobId, TimeoutKind, Timestamp, Token};

/// What is to be decided at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub(crate) enum Timer {
    Fire(JobId),
    Retry(BatchId),
    StartBy(Token),
    /// The earliest start of a batch.
    Start(BatchId),
    /// A batch should have got somewhere.
    Deadline(BatchId, TimeoutKind),
    /// The quality service has not answered.
    Quality(BatchId),
    /// An attempt runs far longer than usual.
    BigTask(BatchId),
    /// The lease of a grant of a pull task ends.
    PullLease(GrantId),
    /// No worker has had room for the final command of a batch that had no attempt.
    Final(BatchId),
    /// Old pull tasks are to be forgotten.
    Purge,
    /// Cannot be decided.
    #[cfg(test)]
    Planted,
}

impl Timer {
    pub(crate) fn entity(self) -> String {
        match self {
            Timer::Fire(job) => format!("job/{job}"),
            Timer::Start(batch)
            | Timer::Retry(batch)
            | Timer::Deadline(batch, _)
            | Timer::Quality(batch)
            | Timer::BigTask(batch)
            | Timer::Final(batch) => format!("batch/{batch}"),
            Timer::StartBy(token) => format!("token/{token}"),
            Timer::PullLease(grant) => format!("grant/{grant}"),
            Timer::Purge => "purge of pull tasks".to_owned(),
            #[cfg(test)]
            Timer::Planted => "planted".to_owned(),
        }
    }
}

/// All timers of a shard, in order of time.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Timestamp, Timer)>,
    /// What could not be decided; nothing fires for it until a person acts.
    suspended: BTreeSet<String>,
}

impl Timers {
    /// Nothing happens without a time.
    pub(crate) fn set(&mut self, at: impl Into<Option<Timestamp>>, timer: Timer) {
        self.by_time.extend(at.into().map(|at| (at, timer)));
    }

    /// `at` is the time that it was set to, if it was.
    pub(crate) fn cancel(&mut self, at: impl Into<Option<Timestamp>>, timer: Timer) {
        if let Some(at) = at.into() {
            self.by_time.remove(&(at, timer));
        }
    }

    pub(crate) fn first(&self) -> Option<(Timestamp, Timer)> {
        self.by_time.first().copied()
    }

    /// No timer of this entity fires any more.
    pub(crate) fn suspend(&mut self, entity: &str) {
        self.suspended.insert(entity.to_owned());
        self.by_time.retain(|(_, timer)| timer.entity() != entity);
    }

    pub(crate) fn resume(&mut self, timer: Timer) {
        self.suspended.remove(&timer.entity());
    }

    pub(crate) fn is_suspended(&self, timer: Timer) -> bool {
        self.suspended.contains(&timer.entity())
    }

    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = Timer> + '_ {
        self.by_time.iter().map(|(_, timer)| *timer)
    }
}
