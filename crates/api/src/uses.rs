//! Which credentials were shown of late, until the catalogue knows: people see by that which of their tokens are in use (API-5).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;
use tidemill_directory::Held;
use tidemill_journal::now;
use tidemill_model::{CredentialId, CredentialUse, Timestamp, bounds};

/// A use is news where the last one that is on record is so long ago.
const NEWS: SignedDuration = SignedDuration::from_hours(1);
/// Credentials that wait to be reported.
const MOST: usize = 10_000;

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
    pub(crate) fn take(&self) -> Vec<CredentialUse> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = std::iter::from_fn(|| waiting.pop_first()).take(bounds::CREDENTIAL_USES);
        uses.map(|(credential, at)| CredentialUse { credential, at }).collect()
    }
}
