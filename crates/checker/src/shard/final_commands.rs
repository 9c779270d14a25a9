//! The final commands of batches that have ended.

use tidemill_model::{
    AlarmKind, AttemptResult, BatchId, FinalCommandEvent, FinalResult, Incarnation, JobType, Nonce, Token,
    WorkerId,
};

use super::Shard;
use super::batch::{Assignment, Batch};
use super::life::{asks, gives_back};
use super::timeouts::Owed;
use crate::{At, Invariant};

/// A batch that has ended, and whose final command nobody has yet.
#[derive(Debug)]
pub(super) struct Due {
    /// Of its last attempt; none: it had none, or that worker leaves, and any worker with a free slot may have it.
    worker: Option<WorkerId>,
    job_type: JobType,
    said: u64,
}

impl Due {
    /// What the end of a batch asks for; `is_called`: it says that its final command is due without an attempt, which
    /// older records never say.
    pub(super) fn of(batch: &Batch, is_called: bool, at: &At<'_>) -> Option<Self> {
        let of = batch.of.as_ref().filter(|of| of.spec().final_command.is_some())?;
        let (worker, job_type) = (batch.last_worker.clone(), of.spec().job_type.clone());
        (worker.is_some() || is_called).then_some(Self { worker, job_type, said: at.offset })
    }

    /// Of a worker that leaves it waits for another one.
    pub(super) fn with(mut self, leaves: impl Fn(&WorkerId) -> bool) -> Self {
        self.worker.take_if(|ran| leaves(ran));
        self
    }

    /// Whether the end of a batch may say so.
    pub(super) fn may_be_called(batch: &Batch) -> bool {
        batch.last_worker.is_none() && batch.of.as_ref().is_none_or(|of| of.spec().final_command.is_some())
    }
}

/// A final command that a worker has.
#[derive(Debug)]
pub(super) struct Held {
    batch: BatchId,
    to: Assignment,
    job_type: JobType,
    /// On which question.
    granted: Option<Nonce>,
}

impl Held {
    /// It may have been granted in what is lost of the log.
    pub(super) fn hold(&mut self) {
        self.granted.get_or_insert_with(|| Nonce::new(""));
    }
}

impl Shard {
    /// A worker leaves: what it was not granted any worker with a free slot may have.
    pub(super) fn finals_go_on(&mut self, at: &At<'_>, worker: &WorkerId) {
        for due in self.due_finals.values_mut() {
            due.worker.take_if(|ran| ran == worker);
        }
        let held = |held: &mut Held| held.to.worker == *worker && held.granted.is_none();
        let waiting: Vec<Held> = self.finals.extract_if(|_, of| held(of)).map(|(_, held)| held).collect();
        for Held { batch, job_type, .. } in waiting {
            if let Some(known) = self.workers.get_mut(worker) {
                known.occupy_slot(&job_type, -1);
            }
            self.due_finals.insert(batch, Due { worker: None, job_type, said: at.offset });
        }
    }

    /// `final_commands_once`
    pub(super) fn final_event(&mut self, at: &At<'_>, event: &FinalCommandEvent) {
        match event {
            FinalCommandEvent::Assigned { batch, token, worker, start_by, .. } => {
                self.minted_ids_grow(at, "token", (token.0, token.shard()));
                let Some(due) = self.due_finals.remove(batch) else {
                    let why = format!("batch {batch} gets a final command, and none is due");
                    return at.breaks(Invariant::FinalCommandsOnce, why);
                };
                let known = self.workers.get_mut(worker).filter(|known| known.lost.is_none());
                let incarnation = known.as_ref().map(|known| known.incarnation.clone());
                let has_room = known.as_ref().is_some_and(|known| known.has_room(&due.job_type));
                let why = match &due.worker {
                    _ if incarnation.is_none() => "is not there".to_owned(),
                    Some(ran) if ran != worker => format!("{ran} ran it"),
                    None if !has_room => "has no free slot".to_owned(),
                    Some(_) | None => String::new(),
                };
                if !why.is_empty() {
                    let why = format!("{worker} gets the final command of {batch}, and {why}");
                    at.contradicts(Invariant::FinalCommandsOnce, why, &[due.said]);
                }
                if let Some(known) = known {
                    known.occupy_slot(&due.job_type, 1);
                }
                let (worker, start_by) = (worker.clone(), *start_by);
                let (token_of, said) = (*token, at.offset);
                let to = Assignment {
                    token: token_of,
                    worker,
                    incarnation,
                    attempt: 0,
                    start_by,
                    right: None,
                    said,
                };
                let held = Held { batch: *batch, to, job_type: due.job_type, granted: None };
                self.finals.insert(*token, held);
            }
            FinalCommandEvent::Granted { batch, token, worker, incarnation, nonce } => {
                self.final_granted(at, (*batch, *token), (worker, incarnation, nonce));
            }
            FinalCommandEvent::Finished { batch, token: None, result, .. } => {
                self.final_never_assigned(at, *batch, *result);
            }
            FinalCommandEvent::Finished { batch, token: Some(token), worker, result, .. } => {
                self.final_ended(at, (*batch, *token), worker, *result);
            }
            FinalCommandEvent::NotRun { batch, .. } => self.final_not_run(at, *batch),
        }
    }

    fn final_granted(
        &mut self,
        at: &At<'_>,
        (batch, token): (BatchId, Token),
        (worker, incarnation, nonce): (&WorkerId, &Incarnation, &Nonce),
    ) {
        let lost = self.workers.get(worker).is_none_or(|worker| worker.lost.is_some());
        let rule = Invariant::FinalCommandsOnce;
        let Some(held) = self.finals.get_mut(&token).filter(|held| held.batch == batch) else {
            return at.breaks(rule, format!("{token} is granted as a final command, and is none"));
        };
        let why = if held.granted.is_some() {
            "it was granted before"
        } else if held.to.worker != *worker || held.to.incarnation.as_ref() != Some(incarnation) {
            "another worker, or another life of it, has it"
        } else if lost {
            "its worker is lost"
        } else if at.command().is_some_and(|command| !asks(command, (token, worker, incarnation, nonce))) {
            "nobody asked so"
        } else {
            ""
        };
        held.granted = Some(nonce.clone());
        let said = held.to.said;
        if !why.is_empty() {
            at.contradicts(rule, format!("final command {token} is granted, though {why}"), &[said]);
        }
    }

    fn final_never_assigned(&mut self, at: &At<'_>, batch: BatchId, result: FinalResult) {
        self.owed = Some(Owed { batch, kind: AlarmKind::FinalCommandFailed });
        let rule = Invariant::FinalCommandsOnce;
        let Some(due) = self.due_finals.remove(&batch) else {
            return at.breaks(rule, format!("the final command of {batch} ends, and none is due"));
        };
        let ran = due.worker.as_ref();
        let is_there =
            ran.is_some_and(|ran| self.workers.get(ran).is_some_and(|worker| worker.lost.is_none()));
        if is_there || ran.is_none() || result != FinalResult::NotRun {
            let who = ran.map_or("no", WorkerId::as_str);
            let why = format!(
                "the final command of {batch} is {}, and {who} worker ran its last attempt",
                result.as_str()
            );
            at.contradicts(rule, why, &[due.said]);
        }
    }

    /// Only without an attempt: else it is its worker's, and ends with a result.
    fn final_not_run(&mut self, at: &At<'_>, batch: BatchId) {
        self.owed = Some(Owed { batch, kind: AlarmKind::FinalCommandFailed });
        let rule = Invariant::FinalCommandsOnce;
        match self.due_finals.remove(&batch) {
            None => at.breaks(rule, format!("the final command of {batch} is not run, and none is due")),
            Some(Due { worker: Some(worker), said, .. }) => {
                let why = format!("the final command of {batch} is given to nobody, though {worker} ran it");
                at.contradicts(rule, why, &[said]);
            }
            Some(Due { worker: None, .. }) => {}
        }
    }

    fn final_ended(
        &mut self,
        at: &At<'_>,
        (batch, token): (BatchId, Token),
        worker: &WorkerId,
        result: FinalResult,
    ) {
        if result != FinalResult::Success {
            self.owed = Some(Owed { batch, kind: AlarmKind::FinalCommandFailed });
        }
        let rule = Invariant::FinalCommandsOnce;
        let Some(held) = self.finals.remove(&token).filter(|held| held.batch == batch) else {
            return at.breaks(rule, format!("final command {token} of {batch} ends, and nobody has it"));
        };
        if let Some(known) = self.workers.get_mut(&held.to.worker) {
            known.occupy_slot(&held.job_type, -1);
        }
        let why = match (&held.granted, result) {
            _ if held.to.worker != *worker => format!("{} has it, and not {worker}", held.to.worker),
            (None, FinalResult::NotRun) => String::new(),
            (None, _) => "it was never granted".to_owned(),
            (Some(nonce), FinalResult::NotRun)
                if at.command().is_some_and(|command| !gives_back(command, &held.to, nonce)) =>
            {
                "it was granted, and not given back".to_owned()
            }
            (Some(_), _) => String::new(),
        };
        if !why.is_empty() {
            let why = format!("final command {token} ends as {}, though {why}", result.as_str());
            at.contradicts(rule, why, &[held.to.said]);
        }
        if held.granted.is_some() && result == FinalResult::Lost {
            self.no_attempt_before_lease_over(at, &held.to, AttemptResult::Lost);
        }
    }

    /// `final_commands_once`, at quiescence: none is left.
    pub(super) fn final_commands_end(&self, at: &At<'_>) {
        let mut left: Vec<_> = self.due_finals.iter().map(|(batch, due)| (*batch, due.said)).collect();
        left.extend(self.finals.values().map(|held| (held.batch, held.to.said)));
        left.sort_unstable();
        for (batch, said) in left {
            let why = format!("the final command of {batch} has not ended");
            at.contradicts(Invariant::FinalCommandsOnce, why, &[said]);
        }
    }
}
