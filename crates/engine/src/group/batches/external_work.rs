//! EXE-13: work that attempts start elsewhere: what is on record of it, and who has to end it.
//!
//! ```text
//!  a worker finds an id                 AttemptExternalWorkFound, once for each id
//!  a worker reports the end             all of it has ended: the worker has asked
//!  nobody reports it (the lease is      AttemptExternalWorkUnconfirmed, AttemptFinished(lost)
//!  over), or the worker cannot tell         │ the next attempt's RunSpec names the attempt with its ids
//!                                           ▼
//!  AttemptStarted of the next attempt: its worker has ended all of that before, so it is forgotten
//! ```
//!
//! *Invariant:* an id is on record of an attempt once, and before its end. What is unconfirmed of a batch is named to each attempt
//! of it until one has started, or a person vouches for the end of one. Below level 3 nothing of it is on record.

use tidemill_derive::Stored;
use tidemill_model::{
    AttemptEvent, BatchId, Event, ExternalEnd, ExternalWork, ExternalWorkId, Heartbeat, Level, Token,
    WorkerId, bounds,
};

use crate::group::GroupShard;
use crate::group::batches::Batches;

/// What the attempts of one batch have started elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct StartedElsewhere {
    /// Ids of the attempt that runs.
    found: Vec<ExternalWorkId>,
    /// Earlier attempts whose work nobody has confirmed to have ended, the oldest first.
    unconfirmed: Vec<ExternalWork>,
}

impl Batches {
    /// Ids of an attempt that are not on record yet, as far as there is room for them.
    fn new_ids(&self, id: BatchId, said: &[ExternalWorkId]) -> Vec<ExternalWorkId> {
        let known = self.external_work.get(&id).map_or(&[][..], |work| &work.found);
        let mut new: Vec<ExternalWorkId> = Vec::new();
        for said in said.iter().take(bounds::EXTERNAL_WORK) {
            let is_known = known.contains(said) || new.contains(said);
            if (!is_known || planted!(ExternalWorkFoundTwice))
                && known.len() + new.len() < bounds::EXTERNAL_WORK
            {
                new.push(said.clone());
            }
        }
        new
    }

    fn found_event(
        &self,
        id: BatchId,
        (token, worker): (Token, &WorkerId),
        said: &[ExternalWorkId],
    ) -> Option<Event> {
        let ids = self.new_ids(id, said);
        let found = || AttemptEvent::ExternalWorkFound { batch: id, token, worker: worker.clone(), ids };
        (!said.is_empty()).then(found).filter(has_ids).map(Event::Attempt)
    }

    /// The attempts whose external work the next one has to end first.
    pub(crate) fn unconfirmed(&self, id: &BatchId) -> &[ExternalWork] {
        self.external_work.get(id).map_or(&[], |work| &work.unconfirmed)
    }

    /// Whether ids are on record of work that nobody has confirmed to have ended.
    pub(in crate::group) fn has_external_ids(&self, id: BatchId) -> bool {
        let left = |work: &StartedElsewhere| {
            !work.found.is_empty() || work.unconfirmed.iter().any(|earlier| !earlier.ids.is_empty())
        };
        self.external_work.get(&id).is_some_and(left)
    }

    pub(in crate::group) fn external_work_found(&mut self, id: BatchId, ids: &[ExternalWorkId]) {
        if self.by_id.contains_key(&id) {
            self.external_work.entry(id).or_default().found.extend_from_slice(ids);
        }
    }

    pub(in crate::group) fn external_work_unconfirmed(&mut self, id: BatchId, token: Token) {
        if self.by_id.contains_key(&id) {
            let work = self.external_work.entry(id).or_default();
            let ids = std::mem::take(&mut work.found);
            work.unconfirmed.push(ExternalWork { token, ids });
        }
    }

    /// The same of an attempt of a life of the log that is lost.
    pub(in crate::group) fn external_work_of_stray(
        &mut self,
        id: BatchId,
        token: Token,
        ids: &[ExternalWorkId],
    ) {
        let work = self.external_work.entry(id).or_default();
        work.unconfirmed.push(ExternalWork { token, ids: ids.to_vec() });
    }

    /// Its process began: what earlier attempts had started has ended.
    pub(in crate::group) fn earlier_external_work_ended(&mut self, id: BatchId) {
        if let Some(work) = self.external_work.get_mut(&id) {
            work.unconfirmed.clear();
            self.drop_empty(id);
        }
    }

    /// The attempt has ended. What is unconfirmed of it was said before.
    pub(in crate::group) fn attempt_leaves_no_external_work(&mut self, id: BatchId) {
        if let Some(work) = self.external_work.get_mut(&id) {
            work.found.clear();
            self.drop_empty(id);
        }
    }

    /// The batch has ended, or a person vouches for all that its attempts did.
    pub(in crate::group) fn forget_external_work(&mut self, id: BatchId) {
        self.external_work.remove(&id);
    }

    fn drop_empty(&mut self, id: BatchId) {
        if self.external_work.get(&id).is_some_and(|work| *work == StartedElsewhere::default()) {
            self.external_work.remove(&id);
        }
    }
}

fn has_ids(event: &AttemptEvent) -> bool {
    matches!(event, AttemptEvent::ExternalWorkFound { ids, .. } if !ids.is_empty())
}

impl GroupShard {
    fn records_external_work(&self) -> bool {
        self.level().allows(Level::EXTERNAL_WORK)
    }

    /// What a worker says of attempts that run on it, and is not on record yet.
    pub(in crate::group) fn external_work_while_running(&self, heartbeat: &Heartbeat) -> Vec<Event> {
        if heartbeat.external_work.is_empty() || !self.records_external_work() {
            return Vec::new();
        }
        let mut said: Vec<Token> = Vec::new();
        let mut events = Vec::new();
        for ExternalWork { token, ids } in
            heartbeat.external_work.iter().take(bounds::EXTERNAL_WORK_IN_HEARTBEAT)
        {
            let Ok((id, batch)) = self.holding(*token, &heartbeat.worker) else { continue };
            if batch.grant().is_none() || said.contains(token) {
                continue;
            }
            said.push(*token);
            events.extend(self.batches.found_event(id, (*token, &heartbeat.worker), ids));
        }
        events
    }

    /// Before the end of an attempt: what its worker says of it (absent: nothing is left), unless that is on record.
    pub(in crate::group) fn external_work_at_end(
        &self,
        id: BatchId,
        token: Token,
        external: Option<&ExternalEnd>,
    ) -> Vec<Event> {
        let Some(external) = external.filter(|_| self.records_external_work()) else { return Vec::new() };
        let Some((_, worker)) = self.batches.get(&id).and_then(|batch| batch.holder()) else {
            return Vec::new();
        };
        let found = self.batches.found_event(id, (token, worker), &external.ids);
        let unconfirmed = (external.unconfirmed && !planted!(UnconfirmedEndForgotten)).then(|| {
            AttemptEvent::ExternalWorkUnconfirmed { batch: id, token, worker: worker.clone() }.into()
        });
        found.into_iter().chain(unconfirmed).collect()
    }
}
