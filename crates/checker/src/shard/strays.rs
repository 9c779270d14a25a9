//! Attempts of a life of the log that is lost, which run on: what they hold back, and what ends them.

use std::collections::BTreeMap;

use tidemill_model::{
    Actor, AttemptEvent, BatchCommand, BatchId, Command, Incarnation, JobId, Nonce, RunningAttempt,
    Timestamp, Token, WorkerCommand, WorkerEvent, WorkerId,
};

use super::Shard;
use super::batch::{Assignment, Phase};
use crate::findings::Asked;
use crate::{At, Invariant};

const HOLDS: Invariant = Invariant::StraysHoldTheirTime;
const ENDS: Invariant = Invariant::StraysEndAsAttemptsDo;

/// One that runs.
#[derive(Debug)]
pub(super) struct Stray {
    pub(super) worker: WorkerId,
    pub(super) run: (JobId, Timestamp),
    pub(super) is_final: bool,
    /// A person vouched for its worker.
    is_over: bool,
    pub(super) is_to_end: bool,
    pub(super) said: u64,
}

/// What runs, and which tokens can be of it.
#[derive(Debug, Default)]
pub(super) struct Strays {
    pub(super) live: BTreeMap<Token, Stray>,
    /// Tokens above the first and up to the second were minted by lost lives only.
    gaps: Vec<(i64, i64)>,
}

impl Strays {
    pub(super) fn note_gap(&mut self, minted: i64, upto: i64) {
        if minted < upto {
            self.gaps.push((minted, upto));
        }
    }
}

impl Shard {
    pub(super) fn stray_event(&mut self, at: &At<'_>, event: &WorkerEvent) {
        match event {
            WorkerEvent::StraysFound { worker, incarnation, strays } => {
                self.strays_found(at, (worker, incarnation), strays);
            }
            WorkerEvent::StrayKillRequested { worker, token, by, .. } => {
                self.stray_kill_requested(at, (worker, *token), by);
            }
            WorkerEvent::StrayEnded { worker, token, .. } => self.stray_ended(at, worker, *token),
            _ => {}
        }
    }

    /// `strays_hold_their_time`: what this shard gave in this life is none.
    fn strays_found(
        &mut self,
        at: &At<'_>,
        (worker, incarnation): (&WorkerId, &Incarnation),
        strays: &[RunningAttempt],
    ) {
        self.owed_strays = Some(worker.clone());
        if self.in_its_life(at, worker, incarnation, "said to run strays").is_none() {
            return;
        }
        let says = |stray: &RunningAttempt| {
            at.command().is_none_or(|command| {
                matches!(command, Command::Worker(WorkerCommand::Register(who))
                    if who.worker == *worker && who.running.contains(stray))
            })
        };
        for stray in strays {
            let token = stray.token;
            let is_lost = token.0 > self.last_token
                || self.strays.gaps.iter().any(|(minted, upto)| (minted + 1..=*upto).contains(&token.0));
            let why = if !says(stray) {
                "its worker has not said so"
            } else if self.strays.live.contains_key(&token) {
                "it is one"
            } else if !is_lost || token.shard() != self.id {
                "this life of the log gave it, or one that is not lost"
            } else {
                ""
            };
            if !why.is_empty() {
                at.breaks(HOLDS, format!("{token} on {worker} is said to be a stray, and {why}"));
            }
            self.strays.note_gap(self.last_token, token.0);
            self.last_token = self.last_token.max(token.0);
            let (worker, run, is_final) = (worker.clone(), (stray.job, stray.logical_time), stray.is_final);
            let (is_over, is_to_end, said) = (false, false, at.offset);
            self.strays.live.insert(token, Stray { worker, run, is_final, is_over, is_to_end, said });
        }
    }

    /// `strays_hold_their_time`: people hear of strays, and of nothing else so.
    pub(super) fn told_of_strays(&mut self, at: &At<'_>, worker: Option<&WorkerId>) {
        let owed = self.owed_strays.take();
        if owed.is_none() || owed.as_ref() != worker {
            at.breaks(HOLDS, format!("people are told of strays on {worker:?}, and none was found"));
        }
    }

    /// `strays_hold_their_time`: nothing comes between.
    pub(super) fn alarm_of_strays_follows(&mut self, at: &At<'_>) {
        if let Some(worker) = self.owed_strays.take() {
            at.breaks(HOLDS, format!("strays are found on {worker}, and the alarm does not follow"));
        }
    }

    /// `strays_end_as_attempts_do`: a person's own command.
    fn stray_kill_requested(&mut self, at: &At<'_>, (worker, token): (&WorkerId, Token), by: &Actor) {
        let asked = match at.asked {
            Asked::Command(Some(record)) => {
                record.actor == *by
                    && matches!(&record.command, Command::Worker(WorkerCommand::EndStray { worker: of, token: which, .. })
                        if (of, *which) == (worker, token))
            }
            Asked::Command(None) => true,
            Asked::Owner | Asked::Unknown => false,
        };
        match self.strays.live.get_mut(&token).filter(|stray| stray.worker == *worker) {
            Some(stray) if asked => stray.is_to_end = true,
            Some(_) => at.breaks(ENDS, format!("stray {token} is to end, and nobody asked for it")),
            None => at.breaks(ENDS, format!("{token} is to end on {worker}, and is no stray there")),
        }
    }

    /// `strays_end_as_attempts_do`
    fn stray_ended(&mut self, at: &At<'_>, worker: &WorkerId, token: Token) {
        let Some(stray) = self.strays.live.remove(&token).filter(|stray| stray.worker == *worker) else {
            return at.breaks(ENDS, format!("{token} is said to end on {worker}, and is no stray there"));
        };
        let is_word = match at.asked {
            Asked::Command(None) => true,
            Asked::Command(Some(record)) => is_word_of_end(&record.command, token, worker),
            Asked::Owner | Asked::Unknown => false,
        };
        if !is_word && !stray.is_over {
            let why = format!("stray {token} ends, and {worker} may still run it");
            at.contradicts(ENDS, why, &[stray.said]);
        }
    }

    /// Nothing of a worker runs any more.
    pub(super) fn strays_are_over(&mut self, worker: &WorkerId) {
        let there = self.strays.live.values_mut().filter(|stray| stray.worker == *worker);
        there.for_each(|stray| stray.is_over = true);
    }

    /// `strays_end_as_attempts_do`: what the worker of a stray was told is lost.
    pub(super) fn no_lease_ends_strays(&self, at: &At<'_>, worker: &WorkerId) {
        for (token, stray) in self.strays.live.iter().filter(|(_, stray)| stray.worker == *worker) {
            let why = format!("the lease of {worker} is over, and it runs stray {token}");
            at.contradicts(ENDS, why, &[stray.said]);
        }
    }

    /// `strays_end_as_attempts_do`: by a person's own command, as the attempt of a batch of its logical time that no worker has.
    pub(super) fn adopted(&mut self, at: &At<'_>, id: BatchId, event: &AttemptEvent) {
        let AttemptEvent::Adopted { token, attempt, worker, incarnation, by, .. } = event else { return };
        let asked = match at.asked {
            Asked::Command(Some(record)) => adopts(&record.command, id, *token) && record.actor == *by,
            Asked::Command(None) => true,
            Asked::Owner | Asked::Unknown => false,
        };
        let stray = self.strays.live.remove(token).filter(|stray| stray.worker == *worker);
        let Some(batch) = self.batches.get(&id) else { return };
        let why = match &stray {
            _ if !asked => "and nobody asked for it",
            None => "and is no stray there",
            Some(stray) if stray.run != (batch.job, batch.time) => "and runs for another logical time",
            Some(stray) if stray.is_final || stray.is_to_end => "and is a final command, or is to end",
            Some(_) if !matches!(batch.phase, Phase::Waiting | Phase::Pausing { .. }) => {
                "which has one, or has ended"
            }
            Some(_) => "",
        };
        if !why.is_empty() {
            let why = format!("{token} on {worker} becomes an attempt of batch {id}, {why}");
            return at.contradicts(ENDS, why, &[batch.said]);
        }
        self.attempt_numbers_without_gaps(at, id, *attempt);
        let to = Assignment {
            token: *token,
            worker: worker.clone(),
            incarnation: Some(incarnation.clone()),
            attempt: *attempt,
            start_by: Timestamp::MAX,
            right: None,
            said: at.offset,
        };
        self.never_two_live_attempts(at, id);
        self.begins(at, id, Phase::Granted { to, nonce: Nonce::new(""), started: true });
        self.occupy(id, 1);
    }

    /// `strays_hold_their_time`
    pub(super) fn no_stray_holds(&self, at: &At<'_>, id: BatchId, what: &str) {
        let Some(batch) = self.batches.get(&id) else { return };
        let run = (batch.job, batch.time);
        if let Some((token, stray)) = self.strays.live.iter().find(|(_, stray)| stray.run == run) {
            let why = format!(
                "batch {id} is {what}, and stray {token} of its logical time runs on {}",
                stray.worker
            );
            at.contradicts(HOLDS, why, &[stray.said, batch.said]);
        }
    }
}

fn adopts(command: &Command, id: BatchId, token: Token) -> bool {
    matches!(command, Command::Batch(BatchCommand::Adopt { batch, token: of, .. }) if (*batch, *of) == (id, token))
}

/// Whether a worker says that nothing of an attempt runs.
fn is_word_of_end(command: &Command, of: Token, by: &WorkerId) -> bool {
    match command {
        Command::Worker(
            WorkerCommand::RejectAssignment { token, worker, nonce: Some(_), .. }
            | WorkerCommand::ReportFinished { token, worker, .. },
        ) => (*token, worker) == (of, by),
        _ => false,
    }
}
