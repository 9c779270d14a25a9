//! From an assignment to a running process, and to its end.

use tidemill_model::{
    AttemptOutcome, AttemptResult, Command, JobType, Nonce, ObservationCommand, PathCheck, RunSpec,
    RunningAttempt, StartRequest, Token, WorkerCommand,
};

use super::attempt::{Attempt, End, Repeat};
use super::right::Right;
use super::{Looked, Output, ProcessEnd, Tag, Worker};
use crate::types;

/// After how long a failed report of a start is repeated.
const REPORT_AGAIN_MS: u64 = 1_000;

impl Worker {
    pub(super) fn assigned(&mut self, token: Token, job_type: &JobType, checks: Vec<PathCheck>) {
        if !self.takes(token, job_type) {
            return;
        }
        if checks.is_empty() {
            self.ask_to_start(token);
        } else {
            self.look(token, checks);
        }
    }

    /// Whether an assignment is new and can be taken. If it cannot, it is given back.
    pub(super) fn takes(&mut self, token: Token, job_type: &JobType) -> bool {
        // Before the first registration is answered, it is meant for an earlier life.
        if !self.membership.was_ever_known || self.attempts.get(token).is_some() {
            return false;
        }
        if self.stopping.is_some() {
            self.give_back_late(token);
            return false;
        }
        let no_slots = || format!("this worker has no slots for type {job_type}");
        let has_slots = self.setup.registration.slots.contains_key(job_type);
        // Whether it is a final command, which any load leaves alone, is said with its grant.
        let reason = (!has_slots).then(no_slots).or_else(|| self.unready.clone());
        let takes = reason.is_none();
        if let Some(reason) = reason {
            self.reject(token, None, reason);
        }
        takes
    }

    pub(super) fn ask_to_start(&mut self, token: Token) {
        self.ask_under(token, None);
    }

    /// Asks whether it may start; with a right, it may before that is answered.
    pub(super) fn ask_under(&mut self, token: Token, right: Option<Box<Right>>) {
        self.nonces += 1;
        let nonce = Nonce::new(format!("{}-{}", self.incarnation, self.nonces));
        let repeat = Repeat::first(self.now_ms);
        self.request(token, nonce.clone(), right.as_deref());
        self.attempts.set(token, Attempt::Requested { nonce, repeat, right });
    }

    /// Gives it back; `nonce`: the question that was asked of it, on whose grant nothing starts any more.
    pub(super) fn reject(&mut self, token: Token, nonce: Option<Nonce>, reason: String) {
        self.spoken.note(token, self.now_ms);
        self.say_rejected(token, nonce, reason, false);
    }

    fn say_rejected(&mut self, token: Token, nonce: Option<Nonce>, reason: String, lacks_resources: bool) {
        let worker = self.setup.registration.worker.clone();
        self.say(WorkerCommand::RejectAssignment { token, worker, nonce, reason, lacks_resources });
    }

    /// It was asked for, or granted here, and can still run elsewhere.
    pub(super) fn give_back_asked(
        &mut self,
        token: Token,
        nonce: Option<Nonce>,
        reason: String,
        repeat: Repeat,
    ) {
        self.reject(token, nonce.clone(), reason.clone());
        self.attempts.set(token, Attempt::GivenBack { nonce, reason, repeat, lacks_resources: false });
    }

    /// The same, for the machine lacks what it needs.
    fn give_back_lacking(&mut self, token: Token, nonce: Option<Nonce>, reason: String, repeat: Repeat) {
        self.running.remove(&token);
        self.spoken.note(token, self.now_ms);
        self.say_rejected(token, nonce.clone(), reason.clone(), true);
        self.attempts.set(token, Attempt::GivenBack { nonce, reason, repeat, lacks_resources: true });
    }

    fn request(&mut self, token: Token, nonce: Nonce, right: Option<&Right>) {
        let (worker, incarnation) = (self.setup.registration.worker.clone(), self.incarnation.clone());
        let tag = match right {
            Some(right) if !right.is_over(self.now_ms) && !self.sealing.is_in_doubt(right.heartbeat) => {
                Tag::Asked { token, question: right.question }
            }
            Some(_) | None => Tag::Repeated,
        };
        let request = StartRequest { token, worker, incarnation, nonce };
        self.append(tag, Command::Worker(WorkerCommand::RequestStart(request)));
    }

    /// Takes the nonce away, so that this grant, repeated, starts nothing.
    pub(super) fn granted(&mut self, nonce: &Nonce, spec: Box<RunSpec>) {
        let token = spec.token;
        match self.attempts.get(token) {
            Some(Attempt::Requested { nonce: asked, .. }) if asked == nonce => {}
            // Granted to a question that was given up: nothing starts on it, and the owner has to know. If it
            // was started, ended and is on record, this changes nothing there.
            Some(Attempt::Looking { .. } | Attempt::Requested { .. }) | None => {
                return self.granted_to_nobody(token);
            }
            Some(
                Attempt::Starting { .. }
                | Attempt::Running { .. }
                | Attempt::Ended(_)
                | Attempt::GivenBack { .. },
            ) => return,
        }
        self.begin_asked(token, spec);
    }

    pub(super) fn granted_to_nobody(&mut self, token: Token) {
        self.end_unknown(token, AttemptResult::Lost);
    }

    /// Starts what was asked for. It is not asked for any more, so that an answer, repeated, starts nothing.
    pub(super) fn begin_asked(&mut self, token: Token, spec: Box<RunSpec>) {
        let Some(Attempt::Requested { nonce, .. }) = self.attempts.get(token) else { return };
        let nonce = nonce.clone();
        if types::is_noop(&spec.job_type) {
            self.report_started(token);
            return self.end(token, End::bare(AttemptOutcome::success()));
        }
        let lease = self.lease.current(&self.settings).filter(|_| !planted!(GrantAfterLeaseEnd));
        if lease.is_some_and(|lease| lease.term_at_ms <= self.now_ms) {
            let message = "not started: the worker's lease had run out";
            return self.end_without_process(token, AttemptResult::Lost, message);
        }
        if let Some(lack) = self.lacks(&spec) {
            return self.give_back_lacking(token, Some(nonce), lack, Repeat::first(self.now_ms));
        }
        self.note_started(&spec);
        let RunSpec { batch, job, logical_time, .. } = *spec;
        let is_final = spec.ending.is_some();
        self.running.insert(token, RunningAttempt { token, batch, job, logical_time, is_final });
        self.attempts.set(token, Attempt::Starting { nonce });
        self.outputs.push(Output::Spawn { spec, lease, grace_ms: self.settings.kill_grace_ms });
    }

    pub(super) fn refused(&mut self, token: Token) {
        let waits = |attempt: &Attempt| {
            matches!(attempt, Attempt::Looking { .. } | Attempt::Requested { .. } | Attempt::GivenBack { .. })
        };
        if self.attempts.get(token).is_some_and(waits) {
            self.attempts.remove(token);
        }
    }

    pub(super) fn process_started(&mut self, token: Token) {
        // One that runs already was begun by an earlier life, which may not have said so.
        if self.attempts.get(token).is_some_and(Attempt::has_process) {
            self.attempts.set(token, Attempt::Running { report_at_ms: None });
            self.report_started(token);
        }
    }

    pub(super) fn report_started_later(&mut self, token: Token) {
        if let Some(Attempt::Running { .. }) = self.attempts.get(token) {
            let report_at_ms = Some(self.now_ms + REPORT_AGAIN_MS);
            self.attempts.set(token, Attempt::Running { report_at_ms });
        }
    }

    fn report_started(&mut self, token: Token) {
        let worker = self.setup.registration.worker.clone();
        self.append(Tag::Started(token), Command::Worker(WorkerCommand::ReportStarted { token, worker }));
    }

    pub(super) fn process_ended(&mut self, token: Token, end: ProcessEnd) {
        let has_process = |attempt: &&Attempt| attempt.has_process();
        if let Some(attempt) = self.attempts.get(token).filter(has_process) {
            if let (ProcessEnd::NoRoom(reason), Attempt::Starting { nonce }) = (&end, attempt) {
                let (nonce, reason) = (nonce.clone(), reason.clone());
                return self.give_back_lacking(token, Some(nonce), reason, Repeat::first(self.now_ms));
            }
            let has_directory = !matches!(end, ProcessEnd::NotStarted(_));
            self.end(token, End { has_directory, ..End::of_process(end) });
        }
    }

    /// Says again what was due to be said again.
    pub(super) fn repeat(&mut self, token: Token) {
        match self.attempts.remove(token) {
            Some(Attempt::Requested { nonce, repeat, right }) => {
                self.request(token, nonce.clone(), right.as_deref());
                let repeat = repeat.next(self.now_ms);
                self.attempts.set(token, Attempt::Requested { nonce, repeat, right });
            }
            Some(Attempt::Looking { .. }) => self.cannot_tell(token, "it takes too long"),
            Some(Attempt::GivenBack { nonce, reason, repeat, lacks_resources: true }) => {
                self.give_back_lacking(token, nonce, reason, repeat.next(self.now_ms));
            }
            Some(Attempt::GivenBack { nonce, reason, repeat, lacks_resources: false }) => {
                self.give_back_asked(token, nonce, reason, repeat.next(self.now_ms));
            }
            Some(Attempt::Running { .. }) => {
                self.attempts.set(token, Attempt::Running { report_at_ms: None });
                self.report_started(token);
            }
            Some(ended @ Attempt::Ended(_)) => {
                self.attempts.set(token, ended);
                self.report_finished(token);
            }
            Some(starting @ Attempt::Starting { .. }) => self.attempts.set(token, starting),
            None => {}
        }
    }
}

/// How long the paths of one batch may take. The asking itself has bounds, too; an owner takes an assignment back
/// after minutes.
pub(crate) const LOOK_WITHIN_MS: u64 = 30_000;

impl Worker {
    pub(super) fn look(&mut self, token: Token, checks: Vec<PathCheck>) {
        // What the look gives up by itself comes a little earlier.
        let until_ms = self.now_ms + LOOK_WITHIN_MS + 1_000;
        self.attempts.set(token, Attempt::Looking { until_ms });
        self.outputs.push(Output::Look { token, checks });
    }

    pub(super) fn looked(&mut self, token: Token, looked: Looked) {
        let Some(Attempt::Looking { .. }) = self.attempts.get(token) else { return };
        self.attempts.remove(token);
        match looked {
            Looked::There => self.ask_to_start(token),
            Looked::Gone(external_dependencies) => {
                let worker = self.setup.registration.worker.clone();
                self.append(
                    Tag::Repeated,
                    Command::Observation(ObservationCommand::RecheckFailed {
                        token,
                        worker,
                        external_dependencies,
                    }),
                );
            }
            Looked::Unknown(reason) => self.cannot_tell(token, &reason),
        }
    }

    pub(super) fn cannot_tell(&mut self, token: Token, reason: &str) {
        self.reject(token, None, format!("cannot tell whether its paths are there: {reason}"));
    }
}
