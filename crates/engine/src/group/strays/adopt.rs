//! A person lets a stray count: it becomes the attempt of the batch that has its logical time in this life of the log.
//!
//! From there on it is an attempt like any other that was granted to its worker; a question that nobody asked stands for its own, which
//! is lost. What it holds of slots, limits and the group's pools is counted, whether there is room or not: it runs.

use tidemill_model::{Actor, AttemptEvent, BatchId, Incarnation, Rejection, Timestamp, Token, WorkerId};

use super::{GroupShard, Stray};
use crate::decision::Decision;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::restored::unasked;
use crate::group::{Timer, reason};

impl GroupShard {
    pub(in crate::group) fn adopt_stray(
        &self,
        (id, token): (BatchId, Token),
        reason: &str,
        by: &Actor,
    ) -> Result<Decision, Rejection> {
        let reason = reason::checked(reason, "say why its end is to count")?;
        let batch = self.unfinished(id)?;
        let Some(stray) = self.strays.by_token.get(&token) else {
            let rule = format!("is no stray; `tidemill batch why {id}` names those of its logical time");
            return Err(Rejection::field("attempt", token, rule));
        };
        if let Some(rule) = self.not_adopted(id, batch, stray) {
            return Err(Rejection::field("attempt", token, rule));
        }
        let Some(incarnation) = self.workers.get(&stray.worker).map(|known| known.incarnation.clone()) else {
            return Err(Rejection::unknown("worker", &stray.worker));
        };
        let (worker, by, attempt) = (stray.worker.clone(), by.clone(), batch.attempts + 1);
        Ok(Decision::of(AttemptEvent::Adopted { batch: id, token, attempt, worker, incarnation, by, reason }))
    }

    fn not_adopted(&self, id: BatchId, batch: &Batch, stray: &Stray) -> Option<String> {
        let definition = &batch.definition;
        if (stray.job, stray.logical_time) != (definition.id, batch.logical_time) {
            return Some(format!(
                "runs for {} of {}, and batch {id} is for {} of {}",
                stray.logical_time,
                self.name_of(stray.job),
                batch.logical_time,
                definition.full_name()
            ));
        }
        if stray.is_final {
            return Some("is a final command, and no attempt".to_owned());
        }
        if stray.is_to_end {
            return Some("is to end: somebody has requested that".to_owned());
        }
        if let Some((held, worker)) = batch.holder() {
            return Some(format!("comes too late: batch {id} has attempt {held} on worker {worker}"));
        }
        self.never_adopted(batch).map(str::to_owned)
    }

    /// Why no stray can become an attempt of this batch.
    pub(super) fn never_adopted(&self, batch: &Batch) -> Option<&'static str> {
        if self.placement.pools().are_shared(&batch.definition.spec.pools) {
            return Some(
                "cannot be adopted: its job takes slots of pools that groups share, which need a permit before a start; end it, \
                 or wait for its end",
            );
        }
        batch.ends_by_code().then_some(
            "cannot be adopted: its job goes by the codes that its program reports, and what it reported so far is lost; end it, \
             or wait for its end and mark the batch",
        )
    }

    pub(in crate::group) fn stray_adopted(
        &mut self,
        now: Timestamp,
        id: BatchId,
        (token, worker, incarnation): (Token, &WorkerId, &Incarnation),
    ) {
        self.strays.remove(token);
        self.strays.leave_gap(token.counter());
        self.external.quality_not_due(id);
        self.batches.forget_lost_output(id);
        if let Some(Phase::Pausing { until, .. }) = self.batches.get(&id).map(|batch| &batch.phase) {
            self.timers.cancel(*until, Timer::Retry(id));
        }
        self.held_by(now, id, (token, worker), Timestamp::MAX, None);
        self.start_granted(now, id, token, worker, incarnation, &unasked());
        if let Some(Phase::Granted(grant)) = self.batches.get_mut(&id).map(|batch| &mut batch.phase) {
            grant.started = true;
        }
        // It takes a place in its job's limit that another batch in the queue counted on.
        if let Some(job) = self.batches.get(&id).map(|batch| batch.definition.id) {
            self.demote(job);
        }
        self.reconsider(id);
    }
}
