//! What workers and people say of strays.

use tidemill_model::{
    Actor, AttemptOutcome, Event, ExternalEnd, Rejection, Token, WorkMessage, WorkerEvent, WorkerId,
};

use super::GroupShard;
use crate::decision::Decision;
use crate::group::reason;

impl GroupShard {
    /// Its worker says that nothing of a stray runs any more; `None`: it is no stray of that worker.
    pub(in crate::group) fn stray_finished(
        &self,
        token: Token,
        worker: &WorkerId,
        (outcome, external): (Option<&AttemptOutcome>, Option<&ExternalEnd>),
    ) -> Option<Decision> {
        self.strays.of_worker(token, worker)?;
        // No batch gets its values.
        let said = |outcome: &AttemptOutcome| AttemptOutcome {
            message: outcome.message.chars().take(500).collect(),
            values: Default::default(),
            ..outcome.clone()
        };
        let (worker, outcome, external) =
            (worker.clone(), outcome.map(said), external.cloned().map(Box::new));
        Some(Decision::of(WorkerEvent::StrayEnded { worker, token, outcome, external }))
    }

    /// Its start is no news.
    pub(in crate::group) fn stray_started(&self, token: Token, worker: &WorkerId) -> Option<Decision> {
        self.strays.of_worker(token, worker).map(|_| Decision::nothing())
    }

    /// Nothing of its worker runs any more.
    pub(in crate::group) fn stray_settled(&self, token: Token) -> Option<Event> {
        let worker = self.strays.by_token.get(&token)?.worker.clone();
        let external = Some(Box::new(ExternalEnd::unknown()));
        Some(WorkerEvent::StrayEnded { worker, token, outcome: None, external }.into())
    }

    /// A person has it ended.
    pub(in crate::group) fn end_stray(
        &self,
        worker: &WorkerId,
        token: Token,
        reason: &str,
        by: &Actor,
    ) -> Result<Decision, Rejection> {
        let reason = reason::checked(reason, "say why it is to end")?;
        if self.workers.get(worker).is_none() {
            return Err(Rejection::unknown("worker", worker));
        }
        let Some(stray) = self.strays.of_worker(token, worker) else {
            let rule = format!("is no stray of worker {worker}; `tidemill worker show {worker}` lists them");
            return Err(Rejection::field("attempt", token, rule));
        };
        if stray.is_to_end {
            return Ok(Decision::nothing());
        }
        let (worker, by) = (worker.clone(), by.clone());
        Ok(Decision::of(WorkerEvent::StrayKillRequested { worker, token, by, reason }))
    }

    /// What the worker of a stray must hear of it.
    pub(in crate::group) fn outstanding_stray(&self, token: Token) -> Option<WorkMessage> {
        let kill = || WorkMessage::Kill { token, grace_ms: self.settings().kill_grace_ms };
        self.strays.is_to_end(token).then(kill)
    }

    /// What a worker must hear of such a fact.
    pub(crate) fn work_of_stray(&self, event: &WorkerEvent) -> Option<(WorkerId, WorkMessage)> {
        let (worker, message) = match event {
            WorkerEvent::StrayKillRequested { worker, token, .. } => {
                (worker, self.outstanding_stray(*token)?)
            }
            WorkerEvent::StrayEnded { worker, token, .. } => {
                (worker, WorkMessage::Recorded { token: *token })
            }
            _ => return None,
        };
        Some((worker.clone(), message))
    }
}
