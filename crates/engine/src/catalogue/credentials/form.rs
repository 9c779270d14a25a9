//! What a credential looks like, whoever gets it.

use jiff::SignedDuration;
use tidemill_model::{Credential, CredentialKind, FieldError, Timestamp, bounds};

/// As far as the clocks of an interface and of the owner may differ.
const CLOCKS_HOURS: i64 = 1;

pub(super) fn hours(after: Timestamp, hours: i64) -> Timestamp {
    after.saturating_add(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::MAX)
}

/// The form of all of it.
pub(super) fn check(credential: &Credential, now: Timestamp) -> Result<(), FieldError> {
    let Credential { kind, hash, title, may, expires_at, .. } = credential;
    if hash.len() != 64 || !hash.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(FieldError::new("hash", hash, "must be a SHA-256 in 64 hexadecimal digits"));
    }
    let most = bounds::CREDENTIAL_TITLE_CHARS;
    if title.chars().count() > most || title.chars().any(char::is_control) {
        let rule = format!("must be at most {most} characters, none of them a control character");
        return Err(FieldError::new("title", title, rule));
    }
    if *kind != CredentialKind::Token
        && let Some(first) = may.first()
    {
        return Err(FieldError::new("may", first, "is of tokens alone; leave it out"));
    }
    if *expires_at <= now || *expires_at > hours(now, kind.max_hours() + CLOCKS_HOURS) {
        let rule = format!("must be later than now, and within {} days", kind.max_hours() / 24);
        return Err(FieldError::new("expires_at", expires_at, rule));
    }
    Ok(())
}
