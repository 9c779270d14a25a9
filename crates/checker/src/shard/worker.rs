//! Workers: which life of them works, and when one is over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::SignedDuration;
use tidemill_model::{
    Actor, AttemptResult, BatchId, Command, GroupSettings, Incarnation, JobType, ObservationCommand,
    OnSilence, Reserved, Timestamp, WorkerCommand, WorkerEvent, WorkerId, WorkerLabel,
};

use super::Shard;
use super::batch::Assignment;
use crate::Invariant;
use crate::findings::{Asked, At};

/// How long something may still run on a worker after its last word; `None`: for ever.
type Lease = Option<SignedDuration>;

/// A worker that goes by these bounds. Before a group is known there are none.
fn lease_of(settings: Option<&GroupSettings>) -> Lease {
    match settings {
        None => Some(SignedDuration::ZERO),
        Some(settings) if settings.on_silence == OnSilence::Hold => None,
        Some(settings) => {
            let ms = settings.lease_ms.saturating_add(settings.lease_margin_ms);
            Some(SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX)))
        }
    }
}

/// Where it may go by either.
fn longer(one: Lease, other: Lease) -> Lease {
    Some(one?.max(other?))
}

/// A worker that once registered.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) incarnation: Incarnation,
    /// The lives before it, the last ones, and where each was replaced.
    pub(super) ended_lives: Vec<(Incarnation, u64)>,
    pub(super) host: String,
    pub(super) slots: BTreeMap<JobType, u32>,
    pub(super) used: HashMap<JobType, u32>,
    /// Slots that are kept for some jobs.
    pub(super) reserved: BTreeMap<JobType, Reserved>,
    /// What is assigned to it or runs there.
    pub(super) held: BTreeSet<BatchId>,
    pub(super) overloaded: bool,
    /// Memory that can be reserved, MiB; `None`: it has not said what it has.
    pub(super) memory_mb: Option<u32>,
    /// When it was declared lost.
    pub(super) lost: Option<Timestamp>,
    pub(super) expired: bool,
    /// People were warned that its lease is half over.
    warned: bool,
    /// It was told to stop.
    pub(super) leaving: bool,
    /// The record in which a life of it was said to have stopped, the last one.
    pub(super) left: Option<u64>,
    pub(super) drained: bool,
    pub(super) unready: bool,
    pub(super) labels: BTreeSet<WorkerLabel>,
    /// The longest lease that it was told in this life.
    lease: Lease,
    /// The same of earlier lives, while something that they held may not have ended.
    earlier: Option<Lease>,
    /// The last time at which it surely lived.
    lived: Timestamp,
    pub(super) said: u64,
}

impl Worker {
    /// Whether something is assigned to it or runs there.
    pub(super) fn is_used(&self) -> bool {
        self.used.values().any(|used| *used > 0)
    }

    /// By any of which it may go.
    fn longest_lease(&self) -> Lease {
        self.earlier.map_or(self.lease, |earlier| longer(self.lease, earlier))
    }

    /// One attempt more or less is there; with the last one, what earlier lives were told is over.
    pub(super) fn occupy(&mut self, batch: BatchId, job_type: &JobType, by: i32) {
        if by > 0 {
            self.held.insert(batch);
        } else {
            self.held.remove(&batch);
        }
        self.occupy_slot(job_type, by);
    }

    /// What is there may run on for ever.
    pub(super) fn hold(&mut self) {
        if self.is_used() {
            self.earlier = Some(None);
        }
    }

    pub(super) fn has_room(&self, job_type: &JobType) -> bool {
        let used = self.used.get(job_type).copied().unwrap_or_default();
        self.slots.get(job_type).is_some_and(|slots| used < *slots)
    }

    /// The same of a slot alone, for a final command.
    pub(super) fn occupy_slot(&mut self, job_type: &JobType, by: i32) {
        let used = self.used.entry(job_type.clone()).or_default();
        *used = used.saturating_add_signed(by);
        if !self.is_used() {
            self.earlier = None;
        }
    }
}

impl Shard {
    pub(super) fn worker_event(&mut self, at: &At<'_>, event: &WorkerEvent) {
        match event {
            WorkerEvent::Registered { .. } => self.registered(at, event),
            WorkerEvent::Measured { worker, measure, overloaded } => {
                self.measured(worker, *measure, *overloaded);
            }
            WorkerEvent::Lost { worker, incarnation } => {
                if let Some(known) = self.in_its_life(at, worker, incarnation, "lost") {
                    let before = known.lost.replace(at.now);
                    let said = std::mem::replace(&mut known.said, at.offset);
                    if before.is_some() {
                        let why = format!("worker {worker} is lost twice");
                        at.contradicts(Invariant::WorkerLivesFollow, why, &[said]);
                    }
                }
            }
            WorkerEvent::Recovered { worker, incarnation } => {
                if let Some(known) = self.in_its_life(at, worker, incarnation, "found") {
                    if known.lost.is_none() {
                        let why = format!("worker {worker} is found, and was not lost");
                        at.contradicts(Invariant::WorkerLivesFollow, why, &[known.said]);
                    }
                    (known.lost, known.expired, known.lived, known.said) = (None, false, at.now, at.offset);
                    known.warned = false;
                }
            }
            WorkerEvent::LeaseExpired { worker, incarnation } => {
                self.expired(at, worker, incarnation);
                self.no_lease_ends_strays(at, worker);
                self.strays_are_over(worker);
                self.lease_ends_rights(worker);
            }
            WorkerEvent::EndVouched { worker, incarnation, by, .. } => {
                self.end_vouched(at, (worker, incarnation), by);
                self.strays_are_over(worker);
            }
            WorkerEvent::LeaseHalfOver { worker, incarnation } => {
                self.lease_half_over(at, worker, incarnation)
            }
            WorkerEvent::Unready { worker, incarnation, .. } => {
                self.owed_worker = Some(worker.clone());
                self.turn(at, (worker, incarnation), true);
            }
            WorkerEvent::Ready { worker, incarnation } => self.turn(at, (worker, incarnation), false),
            WorkerEvent::HostDrained { host, .. } => self.host_drained(at, host),
            WorkerEvent::HostEmptied { host } => self.host_emptied(at, host),
            WorkerEvent::HostResumed { host, .. } => self.host_resumed(at, host),
            WorkerEvent::Leaving { worker, incarnation, .. } => self.leaving(at, (worker, incarnation)),
            WorkerEvent::Left { worker, incarnation } => self.has_left(at, (worker, incarnation)),
            WorkerEvent::StraysFound { .. }
            | WorkerEvent::StrayKillRequested { .. }
            | WorkerEvent::StrayEnded { .. } => self.stray_event(at, event),
            WorkerEvent::Drained { worker } => self.drain(worker, true),
            WorkerEvent::Resumed { worker } => self.drain(worker, false),
        }
    }

    /// Another life of a worker, or the same once more.
    fn registered(&mut self, at: &At<'_>, event: &WorkerEvent) {
        let WorkerEvent::Registered { worker, incarnation, host, slots, labels, settings, reserved, .. } =
            event
        else {
            return;
        };
        let before = self.workers.remove(worker);
        let same = before.as_ref().is_some_and(|before| before.incarnation == *incarnation);
        let drained = before.as_ref().is_some_and(|before| before.drained);
        let leaving = same && before.as_ref().is_some_and(|before| before.leaving);
        let unready = same && before.as_ref().is_some_and(|before| before.unready);
        let told = lease_of(settings.as_deref().or(self.settings.as_ref()));
        let (lease, earlier) = match &before {
            Some(before) if same => (longer(told, before.lease), before.earlier),
            Some(before) if before.is_used() => (told, Some(before.longest_lease())),
            Some(_) | None => (told, None),
        };
        let ended_lives = before.as_ref().map(|before| before.lives_before(incarnation, at));
        let ended_lives = self.no_life_comes_again(at, (worker, incarnation), ended_lives);
        let machine = before.as_ref().map(|before| (before.overloaded, before.memory_mb));
        let (overloaded, memory_mb) = machine.unwrap_or_default();
        let (used, held, left) =
            before.map(|before| (before.used, before.held, before.left)).unwrap_or_default();
        let reserved = reserved.clone();
        let (incarnation, host, slots) = (incarnation.clone(), host.clone(), slots.clone());
        let (lost, expired, lived, said) = (None, false, at.now, at.offset);
        let now = Worker {
            incarnation,
            ended_lives,
            host,
            slots,
            used,
            reserved,
            held,
            overloaded,
            memory_mb,
            lost,
            expired,
            warned: false,
            leaving,
            left,
            drained,
            unready,
            labels: labels.clone(),
            lease,
            earlier,
            lived,
            said,
        };
        self.workers.insert(worker.clone(), now);
    }

    /// `worker_lives_follow`: unready and fit take turns.
    fn turn(&mut self, at: &At<'_>, (worker, incarnation): (&WorkerId, &Incarnation), unready: bool) {
        let what = if unready { "unready" } else { "fit" };
        let Some(known) = self.in_its_life(at, worker, incarnation, what) else { return };
        let said = std::mem::replace(&mut known.said, at.offset);
        if std::mem::replace(&mut known.unready, unready) == unready {
            at.contradicts(Invariant::WorkerLivesFollow, format!("worker {worker} is {what} twice"), &[said]);
        }
    }

    /// `worker_lives_follow`: the alarm follows, and there is none without.
    pub(super) fn told_of_unready(&mut self, at: &At<'_>, worker: Option<&WorkerId>) {
        let owed = self.owed_worker.take();
        if owed.is_none() || owed.as_ref() != worker {
            let why = format!("people are told that {worker:?} takes no work, and it has not said so");
            at.breaks(Invariant::WorkerLivesFollow, why);
        }
    }

    /// `worker_lives_follow`: nothing comes between a worker's word, or half of its lease, and the alarm.
    pub(super) fn alarms_of_workers_follow(&mut self, at: &At<'_>) {
        self.alarm_of_strays_follows(at);
        if let Some(worker) = self.owed_worker.take() {
            let why = format!("worker {worker} takes no work, and the alarm does not follow");
            at.breaks(Invariant::WorkerLivesFollow, why);
        }
        if let Some(worker) = self.owed_warning.take() {
            let why = format!("half of the lease of {worker} is over, and the alarm does not follow");
            at.breaks(Invariant::WorkerLivesFollow, why);
        }
    }

    fn drain(&mut self, worker: &WorkerId, drained: bool) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.drained = drained;
        }
    }

    /// `worker_lives_follow`
    pub(super) fn in_its_life(
        &mut self,
        at: &At<'_>,
        worker: &WorkerId,
        incarnation: &Incarnation,
        what: &str,
    ) -> Option<&mut Worker> {
        let why = match self.workers.get_mut(worker) {
            Some(known) if known.incarnation == *incarnation => return Some(known),
            Some(known) => {
                format!("worker {worker} is {what} as {incarnation}, and is {}", known.incarnation)
            }
            None => format!("worker {worker} is {what}, and never registered"),
        };
        at.breaks(Invariant::WorkerLivesFollow, why);
        None
    }

    /// A lease is over only after loss, and its whole length after the worker last surely lived.
    fn expired(&mut self, at: &At<'_>, worker: &WorkerId, incarnation: &Incarnation) {
        let tolerance = self.bounds.tolerance;
        let Some(known) = self.in_its_life(at, worker, incarnation, "expired") else { return };
        let (lost, lived, lease) = (known.lost, known.lived, known.longest_lease());
        let said = std::mem::replace(&mut known.said, at.offset);
        known.expired = true;
        if lost.is_none() {
            let why = format!("the lease of {worker} expires, and it was not lost");
            at.contradicts(Invariant::WorkerLivesFollow, why, &[said]);
        } else if lease.is_none_or(|lease| at.now.duration_since(lived).saturating_add(tolerance) < lease) {
            let lease = lease.map_or("never, for it was told to hold".to_owned(), |lease| lease.to_string());
            let after = at.now.duration_since(lived);
            let why = format!("the lease of {worker} expires {after} after it lived, not {lease}");
            at.contradicts(Invariant::NoAttemptBeforeLeaseOver, why, &[said]);
        }
    }

    /// `worker_lives_follow`: once in each silence, of a lost worker whose lease ends, and no earlier than half of it.
    fn lease_half_over(&mut self, at: &At<'_>, worker: &WorkerId, incarnation: &Incarnation) {
        let tolerance = self.bounds.tolerance;
        self.owed_warning = Some(worker.clone());
        let Some(known) = self.in_its_life(at, worker, incarnation, "warned of") else { return };
        let warned = std::mem::replace(&mut known.warned, true);
        let silent = at.now.duration_since(known.lived).saturating_add(tolerance);
        let why = match known.longest_lease() {
            _ if known.lost.is_none() => "was not lost",
            _ if warned => "people were warned before",
            _ if !known.is_used() => "runs nothing",
            None => "was told to hold",
            Some(lease) if silent < lease / 2 => "it is not",
            Some(_) => return,
        };
        let why = format!("half of the lease of {worker} is said to be over, and {why}");
        at.contradicts(Invariant::WorkerLivesFollow, why, &[known.said]);
    }

    /// `worker_lives_follow`: the alarm follows, and there is none without.
    pub(super) fn warned_of_lease(&mut self, at: &At<'_>, worker: Option<&WorkerId>) {
        let owed = self.owed_warning.take();
        if owed.is_none() || owed.as_ref() != worker {
            let why = format!("people are warned of the lease of {worker:?}, which is not half over");
            at.breaks(Invariant::WorkerLivesFollow, why);
        }
    }

    /// `no_attempt_before_lease_over`: only of a lost worker, and as somebody asked.
    fn end_vouched(&mut self, at: &At<'_>, (worker, incarnation): (&WorkerId, &Incarnation), by: &Actor) {
        let asked = match at.asked {
            Asked::Command(Some(record)) => {
                let vouches = |command: &Command| matches!(command, Command::Worker(WorkerCommand::VouchEnded { worker: of, .. }) if of == worker);
                vouches(&record.command) && record.actor == *by
            }
            Asked::Command(None) => true,
            Asked::Owner | Asked::Unknown => false,
        };
        let Some(known) = self.in_its_life(at, worker, incarnation, "vouched for") else { return };
        let said = std::mem::replace(&mut known.said, at.offset);
        known.expired = true;
        if known.lost.is_none() || !asked {
            let why = format!(
                "what {worker} runs is over by somebody's word, {}",
                match asked {
                    true => "and it was not lost",
                    false => "and nobody gave it",
                }
            );
            at.contradicts(Invariant::NoAttemptBeforeLeaseOver, why, &[said]);
        }
    }

    /// `no_attempt_before_lease_over`: who may say that an attempt is lost.
    pub(super) fn no_attempt_before_lease_over(&self, at: &At<'_>, to: &Assignment, result: AttemptResult) {
        if result != AttemptResult::Lost {
            return;
        }
        let known = self.workers.get(&to.worker);
        let came_back = known.is_some_and(|known| Some(&known.incarnation) != to.incarnation.as_ref());
        let hold = known.is_some_and(|known| known.longest_lease().is_none());
        let over = known.is_some_and(|known| known.expired);
        let witnessed = match at.asked {
            Asked::Command(None) => true,
            Asked::Command(Some(record)) => speaks_for(&record.command, &to.worker),
            Asked::Owner | Asked::Unknown => false,
        };
        if !(came_back || over || witnessed || self.is_vouched(to.token)) {
            let why = format!(
                "attempt {} is given up for lost, though {} may still run it{}",
                to.token,
                to.worker,
                if hold { " and was told to hold" } else { ": its lease is not over" }
            );
            at.contradicts(Invariant::NoAttemptBeforeLeaseOver, why, &[to.said]);
        }
    }
}

/// Whether a command is this worker's own.
fn speaks_for(command: &Command, worker: &WorkerId) -> bool {
    match command {
        Command::Worker(WorkerCommand::Register(registration)) => registration.worker == *worker,
        Command::Worker(WorkerCommand::Heartbeat(heartbeat)) => heartbeat.worker == *worker,
        Command::Worker(WorkerCommand::RequestStart(request)) => request.worker == *worker,
        Command::Worker(
            WorkerCommand::RejectAssignment { worker: who, .. }
            | WorkerCommand::ReportStarted { worker: who, .. }
            | WorkerCommand::ReportFinished { worker: who, .. },
        )
        | Command::Observation(ObservationCommand::RecheckFailed { worker: who, .. }) => who == worker,
        _ => false,
    }
}
