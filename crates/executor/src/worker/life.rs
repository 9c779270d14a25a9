//! Registration and heartbeats.

use ed25519_dalek::Signer;
use tidemill_model::{Command, Heartbeat, Incarnation, Registration, Token, WorkerCommand, hex};

use super::attempt::Attempt;
use super::{Output, Tag, Worker};

/// The first repeat of an unanswered registration; each further one takes twice as long.
const REGISTER_AGAIN_MS: u64 = 2_000;
/// The longest pause between two registrations.
const REGISTER_AGAIN_MAX_MS: u64 = 30_000;

/// Whether the owner knows this life of the worker.
#[derive(Debug)]
pub(super) struct Membership {
    /// When to register (again); absent: registered.
    register_at_ms: Option<u64>,
    pause_ms: u64,
    /// When it was first told of; no owner knows it for longer.
    told_at_ms: Option<u64>,
    /// An owner has answered this life.
    pub(super) was_ever_known: bool,
    /// What was presented in the registration that is not answered yet.
    presented: Vec<Token>,
}

impl Membership {
    pub(super) fn new() -> Self {
        Self {
            register_at_ms: Some(0),
            pause_ms: REGISTER_AGAIN_MS,
            told_at_ms: None,
            was_ever_known: false,
            presented: Vec::new(),
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.register_at_ms.is_none()
    }

    /// Of the next life. One that no owner has answered registers no sooner than this one would have.
    fn next(&self) -> Self {
        match self.was_ever_known {
            true => Self::new(),
            false => Self { register_at_ms: self.register_at_ms, pause_ms: self.pause_ms, ..Self::new() },
        }
    }

    /// Whether this life has registered for some time. An owner that has read that, and does not know it, has refused it.
    fn asks_in_vain(&self, now_ms: u64) -> bool {
        self.told_at_ms.is_some_and(|at| now_ms.saturating_sub(at) >= REGISTER_AGAIN_MS)
    }

    /// Whether an owner may know this life.
    pub(super) fn is_told(&self) -> bool {
        self.told_at_ms.is_some()
    }

    /// The registration is answered; gives what it presented.
    pub(super) fn answered(&mut self) -> Vec<Token> {
        self.was_ever_known = true;
        self.register_at_ms = None;
        self.pause_ms = REGISTER_AGAIN_MS;
        std::mem::take(&mut self.presented)
    }
}

impl Worker {
    /// Registers where it has to, and shows that it is alive.
    pub(super) fn live_on(&mut self) {
        if self.membership.register_at_ms.is_some_and(|at| at <= self.now_ms) {
            self.register();
        }
        // A life that has not registered is not known, and would be told only that.
        if self.membership.is_told() && self.heartbeat_at_ms.is_some_and(|at| at <= self.now_ms) {
            self.heartbeat();
        }
    }

    fn register(&mut self) {
        let pause_ms = self.membership.pause_ms;
        self.membership.register_at_ms = Some(self.now_ms + pause_ms);
        self.membership.pause_ms = (pause_ms * 2).min(REGISTER_AGAIN_MAX_MS);
        self.membership.told_at_ms.get_or_insert(self.now_ms);
        let known = |attempt: &Attempt| {
            matches!(attempt, Attempt::Ended(_) | Attempt::GivenBack { .. }) || attempt.has_process()
        };
        self.membership.presented = self.attempts.tokens(known);
        let mut registration = self.setup.registration.clone();
        registration.incarnation = self.incarnation.clone();
        let text = Registration::signed_text(&registration.group, &registration.worker, &self.incarnation);
        registration.number = self.heartbeats;
        registration.signature = hex(&self.setup.signing_key.sign(text.as_bytes()).to_bytes());
        registration.live = self.attempts.tokens(Attempt::has_process);
        registration.running =
            registration.live.iter().filter_map(|token| self.running.get(token)).copied().collect();
        self.sealing.presented(self.heartbeats);
        self.say(WorkerCommand::Register(Box::new(registration)));
        // Only heartbeats count for the lease, and there is to be one before anything can be granted.
        self.heartbeat();
    }

    /// The owner has ended this life, or never knew it. Questions asked in it are void; what runs is presented
    /// anew, for the owner to list or not.
    pub(super) fn unregistered(&mut self) {
        if self.stopping.is_none()
            && (self.membership.is_known() || self.membership.asks_in_vain(self.now_ms))
        {
            self.begin_another_life();
        }
    }

    /// The lease is over, so the owner may have ended this life without being heard. A sign of life that arrives
    /// late must not bring it back: a grant may be on its way of what somebody else runs by now. So too where the owner
    /// has answered this life, and none of its signs of life was ever acknowledged.
    pub(super) fn lapse(&mut self) {
        planted!(LapsedLifeGoesOn => return);
        let told_at_ms = self.membership.told_at_ms.filter(|_| self.membership.was_ever_known);
        if let Some(told_at_ms) = told_at_ms.filter(|_| self.stopping.is_none())
            && self.lease.lapse(&self.settings, told_at_ms, self.now_ms)
        {
            self.begin_another_life();
        }
    }

    fn begin_another_life(&mut self) {
        self.lives += 1;
        self.incarnation =
            Incarnation::new(format!("{}.{}", self.setup.registration.incarnation, self.lives));
        for token in self.attempts.tokens(Attempt::is_only_assigned) {
            self.attempts.remove(token);
        }
        self.sent.clear();
        self.membership = self.membership.next();
        self.seal_with_life();
        self.live_on();
    }

    /// The answer is everything outstanding.
    pub(super) fn register_again(&mut self) {
        if self.membership.is_known() && self.stopping.is_none() {
            self.register();
        }
    }

    pub(super) fn heartbeat(&mut self) {
        self.heartbeat_at_ms = Some(self.now_ms + self.setup.heartbeat_ms);
        let (worker, incarnation) = (self.setup.registration.worker.clone(), self.incarnation.clone());
        self.heartbeats += 1;
        let (number, measure, unready) = (self.heartbeats, self.measure, self.why_unready());
        let (status, excesses) = (Some(Box::new(self.status())), self.excesses.all());
        let external_work = self.external_ids.next();
        let leaving = self.stopping.as_ref().map(|stopping| stopping.leaving(self.setup.keeps_jobs));
        let heartbeat = Heartbeat {
            worker,
            incarnation,
            number,
            measure,
            unready,
            excesses,
            external_work,
            leaving,
            status,
        };
        self.sent.note(number, self.now_ms);
        let tag = Tag::Alive { sent_at_ms: self.now_ms };
        self.append(tag, Command::Worker(WorkerCommand::Heartbeat(heartbeat)));
    }

    /// Said at once, so that no work comes meanwhile.
    pub(super) fn turn(&mut self, unready: Option<String>) {
        self.unready = unready;
        self.say_fitness();
    }

    pub(super) fn say_fitness(&mut self) {
        if self.membership.was_ever_known && self.stopping.is_none() {
            self.heartbeat();
        }
    }

    pub(super) fn acknowledge(&mut self, sent_at_ms: u64) {
        self.lease.acknowledge(sent_at_ms);
        #[cfg(feature = "planted")]
        self.sent.acknowledged(self.now_ms);
        // Before the first answer the group's lease is not known, and nothing runs.
        if self.membership.was_ever_known
            && let Some(lease) = self.lease.renewal(&self.settings)
        {
            self.outputs.push(Output::RenewLease(lease));
        }
    }
}
