//! The worker as a state machine: pure, without clock, I/O or randomness.
//!
//! Start reading at [`Worker::step`]. The handshake (rule 8), seen from here:
//!
//! ```text
//!  An assignment with paths is looked at first (DEP-6): Looking, then Requested, or given back.
//!
//!            Assigned            Granted, our nonce      process runs        process gone        Recorded
//!  (nothing) ────────► Requested ─────────────────► Starting ────► Running ────────────► Ended ──────────► (nothing)
//!                        │  ▲ RequestStart                          ReportStarted  │        ▲ ReportFinished
//!                        │  └─ repeated                                            │        └─ repeated
//!                        └─ Refused: forgotten · Kill: Ended, for it never starts ─┘
//! ```
//! Under a right (`right`) it goes on as granted once the log has its RequestStart.
//!
//! Everything said to an owner is said again until it is answered, and is about a token, so that repeats are
//! harmless. What is deliberately absent: slots, drain and retries, which the owner decides.

mod attempt;
mod excess;
mod external;
mod fitness;
mod lease;
mod life;
mod message;
mod outcome;
mod right;
mod sealing;
mod start;
mod stopping;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod right_tests;
#[cfg(test)]
mod sealing_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ed25519_dalek::SigningKey;
use tidemill_model::{
    AttemptResult, Command, Excess, GroupSettings, Incarnation, Measure, Registration, RunningAttempt,
    ShardId, Sweep, Token, WorkMessage, WorkerCommand,
};

use attempt::{Attempt, Attempts, End, Repeat};
use excess::Excesses;
use external::ExternalIds;
use fitness::Fitness;
use lease::LeaseClock;
use life::Membership;
pub use message::{Input, Looked, Output, ProcessEnd, Tag};
#[cfg(test)]
pub(crate) use outcome::of_process as outcome_of;
pub(crate) use outcome::{VANISHED, killed, said_of_excess};
use right::{Sent, Spoken, Unconfirmed};
use sealing::Sealing;
pub(crate) use start::LOOK_WITHIN_MS;
use stopping::Stopping;

use crate::shim::KillCause;

/// What a worker is, for one life of it.
#[derive(Debug, Clone)]
pub struct Setup {
    /// How it presents itself in its first life; later ones add a number to `incarnation`. `live` and `signature` are
    /// filled in at each registration. It takes no types but those of its `slots`.
    pub registration: Registration,
    /// The shard that does the group's work.
    pub shard: ShardId,
    /// The group's key, which signs.
    pub signing_key: SigningKey,
    /// From one heartbeat to the next, milliseconds.
    pub heartbeat_ms: u64,
    /// What running attempts get when the worker stops, milliseconds.
    pub stop_grace_ms: u64,
    /// Whether running attempts go on when the worker stops, for its next life.
    pub keeps_jobs: bool,
    /// With more load than this, in percent of the processors, no work is taken; 0: whatever it is.
    pub max_load_percent: u32,
}

/// The state of a worker.
#[derive(Debug)]
pub struct Worker {
    setup: Setup,
    /// The present life.
    incarnation: Incarnation,
    lives: u64,
    now_ms: u64,
    settings: GroupSettings,
    membership: Membership,
    heartbeat_at_ms: Option<u64>,
    heartbeats: u64,
    excesses: Excesses,
    external_ids: ExternalIds,
    measure: Option<Measure>,
    lease: LeaseClock,
    sealing: Sealing,
    attempts: Attempts,
    /// What those run that have a process, as far as that is known.
    running: BTreeMap<Token, RunningAttempt>,
    /// When the heartbeats of the present life were sent.
    sent: Sent,
    spoken: Spoken,
    unconfirmed: Unconfirmed,
    nonces: u64,
    stopping: Option<Stopping>,
    /// Why no work can be taken.
    unready: Option<String>,
    fitness: Fitness,
    /// The last removal of old output.
    sweep: Option<Sweep>,
    outputs: Vec<Output>,
}

impl Worker {
    /// A worker that has done nothing yet. It registers at its first tick.
    pub fn new(setup: Setup) -> Self {
        Self {
            incarnation: setup.registration.incarnation.clone(),
            lives: 1,
            setup,
            now_ms: 0,
            settings: GroupSettings::default(),
            membership: Membership::new(),
            heartbeat_at_ms: None,
            heartbeats: 0,
            excesses: Excesses::default(),
            external_ids: ExternalIds::default(),
            measure: None,
            lease: LeaseClock::default(),
            sealing: Sealing::default(),
            attempts: Attempts::default(),
            running: BTreeMap::new(),
            sent: Sent::default(),
            spoken: Spoken::default(),
            unconfirmed: Unconfirmed::default(),
            nonces: 0,
            stopping: None,
            unready: None,
            fitness: Fitness::default(),
            sweep: None,
            outputs: Vec::new(),
        }
    }

    /// Takes one input, and says what is to be done, in order.
    pub fn step(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Work(message) => self.hear(message),
            Input::Ticked { boottime_ms } => self.tick(boottime_ms),
            Input::Measured(measure) => self.measured(measure),
            Input::Swept(sweep) => self.sweep = Some(*sweep),
            Input::Acknowledged(Tag::Alive { sent_at_ms }) => self.acknowledge(sent_at_ms),
            Input::Acknowledged(Tag::Started(_) | Tag::Repeated) => {}
            Input::Failed(Tag::Started(token)) => self.report_started_later(token),
            Input::Acknowledged(Tag::Asked { token, question }) => self.question_is_in_log(token, question),
            Input::Failed(Tag::Alive { .. } | Tag::Asked { .. } | Tag::Repeated) => {}
            Input::ProcessStarted { token } => self.process_started(token),
            Input::Stuck { token, process } => self.stuck(token, process),
            Input::Exceeded { token, excess } => self.exceeded(token, excess),
            Input::ExternalWorkFound { token, ids } => self.external_work_found(token, ids),
            Input::ProcessEnded { token, end } => self.process_ended(token, end),
            Input::Found { token, of, end } => self.find(token, of, end),
            Input::Looked { token, looked } => self.looked(token, looked),
            Input::Fitness { unready } => self.turn(unready),
            Input::Missed => self.register_again(),
            Input::Stop => self.stop(),
        }
        std::mem::take(&mut self.outputs)
    }

    fn hear(&mut self, message: WorkMessage) {
        match message {
            WorkMessage::Registered { incarnation, shard: _, settings, granted } => {
                if incarnation == self.incarnation {
                    self.registered(settings, &granted.into_iter().collect());
                }
            }
            WorkMessage::Unregistered { incarnation, shard } => {
                // What somebody writes in its name to another shard makes that one say so.
                let is_own = shard.is_none_or(|shard| shard == self.setup.shard);
                if incarnation == self.incarnation && is_own {
                    self.unregistered();
                }
            }
            WorkMessage::SealReports { incarnation, key } => {
                if incarnation == self.incarnation {
                    self.seal_for(&key);
                }
            }
            WorkMessage::Assigned { worker, token, job_type, checks } => {
                if worker == self.setup.registration.worker {
                    self.assigned(token, &job_type, checks);
                }
            }
            WorkMessage::Granted { incarnation, nonce, spec } => {
                if incarnation == self.incarnation {
                    self.granted(&nonce, spec);
                }
            }
            WorkMessage::AssignedWithRight { right, spec } => self.assigned_with_right(&right, spec),
            WorkMessage::Confirmed { incarnation, nonce, token } => {
                self.confirmed(&incarnation, &nonce, token)
            }
            WorkMessage::AskedBack { token } => self.asked_back(token),
            WorkMessage::Refused { token, reason: _ } => self.refused(token),
            WorkMessage::Kill { token, grace_ms } => self.kill(token, grace_ms),
            WorkMessage::Recorded { token } => self.recorded(token),
        }
    }

    fn tick(&mut self, boottime_ms: u64) {
        self.now_ms = self.now_ms.max(boottime_ms);
        self.lapse();
        self.live_on();
        for token in self.attempts.due(self.now_ms) {
            self.repeat(token);
        }
        self.stop_further();
    }

    fn registered(&mut self, settings: GroupSettings, granted: &BTreeSet<Token>) {
        self.settings = settings;
        self.sealing.answered();
        self.reconcile(granted);
    }

    /// The owner's list against ours. What we have and it does not list is only ended if it was presented
    /// in the registration that this answers: an older answer knows nothing of what was granted, or begun under a right, since.
    fn reconcile(&mut self, granted: &BTreeSet<Token>) {
        for token in self.membership.answered() {
            match self.attempts.get(token) {
                _ if granted.contains(&token) || self.unconfirmed.has(token, self.now_ms) => {}
                Some(Attempt::Starting { .. } | Attempt::Running { .. }) => self.disown(token),
                Some(Attempt::Ended(_)) => self.forget(token),
                Some(Attempt::GivenBack { .. }) => drop(self.attempts.remove(token)),
                Some(Attempt::Looking { .. } | Attempt::Requested { .. }) | None => {}
            }
        }
        for token in granted {
            match self.attempts.get(*token) {
                // Given back without a question, it may be granted to one of an earlier life: that is not taken for its word.
                None | Some(Attempt::GivenBack { nonce: None, .. }) => {
                    let lost = outcome::without_process(AttemptResult::Lost, "the worker does not have it");
                    self.end(*token, End::unknown(lost));
                }
                Some(Attempt::Ended(_)) => self.report_finished(*token),
                // It is asked for again, with the nonce that was granted, or given back again.
                Some(Attempt::Requested { .. } | Attempt::GivenBack { .. }) => {}
                // It has not asked for anything yet, so it cannot be granted.
                Some(Attempt::Looking { .. }) => {}
                Some(Attempt::Starting { .. } | Attempt::Running { .. }) => {}
            }
        }
    }

    fn kill(&mut self, token: Token, grace_ms: u64) {
        match self.attempts.get(token) {
            Some(Attempt::Starting { .. } | Attempt::Running { .. }) => {
                self.outputs.push(Output::KillProcess { token, grace_ms, because: KillCause::Asked });
            }
            Some(Attempt::Ended(_)) => self.report_finished(token),
            Some(Attempt::Looking { .. } | Attempt::Requested { .. } | Attempt::GivenBack { .. }) => {
                self.end_without_process(token, AttemptResult::Killed, "killed before it started");
            }
            // Nothing of it runs, and without a question outstanding no grant can start it.
            None => self.end_unknown(token, AttemptResult::Killed),
        }
    }

    fn recorded(&mut self, token: Token) {
        self.unconfirmed.is_known(token);
        match self.attempts.get(token) {
            Some(Attempt::Ended(_)) => self.forget(token),
            // The owner has given it up.
            Some(Attempt::Starting { .. } | Attempt::Running { .. }) => self.disown(token),
            Some(Attempt::Looking { .. } | Attempt::Requested { .. } | Attempt::GivenBack { .. }) => {
                self.attempts.remove(token);
            }
            None => {}
        }
    }

    fn disown(&mut self, token: Token) {
        let grace_ms = self.settings.kill_grace_ms;
        self.outputs.push(Output::KillProcess { token, grace_ms, because: KillCause::Disowned });
    }

    fn forget(&mut self, token: Token) {
        if let Some(Attempt::Ended(end)) = self.attempts.remove(token)
            && end.has_directory
        {
            self.outputs.push(Output::Forget { token });
        }
    }

    fn find(&mut self, token: Token, of: Option<RunningAttempt>, end: Option<ProcessEnd>) {
        planted!(LiveShimForgotten => if end.is_none() { return });
        self.running.extend(of.map(|of| (token, of)));
        let attempt = match end {
            None => Attempt::Running { report_at_ms: None },
            Some(end) => Attempt::Ended(Box::new(End::of_process(end))),
        };
        self.attempts.set(token, attempt);
    }

    fn end_without_process(&mut self, token: Token, result: AttemptResult, message: &str) {
        self.end(token, End::bare(outcome::without_process(result, message)));
    }

    /// Nobody may know this token, so nobody may ever answer: it is said a few times only.
    fn end_unknown(&mut self, token: Token, result: AttemptResult) {
        let outcome = outcome::without_process(result, "it does not run on this worker");
        self.end(token, End { repeats_left: Some(5), ..End::unknown(outcome) });
    }

    fn exceeded(&mut self, token: Token, excess: Excess) {
        if self.attempts.get(token).is_some_and(Attempt::has_process) {
            self.excesses.note(token, excess);
        }
    }

    fn end(&mut self, token: Token, mut end: End) {
        if let Some(external) = end.external.as_mut().filter(|external| external.unconfirmed) {
            self.external_ids.complete(token, external);
        }
        self.excesses.forget(token);
        self.goes(token);
        self.running.remove(&token);
        self.external_ids.forget(token);
        self.attempts.set(token, Attempt::Ended(Box::new(end)));
        self.report_finished(token);
    }

    /// Says how it ended, and notes when to say it again.
    fn report_finished(&mut self, token: Token) {
        let Some(Attempt::Ended(mut end)) = self.attempts.remove(token) else { return };
        self.spoken.note(token, self.now_ms);
        let worker = self.setup.registration.worker.clone();
        let (outcome, usage, interrupted) = (end.outcome.clone(), end.usage.clone(), end.interrupted);
        let external = end.external.clone().map(Box::new);
        self.say(WorkerCommand::ReportFinished { token, worker, outcome, usage, interrupted, external });
        end.repeats_left = end.repeats_left.map(|left| left.saturating_sub(1));
        if end.repeats_left != Some(0) {
            let now_ms = self.now_ms;
            end.repeat = Some(end.repeat.map_or(Repeat::first(now_ms), |repeat| repeat.next(now_ms)));
            self.attempts.set(token, Attempt::Ended(end));
        }
    }

    /// Whoever says it repeats it until it is answered.
    fn say(&mut self, command: WorkerCommand) {
        self.append(Tag::Repeated, Command::Worker(command));
    }

    fn append(&mut self, tag: Tag, command: Command) {
        self.outputs.push(Output::Append { tag, command });
    }
}
