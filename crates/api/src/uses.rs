//! Which credentials were shown of late, until the catalogue knows: people see by that which of their tokens are in use (API-5).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;
use tidemill_cluster::{SubmitRequest, request_id};
use tidemill_directory::Held;
use tidemill_journal::now;
use tidemill_model::{
    Actor, CredentialCommand, CredentialId, CredentialUse, Outcome, ShardId, Timestamp, bounds,
};

use crate::app::App;

/// A use is news where the last one that is on record is so long ago.
const NEWS: SignedDuration = SignedDuration::from_hours(1);
/// Credentials that wait to be reported.
const MOST: usize = 10_000;
/// As the record names a process of the program.
const PROCESS: &str = "process";

/// Those that wait to be reported.
#[derive(Debug, Default)]
pub(crate) struct Uses(Mutex<BTreeMap<CredentialId, Timestamp>>);

impl Uses {
    pub(crate) fn note(&self, held: &Held) {
        let at = now();
        if held.used_at.is_some_and(|last| at.duration_since(last) < NEWS) {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MOST || waiting.contains_key(&held.id) {
            waiting.insert(held.id.clone(), at);
        }
    }

    /// As many as one command takes; they are forgotten here.
    fn take(&self) -> Vec<CredentialUse> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = std::iter::from_fn(|| waiting.pop_first()).take(bounds::CREDENTIAL_USES);
        uses.map(|(credential, at)| CredentialUse { credential, at }).collect()
    }
}

/// Reports what was shown since the last time. What does not arrive is reported when it is shown again.
pub(crate) async fn report(app: &App) {
    loop {
        let uses = app.uses.take();
        if uses.is_empty() {
            return;
        }
        let count = uses.len();
        let request = SubmitRequest {
            shard: ShardId::CATALOGUE,
            request: request_id(),
            actor: Actor { app: PROCESS.into(), user: None },
            command: CredentialCommand::ReportUses { uses }.into(),
        };
        let reason = match app.deps.submitter.submit(request, Some(app.config.write_timeout())).await {
            Ok(reply) => match reply.outcome {
                Outcome::Refused(rejection) => rejection.to_string(),
                Outcome::Done | Outcome::Answered(_) | Outcome::Repeated | Outcome::Deferred => continue,
            },
            Err(error) => error.to_string(),
        };
        tracing::warn!(count, "that {count} credentials were used is not on record: {reason}");
        return;
    }
}
