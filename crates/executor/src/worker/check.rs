//! DEP-6: before it asks to start a batch, the worker looks at the batch's paths again.
//!
//! What is not there is told to the owner, who takes it back from every batch that waits for it. Where nobody can
//! tell in time, the batch goes to another worker.

use tidemill_model::{Command, ObservationCommand, PathCheck, Token};

use super::attempt::Attempt;
use super::{Looked, Output, Tag, Worker};

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
