//! A sign-in that was begun, and not finished.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::Refusal;

/// For so long it can be finished.
const LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// So far may the clock of the machine that finishes it be behind that of the one that began it.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);

/// Where to send the browser, and what to keep until it comes back.
#[derive(Debug)]
pub struct Begun {
    /// The provider's page.
    pub url: String,
    /// To be given to [`Provider::finish`](crate::Provider::finish).
    pub pending: Pending,
}

/// What only the browser that began a sign-in brings back. Whoever can read it can finish the sign-in in its place, and
/// whoever can write it can have somebody sign in as another: the caller seals it, and lets it be used once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    state: String,
    nonce: String,
    verifier: String,
    begun_at: Timestamp,
}

/// Its secrets are not shown.
impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("begun_at", &self.begun_at).finish_non_exhaustive()
    }
}

impl Pending {
    pub(crate) fn begin(now: Timestamp) -> Self {
        Self { state: random(), nonce: random(), verifier: random(), begun_at: now }
    }

    /// When it was begun. It can be finished for ten minutes.
    #[must_use]
    pub fn begun_at(&self) -> Timestamp {
        self.begun_at
    }

    /// Whether the answer with this state belongs to it, and comes in time.
    pub(crate) fn check(&self, state: &str, now: Timestamp) -> Result<(), Refusal> {
        let is_same: bool = self.state.as_bytes().ct_eq(state.as_bytes()).into();
        if !is_same {
            return Err(Refusal::State);
        }
        let age = now.duration_since(self.begun_at);
        if age > LIFETIME || age < -LEEWAY {
            return Err(Refusal::Old);
        }
        Ok(())
    }

    pub(crate) fn state(&self) -> &str {
        &self.state
    }

    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }

    pub(crate) fn verifier(&self) -> &str {
        &self.verifier
    }

    /// What the provider gets of the verifier before it sees the verifier itself (RFC 7636, S256).
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }
}

/// 256 bits, as 43 characters.
fn random() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5: the challenge is that of RFC 7636, appendix B.
    #[test]
    fn challenge_is_the_hash_of_the_verifier() {
        let mut pending = Pending::begin(Timestamp::UNIX_EPOCH);
        pending.verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        assert_eq!(pending.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    /// API-5: nothing of a sign-in can be guessed from another, or read in a log.
    #[test]
    fn secrets_are_random_and_not_shown() {
        let (one, two) = (Pending::begin(Timestamp::UNIX_EPOCH), Pending::begin(Timestamp::UNIX_EPOCH));
        let all = [&one.state, &one.nonce, &one.verifier, &two.state, &two.nonce, &two.verifier];
        assert_eq!(all.into_iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
        let shown = format!("{one:?}");
        assert!(all.iter().all(|secret| secret.len() == 43 && !shown.contains(secret.as_str())));
    }

    /// API-5: a sign-in is finished by its own answer, within ten minutes.
    #[test]
    fn only_its_own_state_finishes_it_in_time() {
        let begun_at = Timestamp::UNIX_EPOCH;
        let (one, two) = (Pending::begin(begun_at), Pending::begin(begun_at));
        let at = |seconds| begun_at + SignedDuration::from_secs(seconds);
        for seconds in [-60, 0, 600] {
            one.check(&one.state, at(seconds)).unwrap();
        }
        for seconds in [-61, 601] {
            assert!(matches!(one.check(&one.state, at(seconds)), Err(Refusal::Old)), "{seconds}");
        }
        for state in [two.state.as_str(), "", &one.state[..42]] {
            assert!(matches!(one.check(state, at(1)), Err(Refusal::State)), "{state}");
        }
    }

    /// API-5: what the caller has sealed comes back as it was.
    #[test]
    fn pending_is_the_same_after_a_round() {
        let pending = Pending::begin("2026-11-28T08:00:00.123Z".parse().unwrap());
        let text = serde_json::to_string(&pending).unwrap();
        assert_eq!(serde_json::from_str::<Pending>(&text).unwrap(), pending);
    }
}
