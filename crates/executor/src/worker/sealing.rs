//! Seals of what the worker reports (ADR 48): by them its owner tells its reports from those of others who can append.
//!
//! ```text
//!  registers ──► the owner's key, then the answer ──► all that is said is sealed, in this life and in later ones
//!  another key of an owner ──► the same, and it registers again in the same life
//! ```
//! *Invariant:* nothing is begun under a right by a question that its owner may pass over. Until the worker knows the key, it does not
//! know whether a registration has made seals due. Where the right counts from a heartbeat after that registration, its owner had
//! read it, and would have said the key before the assignment; else the answer to the question is waited for.

use tidemill_seal::{GroupSecret, OwnersKey};

use super::attempt::Attempt;
use super::{Output, Worker};

/// By which the worker seals.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    secret: Option<(OwnersKey, GroupSecret)>,
    /// The number of the last heartbeat before the last registration without a seal.
    unsealed_at: Option<u64>,
    /// That registration is not answered.
    is_unanswered: bool,
}

impl Sealing {
    /// The worker registers, after this heartbeat.
    pub(super) fn presented(&mut self, heartbeat: u64) {
        if self.secret.is_none() {
            self.unsealed_at = Some(heartbeat);
            self.is_unanswered = true;
        }
    }

    /// Its registration is answered.
    pub(super) fn answered(&mut self) {
        self.is_unanswered = false;
    }

    /// Whether an owner may pass over a question that is asked now, under a right that counts from this heartbeat.
    pub(super) fn is_in_doubt(&self, heartbeat: u64) -> bool {
        let is_older = self.unsealed_at.is_some_and(|number| heartbeat <= number);
        self.secret.is_none() && (self.is_unanswered || is_older)
    }
}

impl Worker {
    /// An owner seals with this key, in hex.
    pub(super) fn seal_for(&mut self, key: &str) {
        let Some(key) = OwnersKey::from_hex(key) else { return };
        // What others write in its name makes its owner say the key again.
        if self.sealing.secret.as_ref().is_some_and(|(known, _)| *known == key) {
            return;
        }
        let Some(secret) = GroupSecret::of_worker(&self.setup.signing_key, &key) else { return };
        self.sealing.secret = Some((key, secret));
        self.seal_with_life();
        match self.membership.is_known() {
            true => self.register_again(),
            // The one that went with its registration may have been passed over, and nothing is given to a worker that was not heard.
            false if self.membership.is_told() => self.heartbeat(),
            false => {}
        }
        // What said so before may have been passed over.
        for token in self.attempts.tokens(|attempt| matches!(attempt, Attempt::Running { .. })) {
            self.report_started_later(token);
        }
    }

    /// From here on it is the present life that seals.
    pub(super) fn seal_with_life(&mut self) {
        let Some((_, secret)) = &self.sealing.secret else { return };
        let registration = &self.setup.registration;
        let key = secret.life(&registration.group, &registration.worker, &self.incarnation);
        self.outputs.push(Output::Seal(key));
    }
}
