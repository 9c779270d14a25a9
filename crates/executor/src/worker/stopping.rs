//! EXE-12: the end of the worker, whose process was told to stop.
//!
//! ```text
//!  stop         heartbeat: it leaves · what has not begun goes back · what runs goes on
//!   │
//!   ├─ jobs stay: exits as soon as each start is through; one that is not after a while is ended (interrupted), for nothing of it has begun
//!   └─ else:      what runs has a while, then it is ended (interrupted); exits when all ends are on record
//!  stop again:   what runs is ended at once
//!  exit:         where nothing is left of it, a last heartbeat says so
//! ```

use tidemill_model::Leaving;

use super::attempt::Attempt;
use super::{Output, Worker};
use crate::shim::KillCause;

/// How long a stopping worker waits for its last reports to be on record.
const LAST_WORDS_MS: u64 = 5_000;
const REASON: &str = "the worker is stopping";

/// How far the worker is with stopping.
#[derive(Debug)]
pub(super) struct Stopping {
    kill_at_ms: u64,
    grace_ms: Option<u64>,
    has_killed: bool,
    /// Since when no process is left.
    quiet_since_ms: Option<u64>,
    is_immediate: bool,
    /// Nothing of the worker is left.
    is_empty: bool,
}

impl Stopping {
    pub(super) fn leaving(&self, keeps_jobs: bool) -> Leaving {
        Leaving { keeps_jobs: keeps_jobs && !self.is_immediate, is_empty: self.is_empty }
    }
}

impl Worker {
    pub(super) fn stop(&mut self) {
        match &mut self.stopping {
            Some(stopping) => {
                stopping.is_immediate = true;
                stopping.has_killed = false;
                stopping.grace_ms = Some(0);
            }
            None => {
                let kill_at_ms = self.now_ms.saturating_add(self.setup.stop_grace_ms);
                self.stopping = Some(Stopping {
                    kill_at_ms,
                    grace_ms: None,
                    has_killed: false,
                    quiet_since_ms: None,
                    is_immediate: false,
                    is_empty: false,
                });
                // Before anything goes back, so that nothing comes again.
                self.say_leaving();
                self.give_back();
            }
        }
        self.stop_further();
    }

    fn say_leaving(&mut self) {
        if self.membership.is_told() {
            self.heartbeat();
        }
    }

    /// What was not granted goes to another worker; a grant that is under way finds no nonce, and the next
    /// life of this worker, or its lease, tells the owner so.
    fn give_back(&mut self) {
        for token in self.attempts.tokens(Attempt::is_only_assigned) {
            let nonce = match self.attempts.remove(token) {
                Some(Attempt::Requested { nonce, .. }) => Some(nonce),
                _ => None,
            };
            self.reject(token, nonce, REASON.to_owned());
        }
    }

    /// What was on its way when the worker was told to stop.
    pub(super) fn give_back_late(&mut self, token: tidemill_model::Token) {
        self.reject(token, None, REASON.to_owned());
    }

    pub(super) fn stop_further(&mut self) {
        let Some(stopping) = &mut self.stopping else { return };
        let keeps_jobs = self.setup.keeps_jobs && !stopping.is_immediate;
        let is_time = stopping.is_immediate || stopping.kill_at_ms <= self.now_ms;
        if is_time && !stopping.has_killed {
            stopping.has_killed = true;
            let grace_ms = stopping.grace_ms.unwrap_or(self.settings.kill_grace_ms);
            let because = KillCause::WorkerStopped;
            let kill = |token| Output::KillProcess { token, grace_ms, because };
            // What starts may wait for the end of work elsewhere (EXE-13), however long that takes.
            let is_ended = |attempt: &Attempt| match attempt {
                Attempt::Running { .. } => !keeps_jobs,
                attempt => attempt.has_process(),
            };
            self.outputs.extend(self.attempts.tokens(is_ended).into_iter().map(kill));
        }
        let is_awaited = |attempt: &Attempt| match attempt {
            Attempt::Running { .. } => !keeps_jobs,
            attempt => attempt.has_process(),
        };
        if self.attempts.any(is_awaited) {
            return;
        }
        let quiet_since_ms = *stopping.quiet_since_ms.get_or_insert(self.now_ms);
        let is_unheard = |attempt: &Attempt| match attempt {
            Attempt::Ended(end) => end.repeat.is_some(),
            attempt => matches!(attempt, Attempt::GivenBack { .. }),
        };
        let has_waited = self.now_ms >= quiet_since_ms + LAST_WORDS_MS;
        if !(stopping.is_immediate || has_waited || !self.attempts.any(is_unheard)) {
            return;
        }
        // What its next life finds is something left, ended or not.
        stopping.is_empty = !self.attempts.any(|_| true);
        if stopping.is_empty {
            self.say_leaving();
        }
        self.outputs.push(Output::Exit);
    }
}
